"""Algorithms 3 and 4 against formulae computed from all values."""

import math

import numpy as np
import pytest

from fairveil.errors import SpecError
from fairveil.privacy.noise import SeededNoise
from fairveil.streams import Predictive
from fairveil.streams.protocol import LOST, MISSING, USED


def test_running_estimates_are_algorithm_3():
    """The running sums against the formulae computed from all values, step by step."""
    releaser = Predictive(epsilon=1.0, delta=1e-6, horizon=200, weight=0.3)
    values = (1e6 + np.random.default_rng(1).normal(0, 80, 200)).tolist()
    x = releaser.run(releaser.start(), values, SeededNoise(1))[1]
    noise = releaser.noise_in_shown
    y, shown = x.plain, x.value
    for t in range(2, 200):
        past = shown[:t]
        mean = past.mean()
        variance = max(((past - mean) ** 2).sum() / (t - 1) - noise**2, 0.0)
        rho = ((past[:-1] - mean) * (past[1:] - mean)).sum() / ((past[:-1] - mean) ** 2).sum() + 1 / t
        r = min(max(rho, -1.0), 1.0) * variance / (variance + noise**2)
        expected = 0.7 * (mean * (1 - r) + r * past[-1]) + 0.3 * y[t]
        assert math.isclose(shown[t], expected, rel_tol=1e-9)


def test_geometric_weights_have_a_bounded_loss_for_ever():
    """Section 3.5: with falling weights the loss stays finite over an endless horizon; far steps read nothing."""
    endless = Predictive(epsilon=1.0, delta=1e-7, weight=0.6, ratio=0.8)
    finite = Predictive(epsilon=1.0, delta=1e-7, horizon=500, weight=0.6, ratio=0.8)
    listed = Predictive(epsilon=1.0, delta=1e-7, horizon=40, weight=(1.0, 1.0, *(0.6 * 0.8**k for k in range(38))))
    assert endless.noise_in_shown == pytest.approx(finite.noise_in_shown, rel=1e-9)
    assert endless.noise_in_shown == pytest.approx(listed.noise_in_shown, rel=1e-6)
    assert endless.noise_in_shown == pytest.approx(endless.plan.std, rel=1e-12)
    squares = endless.shares.at(0, 10_000)
    assert squares.sum() <= endless.shares.total == pytest.approx(3.0)
    state, seen = endless.start(), endless.advance(endless.start(), np.full(1000, 5.0), SeededNoise(1))
    assert 60 < seen.status.sum() < 100
    assert np.ptp(seen.value[200:]) == 0
    other = np.where(np.arange(1000) < 200, 5.0, 9.0)
    moved = endless.advance(state, other, SeededNoise(1))
    assert (moved.value == seen.value).all()


def test_falling_weights_are_those_of_algorithm_4():
    falling = Predictive(mu=1.0, horizon=12, weight=0.5, ratio=0.7)
    listed = Predictive(mu=1.0, horizon=12, weight=(1.0, 1.0, *(0.5 * 0.7**k for k in range(10))))
    values = np.arange(12.0)
    first, second = (one.advance(one.start(), values, SeededNoise(3)).value for one in (falling, listed))
    assert first == pytest.approx(second, rel=1e-6)


def test_a_weight_of_zero_is_a_step_that_is_not_sampled():
    """Footnote 5: nothing reads the value, the prediction is shown, and the budget is that of the sampled steps."""
    weights = (1.0, 1.0, *(0.3 if k % 3 == 0 else 0.0 for k in range(18)))
    sparse = Predictive(epsilon=1.0, delta=1e-7, horizon=20, weight=weights)
    assert sparse.shares.total == pytest.approx(2 + 6 * 0.09)
    seen = sparse.advance(sparse.start(), np.arange(20.0), SeededNoise(1))
    assert (seen.status == (np.array(weights) > 0)).all()
    other = np.where(np.array(weights) > 0, np.arange(20.0), 1e6)
    assert (sparse.advance(sparse.start(), other, SeededNoise(1)).value == seen.value).all()
    state = sparse.start()
    lost = sparse.replay(state, np.zeros(20, np.int64), np.full(20, LOST))
    assert (lost.status == np.where(np.array(weights) > 0, LOST, MISSING)).all()
    assert state["counts"][USED] == 8
    with pytest.raises(SpecError, match="always sampled"):
        Predictive(mu=1.0, horizon=3, weight=(1.0, 0.0, 0.5))
    with pytest.raises(SpecError, match="one weight"):
        Predictive(mu=1.0, horizon=3, weight=(1.0, 1.0, 0.5), ratio=0.5)
