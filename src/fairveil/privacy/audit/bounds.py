"""Confidence bounds: from hit counts to a lower bound on epsilon."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.stats import beta


def clopper_pearson(hits: ArrayLike, trials: int, error: float) -> tuple[Any, Any]:
    """Exact lower and upper confidence limits of a hit probability; each is wrong with probability at most ``error``.

    >>> low, high = clopper_pearson(0, 100, 0.025)
    >>> float(low), round(float(high), 4)
    (0.0, 0.0362)
    """
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
    error = (1 - confidence) / 2
    low, _ = clopper_pearson(hits, trials, error)
    _, high = clopper_pearson(other_hits, other_trials, error)
    with np.errstate(divide="ignore"):
        bound = np.log(np.maximum(low - delta, 0.0)) - np.log(high)
    return np.maximum(bound, 0.0)
