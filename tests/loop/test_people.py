"""Who stands behind a candidate: one person at several places of a request is several units of the promise.

The break that this reduces: ten candidates with one subject counted as one event, so a person's promise said epsilon 1
where the noise hides ten changed candidates.
"""

from __future__ import annotations

import pytest

from fairveil.errors import SpecError
from fairveil.loop import Person, Reward, Store
from fairveil.loop.batch import Batch
from fairveil.loop.problems import LoopError, NameTaken
from fairveil.loop.public import loop_table
from fairveil.loop.quoting import quote
from fairveil.loop.requests import Preparer
from fairveil.loop.upkeep import backup, restore
from fairveil.proof.adapters.served import equal_coins

QUEUE = {
    "policy": {"name": "batched-private-fair-greedy", "epsilon": 1.0, "delta": 1e-6, "first_batch": 8},
    "groups": ["a", "b"],
    "features": [{"name": "x", "low": -1.0, "high": 1.0}],
    "reward": Reward(0, 1, wait="60s"),
}
ARMS = {"name": "even-blocks", "arms": 2, "epsilon": 1.0}


def shown(*subjects):
    return [{"group": "ab"[place % 2], "features": [0.1 * place], "subject": one} for place, one in enumerate(subjects)]


def stored(loop):
    with loop.store.reading() as tx:
        tables = ("events", "subjects", "appearances")
        return [tx.execute(f"SELECT count(*) FROM {name} WHERE loop = ?", (loop.facts.id,))[0][0] for name in tables]


@pytest.mark.parametrize("person", [Person(), Person(max_events=1)], ids=["any", "limited"])
@pytest.mark.parametrize("mode", ["online", "apprentice", "shadow"])
def test_one_person_at_two_places_is_refused_before_anything_is_stored(store, person, mode):
    loop = store.create("queue", **QUEUE, person=person, mode=mode)
    with pytest.raises(LoopError) as caught:
        loop.decide("e", candidates=shown("ann", "bob", "eve", "bob"))
    problem = caught.value
    assert (problem.code, problem.status, problem.path) == ("subject-twice", 422, "candidates.3.subject")
    assert "candidates.1.subject" in problem.allowed
    assert "bob" not in str(problem)
    assert stored(loop) == [0, 0, 0]
    assert loop.decide("e", candidates=shown("ann", "bob", "eve", "dan")).round == (None if mode == "shadow" else 0)


def test_in_a_batch_it_is_refused_by_itself(store):
    loop = store.create("queue", **QUEUE, person=Person(max_events=1))
    asked = [
        {"event_id": "fine", "candidates": shown("ann", "bob")},
        {"event_id": "twice", "candidates": shown("eve", "eve")},
    ]
    fine, twice = loop.decide_many(asked)
    assert fine.learning == "pending"
    assert twice.code == "subject-twice"
    assert stored(loop) == [1, 2, 2]
    assert loop.decide("later", candidates=shown("eve", "dan")).learning == "pending"


def test_a_place_that_is_excluded_does_not_count(store):
    loop = store.create("queue", **QUEUE, person=Person(max_events=1))
    assert loop.decide("e", candidates=shown("ann", "bob", "ann"), exclude=[2]).learning == "pending"


def test_a_declared_number_of_places_is_counted_in_the_promise(store):
    once = store.create("once", **QUEUE, person=Person(max_events=1))
    thrice = store.create("thrice", **QUEUE, person=Person(max_events=1, candidates=3))
    twice_each = store.create("twice", **QUEUE, person=Person(max_events=2, candidates=3))
    for loop, units in ((once, 1), (thrice, 3), (twice_each, 6)):
        told = loop_table(loop)["person_guarantee"]
        promise = loop.facts.policy.guarantee().for_units(units)
        assert (told["epsilon"], told["delta"], told["unit"]) == (promise.epsilon, promise.delta, promise.unit)
    assert loop_table(thrice)["person"]["candidates"] == 3
    assert thrice.decide("e", candidates=shown("ann", "ann", "bob", "ann")).learning == "pending"
    with pytest.raises(LoopError) as caught:
        thrice.decide("f", candidates=shown("eve", "eve", "bob", "eve", "eve"))
    assert caught.value.code == "subject-twice"
    assert caught.value.path == "candidates.4.subject"
    for place in (0, 1, 3):
        assert f"candidates.{place}.subject" in caught.value.allowed
    table = {**QUEUE, "reward": {"wait": "60s"}, "name": "q", "person": {"max_events": 1, "candidates": 3}}
    assert quote(table)["person_guarantee"] == loop_table(thrice)["person_guarantee"]


