"""What one threshold is worth in one group when the unqualified may manipulate: values and slopes, compiled."""

from __future__ import annotations

import numpy as np

from fairveil.compiling import njit
from fairveil.dynamics.kernels import both, cdf, pdf
from fairveil.dynamics.mixtures import Pair
from fairveil.dynamics.problem import Stakes


@njit(cache=True, nogil=True)
def benefit(pair: Pair, x: float) -> float:
    """F0(x) - F1(x): what an unqualified person gains by looking qualified, without cancellation in the tails."""
    below0, above0 = both(pair.c0, pair.p0, x)
    below1, above1 = both(pair.c1, pair.p1, x)
    return below0 - below1 if below0 < 0.5 else above1 - above0


@njit(cache=True, nogil=True)
def pressure(code: int, params: np.ndarray, z: float) -> float:
    """d/dz of z F_C(z): the marginal gain of manipulation, per unit of loss and of unqualified people."""
    if z <= 0.0:
        return 0.0
    return cdf(code, params, z) + z * pdf(code, params, z)


@njit(cache=True, nogil=True)
def value(at: Stakes, x: float) -> float:
    """Utility of threshold x in one group."""
    below0, above0 = both(at.pair.c0, at.pair.p0, x)
    below1, above1 = both(at.pair.c1, at.pair.p1, x)
    total = at.gain * at.alpha * above1 - at.loss * (1.0 - at.alpha) * above0
    if at.cost_code >= 0:
        gap = below0 - below1 if below0 < 0.5 else above1 - above0
        total -= at.loss * (1.0 - at.alpha) * gap * cdf(at.cost_code, at.cost_params, gap)
    return total


@njit(cache=True, nogil=True)
def slope(at: Stakes, x: float) -> float:
    """Derivative of `value`; at the end of a support with infinite density its sign is what counts."""
    f0, f1 = pdf(at.pair.c0, at.pair.p0, x), pdf(at.pair.c1, at.pair.p1, x)
    total = at.loss * (1.0 - at.alpha) * f0 - at.gain * at.alpha * f1
    if at.cost_code >= 0:
        total -= at.loss * (1.0 - at.alpha) * pressure(at.cost_code, at.cost_params, benefit(at.pair, x)) * (f0 - f1)
    return total
