"""What one threshold is worth in one group when the unqualified may manipulate: values and slopes, compiled."""

from __future__ import annotations

import numpy as np
from numba import njit

from fairveil.dynamics.kernels import both, cdf, pdf


@njit(cache=True, nogil=True)
def benefit(c0: int, p0: np.ndarray, c1: int, p1: np.ndarray, x: float) -> float:
    """F0(x) - F1(x): what an unqualified person gains by looking qualified, without cancellation in the tails."""
    below0, above0 = both(c0, p0, x)
    below1, above1 = both(c1, p1, x)
    return below0 - below1 if below0 < 0.5 else above1 - above0


@njit(cache=True, nogil=True)
def pressure(cc: int, pc: np.ndarray, z: float) -> float:
    """d/dz of z F_C(z): the marginal gain of manipulation, per unit of loss and of unqualified people."""
    if z <= 0.0:
        return 0.0
    return cdf(cc, pc, z) + z * pdf(cc, pc, z)


@njit(cache=True, nogil=True)
def value(
    alpha: float,
    c0: int,
    p0: np.ndarray,
    c1: int,
    p1: np.ndarray,
    cc: int,
    pc: np.ndarray,
    gain: float,
    loss: float,
    x: float,
) -> float:
    """Utility of threshold x in one group; ``cc`` = -1 means nobody manipulates."""
    below0, above0 = both(c0, p0, x)
    below1, above1 = both(c1, p1, x)
    total = gain * alpha * above1 - loss * (1.0 - alpha) * above0
    if cc >= 0:
        gap = below0 - below1 if below0 < 0.5 else above1 - above0
        total -= loss * (1.0 - alpha) * gap * cdf(cc, pc, gap)
    return total


@njit(cache=True, nogil=True)
def slope(
    alpha: float,
    c0: int,
    p0: np.ndarray,
    c1: int,
    p1: np.ndarray,
    cc: int,
    pc: np.ndarray,
    gain: float,
    loss: float,
    x: float,
) -> float:
    """Derivative of `value`; at the end of a support with infinite density its sign is what counts."""
    f0, f1 = pdf(c0, p0, x), pdf(c1, p1, x)
    total = loss * (1.0 - alpha) * f0 - gain * alpha * f1
    if cc >= 0:
        total -= loss * (1.0 - alpha) * pressure(cc, pc, benefit(c0, p0, c1, p1, x)) * (f0 - f1)
    return total
