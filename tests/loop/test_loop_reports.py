"""Reports of a loop: what they cover, what they cost, what is refused with numbers, the same bytes for ever."""

from __future__ import annotations

import json
import multiprocessing

import numpy as np
import pytest

from fairveil.errors import BudgetError, SpecError
from fairveil.ledger import Limit
from fairveil.loop import ManualClock, Person, Reward, Store, reports
from fairveil.loop.asked import Wanted, wanted
from fairveil.loop.places import Placing
from fairveil.loop.problems import Invalid, NoBudget, NoSupport, NotDue, NotKept, Overlap, SaysNothing
from fairveil.loop.public import budget_table, loop_table, places_table, release_tables
from fairveil.loop.reports import gathered
from fairveil.loop.upkeep import check
from fairveil.privacy.vectors import ONE, Price
from fairveil.proof.engine.replay import compare
from fairveil.reports.export import as_json

KEY = bytes(range(32))
POLICY = {"name": "even-blocks", "arms": 3, "epsilon": 1.0}
GROUPS = ["a", "b", "unknown"]


def made(store, name="trial", **more):
    table = {"reports": {"spare": 2.0}, "explore": 0.3, "targets": [{"name": "uniform"}], **more}
    return store.create(name, policy=POLICY, groups=GROUPS, reward=Reward(0, 1, wait="60s"), **table)


def play(store, loop, count=60, first=0, **more):
    for number in range(first, first + count):
        loop.decide(f"e-{number}", group=GROUPS[number % 2], **more)
        loop.reward(f"e-{number}", float(number % 3 == 0))
    store.clock.clock.advance(120)
    store.tick()


def bytes_of(release):
    return json.dumps(release, sort_keys=True)


def test_a_report_covers_settled_places_and_is_the_same_for_ever(store_url, clock):
    with Store.open(store_url, clock=clock, key=KEY) as store:
        loop = made(store)
        play(store, loop)
        before = loop.ledger.spent.units
        found = loop.release("fairness", first=0, stop=60, epsilon=0.5)
        assert loop.ledger.spent.units - before == 500_000
        assert found["value"]["places"] == 60
        assert [group["name"] for group in found["value"]["groups"]] == GROUPS
        assert found["block"] == "trial/0/report-fairness-0-60"
        assert bytes_of(loop.release("fairness", first=0, stop=60, epsilon=0.5)) == bytes_of(found)
        assert loop.ledger.spent.units - before == 500_000
    with Store.open(store_url, clock=clock, key=KEY) as store:
        loop = store.loop("trial")
        store.tick()
        assert bytes_of(loop.release("fairness", first=0, stop=60, epsilon=0.5)) == bytes_of(found)
        assert loop.status().epoch == 0
        check(store)


def test_a_frozen_loop_is_reported_and_nobody_above_the_limit_is(store):
    loop = made(store, person=Person(max_events=2))
    loop.set_mode("frozen")
    for number in range(30):
        loop.decide(f"e-{number}", group="a", subject=f"p-{number % 10}")
    table = loop_table(loop)
    assert table["rounds"] == 0
    assert table["places"] == {"decided": 30, "settled": 0, "first": 0, "outside": {"shadow": 0}}
    store.clock.clock.advance(120)
    store.tick()
    report = wanted(loop, "fairness", None, None, {"epsilon": 0.5}, None)
    units, public = gathered(loop, report.mechanism(loop.facts), report)
    assert public == {"public": {"places": 30}}
    assert units[:9].sum() == 20 * ONE
    assert loop.release("fairness", epsilon=0.5)["value"]["places"] == 30


@pytest.mark.parametrize(
    "door",
    [
        None,
        "UPDATE place_people SET places = 0 WHERE key = ?",
        "UPDATE place_people SET places = 3 WHERE key = ?",
        "DELETE FROM place_appearances WHERE subject = ?",
    ],
    ids=["forgotten", "uncounted", "over", "nameless"],
)
def test_a_report_sees_whoever_the_door_did_not(store, door, monkeypatch):
    """A report believed the decisions: with a door that forgets the limit somebody is in every report."""
    loop = made(store, person=Person(max_events=2), reports={"spare": 1.0, "every": 10, "epsilon": 0.5})
    for number in range(20):
        with monkeypatch.context() as broken:
            if door is None and number == 15:
                broken.setattr(Placing, "_over", lambda self, ask: self._people.setdefault(ask.subjects[0], 2) < 0)
            who = "p-0" if door is None and number in (0, 1, 15) else f"p-{number}"
            loop.decide(f"e-{number}", group="a", subject=who)
            loop.reward(f"e-{number}", 1.0)
        if number == 9:
            store.clock.clock.advance(120)
            store.tick()
    if door is not None:
        with store.writing() as tx:
            tx.execute(door, (store.keys.subject("p-15"),))
    store.clock.clock.advance(120)
    store.tick()
    with store.reading() as tx:
        assert tx.execute("SELECT first, status FROM reports ORDER BY first") == [(0, "released"), (10, "refused")]
    [said] = [words for words in loop_table(loop)["warnings"] if "counted" in words]
    assert said.startswith("1 scheduled report was refused")
    with pytest.raises(NoSupport, match="counted for the people"):
        loop.release("fairness", first=10, stop=20, epsilon=0.1)
    assert not [entry for entry in loop.ledger.entries() if "-10-20" in str(entry)]


