"""Guard rails on allocation: shares that hold whatever is learned, true propensities, arms that come and go."""

from __future__ import annotations

import numpy as np
import pytest

from fairveil.bandits.nash.closing import SHUT
from fairveil.errors import SpecError
from fairveil.lab.handover.loops import report_on_loop
from fairveil.loop import Person, Reward
from fairveil.loop.guards import SURE, Serving, Thrown
from fairveil.loop.listing import page
from fairveil.loop.problems import Invalid, NoSupport, Unknown
from fairveil.loop.public import budget_table, loop_table
from fairveil.randomness import generator

ARMS = ["a", "b", "c", "d"]
NASH = {"name": "private-nash", "epsilon": 1.0}


def made(store, name="trial", **more):
    table = {"policy": NASH, "actions": ARMS, "reward": Reward(0, 1, wait="60s"), **more}
    store.rng = generator(7, "guards")
    return store.create(name, simulated=True, **table)


def decided(loop, count, first=0, **more):
    return loop.decide_many([{"event_id": f"e-{first + number}", **more} for number in range(count)])


def reopened(store, loop):
    store.memory.leave(loop.name)
    return store.loop(loop.name)


def shares(replies):
    return np.bincount([reply.action for reply in replies], minlength=4) / len(replies)


def learn(store, loop, rounds, best=0):
    """Rounds in which one arm pays."""
    for number in range(0, rounds, 100):
        replies = decided(loop, 100, 10_000 + number)
        loop.reward_many([(reply.event_id, float(reply.action == best)) for reply in replies])
        store.clock.clock.advance(61)
        store.tick()


def test_a_floor_gives_every_arm_its_share_whatever_is_learned(store):
    loop = made(store, allocation={"floor": 0.05})
    learn(store, loop, 2000)
    replies = decided(loop, 4000)
    found = shares(replies)
    assert found.min() > 0.035  # .05 less four standard deviations
    assert found.max() > 0.7
    for reply in replies[:50]:
        assert reply.propensity == pytest.approx(0.85 if reply.action == np.argmax(found) else 0.05)
    assert {reply.reason for reply in replies} == {None, "explored"}


def test_a_holdout_gets_its_share_for_ever_and_its_propensity_says_so(store):
    loop = made(store, allocation={"holdout": "d", "holdout_share": 0.1})
    learn(store, loop, 2000)
    replies = decided(loop, 4000)
    found = shares(replies)
    assert abs(found[3] - 0.1) < 0.02
    by_arm = {reply.action: reply.propensity for reply in replies}
    assert by_arm[3] == pytest.approx(0.1)
    assert by_arm[0] == pytest.approx(0.9)
    assert {reply.reason for reply in replies if reply.action == 3} == {"holdout"}
    excluded = decided(loop, 200, 50_000, exclude=[3])
    assert {reply.propensity for reply in excluded} == {1.0}


def test_a_burn_in_has_equal_shares_and_then_ends(store):
    loop = made(store, allocation={"burn_in": 2000})
    replies = decided(loop, 2000)
    assert {reply.propensity for reply in replies} == {0.25}
    assert np.abs(shares(replies) - 0.25).max() < 0.04
    assert any(reply.reason == "burn-in" for reply in replies)
    after = decided(loop, 20, 5000)
    assert {reply.reason for reply in after} == {None}
    assert loop_table(loop)["serving"]["decided"] == 2020


def test_a_burn_in_of_candidates_is_learned_whole(store):
    policy = {"name": "batched-private-fair-greedy", "epsilon": 2.0, "delta": 1e-6}
    loop = store.create(
        "queue", policy=policy, groups=["x", "y"], reward=Reward(0, 1, wait="60s"), simulated=True,
        features=[{"name": "f", "low": 0.0, "high": 1.0}], allocation={"burn_in": 40, "fallback": "uniform"},
    )  # fmt: skip
    two = [{"features": [0.1], "group": "x"}, {"features": [0.9], "group": "y"}]
    replies = decided(loop, 40, candidates=two)
    assert {reply.propensity for reply in replies} == {0.5}
    assert {reply.learning for reply in replies} == {"pending"}
    assert {reply.action for reply in replies} == {0, 1}
    loop.set_mode("paused")
    paused = decided(loop, 20, 100, candidates=two)
    assert {(reply.propensity, reply.learning, reply.reason) for reply in paused} == {(0.5, "frozen", "paused")}


