"""Measuring the Gaussian-DP parameter of sums: shift of a projection in units of its standard deviation."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import ndtri

from fairveil.errors import InputError


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