@pytest.mark.parametrize(
    ("door", "refused"),
    [
        ("SELECT ?", False),
        ("DELETE FROM place_appearances WHERE subject = ?", True),
        ("UPDATE place_appearances SET places = 2 WHERE subject = ?", True),
        ("UPDATE place_appearances SET places = NULL WHERE subject = ?", False),
    ],
    ids=["all there", "one of them nameless", "at more places", "by an older version"],
)
def test_a_report_sees_a_candidate_whom_nobody_knows_among_others(store, door, refused):
    """A place with some of its people named was taken for one with all of them."""
    policy = {"name": "batched-private-fair-greedy", "epsilon": 5.0, "delta": 1e-6, "first_batch": 20}
    loop = store.create("queue", policy=policy, groups=["a", "b"], features=FEATURES[:1], reports={"spare": 2.0},
                        reward=Reward(0, 1, wait="60s"), person=Person(max_events=2, candidates=2))  # fmt: skip
    for number in range(10):
        who = [f"p-{number}", f"p-{number}", f"q-{number}", f"r-{number}"]
        shown = [{"group": "ab"[place % 2], "features": [0.1], "subject": one} for place, one in enumerate(who)]
        loop.decide(f"e-{number}", candidates=shown, exclude=[3] if number == 5 else [])
    with store.writing() as tx:
        tx.execute(door, (store.keys.subject("q-5"),))
    store.clock.clock.advance(120)
    store.tick()
    if not refused:
        assert loop.release("fairness", epsilon=0.5)["value"]["places"] == 10
        return
    with pytest.raises(NoSupport, match="counted for the people"):
        loop.release("fairness", epsilon=0.5)
    loop.erase_subject("p-5")
    assert loop.release("fairness", epsilon=0.5)["value"]["places"] == 9


def test_who_somebody_is_moves_no_place_of_others(store):
    """Who was over the limit took no place: everybody behind moved into another report, and how many was published."""
    loops = [made(store, name, person=Person(max_events=1), reports={"every": 4, "epsilon": 1.0}) for name in "pq"]
    sums, told = [], []
    for world, loop in enumerate(loops):
        for number in range(8):
            who = "p-0" if world and number == 1 else f"p-{number}"
            loop.decide(f"e-{number}", group=GROUPS[number % 2], subject=who)
            loop.reward(f"e-{number}", float(number % 2))
        store.clock.clock.advance(120)
        for first in (0, 4):
            asked = Wanted("fairness", first, first + 4, Price(epsilon=1.0))
            sums.append(gathered(loop, asked.mechanism(loop.facts), asked))
        told.append(json.dumps([places_table(loop), sums[-2][1], sums[-1][1]]))
    assert told[0] == told[1]
    by_group = [units.reshape(-1, 9).reshape(-1, 3, 3).sum(axis=1) for units, _ in sums]
    assert (by_group[1] == by_group[3]).all()  # the range behind
    assert np.abs(by_group[0] - by_group[2]).sum() <= 3 * ONE  # one place of its own range


def test_blank_places_do_not_pull_a_value(store):
    """A third of the decisions are over the limit: counted with weight 0 they would make .667 of a value of 1."""
    loop = made(store, person=Person(max_events=2), explore=0.5, reports={"spare": 100.0})
    events = [{"event_id": f"e-{number}", "group": "a", "subject": f"p-{number % 200}"} for number in range(600)]
    loop.decide_many(events)
    loop.reward_many([(one["event_id"], 1.0) for one in events])
    store.clock.clock.advance(120)
    store.tick()
    found = loop.release("evaluation", first=0, stop=600, epsilon=90.0)["value"]
    assert found["places"] == 600
    assert abs(found["answered"] - 400) < 5
    assert found["targets"][0]["value"] > 0.93
    assert any("About" in words for words in found["words"])


