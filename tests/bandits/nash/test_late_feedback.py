"""Late and missing rewards: what they cost, what they may not show, and who gets the rounds of a silent arm."""

import numpy as np
import pytest

import fairveil
from fairveil import SeededNoise, registry
from fairveil.bandits.environments.bernoulli import Bernoulli
from fairveil.bandits.feedback import NEVER, Lateness, Outstanding
from fairveil.bandits.nash.private_nash import PrivateNash
from fairveil.bandits.protocol import Feedback, Round
from fairveil.bandits.simulate import Streams, walk
from fairveil.errors import InputError, SpecError
from fairveil.state import save_state

WORLD = {"name": "bernoulli", "means": [0.3, 0.5, 0.7]}


def run(feedback=None, policy=None, rounds=500, runs=300, **more):
    spec = {
        "task": "bandit", "rounds": rounds, "runs": runs, "seed": 3, "checkpoints": [rounds],
        "policy": {"name": "private-nash", "epsilon": 1.0, **(policy or {})}, "environment": WORLD, **more,
    }  # fmt: skip
    return fairveil.run(spec | ({"feedback": feedback} if feedback is not None else {}))


def test_a_trial_of_500_patients_with_outcomes_100_decisions_late():
    """Average regret at most 0.45 of uniform allocation's (0.2), where dropping late rewards costs 0.99."""
    late = run({"delay": 100})
    assert late["metrics"]["average_regret"][0] <= 0.45 * 0.2
    assert late["spec"]["feedback"] == {"delay": 100, "window": 100, "missing": 0.0, "treat": "public"}
    assert "feedback" not in run(runs=1)["spec"]


@pytest.mark.parametrize(("arms", "epsilon"), [(4, 1.0), (10, 1.0)])
def test_a_delay_costs_about_its_rounds_of_uniform_play(arms, epsilon):
    means, rounds, delay = np.random.default_rng(1).uniform(0.05, 0.95, arms).tolist(), 20_000, 1000
    more = {"environment": {"name": "bernoulli", "means": means}, "rounds": rounds, "runs": 100}
    at_once = run(policy={"epsilon": epsilon}, **more)["metrics"]
    late = run({"delay": delay}, {"epsilon": epsilon}, **more)["metrics"]
    best, average = max(means), float(np.mean(means))
    assert late["average_regret"][0] <= 1.25 * (at_once["average_regret"][0] + delay / rounds * (best - average))
    paid = best - (best - at_once["nash_regret"][0]) ** (1 - delay / rounds) * average ** (delay / rounds)
    assert late["nash_regret"][0] <= 1.25 * paid


@pytest.mark.parametrize("treat", ["default", "private"])
def test_hidden_arrivals_any_order_inside_the_window_gives_the_same_run(treat):
    policy = PrivateNash(arms=3, epsilon=1.0, arrivals="private" if treat == "private" else "public")
    world, late = Bernoulli(means=(0.2, 0.5, 0.9)), Lateness("uniform", (0.0, 30.0), 30, treat=treat)

    def arms(arrivals):
        streams = Streams.of(1, 0, SeededNoise(1))
        object.__setattr__(streams, "arrivals", Streams.of(arrivals, 0).arrivals)
        return [step.decision.arm for step in walk(policy, world, 600, streams, late)]

    assert arms(1) == arms(2) == arms(3)


class SilentArm(Lateness):
    """Nobody ever answers for arm 0."""

    def wait(self, round, arm, rng):
        return NEVER if arm == 0 else super().wait(round, arm, rng)


def test_an_arm_that_nobody_answers_for_gets_about_its_share():
    policy, world = PrivateNash(arms=4, epsilon=1.0), Bernoulli(means=(0.9, 0.3, 0.5, 0.7))
    late = SilentArm("fixed", (20.0,), 20)
    pulls = np.zeros(4)
    for seed in range(3):
        for step in walk(policy, world, 2000, Streams.of(seed, 0, SeededNoise(seed)), late):
            pulls[step.decision.arm] += 1
    assert pulls[0] <= 1.6 / 4 * pulls.sum()
    assert pulls[3] == pulls[1:].max()


def test_a_third_of_the_rewards_missing_costs_little():
    whole = run({"delay": 100}, rounds=20_000, runs=100)["metrics"]["average_regret"][0]
    holed = run({"delay": 100, "missing": 0.3}, rounds=20_000, runs=100)["metrics"]["average_regret"][0]
    assert holed <= 1.8 * whole


