"""The index of every policy of this family as compiled code: one place for the formulas.

An index takes the sum and number of an arm's rewards (or reports), the logarithm of the current round, and the
policy's parameters. Arms without rewards have an infinite index.
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit
from numpy.typing import NDArray

UCB, NCB, LOCAL_NCB, LOCAL_UCB = range(4)
PARAMETERS = 8


def parameters(*values: float) -> NDArray[np.float64]:
    """A parameter vector of fixed length for compiled code."""
    return np.array([*values, *[0.0] * (PARAMETERS - len(values))], np.float64)


@njit(cache=True, nogil=True)
def index(rule, total, count, log_now, a, b, c, d, e):  # type: ignore[no-untyped-def]
    """The optimistic value of one arm; never falls when ``log_now`` rises. a to e are the policy's parameters.

    Numbers only: handing arrays to a function that runs every round costs more than the function.
    """
    if count == 0:
        return np.inf
    n = float(count)
    if rule == UCB:  # a: bonus factor
        return total / n + math.sqrt(a * log_now / n)
    if rule == NCB:  # a: factor of sqrt(mean / n)
        mean = total / n
        return mean + a * math.sqrt(mean / n)
    mean = (total / n - a) / b  # a, b decode the mean of reports
    if rule == LOCAL_NCB:  # c, d, e: factors of sqrt(mean / n), 1 / sqrt(n) and n^(-3/4)
        mean = min(1.0, max(0.0, mean))
        root = math.sqrt(n)
        return mean + c * math.sqrt(mean) / root + d / root + e / (root * math.sqrt(root))
    if n <= d * log_now:  # LOCAL_UCB: forced pulls while n <= d ln t, then c: squared bonus factor
        return np.inf
    return mean + math.sqrt(c * log_now / n)


@njit(cache=True, nogil=True)
def best_arm(rule, totals, counts, log_now, par):  # type: ignore[no-untyped-def]
    """The lowest arm whose index is largest: the definition that faster searches must agree with."""
    arm, best = 0, -np.inf
    for i in range(counts.size):
        value = index(rule, totals[i], counts[i], log_now, par[0], par[1], par[2], par[3], par[4])
        if value > best:
            arm, best = i, value
    return arm