def test_a_pause_is_the_declared_fallback_and_nobody_keeps_an_arm_in_it(store):
    loop = made(store, allocation={"fallback": "c"}, person=Person(max_events=5, sticky=True))
    kept = {n: loop.decide(f"k-{n}", subject=f"p-{n}").action for n in range(8)}
    before = loop.status().round
    loop.set_mode("paused")
    paused = [loop.decide(f"q-{n}", subject=f"p-{n}") for n in range(12)]
    assert {(reply.action, reply.propensity, reply.learning) for reply in paused} == {(2, 1.0, "frozen")}
    assert loop.status().round == before
    assert loop_table(loop)["learning"] == {"state": "frozen", "reason": "mode"}
    other = loop.decide("q-x", subject="p-x", exclude=[2])
    assert other.action != 2
    assert other.propensity == pytest.approx(1 / 3)
    loop.set_mode("online")
    again = loop.decide("r-1", subject="p-1")
    assert (again.reason, again.action) == ("sticky", kept[1])
    fresh = loop.decide("r-11", subject="p-11")  # met in the pause alone
    assert fresh.reason != "sticky"


def test_rails_that_do_not_fit_are_refused_by_name(store):
    for table, path in (
        ({"floor": 0.3}, "allocation.floor"),
        ({"floor": 0.2, "holdout": "a", "holdout_share": 0.5}, "allocation.floor"),
        ({"holdout": "a"}, "allocation.holdout_share"),
        ({"holdout": "z", "holdout_share": 0.1}, "allocation.holdout"),
        ({"fallback": "z"}, "allocation.fallback"),
        ({"burn_in": -1}, "allocation.burn_in"),
    ):
        with pytest.raises(SpecError) as problem:
            made(store, allocation=table)
        assert problem.value.path == path, table
    loop = made(store)
    with pytest.raises(SpecError, match="fallback"):
        loop.set_mode("paused")
    with pytest.raises(SpecError, match="fallback"):
        made(store, "born-paused", mode="paused")


def test_evaluation_knows_the_rails(store):
    """Weights follow from the design: a holdout leaves the others less; a pause by one arm is no support."""
    rails = {"floor": 0.05, "holdout": "d", "holdout_share": 0.2, "fallback": "a"}
    targets = [{"name": "uniform"}, {"name": "arm", "arm": "b"}]
    loop = made(store, allocation=rails, groups=["g"], reports={"spare": 5.0}, targets=targets)
    for number in range(400):
        loop.decide(f"e-{number}", group="g")
        loop.reward(f"e-{number}", 0.5)
    store.clock.clock.advance(120)
    store.tick()
    found = loop.release("evaluation", first=0, stop=400, epsilon=2.0, settings={"targets": ["uniform"]})
    assert found["value"]["targets"][0]["name"] == "uniform"
    assert loop.facts.guards.least == pytest.approx(4 * 0.05)
    loop.set_mode("paused")
    loop.decide("paused-1", group="g")
    store.clock.clock.advance(120)
    store.tick()
    with pytest.raises(NoSupport, match="fallback"):
        loop.release("evaluation", first=400, stop=401, epsilon=1.0)
    assert loop.release("fairness", first=0, stop=401, epsilon=0.5)["value"]["places"] == 401


def test_shares_served_fit_the_declared_ones_and_wrong_coins_are_noticed(store):
    loop = made(store, allocation={"floor": 0.05, "holdout": "d", "holdout_share": 0.1, "burn_in": 300})
    learn(store, loop, 1000)
    table = loop_table(loop)["serving"]
    assert table["fits"]
    assert [row["name"] for row in table["shares"]] == ARMS
    assert sum(row["served"] for row in table["shares"]) == pytest.approx(1.0)
    assert sum(row["declared"] for row in table["shares"]) == pytest.approx(1.0)

    def evidence(true, count, seed):
        rng, found, largest = generator(seed, "ratio"), Serving(0, np.zeros((3, 2))), 0.0
        for came in (rng.random(count) < true).astype(int):
            found.add(Thrown(np.array([0.9, 0.1]), int(came)))
            largest = max(largest, found.evidence)
        return largest

    honest = [evidence(0.1, 1500, seed) for seed in range(40)]
    assert sum(one >= 20 for one in honest) <= 6  # at most one in twenty, by Ville; two expected, six in 1,000
    assert max(honest) < SURE
    assert evidence(0.2, 1500, 1) > SURE
    assert evidence(0.02, 1500, 1) > SURE