def test_sticky_repeats_are_blank_and_shadow_is_outside(store):
    loop = made(store, person=Person(sticky=True))
    for number in range(6):
        loop.decide(f"e-{number}", group="a", subject=f"p-{number % 3}")
    loop.set_mode("shadow")
    loop.decide("s", group="a", subject="p-9")
    places = loop_table(loop)["places"]
    assert (places["decided"], places["outside"]) == (6, {"shadow": 1})
    store.clock.clock.advance(120)
    store.tick()
    asked = wanted(loop, "fairness", None, None, {"epsilon": 0.5}, None)
    assert gathered(loop, asked.mechanism(loop.facts), asked)[0][:9].sum() == 3 * ONE


def test_after_erasure_a_person_is_in_no_later_report(store):
    loop = made(store)
    for number in range(20):
        loop.decide(f"e-{number}", group="a", subject=f"p-{number % 10}")
        loop.reward(f"e-{number}", 1.0)
    store.clock.clock.advance(120)
    store.tick()
    loop.erase_subject("p-3")
    assert loop.release("fairness", epsilon=0.5)["value"]["places"] == 18
    with store.reading() as tx:
        contents = [bytes(row[0]) for row in tx.execute("SELECT content FROM places ORDER BY place")]
        assert not tx.execute("SELECT 1 FROM place_appearances WHERE place IN (3, 13)")
    assert [place for place, content in enumerate(contents) if not any(content)] == [3, 13]


def test_an_erasure_finds_the_places_of_a_candidate_at_any_seat(store):
    policy = {"name": "batched-private-fair-greedy", "epsilon": 5.0, "delta": 1e-6, "first_batch": 20}
    loop = store.create("queue", policy=policy, groups=["a", "b"], features=FEATURES[:1], reports={"spare": 2.0},
                        reward=Reward(0, 1, wait="60s"))  # fmt: skip
    for seat in range(3):
        who = [f"beside {seat} at {place}" for place in range(3)]
        who[seat] = "ann"
        loop.decide(f"e-{seat}", candidates=[{"group": "a", "features": [0.1], "subject": one} for one in who])
    loop.erase_subject("ann")
    with store.reading() as tx:
        assert not any(any(bytes(content)) for (content,) in tx.execute("SELECT content FROM places"))


def test_what_cannot_be_reported_is_refused_with_numbers_and_costs_nothing(store):
    loop = made(store)
    play(store, loop)
    loop.decide("late", group="a")
    loop.release("fairness", first=10, stop=40, epsilon=0.5)
    before = loop.ledger.spent.units
    for asked, problem, words in [
        ({"first": 30, "stop": 60, "epsilon": 0.1}, Overlap, r"\[10, 40\)"),
        ({"first": 0, "stop": 20, "epsilon": 0.1}, Overlap, r"\[10, 40\)"),
        ({"first": 0, "stop": 60, "epsilon": 0.1}, Overlap, r"\[10, 40\)"),
        ({"first": 20, "stop": 30, "epsilon": 0.1}, Overlap, r"\[10, 40\)"),
        ({"first": 40, "stop": 61, "epsilon": 0.1}, NotDue, "at most 60 of 61"),
        ({"first": 40, "stop": 60, "epsilon": 5.0}, NoBudget, "1.5"),
        ({"first": 10, "stop": 40, "epsilon": 0.4}, Overlap, "other settings"),
        ({"first": 40, "stop": 40, "epsilon": 0.1}, Invalid, "60 settled"),
        ({"first": 40, "stop": 60}, Invalid, "budget"),
    ]:
        with pytest.raises(problem, match=words):
            loop.release("fairness", **asked)
    assert loop.ledger.spent.units == before
    assert loop.release("fairness", first=40, stop=60, epsilon=1.5)["value"]["places"] == 20
    plain = store.create("plain", policy=POLICY)
    with pytest.raises(NotKept, match="start_from"):
        plain.release("fairness", epsilon=0.1)
    with pytest.raises(Invalid, match="unknown kind"):
        loop.release("gossip")


