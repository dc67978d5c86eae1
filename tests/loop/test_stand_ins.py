"""A reward that must not be learned is answered as any other, and a public number stands in its place.

The break that this reduces: where arrivals are public, a reward over its person's limit counted as one that never came,
so exact counts, and which answers were released together, told that two events were of one person. Among candidates an
event over the limit of one person was in nobody's count, so that one event decided about all the others of a chain of
people who came together, and a policy that counts its rows told who was over, whatever was declared about arrivals.
"""

from __future__ import annotations

import pytest

from fairveil.loop import Person, Reward
from fairveil.loop.blocks import _pages
from fairveil.loop.public import loop_table
from fairveil.loop.quoting import STANDS_IN, quote
from fairveil.loop.seats import due_seats
from fairveil.proof.adapters.served import equal_coins

NASH = {"name": "private-nash", "arms": 2, "epsilon": 1.0}
FEATURES = {"groups": ["a", "b"], "features": [{"name": "x", "low": -1.0, "high": 1.0}]}
GREEDY = {"name": "batched-private-fair-greedy", "epsilon": 1.0, "delta": 1e-6, "first_batch": 4}
FAIRX = {
    "name": "batched-priv-fairx",
    "epsilon": 1.0,
    "delta": 1e-6,
    "horizon": 64,
    "schedule": {"name": "growing", "factor": 2.0, "first": 4},
}
PUBLIC = ("rounds", "settled", "decided", "open_blocks", "waiting", "places", "version", "learning", "warnings")


def two_loops(store, reason="limit", release="arrivals", missing="public", **more):
    """Loops of two worlds: in the second one event is not learned."""
    person = Person(sticky=True) if reason == "sticky" else Person(max_events=1)
    reward = Reward(0, 1, wait="60s", missing=missing)
    made = {"policy": {**NASH, "release": release}, "reward": reward, "person": person, **more}
    return [store.create(f"world-{world}", **made) for world in (0, 1)]


def ask(loop, world, reason, number, **more):
    """Event 1 is of somebody else in the first world; the others are of people who come once."""
    with equal_coins():
        if number == 1 and world and reason != "excluded":
            return loop.decide("e-1", subject="person 0", **more)
        if number == 1 and world:
            more["exclude"] = [loop.decide("e-0", subject="person 0").action]
        return loop.decide(f"e-{number}", subject=f"person {number}", **more)


def seen(loop):
    """What anybody may know, but for published numbers: those have noise."""
    table, status = loop_table(loop), loop.status()
    arms = [{key: arm[key] for key in arm if key not in ("mean", "low", "high", "lowest", "highest")}
            for arm in table["published"]["arms"]]  # fmt: skip
    counts = {name: status.state[name].tolist() for name in ("counts", "draws")}
    return {key: table[key] for key in PUBLIC}, arms, counts, status.due


@pytest.mark.parametrize("release", ["arrivals", "blocks"])
@pytest.mark.parametrize("reason", ["limit", "sticky", "excluded"])
def test_nothing_tells_an_answer_that_is_not_learned_from_another(store, clock, reason, release):
    loops = two_loops(store, reason, release)
    for number in range(6):
        replies = [ask(loop, world, reason, number) for world, loop in enumerate(loops)]
        assert [reply.learning for reply in replies] == ["pending", "never" if number == 1 else "pending"]
        assert seen(loops[0]) == seen(loops[1])
    for number in (0, 3, 1, 4, 2, 5):
        for loop in loops:
            loop.reward(f"e-{number}", 1.0)
            loop.tick()
        assert seen(loops[0]) == seen(loops[1])
        clock.advance(1)
    assert loops[0].status().version == loops[1].status().version > 0
    clock.advance(61)
    for loop in loops:
        loop.tick()
    assert seen(loops[0]) == seen(loops[1])
    assert sum(row["closed"] for row in loop_table(loops[1])["waiting"] or ()) == 0


def erase_both(loop):
    """Whose events 0 and 1 are, in either world."""
    for person in ("person 0", "person 1"):
        loop.erase_subject(person)


@pytest.mark.parametrize("release", ["arrivals", "blocks"])
@pytest.mark.parametrize(
    "what", ["silent", "late", "erased", "erased first", "shown later", "never shown", "in one go"]
)
def test_neither_do_silence_lateness_erasure_and_decisions_that_are_shown_later(store, clock, what, release):
    loops = two_loops(store, release=release)
    for world, loop in enumerate(loops):
        if what == "in one go":
            people = ["person 0", "person 0" if world else "person 1", *(f"person {number}" for number in range(2, 6))]
            with equal_coins():
                loop.decide_many([{"event_id": f"e-{n}", "subject": one} for n, one in enumerate(people)])
            loop.reward_many([(f"e-{number}", 1.0) for number in range(6)])
            continue
        for number in range(6):
            ask(loop, world, "limit", number, **({"defer": True} if number == 1 and "shown" in what else {}))
        if what == "erased first":
            erase_both(loop)
        loop.reward_many(
            [(f"e-{number}", 1.0) for number in range(1, 6) if number != 1 or what not in ("silent", "late")]
        )
    for step in range(4):
        if step == 1 and what == "erased":
            for loop in loops:
                erase_both(loop)
        if step == 1 and what == "shown later":
            assert [loop.activate("e-1") for loop in loops] == [True, True]
        if step == 2:
            clock.advance(61)
        if step == 3 and what == "late":
            assert [loop.reward("e-1", 1.0).learned for loop in loops] == ["never", "never"]
        for loop in loops:
            loop.tick()
        assert seen(loops[0]) == seen(loops[1])


