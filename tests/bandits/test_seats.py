"""Batches of seats: rounds enter a batch as they settle, so nobody waits for the slowest answer."""

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import fairveil
from fairveil import SeededNoise, registry
from fairveil.bandits.facts import settled_table
from fairveil.bandits.feedback import Lateness, Outstanding
from fairveil.bandits.protocol import Feedback, Round
from fairveil.bandits.simulate import Case, StepSimulator, Streams, play
from fairveil.proof import audit, find_pair

MERITOCRATIC = {"name": "batched-private-fair-greedy", "epsilon": 5.0, "delta": 1e-5}
EXPOSURE = {"name": "batched-priv-fairx", "epsilon": 5.0, "delta": 1e-5}
WORLDS = {
    MERITOCRATIC["name"]: {"name": "synthetic-census", "people_per_group": 400},
    EXPOSURE["name"]: {"name": "exposure", "agents": 2, "actions": 4, "dimension": 2},
}
ONE_AGENT = registry.build(
    "policy", {**EXPOSURE, "agents": 1, "dimension": 2, "horizon": 100, "release": "arrivals"}, "policy"
)
UNEVEN = {"delay": ["uniform", 0, 40], "window": 120, "missing": 0.1}


def metrics(policy, release, feedback, rounds=600, runs=2):
    spec = {
        "task": "bandit", "rounds": rounds, "runs": runs, "seed": 3, "checkpoints": [rounds],
        "policy": {**policy, "release": release}, "environment": WORLDS[policy["name"]], "feedback": feedback,
    }  # fmt: skip
    return fairveil.run(spec)["metrics"]


@pytest.mark.parametrize("policy", [MERITOCRATIC, EXPOSURE], ids=lambda policy: policy["name"])
@pytest.mark.parametrize(
    "feedback", [{"delay": 0}, {"delay": 30}, {"delay": 5, "window": 60, "treat": "default"}], ids=str
)
def test_where_all_wait_the_same_time_a_seat_is_the_round(policy, feedback):
    assert metrics(policy, "arrivals", feedback) == metrics(policy, "blocks", feedback)


@pytest.mark.parametrize("policy", [MERITOCRATIC, EXPOSURE], ids=lambda policy: policy["name"])
@pytest.mark.parametrize("treat", ["public", "default"])
def test_steps_and_the_compiled_run_release_the_same_batches(policy, treat):
    lateness = Lateness.of({**UNEVEN, "treat": treat})
    world = registry.build("environment", WORLDS[policy["name"]], "environment")
    table = settled_table("policy", policy, world.facts(300) | lateness.facts())
    made = registry.build("policy", table, "policy")
    assert made.by_seat
    case = Case.of(made, world, 300, lateness=lateness)
    fast, slow = made.simulator(case, Streams.of(4, 0)), StepSimulator(case, Streams.of(4, 0))
    fast.advance(300)
    slow.advance(300)
    assert fast.releases == slow.releases > 1
    name = "moments" if policy is MERITOCRATIC else "released"
    assert np.allclose(fast.published()[name], slow.state[name], rtol=1e-9, atol=1e-9)


def test_rounds_are_handed_over_as_they_settle_ties_by_round():
    made = registry.build(
        "policy", {**EXPOSURE, "agents": 1, "dimension": 2, "horizon": 100, "release": "arrivals"}, "policy"
    )
    rounds, noise = Outstanding(made, Lateness(window=3)), SeededNoise(1)
    order = []
    for index in range(8):
        rounds.decided(0, Round(index))
        if index in (2, 4):  # two answers at a time, the later round first; rounds 0 and 3 never answer
            for late in (index, index - 1):
                rounds.arrive(Feedback(late, 0, float(late), Round(late)))
        order += [(row.index, row.round.index, row.reward) for row in rounds.take(noise)]
    assert [(seat, shown) for seat, shown, _ in order] == [(seat, seat) for seat in range(len(order))]
    assert [reward for _, _, reward in order] == [1.0, 2.0, None, 3.0, 4.0]