def test_places_are_for_loops_with_candidates(store):
    arms = {"policy": {"name": "even-blocks", "arms": 3, "epsilon": 1.0}}
    with pytest.raises(SpecError) as caught:
        store.create("trial", **arms, person=Person(max_events=1, candidates=2))
    assert caught.value.path == "person.candidates"
    with pytest.raises(SpecError) as caught:
        store.create("queue", **QUEUE, max_candidates=4, person=Person(max_events=1, candidates=5))
    assert caught.value.path == "person.candidates"


@pytest.mark.parametrize("reason", ["limit", "sticky", "excluded"])
def test_what_is_in_one_request_moves_no_round_of_another(store, clock, reason):
    """Who was over the limit, kept an arm or excluded the block's took no round: the rows of everybody behind moved.

    With max_events = 1 and a promise of epsilon 1, one event of a known or an unknown person cost 6 in 96 rounds.
    """
    policy = {"name": "private-nash", "arms": 2, "epsilon": 1.0}
    person = Person(max_events=1, sticky=reason == "sticky")
    loop = store.create("trial", policy=policy, reward=Reward(0, 1, wait="60s", missing="default"), person=person)
    first = loop.decide("e-0", subject="ann")
    request = {"subject": "bob", "exclude": [first.action]} if reason == "excluded" else {"subject": "ann"}
    reply = loop.decide("e-1", **request)
    assert (reply.learning, reply.reason, reply.round) == ("never", reason, 1)
    assert loop.decide("e-2", subject="cy").round == 2
    assert loop.reward("e-1", 1.0).learned == "never"
    clock.advance(61)
    store.tick()
    status = loop.status()
    assert status.released >= 2
    assert status.state["counts"].sum() == status.released  # it counts as a reward that did not come


@pytest.mark.parametrize("reason", ["limit", "sticky", "excluded"])
def test_whoever_asks_takes_a_round_as_often(store, reason):
    """A coin that explores takes no round; who was known took one all the same, and public rounds told who comes."""
    policy = {"name": "private-nash", "arms": 2, "epsilon": 1.0}
    person = Person(sticky=True) if reason == "sticky" else Person(max_events=1)
    rounds = []
    for world in (0, 1):
        reward = Reward(0, 1, wait="60s", missing="default")
        loop = store.create(f"w-{world}", policy=policy, reward=reward, person=person, explore=0.5)
        with equal_coins():
            first = loop.decide("e-0", subject="ann")
            for number in range(1, 30):
                request = {"subject": "ann" if world and reason != "excluded" else f"p-{number}"}
                if world and reason == "excluded":
                    request["exclude"] = [first.action]
                loop.decide(f"e-{number}", **request)
        rounds.append((loop.status().round, loop_table(loop)["serving"]))
    assert rounds[0] == rounds[1]
    assert 3 < rounds[0][0] < 28


@pytest.mark.parametrize("mode", ["online", "apprentice"])
def test_a_limit_counts_whatever_is_learned(store, mode):
    loop = store.create("arms", policy=ARMS, reward=Reward(0, 1, wait="60s"), person=Person(max_events=2), mode=mode)
    asked = [loop.decide(f"e-{number}", subject="ann") for number in range(4)]
    assert [reply.learning for reply in asked] == ["pending", "pending", "never", "never"]


@pytest.mark.parametrize("counted", [0, 3], ids=["uncounted", "over the limit"])
def test_the_limit_is_held_against_the_rows_of_a_release(store, clock, counted):
    loop = store.create("arms", policy=ARMS, reward=Reward(0, 1, wait="60s"), person=Person(max_events=2))
    for number in range(12):
        loop.decide(f"e-{number}", subject=f"p-{number // 2}")
        loop.reward(f"e-{number}", 1.0)
    with store.writing() as tx:  # of one person alone
        tx.execute("UPDATE subjects SET events = ? WHERE key = ?", (counted, store.keys.subject("p-1")))
    clock.advance(61)
    loop.tick()
    assert loop.status().stopped == "ledger"
    assert loop.status().version == 0
    assert not any("arms/0/" in str(entry) for entry in loop.ledger.entries())
    with store.writing() as tx:
        tx.execute("UPDATE subjects SET events = 2 WHERE loop = ?", (loop.facts.id,))
    loop.tick()
    assert loop.status().version > 0


