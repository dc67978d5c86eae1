"""Global search for thresholds when utility can have several peaks: manipulation, or no monotone likelihood ratio.

Each group's utility is tabulated on a fine grid of thresholds. A fair choice is one level, so the total is read along
the level axis, once on each group's own grid; every local maximum near the best value is then refined with exact values
and polished with the sign of the derivative. Kinks (uniform costs) and jumps (histograms) are therefore safe.

What one threshold is worth in one group when the unqualified may manipulate: values and slopes, compiled.
"""

from __future__ import annotations

import math

import numpy as np

from fairveil.compiling import njit
from fairveil.dynamics.kernels import NORMAL, both, cdf, ends, pdf
from fairveil.dynamics.mixtures import Pair, lead, mixture_pdf, outer
from fairveil.dynamics.problem import (
    FREE,
    SIMPLE,
    Instance,
    Instances,
    Stakes,
    features,
    instance,
    spread,
    stakes,
    weight,
)


@njit(cache=True, nogil=True)
def benefit(pair: Pair, x: float) -> float:
    """F0(x) - F1(x): what an unqualified person gains by looking qualified."""
    below0, above0 = both(pair.c0, pair.p0, x)
    below1, above1 = both(pair.c1, pair.p1, x)
    return lead(below0, above0, below1, above1)


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
    return _worth(at, below0, above0, below1, above1)


@njit(cache=True, nogil=True)
def _worth(at: Stakes, below0: float, above0: float, below1: float, above1: float) -> float:
    """Utility of a threshold from the masses of both labels below and above it."""
    total = at.gain * at.alpha * above1 - at.loss * (1.0 - at.alpha) * above0
    if at.cost_code >= 0:
        gap = lead(below0, above0, below1, above1)
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


#: Standard deviations of a normal that the grid covers; utility beyond is flat to about 1e-19.
REACH = 9.5
_KEEP = 24
_GOLD = 0.5 * (math.sqrt(5.0) - 1.0)


@njit(cache=True, nogil=True)
def span(kind: int, alpha: float, pair: Pair) -> tuple[float, float]:
    """Where a threshold of this group can matter: the support of the rate, normals cut at REACH deviations."""
    w = 0.5 if kind in (FREE, SIMPLE) else weight(kind, alpha)
    return outer(w, _covered(pair.c0, pair.p0), _covered(pair.c1, pair.p1))


@njit(cache=True, nogil=True)
def _covered(code: int, p: np.ndarray) -> tuple[float, float]:
    if code == NORMAL:
        return p[0] - REACH * p[1], p[0] + REACH * p[1]
    return ends(code, p)


@njit(cache=True, nogil=True)
def _grid(left: float, right: float, out: np.ndarray) -> None:
    """Even steps, with a geometric run into both ends, where betas can have infinite density."""
    ends = 32
    inner = out.size - 2 * ends
    width = right - left
    step = width / (inner + 1)
    out[0], out[out.size - 1] = left, right
    for k in range(1, ends):
        part = step * 10.0 ** (-9.0 * (ends - k) / (ends - 1.0))
        out[k] = left + part
        out[out.size - 1 - k] = right - part
    for k in range(inner):
        out[ends + k] = left + step * (k + 1)


@njit(cache=True, nogil=True)
def best(problem: Instance, points: int, out: np.ndarray) -> None:
    """Thresholds that maximise total utility over everything the constraint allows, written into ``out``."""
    kind, share, alpha = problem.kind, problem.share, problem.alpha
    groups = share.size
    x, u, level = np.empty((groups, points)), np.empty((groups, points)), np.empty((groups, points))
    low, high = np.empty(groups), np.empty(groups)
    for s in range(groups):
        low[s], high[s] = span(kind, alpha[s], features(problem, s))
    if kind == SIMPLE:
        low[:], high[:] = low.min(), high.max()
    for s in range(groups):
        _grid(low[s], high[s], x[s])
        _tabulate(kind, stakes(problem, s), x[s], u[s], level[s])
    if kind == FREE:
        for s in range(groups):
            one = slice(s, s + 1)
            _refine(_alone(problem, s), x[one], u[one], low[one], high[one], out[one])
        return
    total = np.empty((groups, points))
    for r in range(groups):
        total[r] = share[r] * u[r]
        for s in range(groups):
            if s != r:
                _add_along(level[r], level[s], u[s], share[s], total[r])
    _refine(problem, x, total, low, high, out)


@njit(cache=True, nogil=True)
def _tabulate(kind: int, at: Stakes, x: np.ndarray, u: np.ndarray, level: np.ndarray) -> None:
    """Utility and level of every threshold on one group's grid, from the same two distribution functions."""
    pair = at.pair
    w = weight(kind, at.alpha)
    for k in range(x.size):
        below0, above0 = both(pair.c0, pair.p0, x[k])
        below1, above1 = both(pair.c1, pair.p1, x[k])
        u[k] = _worth(at, below0, above0, below1, above1)
        if kind == SIMPLE:
            level[k] = x[k]
        else:
            below = (1.0 - w) * below0 + w * below1
            above = (1.0 - w) * above0 + w * above1
            # Log odds keep both tails apart where a plain level would round to zero or one.
            level[k] = math.log(max(below, 1e-320)) - math.log(max(above, 1e-320))


@njit(cache=True, nogil=True)
def _alone(problem: Instance, s: int) -> Instance:
    """Group s as a population of its own."""
    return Instance(
        problem.kind,
        np.ones(1),
        problem.alpha[s : s + 1],
        problem.which[s : s + 1],
        problem.cost[s : s + 1],
        problem.codes,
        problem.params,
        problem.gain,
        problem.loss,
    )