def test_scheduled_reports_are_paid_in_advance_and_their_content_goes(store):
    loop = made(store, reports={"every": 20, "epsilon": 5.0, "kinds": ["fairness", "evaluation"]}, explore=0.5)
    assert loop.ledger.spent.units == 11_000_000
    assert budget_table(loop)["words"] == "learning is paid in full; nothing is kept for reports"
    play(store, loop, 50, subject="ann")
    names = [one["id"] for one in release_tables(loop)]
    kinds = ("evaluation", "fairness")
    assert sorted(names) == [f"report-{kind}-{first}-{first + 20}" for kind in kinds for first in (0, 20)]
    assert loop.ledger.spent.units == 11_000_000
    with store.reading() as tx:
        contents = [bytes(row[0]) for row in tx.execute("SELECT content FROM places ORDER BY place")]
        stands = [place for (place,) in tx.execute("SELECT place FROM place_appearances ORDER BY place")]
    assert [any(content) for content in contents] == [False] * 40 + [True] * 10
    assert stands == list(range(40, 50))
    with pytest.raises(NoBudget):
        loop.release("fairness", first=40, stop=50, epsilon=0.1)


@pytest.mark.parametrize("raced", [False, True])
def test_a_report_by_hand_stops_neither_the_schedule_nor_erasure(store, monkeypatch, raced):
    """A range of the schedule that overlapped it was refused at every tick, which erased nothing from then on."""
    loop = made(store, reports={"every": 20, "epsilon": 0.5, "spare": 1.0})
    play(store, loop, 12)
    loop.release("fairness", first=0, stop=10, epsilon=0.5)
    with monkeypatch.context() as late:
        if raced:  # asked for after the schedule was made
            late.setattr(reports, "_by_hand", lambda *given: [])
        play(store, loop, 60, first=12)
    play(store, loop, 8, first=72)
    with store.reading() as tx:
        scheduled = tx.execute("SELECT first, status FROM reports WHERE scheduled = 1 ORDER BY first")
    assert scheduled == [(20, "released"), (40, "released"), (60, "released")]
    assert loop.status().erased > 12, "rows of released blocks go, whatever is reported"


def test_content_is_kept_no_longer_than_declared(store):
    loop = made(store, reports={"spare": 1.0, "keep": "1h"})
    play(store, loop)
    store.clock.clock.advance(2 * 3600)
    store.tick()
    with pytest.raises(NotKept, match="at least 60"):
        loop.release("fairness", first=0, stop=60, epsilon=0.5)


def test_values_of_other_rules_and_their_refusals(store):
    targets = [{"name": "uniform"}, {"name": "arm", "arm": 1}, {"name": "baseline"}]
    loop = made(store, targets=targets, explore=0.5, reports={"spare": 100.0})
    play(store, loop, 600)
    found = loop.release("evaluation", first=0, stop=400, epsilon=20.0, settings={"targets": ["uniform", "arm 1"]})
    by_name = {row["name"]: row for row in found["value"]["targets"]}
    assert by_name["uniform"]["largest_weight"] == 2.0
    assert by_name["arm 1"]["largest_weight"] == 6.0
    assert by_name["uniform"]["low"] < 1 / 3 < by_name["uniform"]["high"]
    before = loop.ledger.spent.units
    with pytest.raises(SaysNothing, match="width"):
        loop.release("evaluation", first=400, stop=600, epsilon=0.05)
    loop.set_mode("apprentice")
    play(store, loop, 7, first=600, baseline=1)
    with pytest.raises(NoSupport, match="7 places"):
        loop.release("evaluation", first=400, stop=607, epsilon=20.0)
    blind = made(store, "blind", explore=0.0)
    play(store, blind, 50, first=1000)
    with pytest.raises(NoSupport, match=r"explore of about|no share"):
        blind.release("evaluation", first=0, stop=50, epsilon=1.0)
    assert loop.ledger.spent.units == before


def test_rewards_that_never_came_are_left_out_and_said_or_there_is_no_evaluation(store):
    """Counted with weight 0 they pulled every value toward the middle of the range: .875 here instead of 1."""
    table = {"policy": POLICY, "groups": GROUPS, "targets": [{"name": "uniform"}], "explore": 0.5}
    kept = {**table, "reports": {"spare": 100.0}}
    loop = store.create("open", reward=Reward(0, 1, wait="60s", missing="public"), **kept)
    for number in range(600):
        loop.decide(f"o-{number}", group="a")
        if number % 4:
            loop.reward(f"o-{number}", 1.0)
    store.clock.clock.advance(120)
    store.tick()
    with pytest.raises(Invalid, match="settings"):  # it was left out in silence: an interval of 95 % came back
        loop.release("evaluation", first=0, stop=600, epsilon=50.0, level=0.99999)
    found = loop.release("evaluation", {"level": 0.99999}, first=0, stop=600, epsilon=50.0)["value"]
    assert found["level"] == 0.99999
    assert (found["places"], found["answered"]) == (600, 450)
    assert found["targets"][0]["low"] <= 1.0 <= found["targets"][0]["high"]
    assert found["targets"][0]["value"] > 0.92  # four standard deviations of the coins below 1
    assert any("150 of 600 decisions have no reward" in words for words in found["words"])
    kept["policy"] = table["policy"] = {"name": "private-nash", "arms": 3, "epsilon": 1.0, "arrivals": "private"}
    hidden = store.create("hidden", reward=Reward(0, 1, wait="60s", missing="private"), **kept)
    play(store, hidden, 60, first=2000)
    with pytest.raises(NoSupport, match="hides whether a reward came"):
        hidden.release("evaluation", first=0, stop=60, epsilon=50.0)
    with pytest.raises(NoSupport, match="hides whether a reward came"):
        store.create("planned", reward=Reward(0, 1, wait="60s", missing="private"), **table,
                     reports={"every": 20, "epsilon": 5.0, "kinds": ["evaluation"]})  # fmt: skip