@pytest.mark.parametrize("candidates", [False, True], ids=["arms", "candidates"])
def test_a_limit_that_the_door_forgot_is_held_at_the_release(store, clock, candidates, monkeypatch):
    """What was counted stopped at the limit: who was learned once too often, in a later block, was released there."""
    monkeypatch.setattr(Batch, "_blocked", lambda self, ask: None)
    about = QUEUE if candidates else {"policy": ARMS, "reward": Reward(0, 1, wait="60s")}
    loop = store.create("trial", **about, person=Person(max_events=1))
    for number in range(40):
        who = "ann" if number in (0, 36) else f"p-{number}"
        given = {"candidates": shown(who, f"q-{number}")} if candidates else {"subject": who}
        assert loop.decide(f"e-{number}", **given).learning == "pending"
        loop.reward(f"e-{number}", 1.0)
        if number == 35:
            clock.advance(61)
            loop.tick()
            assert loop.status().version > 0
    before = loop.status().version
    clock.advance(61)
    loop.tick()
    assert (loop.status().stopped, loop.status().version) == ("ledger", before)


def _uncounted(monkeypatch):
    monkeypatch.setattr(Batch, "_count", lambda self, ask, learned: None)


def _unnamed(monkeypatch):
    original = Batch._note_persons

    def broken(self, ask):
        original(self, ask)
        del self.appearances[-1:]

    monkeypatch.setattr(Batch, "_note_persons", broken)


def _at_many_places(monkeypatch):
    monkeypatch.setattr(Preparer, "_check_places", lambda self, people: None)


DOORS = [_uncounted, _unnamed, _at_many_places]


@pytest.mark.parametrize(
    "kind, broken",
    [*((kind, door) for kind in ("by round", "by seat") for door in DOORS), *(("arms", door) for door in DOORS[:2])],
)
def test_a_release_sees_whoever_the_door_did_not(store, clock, kind, broken, monkeypatch):
    """Among candidates somebody learned and not counted was released: who is excluded stood in the same table."""
    queue = {**QUEUE, "policy": {**QUEUE["policy"], "release": "arrivals" if kind == "by seat" else "blocks"}}
    table = queue if kind != "arms" else {"policy": ARMS, "reward": Reward(0, 1, wait="60s")}
    loop = store.create("trial", **table, person=Person(max_events=1))
    assert kind == "arms" or loop.facts.by_seat == (kind == "by seat")
    for number in range(12):
        twice = number == 5 and broken is _at_many_places
        who = [f"p-{number}", f"q-{number}", f"q-{number}" if twice else f"r-{number}"]
        about = {"subject": who[0]} if kind == "arms" else {"candidates": shown(*who)}
        with monkeypatch.context() as door:
            if number == 5:
                broken(door)
            assert loop.decide(f"e-{number}", **about).learning == "pending"
        loop.reward(f"e-{number}", 1.0)
    clock.advance(61)
    loop.tick()
    assert (loop.status().stopped, loop.status().version) == ("ledger", 0)


@pytest.mark.parametrize("broken", [False, True], ids=["counted", "uncounted"])
@pytest.mark.parametrize("way", ["single", "batch", "apprentice", "asked again", "put back"])
def test_a_release_holds_the_limit_whatever_way_rows_came(tmp_path, clock, way, broken, monkeypatch):
    data, asked = tmp_path / "data", [{"event_id": f"e-{number}", "subject": f"p-{number}"} for number in range(12)]
    with Store.open(f"sqlite:///{data}/store.db", clock=clock, key=bytes(32)) as store:
        mode = "apprentice" if way == "apprentice" else "online"
        reward, person = Reward(0, 1, wait="60s"), Person(max_events=1)
        loop = store.create("trial", policy=ARMS, reward=reward, person=person, mode=mode)
        backup(store, tmp_path / "copy")
        if way == "put back":
            loop.decide_many([{"event_id": f"lost-{number}", "subject": f"q-{number}"} for number in range(12)])
            clock.advance(61)
            loop.tick()
    if way == "put back":
        (data / "store.db").unlink()
        restore(tmp_path / "copy", data / "store.db")
    with Store.open(f"sqlite:///{data}/store.db", clock=clock, key=bytes(32)) as store:
        loop = store.loop("trial")
        loop.tick()
        with monkeypatch.context() as door:
            if broken:
                _uncounted(door)
            for part in [asked] if way == "batch" else [[one] for one in asked]:
                assert [reply.learning for reply in loop.decide_many(part)] == ["pending"] * len(part)
            if way == "asked again":
                loop.decide_many(asked)
        for one in asked:
            loop.reward(one["event_id"], 1.0)
        clock.advance(61)
        loop.tick()
        assert loop.status().epoch == (way == "put back")
        assert loop.status().stopped == ("ledger" if broken else None)
        assert (f"/{loop.status().epoch}/block" in str(list(loop.ledger.entries()))) == (not broken)


