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
def index(rule, total, count, log_now, par):  # type: ignore[no-untyped-def]
    """The optimistic value of one arm; never falls when ``log_now`` rises."""
    if count == 0:
        return np.inf
    n = float(count)
    if rule == UCB:  # par: bonus factor
        return total / n + math.sqrt(par[0] * log_now / n)
    if rule == NCB:  # par: factor of sqrt(mean / n)
        mean = total / n
        return mean + par[0] * math.sqrt(mean / n)
    mean = (total / n - par[0]) / par[1]  # par[0:2] decode the mean of reports
    if rule == LOCAL_NCB:  # par[2:5]: factors of sqrt(mean / n), 1 / sqrt(n) and n^(-3/4)
        mean = min(1.0, max(0.0, mean))
        root = math.sqrt(n)
        return mean + par[2] * math.sqrt(mean) / root + par[3] / root + par[4] / (root * math.sqrt(root))
    if n <= par[3] * log_now:  # LOCAL_UCB, par[2:4]: squared bonus factor, forced pulls while n <= par[3] ln t
        return np.inf
    return mean + math.sqrt(par[2] * log_now / n)


@njit(cache=True, nogil=True)
def best_arm(rule, totals, counts, log_now, par):  # type: ignore[no-untyped-def]
    """The lowest arm whose index is largest: the definition that faster searches must agree with."""
    arm, best = 0, -np.inf
    for i in range(counts.size):
        value = index(rule, totals[i], counts[i], log_now, par)
        if value > best:
            arm, best = i, value
    return arm