def test_a_closed_arm_is_never_served_again_and_the_others_learn_on(store):
    loop = made(store, allocation={"fallback": "a"}, person=Person(max_events=50, sticky=True))
    with pytest.raises(Unknown):
        loop.close_action("z")
    keeps = [loop.decide(f"s-{n}", subject=f"p-{n}") for n in range(60)]
    bound = next(n for n, reply in enumerate(keeps) if reply.action == keeps[-1].action)
    first = ARMS[keeps[-1].action]  # the arm whose block is open
    loop.close_action(first)
    loop.close_action(first)  # the same again is nothing new
    version, round = loop.status().version, loop.status().round
    replies = [loop.decide(f"t-{n}", subject=f"q-{n}") for n in range(100)]
    assert first not in {reply.action_id for reply in replies}
    assert loop.status().round == round + 100  # nobody waits for the closed arm
    moved = loop.decide("t-moved", subject=f"p-{bound}")
    assert moved.action_id != first
    assert loop.decide("t-moved-2", subject=f"p-{bound}").action == moved.action
    store.clock.clock.advance(61)
    store.tick()
    assert loop.status().version > version
    assert loop_table(loop)["closed_actions"] == [first]
    loop.set_mode("paused")
    left = [name for name in ARMS if name != first]
    assert loop.decide("u-1", subject="u").action_id == (
        "a" if "a" in left else loop.decide("u-1", subject="u").action_id
    )
    for name in left[:2]:
        loop.close_action(name)
    with pytest.raises(Invalid, match="last arm"):
        loop.close_action(left[2])


@pytest.mark.parametrize("release", ["arrivals", "blocks"])
def test_a_loop_that_started_from_another_counts_what_it_decided_itself(store, release):
    policy = {**NASH, "release": release}
    loop = made(store, policy=policy)
    learn(store, loop, 400)
    other = made(store, "second", policy=policy, start_from="trial")
    first = other.status().round
    assert first >= 400
    decided(other, 30, exclude=[3])
    other.set_mode("frozen")
    decided(other, 12, 100)
    for again in (other, reopened(store, other)):
        table = loop_table(again)
        assert table["decided"] == page(store)["second"]["decided"] == 42
        assert (table["rounds"], table["first_round"]) == (first + 30, first)
        assert sum(row["decided"] for row in table["published"]["arms"]) == 30
    document = report_on_loop(loop_table(other), budget_table(other), source="this store")
    assert dict(document.figures)["decided"] == "30"
    assert loop_table(loop)["first_round"] == 0


def test_a_new_arm_is_a_new_loop_that_starts_from_what_was_published(store):
    loop = made(store)
    learn(store, loop, 1200)
    loop.close_action("c")
    known = dict(zip(ARMS, loop.status().state["counts"], strict=True))
    other = made(store, "second", actions=["b", "new", "a"], start_from="trial")
    assert other.status().state["counts"].tolist() == [known["b"], 0.0, known["a"]]
    assert SHUT not in other.status().state
    assert [loop_table(other)[name] for name in ("decided", "first_round")] == [0, loop.status().round]
    learn(store, other, 600, best=1)
    for again in (other, reopened(store, other)):
        table = loop_table(again)
        assert table["decided"] == page(store)["second"]["decided"] == 600
        assert sum(row["decided"] for row in table["published"]["arms"]) == 600
    estimates = {row["action_id"]: row["mean"] for row in loop_table(other)["published"]["arms"]}
    assert estimates["new"] > estimates["b"]
    with pytest.raises(SpecError, match="closed, for ever") as problem:
        made(store, "third", actions=["a", "c"], start_from="trial")
    assert problem.value.path == "actions"
    with pytest.raises(SpecError) as problem:
        made(store, "fourth", policy={**NASH, "epsilon": 2.0}, start_from="trial")
    assert problem.value.path == "policy"
    with pytest.raises(SpecError) as problem:
        made(store, "fifth", reward=Reward(0, 5, wait="60s"), start_from="trial")
    assert problem.value.path == "reward.high"