def test_whoever_is_excluded_is_found_by_an_erasure_and_counted_nowhere(store, clock):
    loop = store.create("queue", **QUEUE, person=Person(max_events=1))
    for number in range(12):
        given = shown("ann", f"p-{number}", f"q-{number}")
        assert loop.decide(f"e-{number}", candidates=given, exclude=[0]).learning == "pending"
        loop.reward(f"e-{number}", 1.0)
    clock.advance(61)
    loop.tick()
    assert loop.status().version > 0


@pytest.mark.parametrize(
    "reports, paid, kept, person",
    [
        (None, "epsilon 1", "epsilon 0", 2.0),
        ({"spare": 1.0}, "epsilon 1", "epsilon 1", 2.0),
        ({"every": 50, "epsilon": 0.5}, "epsilon 1.5", "epsilon 0", 3.0),
        ({"every": 50, "epsilon": 0.5, "spare": 1.0}, "epsilon 1.5", "epsilon 1", 3.0),
    ],
)
def test_a_quote_is_what_the_loop_then_pays_and_promises(store, reports, paid, kept, person):
    """Scheduled reports were left out of the quote: epsilon 1 was said, 1.5 was paid."""
    table = {
        "policy": {"name": "private-nash", "arms": 2, "epsilon": 1.0}, "groups": ["a", "b"],
        "person": {"max_events": 2}, **({} if reports is None else {"reports": reports}),
    }  # fmt: skip
    quoted = quote({"name": "trial", **table})
    loop = store.create("trial", **table)
    limit = loop.ledger.limit
    assert quoted["cost"] == limit.words(loop.ledger.spent) == paid
    assert quoted["parts"]["kept"] == limit.words(loop.ledger.remaining) == kept
    assert quoted["person_guarantee"]["epsilon"] == loop_table(loop)["person_guarantee"]["epsilon"] == person


def test_a_person_without_a_promise_always_has_a_reason(store):
    """A delta that reaches one over many events of a person left a null without a word."""
    policy = {"name": "batched-private-fair-greedy", "epsilon": 5.0, "delta": 1e-6, "first_batch": 20}
    features = [{"name": "x", "low": 0.0, "high": 1.0}]
    table = {"policy": policy, "groups": ["a", "b"], "features": features, "person": {"max_events": 10**6}}
    for found in (quote({"name": "queue", **table}), loop_table(store.create("queue", **table))):
        assert (found["person_guarantee"] is None) == (found["person_reason"] is not None)
    unlimited = {key: value for key, value in table.items() if key != "person"}
    for found in (quote({"name": "other", **unlimited}), loop_table(store.create("other", **unlimited))):
        assert found["person_guarantee"] is None
        assert "not limited" in found["person_reason"]


@pytest.mark.parametrize("first", ["trial", "trial-reports-fairness"])
def test_a_loop_named_like_the_account_of_another_ones_reports_pays_for_itself(store, first):
    """Both on one ledger: neither rides on what the other has paid."""
    policy = {"name": "private-nash", "arms": 2, "epsilon": 0.5}
    tables = {
        "trial": {"reports": {"every": 50, "epsilon": 0.5}, "groups": ["a", "b"]},
        "trial-reports-fairness": {},
    }
    names = [first, *(name for name in tables if name != first)]
    shared = {"budget": {"ledger": "shared", "epsilon": 10.0}}
    store.create(names[0], policy=policy, **tables[names[0]], **shared)
    before = store.loop(names[0]).ledger.spent.units
    with pytest.raises(NameTaken):
        store.create(names[1], policy=policy, **tables[names[1]], budget={"ledger": "shared"})
    assert store.loop(names[0]).ledger.spent.units == before
    store.create("third", policy=policy, budget={"ledger": "shared"})
    assert store.loop(names[0]).ledger.spent.units == before + 500_000
