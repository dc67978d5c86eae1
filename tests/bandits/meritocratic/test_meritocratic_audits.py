"""Joint privacy, measured: one candidate changes, what others can see is compared."""

import math

import numpy as np
import pytest

import fairveil
from fairveil.bandits.meritocratic import BatchedPrivateFairGreedy, PrivateFairGreedy
from fairveil.bandits.meritocratic.audit import _small_batched, batched_pair, private_pair
from fairveil.privacy.noise import SeededNoise


def measured_mu(pair, trials, seed=1):
    """Distance of the two worlds' means in standard deviations: the mu of the released statistic."""
    rng = np.random.default_rng(seed)
    first, second = (pair.run(world, trials, SeededNoise(seed, world), rng) for world in (0, 1))
    return (first.mean() - second.mean()) / math.sqrt((first.var() + second.var()) / 2)


def test_the_batched_release_spends_its_budget_and_not_more():
    policy = _small_batched(BatchedPrivateFairGreedy(epsilon=5.0, delta=1e-5))
    found = measured_mu(batched_pair(policy), 40_000)
    # The regression part is met exactly; one pair of bins does not reach the histogram's worst case.
    assert policy.mu * math.sqrt(0.9) * 0.97 < found < policy.mu * 1.03


@pytest.mark.parametrize("variant", ["sound", "printed"])
def test_prefix_sums_and_counts_have_the_mu_they_state(variant):
    policy = PrivateFairGreedy(epsilon=15.0, delta=0.1, bound=2.0, variant=variant, rounds=32, features=2)
    found = measured_mu(private_pair(policy), 4_000)
    promised = policy.guarantee().mu
    assert 0.85 * promised < found < 1.05 * promised


def test_a_bound_that_follows_the_data_is_caught():
    """A twin that clips at 1.5 times the bound it calibrates to, as an L computed from the records would."""
    policy = PrivateFairGreedy(epsilon=3.0, delta=1e-5, bound=1.0, rounds=32, features=2)
    honest = private_pair(policy)
    wide = PrivateFairGreedy(epsilon=3.0, delta=1e-5, bound=1.5, rounds=32, features=2)
    noise_ratio = wide.sums.expected_std(1) / policy.sums.expected_std(1)
    assert noise_ratio == pytest.approx(2.25, rel=0.01)
    world_of_l, world_of_more = (each.sums.noise_path(SeededNoise(1), 15).std() for each in (policy, wide))
    # One outlying record changes every noise variance five-fold: a single released path tells the worlds apart.
    assert (world_of_more / world_of_l) ** 2 > 3
    assert honest.epsilon == 3.0


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
    result = fairveil.run({"task": "audit", "target": table, "trials": 300 if pair else 6_000, "seed": 4})
    assert result["metrics"]["verdict"] == "consistent"
    if pair is None and target.get("variant") != "printed":
        finer = result["metrics"]["finer"]
        assert 0.5 * finer["claimed"] < finer["lower"] <= finer["claimed"]
