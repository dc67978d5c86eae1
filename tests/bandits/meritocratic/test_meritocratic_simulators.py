"""Compiled runs decide what the step interface decides: same kernels, same streams, same noise."""

from dataclasses import replace

import numpy as np
import pytest

import fairveil
from fairveil import registry
from fairveil.bandits.facts import fitted
from fairveil.bandits.feedback import AT_ONCE, Lateness
from fairveil.bandits.meritocratic import BatchedPrivateFairGreedy, FairGreedy, PrivateFairGreedy
from fairveil.bandits.simulate import Case, StepSimulator, Streams, start_run
from fairveil.errors import SpecError
from fairveil.privacy.noise import SecureNoise, SeededNoise, ZeroNoise
from fairveil.randomness import generator

SMALL = {"name": "synthetic-census", "people_per_group": 800}
RUGGED = {**SMALL, "candidates": 2, "presence": 0.6, "joins": {"g3": 60}, "delay": 15.0, "missing": 0.1}
LATE = {
    "public": {"delay": ["geometric", 15.0], "missing": 0.2},
    "default": {"delay": ["uniform", 0, 30], "missing": 0.2, "treat": "default", "default": 0.4},
    "private": {"delay": 25, "missing": 0.3, "treat": "private"},
}
EVERY = {
    "fair-greedy": FairGreedy(),
    "sound": PrivateFairGreedy(epsilon=2.0, delta=1e-5, bound=3.5),
    "printed": registry.build(
        "policy",
        {"name": "private-fair-greedy", "variant": "printed", "epsilon": 9.0, "delta": 0.1, "bound": 3.5},
        "policy",
    ),
    "batched": BatchedPrivateFairGreedy(epsilon=3.0, delta=1e-5, first_batch=40),
    "oful": registry.get("policy", "oful")(),
}


def world_of(table):
    return registry.build("environment", table, "environment")


def both(policy, world, rounds, noise, lateness=None, size=50):
    """The slots that the compiled simulator and the steps choose, from equal streams."""
    made = fitted(policy, world, rounds)
    case = Case.of(made, world, rounds, lateness=world.lateness if lateness is None else lateness)
    out = []
    for make in (start_run, StepSimulator):
        runner = make(case, Streams.of(9, 0, noise()))
        stops = [*range(size, rounds, size), rounds]
        out.append(np.concatenate([runner.advance(stop).slots for stop in stops]))
        assert runner.releases > 0 or not hasattr(runner, "noisy")
    return out


@pytest.mark.parametrize("noise", [ZeroNoise, lambda: SeededNoise(4)], ids=["none", "seeded"])
@pytest.mark.parametrize("policy", EVERY.values(), ids=EVERY.keys())
def test_the_simulator_makes_the_decisions_of_the_step_interface(policy, noise):
    fast, slow = both(policy, world_of(SMALL), 240, noise)
    assert (fast == slow).all()


@pytest.mark.parametrize("policy", ["batched", "oful", "fair-greedy"])
def test_late_missing_and_absent_make_no_difference_between_the_two(policy):
    fast, slow = both(EVERY[policy], world_of(RUGGED), 400, lambda: SeededNoise(4))
    assert (fast == slow).all()


@pytest.mark.parametrize("treat", LATE)
@pytest.mark.parametrize("world", [SMALL, {**SMALL, "presence": 0.2}], ids=["steady", "often nobody"])
def test_the_batched_policy_is_compiled_on_the_settled_clock(treat, world):
    fast, slow = both(EVERY["batched"], world_of(world), 400, lambda: SeededNoise(4), Lateness.of(LATE[treat]))
    assert (fast == slow).all()


@pytest.mark.parametrize("treat", ["default", "private"])
def test_hidden_arrivals_in_any_order_inside_the_window_give_the_same_run(treat):
    """Decision for decision and released value for released value."""
    world, runs = world_of(SMALL), []
    made = fitted(EVERY["batched"], world, 600)
    for order in range(3):
        lateness = Lateness("uniform", (0.0, 30.0), 30, 0.0, treat)
        case = Case.of(made, world, 600, lateness=lateness)
        streams = replace(
            Streams.of(9, 0, SeededNoise(4)), coming=lambda order=order: generator(order, "another order")
        )
        runner = start_run(case, streams)
        slots = np.concatenate([runner.advance(stop).slots for stop in (200, 400, 600)])
        runs.append((slots, runner.state))
    for slots, state in runs[1:]:
        assert (slots == runs[0][0]).all()
        assert all(np.array_equal(state[name], runs[0][1][name]) for name in made.released)


def test_zero_noise_equals_fair_greedy_arm_for_arm():
    world = world_of(SMALL)
    plain = fitted(FairGreedy(), world, 1500)
    private = fitted(PrivateFairGreedy(epsilon=1e6, delta=1e-5, bound=100.0), world, 1500)
    # The ridge of the private policy covers its noise, its rows are on a grid; with the same ones the two agree.
    object.__setattr__(private, "ridges", plain.ridges)
    object.__setattr__(private, "rows_of", plain.rows_of)
    slots = []
    for policy in (plain, private):
        runner = start_run(Case.of(policy, world, 1500), Streams.of(4, 0, ZeroNoise()))
        slots.append(np.concatenate([runner.advance(stop).slots for stop in (500, 1000, 1500)]))
    assert (slots[0] == slots[1]).all()


def spec(policy, noise="seeded", **more):
    return {"task": "bandit", "policy": policy, "environment": SMALL, "rounds": 60, "seed": 5, "noise": noise, **more}


PRIVATE = {"name": "private-fair-greedy", "epsilon": 15.0, "delta": 0.1, "bound": 3.5}


@pytest.mark.parametrize("policy", [PRIVATE, {**PRIVATE, "variant": "printed"}, {**PRIVATE, "totals": "noisy"}])
def test_secure_noise_is_honoured_in_every_draw_and_compiled_too(policy, monkeypatch):
    drawn = []
    monkeypatch.setattr(SecureNoise, "gaussian", lambda self, sigma, size=1: drawn.append(size) or np.zeros(size, int))
    monkeypatch.setattr(SeededNoise, "gaussians", None)
    result = fairveil.run(spec(policy, "secure"))
    assert result["meta"]["simulated"] is False
    each = 2 if policy.get("totals") == "noisy" else 1
    assert sum(drawn) >= 29 * 25 * 26 // 2 + 58 * 4 * each  # a flat matrix a leaf, a number a count


def test_noise_that_cannot_be_secure_is_refused():
    wishart = {**PRIVATE, "variant": "printed", "regression": "wishart"}
    with pytest.raises(SpecError, match="noise"):
        fairveil.run(spec(wishart, "secure"))
    assert fairveil.run(spec(wishart))["meta"]["simulated"] is True


def test_a_world_that_delays_rewards_takes_no_feedback():
    with pytest.raises(SpecError, match="feedback"):
        fairveil.run({**spec(PRIVATE), "environment": RUGGED, "feedback": {"delay": 3}})
    assert world_of(RUGGED).lateness == Lateness.of({"delay": ["geometric", 15.0], "missing": 0.1})
    assert world_of(SMALL).lateness == AT_ONCE
