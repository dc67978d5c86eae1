"""Joint privacy, measured: one candidate changes, what others can see is compared."""

import math

import numpy as np
import pytest

import fairveil
from fairveil.bandits.feedback import Lateness, Outstanding
from fairveil.bandits.meritocratic import BatchedPrivateFairGreedy, PrivateFairGreedy, PrivateFairGreedyPrinted
from fairveil.bandits.meritocratic.scaling import Ready
from fairveil.errors import InputError
from fairveil.privacy.noise import SeededNoise, ZeroNoise
from fairveil.privacy.sums import BatchSum
from fairveil.privacy.sums.shapes import Grid
from fairveil.proof import audit
from fairveil.proof.pairs.meritocratic import (
    BATCH,
    Recorded,
    _prefixes,
    batched_pair,
    batched_ranks,
    private_pair,
    small,
    small_batched,
)


def measured_mu(pair, trials, seed=1):
    """Distance of the two worlds' means in standard deviations: the mu of the released statistic."""
    rng = np.random.default_rng(seed)
    first, second = (pair.run(world, trials, SeededNoise(seed, world), rng) for world in (0, 1))
    return (first.mean() - second.mean()) / math.sqrt((first.var() + second.var()) / 2)


def test_the_batched_release_spends_its_budget_and_not_more():
    policy = small_batched(BatchedPrivateFairGreedy(epsilon=5.0, delta=1e-5))
    # n trials show a mu within four standard errors, 4 sqrt(2/n). One pair of bins is below the histogram's worst case.
    assert measured_mu(batched_pair(policy), 1_500) == pytest.approx(policy.mu * math.sqrt(0.9), abs=0.15)
    assert 0.5 < measured_mu(batched_ranks(policy), 1_000) < policy.mu * math.sqrt(0.9) + 0.18


@pytest.mark.parametrize("kind", [PrivateFairGreedy, PrivateFairGreedyPrinted])
def test_prefix_sums_and_counts_have_the_mu_they_state(kind):
    policy = kind(epsilon=15.0, delta=0.1, bound=2.0, rounds=32, features=2, totals="public")
    found = measured_mu(private_pair(policy), 600)
    promised = policy.guarantee().mu
    assert 0.7 * promised < found < promised + 0.24  # four standard errors


def test_a_bound_that_follows_the_data_is_caught():
    """As printed, L is the longest row there is: one longer record, of the last round, shows in the noise of others.

    Published prefixes before that round are the same in both worlds but for their noise, whose variance is five-fold.
    """

    def worlds(follows):
        def run(world, trials, noise, rng):
            recorded = Recorded.of(8, 0, at=7)
            recorded.features[7, 0] *= (1.0, 1.5)[world]
            recorded.rewards[7, 0] *= (1.0, 1.5)[world]
            longest = np.sqrt((recorded.features[:, 0] ** 2).sum(axis=1) + recorded.rewards[:, 0] ** 2).max()
            bound = float(longest) if follows else 1.5
            policy = small(PrivateFairGreedyPrinted(epsilon=2.0, delta=0.1, bound=bound), rounds=8, candidates=None)
            state = policy.learn_all(policy.start(), recorded.feedback(0))
            known = _prefixes(policy, state, ZeroNoise())[0][0]
            return [np.log(np.square(_prefixes(policy, state, noise)[0][0] - known).sum()) for _ in range(trials)]

        return run

    assert audit(worlds(True), epsilon=2.0, delta=0.1, trials=400, seed=1).verdict == "violated"
    assert audit(worlds(False), epsilon=2.0, delta=0.1, trials=400, seed=1).verdict == "consistent"


@pytest.mark.parametrize(
    "target",
    [
        {"name": "batched-private-fair-greedy", "epsilon": 2.0, "delta": 1e-5},
        {"name": "private-fair-greedy", "epsilon": 2.0, "delta": 1e-5, "bound": 1.0},
        {"name": "private-fair-greedy", "epsilon": 15.0, "delta": 0.1, "bound": 1.0, "variant": "printed"},
    ],
    ids=["batched", "sound", "printed"],
)
@pytest.mark.parametrize("pair", [None, "decisions"])
def test_audits_find_no_more_than_promised(target, pair):
    table = {"kind": "policy", **target, **({"pair": pair} if pair else {})}
    result = fairveil.run({"task": "audit", "target": table, "trials": 100 if pair else 800, "seed": 4})
    assert result["metrics"]["verdict"] == "consistent"
    if pair is None:
        assert result["metrics"]["finer"]["lower"] <= result["metrics"]["finer"]["claimed"]