def rewards_of(loop, event):
    with loop.store.reading() as tx:
        key = loop.store.keys.event(event)
        return tx.execute("SELECT reward, rewarded, seat FROM events WHERE loop = ? AND key = ?", (loop.facts.id, key))


def test_its_value_is_kept_nowhere_and_it_is_answered_once(store, clock):
    _, loop = two_loops(store)
    for number in range(3):
        ask(loop, 1, "limit", number)
    assert loop.reward("e-1", 0.75)[1:] == (True, "never", "limit")
    [(kept, came, seat)] = rewards_of(loop, "e-1")
    assert (kept, seat) == (0.0, 0)
    assert loop.reward("e-1", 0.25)[1:] == (True, "never", "limit"), "another value is no conflict: none is kept"
    clock.advance(1)
    loop.reward("e-1", 0.25)
    assert rewards_of(loop, "e-1") == [(kept, came, seat)]


def test_what_stands_there_is_expected_of_its_arm_from_published_numbers(store, clock):
    _, loop = two_loops(store)
    expected = []
    for turn in range(6):
        for number in range(3):
            event = f"e-{turn}-{number}"
            loop.decide(event, subject="ann" if number else f"person {turn}")
            loop.reward(event, 1.0)
        status = loop.status()
        for block in due_seats(loop.facts, status):
            [page] = _pages(loop.facts, loop.store.driver, 0, block, status.state)
            told = loop.facts.policy.expected_reward(status.state, block.arm)
            assert sorted({one.reward for one in page} - {1.0}) == [told]
            expected.append(told)
        loop.tick()
    assert expected[0] == 0.5
    assert len(set(expected)) > 2
    assert all(0.0 <= value <= 1.0 for value in expected)


def shown(*people):
    return [{"group": "a", "features": [0.3], "subject": one} for one in people]


@pytest.mark.parametrize("missing", ["default", "public"])
@pytest.mark.parametrize("policy", [FAIRX, GREEDY], ids=lambda policy: policy["name"])
def test_one_event_decides_about_no_chain_of_people_who_came_together(store, clock, policy, missing):
    reward = Reward(0, 1, wait="60s", missing=missing)
    learned = []
    for world, first in enumerate(("ann", "p-0")):
        loop = store.create(f"world-{world}", policy=policy, reward=reward, person=Person(max_events=1), **FEATURES)
        people = [(first,), *((f"p-{place}", f"p-{place + 1}") for place in range(7))]
        replies = [loop.decide(f"e-{n}", candidates=shown(*names)) for n, names in enumerate(people)]
        learned.append([reply.learning for reply in replies])
        loop.reward_many([(reply.event_id, 1.0) for reply in replies])
        clock.advance(61)
        loop.tick()
        if policy is FAIRX:
            entries = [one["name"] for one in loop.ledger.entries() if one["kind"] == "publish"]
            assert [loop.ledger.value(name)["rows"].tolist() for name in entries] == [[4], [4]]
    differs = [place for place, (one, other) in enumerate(zip(*learned, strict=True)) if one != other]
    assert differs == [1]


@pytest.mark.parametrize("reason", ["limit", "sticky"])
@pytest.mark.parametrize("baseline", [0, 1])
@pytest.mark.parametrize("missing", ["default", "public"])
def test_a_round_that_its_caller_took_away_is_closed_whoever_asks(store, missing, baseline, reason):
    loops = two_loops(store, reason, missing=missing, mode="apprentice")
    for number in range(4):
        for world, loop in enumerate(loops):
            ask(loop, world, reason, number, baseline=1 - baseline if number == 1 else baseline)
        assert seen(loops[0]) == seen(loops[1])


def test_answers_of_before_close_with_their_window(store, clock):
    """A store of an earlier version has taken the reward and kept nothing of it."""
    _, loop = two_loops(store)
    for number in range(3):
        ask(loop, 1, "limit", number)
        loop.reward(f"e-{number}", 1.0)
    with store.writing() as tx:
        values = (loop.facts.id, loop.store.keys.event("e-1"))
        tx.execute("UPDATE events SET reward = NULL, rewarded = NULL WHERE loop = ? AND key = ?", values)
    clock.advance(61)
    loop.tick()
    assert loop.status().version == 1


@pytest.mark.parametrize(
    ("missing", "person", "said"),
    [("public", {"max_events": 2}, True), ("public", {"sticky": True}, True), ("public", {}, False),
     ("default", {"max_events": 2}, True)],
)  # fmt: skip
def test_a_quote_says_what_stand_ins_cost(missing, person, said):
    quoted = quote({"name": "trial", "policy": NASH, "reward": {"missing": missing}, "person": person})
    assert (STANDS_IN in quoted["warnings"]) == said
    assert any("counts as any other" in note for note in quoted["guarantee"]["notes"]) == bool(person)
