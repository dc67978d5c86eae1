"""Conversions against high-precision arithmetic, brute force and the inverse direction."""

from __future__ import annotations

import math

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairveil.errors import SpecError
from fairveil.privacy.conversions import (
    GRID_CONSTANT,
    LEAST,
    gdp_delta,
    gdp_epsilon,
    gdp_mu,
    grid_correction,
    pure_mu,
    pure_renyi,
    pure_rho,
    zcdp_delta,
    zcdp_epsilon,
    zcdp_rho,
)

EPSILONS = [1e-6, 0.01, 0.2, 1.0, 5.0, 15.0, 300.0]
DELTAS = [0.1, 1e-5, 1e-12, 1e-100, 1e-299]


def exact_gdp_delta(mu: float, epsilon: float) -> mpmath.mpf:
    with mpmath.workdps(60):
        m, e = mpmath.mpf(mu), mpmath.mpf(epsilon)
        return mpmath.ncdf(m / 2 - e / m) - mpmath.exp(e) * mpmath.ncdf(-m / 2 - e / m)


@pytest.mark.parametrize("mu", [1e-3, 0.1, 1.0, 5.0, 30.0])
@pytest.mark.parametrize("epsilon", [0.0, *EPSILONS])
def test_gdp_delta_keeps_its_digits(mu, epsilon):
    exact = exact_gdp_delta(mu, epsilon)
    if exact > 1e-300:
        assert gdp_delta(mu, epsilon) == pytest.approx(float(exact), rel=1e-9)


@pytest.mark.parametrize(
    ("epsilon", "delta", "mu"),
    [(15, 0.1, 4.497), (15, 1e-5, 2.763), (2, 0.1, 1.366), (2, 1e-5, 0.502), (1, 1e-5, 0.268), (0.2, 1e-5, 0.0613)],
)
def test_known_calibrations(epsilon, delta, mu):
    assert gdp_mu(float(epsilon), delta) == pytest.approx(mu, abs=6e-4)


@pytest.mark.parametrize("epsilon", EPSILONS)
@pytest.mark.parametrize("delta", DELTAS)
def test_calibration_meets_the_target_and_a_little_more_does_not(epsilon, delta):
    mu = gdp_mu(epsilon, delta)
    assert gdp_delta(mu, epsilon) <= delta
    assert gdp_delta(mu * (1 + 1e-6), epsilon) > delta
    assert gdp_epsilon(mu, delta) <= epsilon * (1 + 1e-6)
    rho = zcdp_rho(epsilon, delta)
    assert zcdp_epsilon(rho, delta) <= epsilon
    assert zcdp_epsilon(rho * (1 + 1e-6), delta) > epsilon
    assert math.sqrt(2 * rho) <= mu  # a Gaussian is one of the rho-zCDP mechanisms
    assert zcdp_delta(rho, epsilon) == pytest.approx(delta, rel=1e-6)


@given(st.floats(1e-6, 100), st.sampled_from(DELTAS))
def test_zcdp_epsilon_is_the_best_order_and_never_above_the_textbook(rho, delta):
    found = zcdp_epsilon(rho, delta)
    assert found <= rho + 2 * math.sqrt(rho * math.log(1 / delta))
    for order in 1 + np.geomspace(1e-6, 1e9, 300):
        bound = rho * order + math.log1p(-1 / order) - math.log(delta * order) / (order - 1)
        assert found <= max(0.0, bound) * (1 + 1e-7) + 1e-12


@given(st.floats(1e-3, 8), st.floats(1e-3, 6))
def test_zcdp_delta_covers_the_gaussian_and_inverts_epsilon(mu, epsilon):
    delta = zcdp_delta(mu * mu / 2, epsilon)
    assert delta >= gdp_delta(mu, epsilon) * (1 - 1e-9)
    if 1e-280 < delta < 0.5:
        assert zcdp_epsilon(mu * mu / 2, delta) == pytest.approx(epsilon, rel=1e-5, abs=1e-8)


