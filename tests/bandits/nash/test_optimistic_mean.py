"""The optimistic mean against its definition: a maximisation over the true sample mean and the noise."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import brentq, minimize_scalar

from fairveil.bandits.nash.arrivals import ROUNDING
from fairveil.bandits.nash.optimism import noise_rate, optimistic_ceiling, optimistic_gain, optimistic_mean


def kl(x, q):
    left = x * math.log(x / q) if x > 0 else 0.0
    return left + ((1 - x) * math.log((1 - x) / (1 - q)) if x < 1 else 0.0)


def by_definition(p, count, draws, epsilon, level):
    """Largest q with min over x of count kl(x, q) + rate(count (x - p)) <= level."""

    def least(q):
        if draws == 0:
            return count * kl(p, q)
        cost = minimize_scalar(
            lambda x: count * kl(x, q) + noise_rate(count * (x - p), draws, epsilon),
            bounds=(p, q),
            method="bounded",
            options={"xatol": 1e-12},
        )
        return min(cost.fun, count * kl(p, q))

    return brentq(lambda q: least(q) - level, p + 1e-12, 1 - 1e-12, xtol=1e-12)


@pytest.mark.parametrize("draws", [0, 1, 7])
@pytest.mark.parametrize("epsilon", [0.2, 2.0])
@pytest.mark.parametrize("p", [0.05, 0.5, 0.9])
@pytest.mark.parametrize("count", [400, 10_000])
def test_equals_the_definition(p, count, draws, epsilon):
    level = 3.0
    if draws and noise_rate(count * (1 - p), draws, epsilon) < level:
        assert optimistic_mean(p, count, draws, epsilon, level) > 1
        return
    found = optimistic_mean(p, count, draws, epsilon, level)
    assert math.isclose(found, by_definition(p, count, draws, epsilon, level), abs_tol=1e-6)


def test_rate_is_the_cramer_rate_of_the_noise():
    """Against the supremum that defines it, and against a simulated tail: P(sum >= z) <= exp(-rate)."""
    slopes = np.linspace(0, 1, 200_001)[:-1]
    for draws, epsilon, z in ((1, 1.0, 3.0), (4, 0.5, 10.0), (9, 2.0, 1.0)):
        supremum = (slopes * epsilon * z + draws * np.log1p(-(slopes**2))).max()
        assert math.isclose(noise_rate(z, draws, epsilon), supremum, rel_tol=1e-6)
    tail = (np.random.default_rng(0).laplace(0, 1, (200_000, 4)).sum(axis=1) >= 8).mean()
    assert tail < math.exp(-noise_rate(8.0, 4, 1.0))


def test_rises_with_the_level_and_falls_with_data():
    levels = np.linspace(0.0, 12.0, 60)
    for draws in (0, 3):
        values = [optimistic_mean(0.3, 400.0, draws, 0.5, level) for level in levels]
        assert (np.diff(values) >= -1e-9).all()
    counts = [50.0, 500.0, 5000.0, 50_000.0]
    bounds = [optimistic_mean(0.3, n, 2, 1.0, 4.0) for n in counts]
    assert (np.diff(bounds) < 0).all()
    assert bounds[-1] - 0.3 < 0.02


def test_privacy_is_nearly_free_with_many_rewards():
    """Noise that is small against the sampling error hardly moves the bound."""
    assert optimistic_mean(0.5, 1e6, 1, 1.0, 5.0) - optimistic_mean(0.5, 1e6, 0, 1.0, 5.0) < 2e-6


@pytest.mark.parametrize("total", [-1e9, -1.0, 0.0, 1e9])
@pytest.mark.parametrize("epsilon", [1e-6, 1.0, 1e6])
@pytest.mark.parametrize("draws", [0, 1, 100])
def test_any_input_gives_a_number(total, epsilon, draws):
    for count in (0.0, 1.0, 1e12):
        value = optimistic_mean(total / max(count, 1.0), count, draws, epsilon, 2.0)
        assert value > 0
        assert not math.isnan(value)


LEVELS = st.just(0.0) | st.floats(1e-15, 1e-6) | st.floats(1e-6, 12)
"""0, a rounding error of a difference of logarithms, or more."""


@settings(max_examples=300, deadline=None, derandomize=True)
@given(st.floats(-0.3, 1.3), st.floats(1, 1e5), st.integers(0, 40), st.floats(0.05, 5), LEVELS, LEVELS)
def test_what_spares_an_evaluation_is_not_below_it(mean, count, draws, epsilon, level, more):
    """Below 1: the ceiling, and the lines through the mean or its ceiling at all higher levels."""
    found = optimistic_mean(mean, count, draws, epsilon, level)
    ceiling = optimistic_ceiling(mean, count, draws, epsilon, level)
    later = optimistic_mean(mean, count, draws, epsilon, level + more)
    assert ceiling >= 1 or found <= ceiling + ROUNDING
    for start in (found, ceiling):
        line = start + optimistic_gain(mean, start, level) * more
        assert not line < 1 or later <= line + ROUNDING
