"""Calibration against 50 digits: never optimistic, and less than 1e-9 pessimistic in the scale of the noise.

What is looked at, everywhere: by how much (relatively) the noise could be smaller for the exact formula to hold. Below
zero a promise would be broken, by however little.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from fractions import Fraction

import numpy as np
import pytest
from mpmath import mp, mpf
from scipy.optimize import minimize_scalar
from scipy.special import log_ndtr

from fairveil.privacy import conversions
from fairveil.privacy.calibration import Budget, Total, noise_level
from fairveil.privacy.calibration.fits import fit_mu, ideal_delta, objective_root
from fairveil.privacy.grid import COINS, keep_weight, sigma_above
from fairveil.privacy.mechanisms import Gaussian, Laplace
from fairveil.randomness import generator

MOST = 1e-9 * (1 + 1e-5)  # what is raised by 1e-9 is rounded once more
FEW, MANY = 100, 10_000
SWEEPS = [FEW, pytest.param(MANY, marks=pytest.mark.slow)]  # tests/long.txt keeps the long ones for make test-long


def settings(name: str, count: int) -> Iterator[tuple[float, float, float, float]]:
    """epsilon in [1e-3, 50], delta in [1e-12, .1], mu in [1e-3, 20], rho in [1e-6, 30], evenly on log scales."""
    rng = generator(50, "calibration", name)
    low, high = np.log([1e-3, 1e-12, 1e-3, 1e-6]), np.log([50.0, 0.1, 20.0, 30.0])
    for row in np.exp(rng.uniform(low, high, (count, 4))):
        yield tuple(float(one) for one in row)


def exact_delta(mu, epsilon):
    mu, epsilon = mpf(mu), mpf(epsilon)
    return mp.ncdf(mu / 2 - epsilon / mu) - mp.exp(epsilon) * mp.ncdf(-mu / 2 - epsilon / mu)


def spare_mu(mu, epsilon, delta):
    """By how much mu could grow, relatively, to first order: the slope of delta in ln mu is mu phi(mu/2 - eps/mu)."""
    near = mpf(mu) / 2 - mpf(epsilon) / mpf(mu)
    return (mpf(delta) - exact_delta(mu, epsilon)) / (mpf(mu) * mp.npdf(near))


def _root(slope, derivative, *given):
    """Where a rising function is zero: halving in floats, then Newton's steps in 50 digits, the last of which is 0."""
    low, high, plain = 1e-30, 1e30, tuple(float(one) for one in given)
    while high >= low * (1 + 1e-12):
        middle = math.sqrt(low * high)
        low, high = (low, middle) if slope(middle, math.log1p, *plain) > 0 else (middle, high)
    found = mpf(low)
    for _ in range(5):
        step = slope(found, mp.log1p, *given) / derivative(found, *given)
        found -= step
    assert abs(step) < found * mpf(10) ** -40
    return found


def exact_zcdp_epsilon(rho, delta):
    """The least epsilon over all orders 1 + a, and its a: the slope is rho + (ln delta + ln(1 + a))/a^2."""
    rho, log = mpf(rho), mp.log(mpf(delta))
    a = _root(
        lambda a, log1p, rho, log: rho * a * a + log + log1p(a), lambda a, rho, _: 2 * rho * a + 1 / (1 + a), rho, log
    )
    return rho * (1 + a) - mp.log1p(1 / a) - (log + mp.log1p(a)) / a, a


def exact_zcdp_log_delta(rho, epsilon):
    """ln of the least delta over all orders 1 + a, and its a."""
    rho, epsilon = mpf(rho), mpf(epsilon)
    a = _root(
        lambda a, log1p, rho, epsilon: rho * (1 + 2 * a) - epsilon - log1p(1 / a),
        lambda a, rho, _: 2 * rho + 1 / (a * (1 + a)),
        rho,
        epsilon,
    )
    return a * (rho * (1 + a) - epsilon - mp.log1p(1 / a)) - mp.log1p(a), a