def test_chances_are_a_law_over_what_the_request_allowed(store):
    targets = [{"name": "uniform"}, {"name": "arm", "arm": 2}, {"name": "mixture", "shares": [0.5, 0.25, 0.25]}]
    loop = made(store, targets=[*targets, {"name": "baseline"}])
    loop.decide("one", group="a", exclude=[2], baseline=0)
    with store.reading() as tx:
        [(action, content)] = tx.execute("SELECT action, content FROM places")
    law = np.frombuffer(bytes(content), np.float64, 4, len(bytes(content)) - 32)
    assert law[0] == 0.5
    assert law[1] == 0.5
    assert law[2] == pytest.approx(2 / 3 if action == 0 else 1 / 3)
    assert law[3] == float(action == 0)


def test_a_request_id_names_a_request_whose_range_is_left_open(store):
    loop = made(store)
    play(store, loop, 30)
    found = loop.release("fairness", epsilon=0.5, request_id="r-1")
    play(store, loop, 30, first=30)
    assert bytes_of(loop.release("fairness", epsilon=0.5, request_id="r-1")) == bytes_of(found)
    assert (found["first"], found["stop"]) == (0, 30)
    assert loop.release("fairness", epsilon=0.5, request_id="r-2")["first"] == 30


def test_processes_that_ask_for_one_range_at_once_pay_once_and_get_one_value(store_url, clock):
    with Store.open(store_url, clock=clock, key=KEY) as store:
        play(store, made(store), 20)
    fork = multiprocessing.get_context("fork")
    together, answers = fork.Barrier(4), fork.Queue()

    def ask():
        with Store.open(store_url, clock=clock, key=KEY) as store:
            loop = store.loop("trial")
            together.wait(30)
            answers.put(bytes_of(loop.release("fairness", first=0, stop=20, epsilon=0.5)))

    children = [fork.Process(target=ask) for _ in range(4)]
    for child in children:
        child.start()
    found = [answers.get(timeout=60) for _ in children]
    for child in children:
        child.join(60)
    assert len(set(found)) == 1
    with Store.open(store_url, clock=clock, key=KEY) as store:
        loop = store.loop("trial")
        assert loop.ledger.spent.units == 1_500_000
        asked = [entry["kind"] for entry in loop.ledger.entries() if entry["name"].endswith("report-fairness-0-20")]
        assert asked == ["reserve", "publish"]


def test_a_quote_says_what_it_costs_and_the_budget_that_a_half_width_needs(store):
    loop = made(store)
    play(store, loop)
    quoted = loop.quote_release("fairness", first=0, stop=60, epsilon=0.5)
    assert quoted["cost"] == "epsilon 0.5"
    assert quoted["admitted"]
    assert not loop.quote_release("fairness", first=0, stop=60, epsilon=2.5)["admitted"]
    wanted = loop.quote_release("fairness", first=0, stop=60, half_width=0.4)
    assert max(max(row["at"].values()) for row in wanted["half_widths"]) <= 0.4
    assert loop.quote_release("summary")["cost"] == "nothing"
    assert loop.ledger.spent.units == 1_000_000


def test_the_last_unit_of_a_shared_ledger_is_won_by_one_of_two_loops(store):
    shared = {"ledger": "hospital", "epsilon": 2.5}
    first, second = made(store, "first", budget=shared), made(store, "second", budget={"ledger": "hospital"})
    for number, loop in enumerate((first, second)):
        play(store, loop, 30, first=100 * number)
    assert first.release("fairness", epsilon=0.5)["value"]["places"] == 30
    with pytest.raises(NoBudget, match="epsilon 0"):
        second.release("fairness", epsilon=0.5)
    assert store.ledger("hospital").spent.units == 2_500_000
    assert store.ledger("hospital").limit.same(Limit.pure(2.5))
    with pytest.raises(BudgetError):
        made(store, "third", budget={"ledger": "hospital"}, reports={"every": 10, "epsilon": 0.5})