def test_hidden_arrivals_get_their_seat_at_the_window():
    made = registry.build(
        "policy", {**EXPOSURE, "agents": 1, "dimension": 2, "horizon": 100, "release": "arrivals"}, "policy"
    )
    rounds, noise = Outstanding(made, Lateness(window=2, treat="default")), SeededNoise(1)
    seats = []
    for index in range(5):
        rounds.decided(0, Round(index))
        if index != 1:
            rounds.arrive(Feedback(index, 0, 1.0, Round(index)))
        seats.append([(row.index, row.round.index, row.reward) for row in rounds.take(noise)])
    assert seats == [[], [], [(0, 0, 1.0)], [(1, 1, 0.0)], [(2, 2, 1.0)]]


def test_a_long_window_does_not_stop_a_meritocratic_policy():
    """T 5,000, epsilon 5, U(0, 200), one in ten missing, window 3,000: at most 200 (by blocks about 1,000)."""
    spec = {
        "task": "bandit", "rounds": 5000, "runs": 4, "seed": 3, "checkpoints": [5000], "policy": MERITOCRATIC,
        "environment": {"name": "synthetic-census"},
        "feedback": {"delay": ["uniform", 0, 200], "window": 3000, "missing": 0.1},
    }  # fmt: skip
    assert fairveil.run(spec)["metrics"]["fair_regret"][0] <= 200


def test_what_is_usually_under_way_is_filled_in():
    late = {"delay": ["uniform", 0, 200], "window": 3000, "missing": 0.1}
    spec = {
        "task": "bandit", "rounds": 50, "runs": 1, "policy": EXPOSURE, "environment": WORLDS[EXPOSURE["name"]],
        "feedback": late,
    }  # fmt: skip
    assert fairveil.run(spec)["spec"]["policy"]["outstanding"] == 100
    spec["policy"] = {**EXPOSURE, "release": "blocks"}
    assert fairveil.run(spec)["spec"]["policy"]["outstanding"] == 3000


@pytest.mark.parametrize(
    ("policy", "more"), [(MERITOCRATIC, {}), (EXPOSURE, {"agents": 1, "dimension": 2, "horizon": 400})]
)
def test_batches_of_seats_are_audited(policy, more):
    _, pair = find_pair({"kind": "policy", **policy, **more, "epsilon": 1.0, "pair": "seats"})
    assert audit(pair, trials=300, seed=2).verdict == "consistent"


WINDOW = 25


class Scripted(Lateness):
    """Waits as a script says, by round."""

    def wait(self, round, arm, rng):
        return SCRIPT[round.index % len(SCRIPT)]


SCRIPT: list[int] = [0]
scripts = st.lists(st.integers(-1, WINDOW), min_size=1, max_size=40)


@settings(max_examples=10, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
@given(scripts, st.integers(0, 60), st.sampled_from(["public", "default"]))
def test_one_reward_is_in_one_batch(script, index, treat):
    """Coins, arrivals and noise fixed, one reward replaced: all is the same until the batch that holds it."""
    world = registry.build("environment", WORLDS[EXPOSURE["name"]], "environment")
    late = Scripted("uniform", (0.0, float(WINDOW)), WINDOW, treat=treat)
    table = settled_table("policy", {**EXPOSURE, "schedule": "doubling"}, world.facts(60) | late.facts())
    made = registry.build("policy", table, "policy")
    SCRIPT[:] = script

    def run(changed):
        streams = Streams.of(2, 0, SeededNoise(7))
        place = world.prepare(streams.world)
        own = type(place).reward

        class Changed(type(place)):
            def reward(self, round, arm, rng):
                drawn = own(self, round, arm, rng)
                return changed if len(seen) == index else drawn

        object.__setattr__(place, "__class__", Changed)
        seen, rows = [], []
        for step in play(made, place, 100, streams, late):
            seen.append(step)
            shown = {name: np.array(step.state[name]).tolist() for name in made.released if name in step.state}
            rows.append((step.decision.arm, int(step.state["syncs"]), shown))
        return rows

    first, second = run(-1.0), run(1.0)
    different = [at for at, (one, other) in enumerate(zip(first, second)) if one != other]
    assert [row[1] for row in first[: different[0] + 1 if different else None]] == [
        row[1] for row in second[: different[0] + 1 if different else None]
    ]
    if different:
        at = different[0]
        assert first[at][0] == second[at][0]
        assert first[at][1] == first[at - 1][1] + 1  # nothing but a release may tell them apart