@pytest.mark.parametrize("epsilon", [1e-3, 0.1, 0.5, 1.0, 2.0, 5.0, 10.0, 50.0])
def test_pure_renyi_is_randomized_response_and_pure_rho_covers_every_order(epsilon):
    heavy = 1 / (1 + math.exp(-epsilon))
    light = heavy * math.exp(-epsilon)
    for order in [1.001, 1.5, 2.0, 7.0, 40.0]:
        with mpmath.workdps(40):
            p, q, a = mpmath.mpf(heavy), mpmath.mpf(light), mpmath.mpf(order)
            exact = float(mpmath.log(p**a * q ** (1 - a) + q**a * p ** (1 - a)) / (a - 1))
        assert pure_renyi(epsilon, order) == pytest.approx(exact, rel=1e-7, abs=1e-12)
    divergences = [pure_renyi(epsilon, order) / order for order in 1 + np.geomspace(1e-2, 1e4, 400)]
    assert max(divergences) <= pure_rho(epsilon)
    assert pure_rho(epsilon) == pytest.approx(max(divergences), rel=0.02)  # nothing smaller would do
    assert pure_rho(epsilon) <= epsilon**2 / 2 * (1 + 1e-8)


def response_delta(epsilon: float, at: float) -> float:
    """The exact delta of epsilon-randomized response."""
    heavy = 1 / (1 + math.exp(-epsilon))
    return max(0.0, heavy - math.exp(at) * heavy * math.exp(-epsilon))


@pytest.mark.parametrize("epsilon", [1e-4, 0.1, 1.0, 4.0, 20.0])
def test_pure_mu_covers_randomized_response_and_touches_it(epsilon):
    mu = pure_mu(epsilon)
    grid = np.linspace(0, 1.5 * epsilon, 400)
    assert all(gdp_delta(mu, at) >= response_delta(epsilon, at) - 1e-15 for at in grid)
    smaller = mu * (1 - 1e-4)
    assert response_delta(epsilon, 0.0) > gdp_delta(smaller, 0.0)  # total variation is where they touch


@pytest.mark.parametrize("sigma", [1.0, 2.0, 4.0, 16.0, 64.0])
@pytest.mark.parametrize("shift", [1, 2])
def test_grid_correction_covers_the_discrete_gaussian(sigma, shift):
    """Exact delta of the discrete Gaussian against the Gaussian's plus the correction, and it is needed."""
    points = np.arange(-int(40 * sigma) - 5, int(40 * sigma) + 6)
    law = np.exp(-0.5 * (points / sigma) ** 2)
    law /= law.sum()
    moved = np.exp(-0.5 * ((points - shift) / sigma) ** 2)
    moved /= moved.sum()
    mu, excess = shift / sigma, []
    for epsilon in [0.05, 0.2, 0.5, 1.0]:
        exact = float(np.maximum(law - math.exp(epsilon) * moved, 0).sum())
        assert exact <= gdp_delta(mu, epsilon) + grid_correction(epsilon, GRID_CONSTANT / sigma**2) + 1e-14
        excess.append(exact - gdp_delta(mu, epsilon))
    if sigma <= 16:
        assert max(excess) > 0


@pytest.mark.parametrize("bad", [0.0, -1.0, 5e-324, 1e-306, math.nan, math.inf, "1", True, None])
def test_bad_numbers_fail_closed(bad):
    for call in (
        lambda: gdp_mu(bad, 1e-5),
        lambda: gdp_mu(1.0, bad),
        lambda: gdp_epsilon(bad, 1e-5),
        lambda: zcdp_rho(bad, 1e-5),
        lambda: zcdp_rho(1.0, bad),
        lambda: zcdp_epsilon(bad, 1e-5),
        lambda: zcdp_delta(bad, 1.0),
        lambda: pure_rho(bad),
        lambda: pure_mu(bad),
        lambda: gdp_delta(bad, 1.0),
    ):
        with pytest.raises(SpecError):
            call()


@pytest.mark.parametrize("small", [LEAST, 1e-200])
def test_tiny_numbers_are_converted(small):
    assert 0 <= zcdp_epsilon(small, small) <= 1e-90
    assert 0 <= zcdp_delta(small, 1e300) <= 1
    assert 0 < zcdp_rho(small, 1e-5) < 1e-9
    assert 0 < gdp_mu(small, 1e-5) < 1e-4


def test_delta_of_one_or_more_is_refused():
    with pytest.raises(SpecError, match="delta"):
        gdp_mu(1.0, 1.0)


def test_correction_at_a_huge_epsilon_is_infinite_not_an_overflow():
    assert grid_correction(1e4, 1e-20) == math.inf


def test_the_gaussian_parameter_of_a_tiny_epsilon_keeps_its_digits():
    for power in range(-300, -5):
        ratio = pure_mu(10.0**power) / 10.0**power
        assert np.sqrt(np.pi / 2) < ratio < np.sqrt(np.pi / 2) * (1 + 2e-9), power