def verdict(pair, trials, epsilon=2.0, **more):
    target = {"kind": "policy", "name": "batched-private-fair-greedy", "epsilon": epsilon, "delta": 1e-5}
    table = {**target, **({"pair": pair} if pair else {})}
    return fairveil.run({"task": "audit", "target": table, "trials": trials, "seed": 4, **more})


@pytest.mark.parametrize("epsilon", [0.5, 1.0])
def test_late_and_missing_rewards_show_no_more_than_promised(epsilon):
    assert verdict("late", 100, epsilon)["metrics"]["verdict"] == "consistent"


def test_an_audit_with_secure_noise_says_so():
    for name, pair in (("private-fair-greedy", None), ("private-fair-greedy", "decisions")):
        table = {"kind": "policy", "name": name, "epsilon": 2.0, "delta": 1e-5, "bound": 1.0}
        table |= {"pair": pair} if pair else {}
        result = fairveil.run({"task": "audit", "target": table, "trials": 40, "noise": "secure", "seed": 1})
        assert result["meta"]["simulated"] is False


# Broken twins of the served code --------------------------------------------------------------------------------------


def thinner(kind, method, factor):
    """The same draws, divided by a factor: integer noise that is too small, or none."""
    drawn = getattr(kind, method)
    return lambda self, *given, **named: drawn(self, *given, **named) // factor


BROKEN = {
    "the sum without noise": (None, BatchSum, "draws", 10**12),
    "the sum with half the noise": (None, BatchSum, "draws", 2),
    "ranks without noise": ("ranks", SeededNoise, "gaussian", 10**12),
    "ranks with half the noise": ("ranks", SeededNoise, "gaussian", 2),
}


@pytest.mark.parametrize("pair,kind,method,factor", BROKEN.values(), ids=BROKEN.keys())
def test_noise_that_is_too_small_is_caught(pair, kind, method, factor, monkeypatch):
    monkeypatch.setattr(kind, method, thinner(kind, method, factor))
    found = verdict(pair, 1_000, epsilon=5.0)["metrics"]
    assert found["verdict"] == "violated" or found["finer"]["lower"] > found["finer"]["claimed"]


def test_a_batch_that_closes_early_because_everybody_answered_is_caught(monkeypatch):
    """Arrivals are hidden, so a round may settle at its window only."""
    monkeypatch.setattr(Lateness, "hidden", False)
    assert verdict("late", 100, 0.5)["metrics"]["verdict"] == "violated"


def test_a_reward_left_out_of_its_clip_is_caught(monkeypatch):
    monkeypatch.setattr(Ready, "clip_reward", lambda self, reward: 5 * np.asarray(reward))
    monkeypatch.setattr(Grid, "rows", lambda self, values: np.rint(np.ldexp(values, self.bits)).astype(np.int64))
    found = verdict(None, 800, epsilon=5.0)["metrics"]
    assert found["verdict"] == "violated" or found["finer"]["lower"] > found["finer"]["claimed"]


def test_a_batch_that_closes_when_its_raw_sum_is_large_is_refused_by_the_policy_itself(monkeypatch):
    """The schedule is the state's: whoever waits for more rewards is told that the next round is another batch's."""
    due = BatchedPrivateFairGreedy.due
    enough = lambda self, state, settled: due(self, state, settled) if state["sum/rows"] >= BATCH else None  # noqa: E731
    monkeypatch.setattr(BatchedPrivateFairGreedy, "due", enough)
    with pytest.raises(InputError, match="later batch"):
        verdict("late", 40, 0.5)


def test_a_reward_moved_to_another_batch_because_of_its_value_is_caught(monkeypatch):
    """Then the batch of a row says something about its value: here by when the batch is released."""
    settled = Outstanding._is_settled

    def later_if_large(self, index):
        answer = self._here.get(index)
        return settled(self, index) and (answer is None or answer.reward < 0.9 or self.now > index + 6)

    monkeypatch.setattr(Outstanding, "_is_settled", later_if_large)
    assert verdict("late", 100, 0.5)["metrics"]["verdict"] == "violated"