def sound(spare) -> bool:
    return bool(0 <= spare <= MOST)


@pytest.fixture(autouse=True)
def _fifty_digits():
    with mp.workdps(50):
        yield


@pytest.mark.parametrize("count", SWEEPS)
def test_gaussian_dp(count):
    for epsilon, delta, mu, _ in settings("gdp", count):
        calibrated = conversions.gdp_mu(epsilon, delta)
        assert sound(spare_mu(calibrated, epsilon, delta)), (epsilon, delta)
        converted = conversions.gdp_epsilon(mu, delta)
        if converted > 0:
            assert sound(spare_mu(mu, converted, delta)), (mu, delta)
        else:
            assert exact_delta(mu, 0) <= delta
        bound, exact = conversions.gdp_delta(mu, epsilon), exact_delta(mu, epsilon)
        if exact > 1e-290:  # below, floats have no digits left
            assert exact <= bound, (mu, epsilon)
            # a delta close to 1 has no slope in the noise: there it is right to 14 digits
            assert bound <= exact * (1 + mpf(10) ** -14) or sound(spare_mu(mu, epsilon, bound)), (mu, epsilon)


@pytest.mark.parametrize("count", SWEEPS)
def test_zcdp(count):
    for epsilon, delta, _, rho in settings("zcdp", count):
        exact, a = exact_zcdp_epsilon(rho, delta)
        if exact > 0:
            assert sound((conversions.zcdp_epsilon(rho, delta) - exact) / (2 * rho * (1 + a))), (rho, delta)
        largest = conversions.zcdp_rho(epsilon, delta)
        exact, a = exact_zcdp_epsilon(largest, delta)
        assert sound((epsilon - exact) / (2 * largest * (1 + a))), (epsilon, delta)
        bound = conversions.zcdp_delta(rho, epsilon)
        exact, a = exact_zcdp_log_delta(rho, epsilon)
        if 1e-290 < bound < 1:
            spare = mp.log(mpf(bound)) - exact
            assert spare >= 0, (rho, epsilon)
            if bound <= 0.5:  # a larger delta promises nothing, and close to 1 it has no slope in the noise
                assert sound(spare / (2 * rho * a * (1 + a))), (rho, epsilon)


@pytest.mark.parametrize("count", SWEEPS)
def test_pure_in_other_currencies(count):
    for epsilon, _, mu, _ in settings("pure", count):
        e, order = mpf(epsilon), mpf(1 + mu)
        assert sound((conversions.pure_rho(epsilon) / (e * mp.tanh(e / 2)) - 1) / 2)
        wanted = -2 * mp.sqrt(2) * mp.erfinv(2 / (1 + mp.exp(e)) - 1)
        assert wanted <= conversions.pure_mu(epsilon) <= wanted * (1 + MOST)
        renyi = mp.log(mp.cosh((order - mpf(1) / 2) * e) / mp.cosh(e / 2)) / (order - 1)
        assert renyi <= conversions.pure_renyi(epsilon, 1 + mu) <= renyi * (1 + MOST), (epsilon, mu)