@pytest.mark.parametrize("noise", ["seeded"])
def test_a_reward_in_an_open_block_changes_no_decision_and_no_public_byte(noise):
    """Noise and coins fixed: until the block of round 5 is released, everything that is public is the same bytes."""
    policy, late = PrivateNash(arms=3, epsilon=1.0), Lateness(numbers=(40.0,), window=40)

    class Scripted(Bernoulli):
        changed = 1.0

        def reward(self, round, arm, rng):
            return self.changed if round.index == 5 else float(rng.random() < 0.5)

    def public(changed):
        world = Scripted(means=(0.2, 0.5, 0.9))
        object.__setattr__(world, "changed", changed)
        rows = []
        for step in walk(policy, world, 120, Streams.of(2, 0, SeededNoise(7)), late):
            shown = {name: step.state[name] for name in policy.released}
            rows.append((step.decision.arm, save_state(shown)))
        return rows

    one, zero = public(1.0), public(0.0)
    different = [index for index, (a, b) in enumerate(zip(one, zero)) if a != b]
    block = next(
        row for row in walk(policy, Scripted(means=(0.2, 0.5, 0.9)), 6, Streams.of(2, 0, SeededNoise(7)), late)
    )
    assert block.state["open"][0, 2] == 3  # blocks of three rounds: round 5 is in [3, 6), due at 6 + 40
    assert min(different) == 6 + 40 - 1
    assert [a[0] for a, b in zip(one, zero)][:46] == [b[0] for a, b in zip(one, zero)][:46]


@pytest.mark.parametrize(
    ("feedback", "path"),
    [
        ({"delay": -1}, "feedback.delay"),
        ({"delay": ["normal", 3]}, "feedback.delay"),
        ({"delay": ["uniform", 5, 2]}, "feedback.delay"),
        ({"delay": 50, "window": 20}, "feedback.window"),
        ({"missing": 1.0}, "feedback.missing"),
        ({"missing": -0.1}, "feedback.missing"),
        ({"treat": "ignored"}, "feedback.treat"),
        ({"treat": "private"}, "feedback.treat"),
        ({"default": 0.5}, "feedback.default"),
        ({"lag": 3}, "feedback.lag"),
    ],
)
def test_a_wrong_feedback_is_refused_by_name(feedback, path):
    with pytest.raises(SpecError) as problem:
        run(feedback, runs=1)
    assert problem.value.path == path


def test_local_policies_know_who_reports():
    table = {"name": "local-nash", "arms": 3, "epsilon": 1.0}
    with pytest.raises(SpecError, match="local"):
        Lateness.of({"treat": "default"}).check(registry.build("policy", table, "policy"))
    assert run({"delay": ["geometric", 5.0]}, {"name": "local-nash"}, runs=2)["spec"]["feedback"]["window"] == 23


def test_the_notes_of_the_guarantee_follow_the_treatment():
    assert "is public" in run({"delay": 3}, runs=1)["guarantee"]["notes"][-1]
    assert "declared default" in run({"delay": 3, "treat": "default"}, runs=1)["guarantee"]["notes"][-1]
    private = run({"delay": 3, "treat": "private"}, {"arrivals": "private"}, runs=1)
    assert "together with its value" in private["guarantee"]["notes"][-1]


@pytest.mark.parametrize("name", ["ucb", "gdp-ncb", "ncb", "anytime", "random"])
def test_every_policy_runs_with_late_rewards(name):
    policy = {"gdp-ncb": {"epsilon": 1.0}, "anytime": {"inner": {"name": "ncb"}}}.get(name, {})
    spec = {
        "task": "bandit", "rounds": 60, "runs": 2, "policy": {"name": name, **policy}, "environment": WORLD,
        "feedback": {"delay": 10, "missing": 0.2, "treat": "default", "default": 0.5},
    }  # fmt: skip
    assert len(fairveil.run(spec)["metrics"]["pull_share"]) == 3


def test_outstanding_rounds_take_each_answer_once_for_the_decided_arm():
    policy = registry.build("policy", {"name": "ucb", "arms": 2}, "policy")
    rounds = Outstanding(policy, Lateness(window=5))
    for arm in (0, 1, 1):
        rounds.decided(arm, Round(rounds.now))
    assert rounds.arrive(Feedback(1, 1, 0.5))
    assert not rounds.arrive(Feedback(1, 1, 0.5))
    with pytest.raises(InputError, match="another arm"):
        rounds.arrive(Feedback(0, 1, 0.5))
    with pytest.raises(InputError, match="not decided"):
        rounds.arrive(Feedback(7, 1, 0.5))
    assert [row.index for row in rounds.take(SeededNoise(1))] == [1]
    for _ in range(6):
        rounds.decided(0, Round(rounds.now))
    assert not rounds.arrive(Feedback(0, 0, 1.0))  # its window is over
