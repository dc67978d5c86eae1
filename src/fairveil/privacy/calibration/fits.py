"""From (epsilon, delta) over all planned retrainings to what one fit may spend, and back. Public numbers only."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache

from scipy.special import log_ndtr

from fairveil.errors import SpecError
from fairveil.privacy.conversions import GRID_CONSTANT, gdp_delta, gdp_epsilon, gdp_mu, grid_correction

MAX_WIDTH = 4096
"""Most columns (with the intercept) of a private fit: the grid correction is charged for this many draws."""
GRID_SIGMA = 2.0**30
"""Gaussian noise is drawn with a standard deviation of at least this many grid units."""
TOLERANCE_SHARE = 0.01
"""Share of epsilon that objective perturbation spends on hiding the solver's tolerance and the grid."""
TAILS = {"gaussian": 20.0, "pure": 800.0}
"""The tolerance is proved for noise in the objective of at most so many scales a coordinate; a coordinate is beyond
with a probability below exp(-199) (Gaussian: charged to delta) or exp(-799) (Laplace: no float is that small)."""


def grid_delta(epsilon: float, fits: int) -> float:
    """What discrete noise adds to delta over ``fits`` fits of at most MAX_WIDTH draws each.

    One more draw is charged for each fit; it is far more than the chance of noise beyond TAILS.
    """
    return grid_correction(epsilon, fits * (MAX_WIDTH + 1) * GRID_CONSTANT / GRID_SIGMA**2)


def ideal_delta(epsilon: float, delta: float, fits: int) -> float:
    """The delta that is left for ideal noise once the grid has been paid for."""
    left = delta - grid_delta(epsilon, fits)
    if left < delta / 2:
        raise SpecError(
            "epsilon is too large for Gaussian noise on a grid", path="epsilon", given=epsilon,
            allowed="at most about 20", fix="ask for a smaller epsilon, or for a pure guarantee where there is one",
        )  # fmt: skip
    return left


@lru_cache(maxsize=256)
def fit_mu(epsilon: float, delta: float, fits: int) -> float:
    """Gaussian-DP parameter of one of ``fits`` fits that together cost (epsilon, delta).

    >>> round(fit_mu(1.0, 1e-5, 4) * 2 / fit_mu(1.0, 1e-5, 1), 6)
    1.0
    """
    return gdp_mu(epsilon, ideal_delta(epsilon, delta, fits)) / math.sqrt(fits) * (1 - 1e-12)


def spent_gaussian(mu: float, delta: float, epsilon: float, planned: int, fits: int) -> float:
    """Epsilon after ``fits`` fits of ``mu`` each, at the delta left by the grid; ``epsilon`` is the planned total."""
    return min(epsilon, gdp_epsilon(mu * math.sqrt(fits), ideal_delta(epsilon, delta, planned)))


def objective_delta(root: float, jacobian: float, epsilon: float) -> float:
    """Delta of one Gaussian objective perturbation at epsilon: noise std is (row norm)/root, rows removed or added.

    The privacy loss is at most jacobian + root^2/2 + root |X| for a standard normal X, whose upper tail is twice a
    Gaussian one: delta = 2 delta_gauss(root, epsilon - jacobian) where epsilon - jacobian >= root^2/2
    (Redberg, Koskela and Wang 2023). Below that point no bound under one is claimed.
    """
    left = epsilon - jacobian
    return 2 * gdp_delta(root, left) if left > 0 and left >= root * root / 2 else 1.0


def objective_epsilon(root: float, jacobian: float, delta: float, fits: int) -> float:
    """Epsilon of ``fits`` adaptive Gaussian objective perturbations at delta, by the Renyi curve; never below zero.

    Order a of one fit costs jacobian + a v/2 + log(2 Phi((a-1) sqrt v))/(a-1), v = root^2; costs add over fits.
    """
    v = root * root

    def curve(order: float) -> float:
        excess = order - 1
        return fits * (jacobian + order * v / 2 + (math.log(2) + float(log_ndtr(excess * root))) / excess)

    found = curve_epsilon(curve, delta, fits * v)
    if fits == 1:
        return min(found, _smallest(lambda eps: objective_delta(root, jacobian, eps) <= delta, jacobian + v / 2))
    return found


def curve_epsilon(curve: Callable[[float], float], delta: float, spread: float) -> float:
    """Epsilon at delta of a Renyi curve (cost by order), at the best order; never below zero.

    ``spread`` is about the squared size of the noise-free shift (mu^2 of a Gaussian): the best order is searched for
    around sqrt(2 ln(1/delta)/spread). Conversion: Canonne, Kamath and Steinke (2020).
    """
    from scipy.optimize import minimize_scalar

    def epsilon(log_excess: float) -> float:
        excess = math.exp(log_excess)
        order = 1 + excess
        return curve(order) + (math.log(1 / delta) + excess * math.log1p(-1 / order) - math.log(order)) / excess

    centre = math.log(math.sqrt(2 * math.log(1 / delta) / spread) + 1e-300)
    best = minimize_scalar(epsilon, bounds=(centre - 8, centre + 8), method="bounded", options={"xatol": 1e-10})
    return max(0.0, float(best.fun)) * (1 + 1e-9)


@lru_cache(maxsize=256)
def objective_root(epsilon: float, delta: float, fits: int, jacobian: float) -> float:
    """The largest root (smallest noise) for which ``fits`` Gaussian objective perturbations cost (epsilon, delta)."""
    low = high = 1e-6
    if fits * jacobian >= epsilon or objective_epsilon(low, jacobian, delta, fits) > epsilon:
        raise too_weak(epsilon, fits)
    while objective_epsilon(high, jacobian, delta, fits) <= epsilon:
        low, high = high, high * 2
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if objective_epsilon(middle, jacobian, delta, fits) <= epsilon else (low, middle)
    return low


def too_weak(epsilon: float, fits: int) -> SpecError:
    """The regularisation leaves no budget for noise."""
    return SpecError(
        "the regularisation is too weak for objective perturbation at this budget", path="strength",
        given={"epsilon": epsilon, "fits": fits}, fix="raise strength, raise epsilon, or use method='output'",
    )  # fmt: skip


def _smallest(holds: Callable[[float], bool], low: float) -> float:
    high = max(2 * low, 1e-3)
    while not holds(high):
        high *= 2
        if high > 1e6:
            return math.inf
    for _ in range(80):
        middle = (low + high) / 2
        low, high = (low, middle) if holds(middle) else (middle, high)
    return high