@njit(cache=True, nogil=True)
def _add_along(at: np.ndarray, level: np.ndarray, u: np.ndarray, share: float, total: np.ndarray) -> None:
    """Add share times u, read by linear interpolation along the level axis."""
    k, last = 0, level.size - 1
    for i in range(at.size):
        while k < last - 1 and level[k + 1] < at[i]:
            k += 1
        width = level[k + 1] - level[k]
        part = (at[i] - level[k]) / width if width > 0.0 else 0.5
        part = min(1.0, max(0.0, part))
        total[i] += share * (u[k] + part * (u[k + 1] - u[k]))


@njit(cache=True, nogil=True)
def total_value(problem: Instance, theta: np.ndarray) -> float:
    """Utility of the whole population at given thresholds."""
    total = 0.0
    for s in range(theta.size):
        total += problem.share[s] * value(stakes(problem, s), theta[s])
    return total


@njit(cache=True, nogil=True)
def total_slope(problem: Instance, theta: np.ndarray) -> float:
    """Derivative of total utility along the common level (along the threshold itself for FREE and SIMPLE)."""
    kind = problem.kind
    total = 0.0
    for s in range(theta.size):
        at = stakes(problem, s)
        part = problem.share[s] * slope(at, theta[s])
        if kind not in (FREE, SIMPLE):
            density = mixture_pdf(weight(kind, at.alpha), at.pair, theta[s])
            if not 0.0 < density < math.inf:
                return math.nan
            part /= density
        total += part
    return total


@njit(cache=True, nogil=True)
def _refine(
    problem: Instance, x: np.ndarray, total: np.ndarray, low: np.ndarray, high: np.ndarray, out: np.ndarray
) -> None:
    """Refine every local maximum of the tables that comes near the best value; keep the best in ``out``."""
    groups, points = x.shape
    top, floor = total.max(), total.min()
    near = top - 1e-3 * (top - floor) - 1e-15
    rows, cells, values = np.empty(_KEEP, np.int64), np.empty(_KEEP, np.int64), np.full(_KEEP, -math.inf)
    for r in range(groups):
        for k in range(points):
            here = total[r, k]
            if here < near or (k > 0 and total[r, k - 1] > here) or (k < points - 1 and total[r, k + 1] >= here):
                continue
            worst = np.argmin(values)
            if here > values[worst]:
                rows[worst], cells[worst], values[worst] = r, k, here
    theta = np.empty(groups)
    champion = -math.inf
    for n in range(_KEEP):
        if values[n] == -math.inf:
            continue
        r, k = rows[n], cells[n]
        theta[:] = 0.5 * (low + high)
        a, b = x[r, max(k - 1, 0)], x[r, min(k + 1, points - 1)]
        found = _climb(problem, r, a, b, low, high, theta)
        if found > champion:
            champion = found
            out[:] = theta


@njit(cache=True, nogil=True)
def _climb(
    problem: Instance, r: int, a: float, b: float, low: np.ndarray, high: np.ndarray, theta: np.ndarray
) -> float:
    """Golden section on exact values in [a, b] of group r, then halving on the sign of the derivative."""
    left, right = a, b
    c, d = b - _GOLD * (b - a), a + _GOLD * (b - a)
    spread(problem, r, c, low, high, theta)
    fc = total_value(problem, theta)
    spread(problem, r, d, low, high, theta)
    fd = total_value(problem, theta)
    for _ in range(12):
        if fc >= fd:
            b, d, fd = d, c, fc
            c = b - _GOLD * (b - a)
            spread(problem, r, c, low, high, theta)
            fc = total_value(problem, theta)
        else:
            a, c, fc = c, d, fd
            d = a + _GOLD * (b - a)
            spread(problem, r, d, low, high, theta)
            fd = total_value(problem, theta)
    # Values near a peak are flat to about the square root of the rounding error: the derivative settles the rest.
    reach = 0.5 * (b - a)
    a, b = max(left, a - reach), min(right, b + reach)
    for _ in range(100):
        middle = 0.5 * (a + b)
        if middle <= a or middle >= b:
            break
        spread(problem, r, middle, low, high, theta)
        rise = total_slope(problem, theta)
        if math.isnan(rise):
            break
        if rise > 0.0:
            a = middle
        else:
            b = middle
    found, where = -math.inf, a
    for end in (left, 0.5 * (a + b), right):
        spread(problem, r, end, low, high, theta)
        height = total_value(problem, theta)
        if height > found:
            found, where = height, end
    spread(problem, r, where, low, high, theta)
    return found


@njit(cache=True, nogil=True)
def best_batch(batch: Instances, points: int, first: int, last: int, out: np.ndarray) -> None:
    """`best` for instances first..last-1 of a batch."""
    for k in range(first, last):
        best(instance(batch, k), points, out[k])


@njit(cache=True, nogil=True)
def turning_points(at: Stakes, points: int, found: np.ndarray) -> int:
    """All places where one group's utility turns, rising to falling or back; returns how many (room for found.size)."""
    left, right = span(FREE, at.alpha, at.pair)
    x = np.empty(points)
    _grid(left, right, x)
    count, sign = 0, 0
    for k in range(points):
        rise = slope(at, x[k])
        now = 1 if rise > 0.0 else (-1 if rise < 0.0 else 0)
        if now == 0 or math.isnan(rise):
            continue
        if sign != 0 and now != sign and count < found.size:
            a, b = x[k - 1], x[k]
            for _ in range(100):
                middle = 0.5 * (a + b)
                if middle <= a or middle >= b:
                    break
                rise = slope(at, middle)
                if (rise > 0.0) == (sign > 0):
                    a = middle
                else:
                    b = middle
            found[count] = 0.5 * (a + b)
            count += 1
        sign = now
    return count