@pytest.mark.parametrize(("epsilon", "delta", "reports"), [(1.0, 1e-6, 1.0), (0.7, 1e-5, 0.3), (2.0, 1e-6, 0.1)])
def test_a_ledger_of_its_own_pays_for_learning_and_reports_each_rounded_up(store, epsilon, delta, reports):
    policy = {"name": "batched-private-fair-greedy", "epsilon": epsilon, "delta": delta, "first_batch": 8}
    features = [{"name": name, "low": -1.0, "high": 1.0} for name in "xyz"]
    about = {"groups": ["a", "b"], "features": features, "reward": Reward(0, 1, wait="60s")}
    loop = store.create("queue", policy=policy, reports={"every": 20, "epsilon": reports}, **about)
    assert loop.ledger.remaining.units == loop.ledger.remaining.delta_units == 0


def test_a_person_is_told_learning_and_reports_together(store):
    loop = made(store, person=Person(max_events=2), reports={"every": 10, "epsilon": 0.25, "spare": 1.0})
    assert loop_table(loop)["person_guarantee"]["epsilon"] == pytest.approx(2 * 1.25)
    for number in range(10):
        loop.decide(f"e-{number}", group="a", subject=f"p-{number}")
    store.clock.clock.advance(120)
    store.tick()
    for number in range(10, 15):
        loop.decide(f"e-{number}", group="a", subject=f"p-{number}")
    store.clock.clock.advance(120)
    store.tick()
    loop.release("fairness", first=10, stop=15, epsilon=0.5)
    table = loop_table(loop)
    assert table["person_guarantee"]["epsilon"] == pytest.approx(2 * 1.75)
    assert table["guarantee"]["epsilon"] == 1.0, "learning alone"
    assert table["total_guarantee"]["epsilon"] == pytest.approx(1.75)
    assert table["total_guarantee"]["unit"] == table["guarantee"]["unit"]
    free = store.create("free", policy=POLICY)
    assert loop_table(free)["person_guarantee"] is None
    assert loop_table(free)["total_guarantee"] is None, "learning is all"
    assert "max_events" in loop_table(free)["person_reason"]


def test_arms_say_what_is_decided_and_learned(store):
    loop = store.create("nash", policy={"name": "private-nash", "arms": 3, "epsilon": 1.0}, reward=Reward(wait="60s"))
    for number in range(40):
        loop.decide(f"e-{number}")
    store.clock.clock.advance(120)
    store.tick()
    for number in range(40, 45):
        loop.decide(f"e-{number}")
    arms = loop_table(loop)["published"]["arms"]
    assert sum(arm["decided"] for arm in arms) == 45
    assert 0 < sum(arm["learned"] for arm in arms) <= 40


@pytest.mark.parametrize(
    "table, path",
    [
        ({"reports": {"every": 10}}, "reports.epsilon"),
        ({"reports": {"every": 10, "epsilon": 1.0, "rho": 1.0}}, "reports.epsilon"),
        ({"reports": {"colour": 1}}, "reports.colour"),
        ({"targets": [{"name": "arm", "arm": 9}]}, "targets.0.arm"),
        ({"targets": [{"name": "mixture", "shares": [0.5, 0.2, 0.2]}]}, "targets.0.shares"),
        ({"targets": [{"name": "linear", "weights": [1.0]}]}, "targets.0.name"),
        ({"targets": [{"name": "uniform"}] * 2}, "targets"),
    ],
)
def test_mistakes_are_named(table, path, tmp_path):
    with Store.open(f"sqlite:///{tmp_path}/store.db", clock=ManualClock(), key=KEY) as store:
        with pytest.raises(SpecError) as caught:
            made(store, **table)
        assert caught.value.path == path


def test_a_group_that_a_report_needs_is_asked_for(store):
    loop = store.create("x", policy=POLICY, groups=["a", "b"], reports={"spare": 1.0})
    with pytest.raises(Invalid, match="reports by group"):
        loop.decide("e")
    known = made(store)
    known.decide("e")
    assert as_json({"decided": loop_table(known)["places"]["decided"]}) == '{"decided":1}'


# Crossed groups, exposure, quotes ------------------------------------------------------------------------------------

CROSSED = {"sex": ["f", "m"], "age": ["young", "old"]}
FEATURES = [{"name": name, "low": -1.0, "high": 1.0} for name in ("score", "years")]