@pytest.mark.parametrize("count", SWEEPS)
def test_scales_and_splits(count):
    rng = generator(50, "scales")
    for epsilon, _, mu, rho in settings("scales", count):
        length, parts = float(np.exp(rng.uniform(-5, 5))), int(rng.integers(1, 40))
        assert sound(mpf(noise_level(length, mu)) * mpf(mu) / mpf(length) - 1)
        assert sound(mpf(sigma_above(length, rho)) * mp.sqrt(2 * mpf(rho)) / mpf(length) - 1)
        assert sound(mpf(noise_level(length, Budget(rho=rho).first_mu())) * mp.sqrt(2 * mpf(rho)) / mpf(length) - 1)
        laplace = Laplace(sensitivity=length, epsilon=epsilon, dimension=parts)
        assert sound(mpf(laplace.scale_units) * mpf(epsilon) / laplace.sensitivity_units - 1)
        assert laplace.sensitivity_units - parts + 1 >= Fraction(length) * Fraction(2) ** laplace.bits
        gaussian = Gaussian(sensitivity=length, mu=mu, dimension=parts)
        units = Fraction(length) * Fraction(2) ** gaussian.plan.bits
        enough = mpf(gaussian.plan.sigma_units) * mpf(mu)
        assert enough >= mpf(units.numerator) / mpf(units.denominator) + (mp.sqrt(parts) if parts > 1 else 0)
        odds = Fraction(keep_weight(epsilon), COINS - keep_weight(epsilon))
        assert mpf(odds.numerator) / mpf(odds.denominator) <= mp.exp(mpf(epsilon))
        shares = rng.dirichlet(np.ones(parts))
        total = Total(mu * math.sqrt(1 - 2.0**-40))  # as `calibrated` makes it
        spent = mp.fsum(mpf(total.share(float(share))["mu"]) ** 2 for share in shares)
        assert sound(mpf(mu) / mp.sqrt(spent) - 1)


@pytest.mark.parametrize("count", [30, pytest.param(2_000, marks=pytest.mark.slow)])
def test_fits_of_learners(count):
    rng = generator(50, "fits")
    for epsilon, delta, _, _ in settings("fits", count):
        if epsilon > 8:
            continue  # a grid leaves no delta there
        fits, jacobian = int(rng.integers(1, 10)), 0.001 * epsilon
        left = ideal_delta(epsilon, delta, fits)
        together = mpf(fit_mu(epsilon, delta, fits)) * mp.sqrt(fits)
        assert sound(spare_mu(together, epsilon, left))
        for count in (1, fits):
            assert sound(
                spare_objective(objective_root(epsilon, delta, count, jacobian), jacobian, delta, count, epsilon)
            )


def spare_objective(root, jacobian, delta, fits, epsilon):
    """By how much the root of objective perturbations could grow: by the curve, or for one fit by its delta, which is
    known where epsilon without the determinant is at least half the root's square."""
    r, a, far = mpf(root), mpf(_objective_order(root, jacobian, delta, fits)), mpf(epsilon) - mpf(jacobian)
    slope = fits * ((1 + a) * r**2 + mp.npdf(a * r) / mp.ncdf(a * r) * r)
    found = (mpf(epsilon) - _objective_curve(root, jacobian, delta, fits, a)) / slope
    if fits > 1 or far < r**2 / 2:
        return found
    by_delta = (mpf(delta) - 2 * exact_delta(root, far)) / (2 * r * mp.npdf(r / 2 - far / r))
    return max(found, min(by_delta, mp.sqrt(2 * far) / r - 1))


def _objective_curve(root, jacobian, delta, fits, a):
    """Epsilon of so many Gaussian objective perturbations at order 1 + a, in 50 digits."""
    v = mpf(root) ** 2
    curve = fits * (mpf(jacobian) + (1 + a) * v / 2 + (mp.log(2) + mp.log(mp.ncdf(a * mpf(root)))) / a)
    return curve - mp.log1p(1 / a) - (mp.log(mpf(delta)) + mp.log1p(a)) / a


def _objective_order(root, jacobian, delta, fits) -> float:
    """The best order of the curve, in floats: between the neighbours of the best one of a grid."""

    def curve(a):
        part = fits * (jacobian + (1 + a) * root**2 / 2 + (math.log(2) + log_ndtr(a * root)) / a)
        return part - np.log1p(1 / a) - (math.log(delta) + np.log1p(a)) / a

    orders = np.geomspace(1e-2, 1e5, 60)
    best = int(np.argmin(curve(orders)))
    low, high = orders[max(best - 1, 0)], orders[min(best + 1, len(orders) - 1)]
    return float(minimize_scalar(curve, bounds=(low, high), options={"xatol": 1e-9 * low}).x)
