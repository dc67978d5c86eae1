"""Welfare of many people as one number: the p-mean family, with the geometric (Nash) mean at p = 0.

p = 1 is the average, p = 0 the geometric mean, p -> -inf the minimum. The smaller p, the more the worst-off count; a
p-mean never falls when p rises (power mean inequality). Everything is computed from logarithms, so values such as
(2e)^-1000 that underflow keep their weight.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike

from fairveil.arrays import Floats
from fairveil.errors import InputError, SpecError


def p_mean(values: ArrayLike, p: float, weights: ArrayLike | None = None) -> float:
    """The p-mean of non-negative values, p at most 1; ``p=-inf`` is the minimum.

    >>> [round(p_mean([1.0, 4.0], p), 3) for p in (1, 0, -1, -math.inf)]
    [2.5, 2.0, 1.6, 1.0]
    """
    array = np.asarray(values, np.float64)
    if array.size == 0 or not (array >= 0).all() or not np.isfinite(array).all():
        raise InputError("a p-mean needs non-negative finite values", path="values", allowed="at least one, each >= 0")
    with np.errstate(divide="ignore"):
        return math.exp(log_p_mean(np.log(array), p, weights))


def log_p_mean(log_values: ArrayLike, p: float, weights: ArrayLike | None = None) -> float:
    """The logarithm of the p-mean, from logarithms of the values (-inf stands for 0)."""
    logs = np.asarray(log_values, np.float64)
    share = _shares(logs, weights)
    check_power(p)
    logs, share = logs[share > 0], share[share > 0]
    if p == -math.inf:
        return float(logs.min())
    if p == 0:
        return float(np.dot(share, logs))
    if p < 0 and np.isneginf(logs).any():
        return -math.inf
    terms = p * logs
    top = terms.max()
    if np.isneginf(top):
        return -math.inf
    if top - terms.min() < 1:  # near the geometric mean: measure from it, where nothing cancels for small p
        middle = float(np.dot(share, logs))
        return middle + math.log1p(np.dot(share, np.expm1(p * (logs - middle)))) / p
    return float((top + math.log(np.dot(share, np.exp(terms - top)))) / p)


def nash_welfare(values: ArrayLike, weights: ArrayLike | None = None) -> float:
    """The geometric mean.

    >>> round(nash_welfare([1.0, 4.0]), 6)
    2.0
    """
    return p_mean(values, 0.0, weights)


def check_power(p: float) -> float:
    """A p-mean is a welfare only for p <= 1."""
    if isinstance(p, bool) or not isinstance(p, int | float) or math.isnan(p) or p > 1:
        raise SpecError("this power gives no welfare", path="p", given=p, allowed="a number at most 1")
    return float(p)


def _shares(logs: Floats, weights: ArrayLike | None) -> Floats:
    if logs.size == 0 or np.isnan(logs).any():
        raise InputError("a p-mean needs values", path="values", allowed="at least one number")
    if weights is None:
        return np.full(logs.shape, 1.0 / logs.size)
    share = np.asarray(weights, np.float64)
    if share.shape != logs.shape or not np.isfinite(share).all() or (share < 0).any() or share.sum() <= 0:
        raise InputError("the weights do not fit", path="weights", allowed="one weight >= 0 a value, sum > 0")
    return share / share.sum()
