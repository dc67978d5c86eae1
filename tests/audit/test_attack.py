"""The attacks themselves: exact bounds, honest confidence, and no luck in the choice of the event."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import binom

from fairveil.errors import InputError, SpecError
from fairveil.privacy.noise import SeededNoise
from fairveil.proof import AuditPair, attack, audit, clopper_pearson, epsilon_lower, estimate_mu, outputs
from fairveil.proof.engine.attack import lowest_bit, separating_direction
from fairveil.proof.engine.audit import CHUNK, chunks


def laplace_run(world, trials, noise, rng):
    return world + noise.laplace(2.0**20, trials) / 2.0**20


@pytest.mark.parametrize("trials, hits", [(10, 0), (10, 10), (100, 3), (5000, 2500)])
def test_clopper_pearson_limits_solve_their_defining_equations(trials, hits):
    low, high = (float(limit) for limit in clopper_pearson(hits, trials, 0.025))
    assert 0.0 <= low <= hits / trials <= high <= 1.0
    if hits > 0:
        assert binom.sf(hits - 1, trials, low) == pytest.approx(0.025, rel=1e-6)
    else:
        assert low == 0.0
    if hits < trials:
        assert binom.cdf(hits, trials, high) == pytest.approx(0.025, rel=1e-6)
    else:
        assert high == 1.0


def test_epsilon_lower_is_the_ratio_of_the_limits():
    low, _ = clopper_pearson(400, 1000, 0.025)
    _, high = clopper_pearson(100, 1000, 0.025)
    assert epsilon_lower(400, 100, 1000, 1000, 0.0, 0.95) == pytest.approx(math.log(low / high))
    assert epsilon_lower(400, 100, 1000, 1000, 0.1, 0.95) == pytest.approx(math.log((low - 0.1) / high))
    assert epsilon_lower(100, 400, 1000, 1000, 0.0, 0.95) == 0.0
    assert epsilon_lower(0, 0, 1000, 1000, 0.0, 0.95) == 0.0


def test_the_bound_is_wrong_no_more_often_than_stated():
    """Randomised response is tight: the true epsilon is 1. 200 audits at 90 %: at most 10 % + noise exceed it."""
    keep = math.e / (math.e + 1)
    rng = np.random.default_rng(5)
    wrong = 0
    for _ in range(200):
        zero = (rng.random(2000) >= keep).astype(float)
        one = (rng.random(2000) < keep).astype(float)
        wrong += attack(zero, one, epsilon=1.0, confidence=0.9).violated
    assert wrong <= 200 * 0.1 + 4 * math.sqrt(200 * 0.09)
    assert wrong > 0  # tight enough that some of them must


def test_equal_worlds_give_nothing():
    rng = np.random.default_rng(1)
    for shape in ((4000,), (4000, 3)):
        finding = attack(rng.normal(size=shape), rng.normal(size=shape), epsilon=0.1)
        assert finding.epsilon_lower < 0.05
        assert finding.verdict == "consistent"


def test_constant_outputs_give_nothing():
    finding = attack(np.zeros(100), np.zeros(100), epsilon=1.0)
    assert finding.epsilon_lower == 0.0
    assert "nothing separates" in finding.event


def test_disjoint_outputs_are_separated_as_far_as_the_trials_allow():
    finding = attack(np.zeros(10_000), np.ones(10_000), epsilon=1.0)
    low, _ = clopper_pearson(5000, 5000, 0.025)
    _, high = clopper_pearson(0, 5000, 0.025)
    assert finding.epsilon_lower == pytest.approx(math.log(low / high))
    assert finding.violated


def test_threshold_attack_finds_the_shift_of_laplace_noise():
    finding = audit(laplace_run, epsilon=0.8, trials=100_000)
    assert finding.violated
    assert 0.93 < finding.epsilon_lower <= 1.0
    assert "output" in finding.event


def test_hockey_stick_attack_finds_a_set_that_no_threshold_is():
    """Worlds with equal distribution at the ends and a difference in the middle."""

    def run(world, trials, noise, rng):
        values = rng.integers(0, 9, trials)
        return np.where((rng.random(trials) < 0.3) & (world == 1), 4, values)

    finding = audit(run, epsilon=0.5, trials=40_000)
    assert finding.epsilon_lower > 1.0
    assert "likelihood ratio" in finding.event
    assert finding.likelier == 1


def test_patterns_of_several_outputs_are_found():
    """Any two of the three coordinates are independent fair coins in both worlds; only the parity of all differs."""

    def run(world, trials, noise, rng):
        first, second = rng.integers(0, 2, (2, trials))
        odd = rng.random(trials) < (0.5, 0.9)[world]
        return np.stack([first, second, (first + second + odd) % 2], 1)

    finding = audit(run, epsilon=0.5, trials=40_000)
    assert finding.epsilon_lower > 1.3
    assert "likelihood ratio" in finding.event


def test_a_linear_combination_is_found_where_the_noise_cancels():
    rng = np.random.default_rng(3)
    shared = rng.normal(0, 100, 20_000)
    zero = np.stack([shared, shared + rng.normal(0, 1, 20_000)], 1)
    one = np.stack([shared, shared + 3 + rng.normal(0, 1, 20_000)], 1)
    finding = attack(zero, one, epsilon=1.0)
    assert finding.violated
    assert "linear combination" in finding.event
    weights = separating_direction(zero, one)
    assert weights[0] == pytest.approx(-weights[1], rel=0.01)


def test_lowest_bits_of_floats():
    assert lowest_bit(np.array([3 * 2.0**-40, 2.0**-1022, -0.5])).tolist() == [-40.0, -1022.0, -1.0]


def test_delta_is_subtracted():
    def run(world, trials, noise, rng):
        return np.where((world == 1) & (rng.random(trials) < 0.01), 1.0, 0.0)  # (0, 0.01)-private and no better

    assert audit(run, epsilon=0.1, delta=0.0, trials=20_000).violated
    assert not audit(run, epsilon=0.1, delta=0.012, trials=20_000).violated


def test_confidence_only_lowers_the_bound():
    bounds = [audit(laplace_run, epsilon=1.0, trials=40_000, confidence=c).epsilon_lower for c in (0.9, 0.99, 1 - 1e-6)]
    assert bounds == sorted(bounds, reverse=True)
    for confidence in (0.0, 1.0, 2.0):
        with pytest.raises(SpecError, match="confidence"):
            audit(laplace_run, epsilon=1.0, trials=1000, confidence=confidence)


def test_outputs_do_not_depend_on_the_number_of_workers():
    serial = outputs(laplace_run, 2 * CHUNK + 10, seed=3)
    parallel = outputs(laplace_run, 2 * CHUNK + 10, seed=3, workers=2)
    assert all((a == b).all() for a, b in zip(serial, parallel))
    assert len(serial[0]) == len(serial[1]) == 2 * CHUNK + 10
    assert [size for _, _, size in chunks(2 * CHUNK + 10)] == [CHUNK, CHUNK, 10] * 2
    again = audit(laplace_run, epsilon=1.0, trials=CHUNK)
    assert again == audit(laplace_run, epsilon=1.0, trials=CHUNK)
    assert again != audit(laplace_run, epsilon=1.0, trials=CHUNK, seed=1)


def test_bad_runs_are_refused():
    with pytest.raises(SpecError, match="claim"):
        audit(laplace_run)
    with pytest.raises(SpecError, match="other processes"):
        audit(lambda world, trials, noise, rng: np.zeros(trials), epsilon=1.0, workers=2)
    with pytest.raises(SpecError, match="noise"):
        audit(laplace_run, epsilon=1.0, noise="none")
    with pytest.raises(InputError, match="one output a trial"):
        audit(lambda world, trials, noise, rng: np.zeros(trials + 1), epsilon=1.0, trials=100)
    with pytest.raises(InputError, match="trials"):
        audit(laplace_run, epsilon=1.0, trials=20)
    with pytest.raises(InputError, match="NaN"):
        attack(np.full(100, math.nan), np.zeros(100), epsilon=1.0)
    with pytest.raises(InputError, match="widths"):
        attack(np.zeros((100, 2)), np.zeros((100, 3)), epsilon=1.0)


def test_a_pair_carries_its_own_claim():
    pair = AuditPair(laplace_run, "0 or 1", "noisy value", epsilon=1.5, delta=1e-3)
    finding = audit(pair, trials=2000)
    assert (finding.epsilon, finding.delta, finding.worlds, finding.statistic) == (1.5, 1e-3, "0 or 1", "noisy value")
    assert audit(pair, epsilon=0.2, delta=0.0, trials=40_000).violated


@pytest.mark.parametrize("mu", [0.05, 0.5, 4.0])
def test_mu_is_estimated_with_honest_limits(mu):
    inside = 0
    for seed in range(200):
        noise = SeededNoise(seed, "mu")
        zero, one = (noise.gaussian(2.0**20, 2000) / 2.0**20 for _ in range(2))
        found = estimate_mu(zero, one + mu)
        inside += found.low <= mu <= found.high
    assert inside >= 200 * 0.95 - 4 * math.sqrt(200 * 0.05 * 0.95)


def test_mu_of_degenerate_statistics():
    assert estimate_mu(np.zeros(20), np.zeros(20)).mu == 0.0
    assert estimate_mu(np.zeros(20), np.ones(20)).low == math.inf
    with pytest.raises(InputError, match="projection"):
        estimate_mu(np.zeros((20, 2)), np.zeros((20, 2)))
