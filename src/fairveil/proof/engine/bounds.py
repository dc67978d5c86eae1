"""Confidence bounds: from hit counts in two worlds to a lower bound on epsilon, mu or rho.

Each bound holds for an event that was fixed before its hits were counted.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import ndtri

from fairveil.errors import InputError
from fairveil.privacy.conversions import gdp_delta, zcdp_delta

CONVERTED = 1 + 1e-6
"""Rounding that a conversion between claims may show."""
ORDERS = (1.0001, 1.1, 1.5, 2.0, 4.0, 8.0, 16.0, 64.0)
"""Renyi orders at which a zCDP claim is tested."""


def clopper_pearson(hits: ArrayLike, trials: int, error: float) -> tuple[Any, Any]:
    """Exact lower and upper confidence limits of a hit probability; each is wrong with probability at most ``error``.

    >>> low, high = clopper_pearson(0, 100, 0.025)
    >>> float(low), round(float(high), 4)
    (0.0, 0.0362)
    """
    from scipy.stats import beta

    k = np.asarray(hits, np.float64)
    low = np.where(k > 0, beta.ppf(error, np.maximum(k, 1), trials - k + 1), 0.0)
    high = np.where(k < trials, beta.ppf(1 - error, k + 1, np.maximum(trials - k, 1)), 1.0)
    return low, high


def epsilon_lower(
    hits: ArrayLike, other_hits: ArrayLike, trials: int, other_trials: int, delta: float, confidence: float
) -> Any:
    """Lower bound on epsilon from an event's hits in two worlds: ln((p_low - delta) / q_high), at least 0.

    (epsilon, delta)-DP means p <= e^epsilon q + delta for the event fixed beforehand. Each limit may fail with half of
    1 - confidence, so the bound holds with the whole confidence.
    """
    low, high = _limits(hits, other_hits, trials, other_trials, confidence)
    with np.errstate(divide="ignore"):
        bound = np.log(np.maximum(low - delta, 0.0)) - np.log(high)
    return np.maximum(bound, 0.0)


def mu_lower(
    hits: ArrayLike, other_hits: ArrayLike, trials: int, other_trials: int, distance: float, confidence: float
) -> Any:
    """Lower bound on mu: Phi^-1(p_low) - Phi^-1(q_high), at least 0.

    mu-Gaussian DP means Phi^-1(p) <= Phi^-1(q) + mu for every event (Dong, Roth and Su 2022). Nothing is assumed about
    the law of the output. ``distance`` is how far (in total variation) the noise may be from Gaussian in each world.
    """
    low, high = _limits(hits, other_hits, trials, other_trials, confidence)
    bound = ndtri(np.maximum(low - distance, 0.0)) - ndtri(np.minimum(high + distance, 1.0))
    return np.maximum(bound, 0.0)


def rho_lower(hits: ArrayLike, other_hits: ArrayLike, trials: int, other_trials: int, confidence: float) -> Any:
    """Lower bound on rho: the largest D_a(p_low || q_high) / a over Renyi orders a, at least 0.

    rho-zCDP means D_a <= a rho for all orders, also for the coin that says whether an event happened. A coin shows at
    most 2/pi of the divergence of a small Gaussian shift, so this bound stays below two thirds of a tight rho.
    """
    low, high = _limits(hits, other_hits, trials, other_trials, confidence)
    p, q = np.clip(low, 1e-300, 1 - 1e-16), np.clip(high, 1e-300, 1 - 1e-16)
    best = np.zeros_like(p)
    for order in ORDERS:
        inside = order * np.log(p) + (1 - order) * np.log(q)
        outside = order * np.log1p(-p) + (1 - order) * np.log1p(-q)
        best = np.maximum(best, np.logaddexp(inside, outside) / (order * (order - 1)))
    return np.where(low > high, best, 0.0)


@dataclass(frozen=True)
class FinerClaim:
    """A claim beside (epsilon, delta) that shows far more of Gaussian noise: ``name`` is mu or rho."""

    name: str
    value: float
    distance: float = 0.0

    def lower(self, hits: Any, other_hits: Any, trials: int, other_trials: int, confidence: float) -> Any:
        if self.name == "rho":
            return rho_lower(hits, other_hits, trials, other_trials, confidence)
        return mu_lower(hits, other_hits, trials, other_trials, self.distance, confidence)

    def gives(self, epsilon: float, delta: float) -> bool:
        """Whether this claim implies (epsilon, delta), by formulas that calibrate nothing."""
        implied = zcdp_delta(self.value, epsilon) if self.name == "rho" else gdp_delta(self.value, epsilon)
        return implied <= delta * CONVERTED


@dataclass(frozen=True)
class CurveClaim:
    """A claim by a whole curve: an event of chance q has at most e^epsilon q + delta(value, epsilon) next door.

    ``delta(value, epsilon)`` grows with ``value``; the bound is the largest value that the hits contradict, at any
    epsilon. Few epsilons and few values are tried, which can only make it smaller.
    """

    name: str
    value: float
    delta: Callable[[float, float], float]

    @cached_property
    def _curves(self) -> tuple[Any, Any, Any]:
        """Values beside the claimed one, epsilons, and their deltas."""
        values, epsilons = self.value * np.geomspace(0.4, 2.5, 40), np.geomspace(0.05, 20.0, 48)
        return values, epsilons, np.array([[self.delta(value, one) for one in epsilons] for value in values])

    def lower(self, hits: Any, other_hits: Any, trials: int, other_trials: int, confidence: float) -> Any:
        low, high = _limits(hits, other_hits, trials, other_trials, confidence)
        values, epsilons, deltas = self._curves
        p, q = np.asarray(low)[..., None], np.asarray(high)[..., None, None]
        allowed = (np.exp(epsilons) * q + deltas).min(axis=-1)
        return np.where(p > allowed, values, 0.0).max(axis=-1)


def _limits(hits: ArrayLike, other_hits: ArrayLike, trials: int, other_trials: int, confidence: float) -> Any:
    """p from below and q from above; each may fail with half of 1 - confidence."""
    error = (1 - confidence) / 2
    return clopper_pearson(hits, trials, error)[0], clopper_pearson(other_hits, other_trials, error)[1]


@dataclass(frozen=True)
class MuEstimate:
    """``mu`` with two-sided limits at ``confidence``."""

    mu: float
    low: float
    high: float
    confidence: float


def estimate_mu(first: ArrayLike, second: ArrayLike, confidence: float = 0.95) -> MuEstimate:
    """Estimate mu from a statistic that is Gaussian with the same variance in both worlds.

    Project the released values on the direction of the difference between the worlds; then mu = |mean shift| / std.
    The limits use the large-sample variance of that ratio, 1/n0 + 1/n1 + mu^2 / (2 (n0 + n1)).

    >>> rng = np.random.default_rng(1)
    >>> found = estimate_mu(rng.normal(0, 2, 50_000), rng.normal(1, 2, 50_000))
    >>> found.low < 0.5 < found.high
    True
    """
    a, b = np.asarray(first, np.float64), np.asarray(second, np.float64)
    if a.ndim != 1 or b.ndim != 1 or min(len(a), len(b)) < 10:
        raise InputError("the projection statistic is one number a trial", allowed="two vectors of at least 10 trials")
    freedom = len(a) + len(b) - 2
    pooled = math.sqrt(((len(a) - 1) * a.var(ddof=1) + (len(b) - 1) * b.var(ddof=1)) / freedom)
    shift = abs(float(b.mean() - a.mean()))
    if pooled == 0.0:
        mu = math.inf if shift > 0 else 0.0
        return MuEstimate(mu, mu, mu, confidence)
    mu = shift / pooled
    spread = float(ndtri((1 + confidence) / 2)) * math.sqrt(1 / len(a) + 1 / len(b) + mu**2 / (2 * freedom))
    return MuEstimate(mu, max(0.0, mu - spread), mu + spread, confidence)