def shelf(store, **more):
    policy = {"name": "batched-priv-fairx", "epsilon": 5.0, "delta": 1e-6, "horizon": 5000}
    table = {"reports": {"spare": 50.0}, "max_candidates": 4, **more}
    return store.create(
        "shelf", policy=policy, groups=["new", "old"], features=FEATURES, reward=Reward(0, 1, wait="60s"), **table
    )


def show(store, loop, count, worth=0.0):
    rng = np.random.default_rng(3)
    for number in range(count):
        items = [
            {"group": ["new", "old"][k % 2], "features": rng.uniform(-1, 1, 2).tolist(), "subject": f"{number}-{k}"}
            for k in range(4)
        ]
        reply = loop.decide(f"e-{number}", candidates=items)
        loop.reward(f"e-{number}", float(items[reply.action]["features"][0] > worth))
        if number % 50 == 49:
            store.clock.clock.advance(120)
            store.tick()


def test_groups_may_be_crossed_and_margins_are_free(store):
    loop = store.create(
        "trial", policy=POLICY, groups=CROSSED, reward=Reward(0, 1, wait="60s"), reports={"spare": 50.0}
    )
    cells = ["sex=f, age=young", "sex=f, age=old", "sex=m, age=young", "sex=m, age=old"]
    assert loop_table(loop)["groups"] == cells
    assert loop_table(loop)["crossings"] == CROSSED
    with pytest.raises(Invalid, match="not declared"):
        loop.decide("e", group="f")
    for number in range(80):
        loop.decide(f"e-{number}", group=cells[number % 4])
        loop.reward(f"e-{number}", float(number % 2))
    store.clock.clock.advance(120)
    store.tick()
    value = loop.release("fairness", epsilon=50.0)["value"]
    assert [one["name"] for one in value["groups"]] == cells
    assert [one["name"] for one in value["margins"]] == ["sex=f", "sex=m", "age=young", "age=old"]
    means = [one["mean"]["value"] for one in value["margins"]]
    assert means == pytest.approx([0.5, 0.5, 0.0, 1.0], abs=0.1)
    with pytest.raises(SpecError, match="cannot be crossed"):
        store.create("wrong", policy=POLICY, groups={"sex": "f"}, reward=Reward(0, 1, wait="60s"))


@pytest.mark.parametrize("limited", [False, True])
def test_a_recommender_reports_exposure_beside_merit(store, limited):
    """What was given is the law that was played; what was owed is merit at the published weights."""
    loop = shelf(store, **({"person": Person(max_events=3)} if limited else {}))
    show(store, loop, 200)
    asked = wanted(loop, "fairness", None, None, {"rho": 40.0}, None)
    report = asked.mechanism(loop.facts)
    assert report.family == "exposure"
    units, public = gathered(loop, report, asked)
    assert public == {"public": {"places": 200}}
    played, deserved = units.reshape(2, 2) / ONE
    assert played.sum() == pytest.approx(200, abs=1e-3)
    assert deserved.sum() == pytest.approx(200, abs=1e-3)
    assert loop.status().version >= 2
    value = loop.release("fairness", rho=40.0)["value"]
    assert value["family"] == "exposure"
    for at, group in enumerate(value["groups"]):
        assert group["played"]["value"] == pytest.approx(played[at] / 200, abs=0.02)
        assert group["deserved"]["value"] == pytest.approx(deserved[at] / 200, abs=0.02)
    assert value["distance"]["low"] <= value["distance"]["value"] <= value["distance"]["high"]


def test_who_decides_instead_is_given_all_the_exposure(store):
    loop = shelf(store, mode="apprentice")
    for number in range(10):
        items = [{"group": group, "features": [0.1, 0.2]} for group in ("new", "old", "old")]
        loop.decide(f"e-{number}", candidates=items, baseline=0)
    store.clock.clock.advance(120)
    store.tick()
    asked = wanted(loop, "fairness", None, None, {"rho": 40.0}, None)
    units, _ = gathered(loop, asked.mechanism(loop.facts), asked)
    assert (units / ONE).tolist() == pytest.approx([10, 0, 10 / 3, 20 / 3], abs=1e-4)


def test_a_quote_knows_public_sizes_and_shows_a_dry_run(store):
    """A group of which nobody is shown takes no part in the budget for a half-width."""
    policy = {"name": "batched-private-fair-greedy", "epsilon": 5.0, "delta": 1e-6, "first_batch": 20}
    loop = store.create(
        "queue", policy=policy, groups=["many", "few", "unknown"], features=FEATURES, reports={"spare": 2.0},
        reward=Reward(0, 1, wait="60s"),
    )  # fmt: skip
    for number in range(400):
        groups = ["many", "many", "many", "few" if number % 2 else "many"]
        loop.decide(f"e-{number}", candidates=[{"group": group, "features": [0.1, 0.2]} for group in groups])
    store.clock.clock.advance(120)
    store.tick()
    before = loop.ledger.spent.units
    quoted = loop.quote_release("fairness", rho=0.1, dry_run=True)
    halves = {row["name"]: row["at"]["0.1"] for row in quoted["half_widths"]}
    assert halves["many"] < 0.03 < halves["few"] < 0.1
    assert quoted["dry_run"]["simulated"] is True
    assert quoted["dry_run"]["places"] == 400
    assert [group["name"] for group in quoted["dry_run"]["groups"]] == ["many", "few", "unknown"]
    assert "dry_run" not in loop.quote_release("fairness", rho=0.1)
    widest = max(max(row["at"].values()) for row in quoted["half_widths"][:2])
    needed = loop.quote_release("fairness", half_width=widest)
    assert needed["rho"] == pytest.approx(0.1, rel=0.01)
    assert loop.ledger.spent.units == before


def test_a_rule_without_a_law_says_so(store):
    loop = made(store, explore=0.5, targets=[{"name": "baseline"}, {"name": "uniform"}], reports={"spare": 50.0})
    play(store, loop)
    asked = wanted(loop, "evaluation", None, None, {"epsilon": 40.0}, None)
    units, _ = gathered(loop, asked.mechanism(loop.facts), asked)
    assert not units[:2].any()
    assert units[2:].any()
    words = loop.release("evaluation", epsilon=40.0)["value"]["words"]
    said = [line for line in words if "named no baseline" in line]
    assert len(said) == 1
    assert "towards .5" in said[0]
    assert loop.quote_release("evaluation", first=0, stop=60, epsilon=1.0, dry_run=True)["dry_run"]["simulated"]


@pytest.mark.parametrize("candidates", [2, 20])
def test_all_candidates_of_a_place_may_be_others_where_who_was_shown_is_private(candidates):
    """One request with everybody else in it, exactly: claim mu .5, once 5.56 with twenty candidates."""

    def served(folder, world):
        clock = ManualClock()
        policy = {"name": "batched-private-fair-greedy", "epsilon": 1.0, "delta": 1e-6, "first_batch": 64}
        features = [{"name": "x", "low": -1.0, "high": 1.0}]
        with Store.open(f"sqlite:///{folder}/store.db", clock=clock, key=KEY) as store:
            loop = store.create(
                "queue", policy=policy, groups=["a", "b"], features=features, reward=Reward(0, 1, wait="60s"),
                reports={"spare": 1.0, "groups": "private"}, max_candidates=candidates,
            )  # fmt: skip
            for number in range(3):
                other = world == 1 and number == 0
                loop.decide(f"e-{number}", candidates=[{"group": "ab"[other], "features": [0.1]}] * candidates)
                loop.reward(f"e-{number}", float(other))
            clock.advance(61)
            store.tick()
            return {"report": loop.release("fairness", mu=0.5)["value"]}

    found = compare(served)
    assert found.within(mu=0.5)
    assert found.mu == pytest.approx(0.5, rel=1e-6)


def test_a_quote_of_one_place_does_not_tell_who_stands_there(store_url, clock):
    """On a public route a quote of a range of one place had a width of its own where that place was erased."""
    policy = {"name": "batched-private-fair-greedy", "epsilon": 1.0, "delta": 1e-6, "first_batch": 8}
    about = {"policy": policy, "groups": ["a", "b"], "features": [{"name": "x", "low": -1.0, "high": 1.0}]}
    with Store.open(store_url, clock=clock, key=bytes(32)) as store:
        loop = store.create("queue", **about, reward=Reward(0, 1, wait="60s"), reports={"spare": 1.0})
        for event in range(8):
            shown = [{"features": [0.1], "group": group, "subject": f"{group}-{event}"} for group in "ab"]
            loop.decide(f"e-{event}", candidates=shown[: 2 - event % 2], defer=event == 6)
        loop.erase_subject("a-5")
        clock.advance(61)
        store.tick()
        quotes = [loop.quote_release("fairness", first=one, stop=one + 1, rho=1000.0) for one in range(8)]
        assert len({json.dumps(one["half_widths"]) for one in quotes}) == 1
        of_all = loop.quote_release("fairness", rho=1000.0)["half_widths"]
        assert of_all[0]["at"] != of_all[1]["at"], "how many of each group wait is public"
