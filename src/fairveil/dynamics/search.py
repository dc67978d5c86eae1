"""Global search for thresholds when utility can have several peaks: manipulation, or no monotone likelihood ratio.

Each group's utility is tabulated on a fine grid of thresholds. A fair choice is one level, so the total is read along
the level axis, once on each group's own grid; every local maximum near the best value is then refined with exact values
and polished with the sign of the derivative. Kinks (uniform costs) and jumps (histograms) are therefore safe.
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit

from fairveil.dynamics.kernels import NORMAL, both, cdf, lower, mixture_pdf, upper
from fairveil.dynamics.levels import FREE, SIMPLE, spread, weight
from fairveil.dynamics.utility import slope, value

#: Standard deviations of a normal that the grid covers; utility beyond is flat to about 1e-19.
REACH = 9.5
_KEEP = 24
_GOLD = 0.5 * (math.sqrt(5.0) - 1.0)


@njit(cache=True, nogil=True)
def span(kind: int, alpha: float, c0: int, p0: np.ndarray, c1: int, p1: np.ndarray) -> tuple[float, float]:
    """Where a threshold of this group can matter: the support of the rate, normals cut at REACH deviations."""
    a0 = p0[0] - REACH * p0[1] if c0 == NORMAL else lower(c0, p0)
    a1 = p1[0] - REACH * p1[1] if c1 == NORMAL else lower(c1, p1)
    b0 = p0[0] + REACH * p0[1] if c0 == NORMAL else upper(c0, p0)
    b1 = p1[0] + REACH * p1[1] if c1 == NORMAL else upper(c1, p1)
    if kind not in (FREE, SIMPLE):
        w = weight(kind, alpha)
        if w == 1.0:
            return a1, b1
        if w == 0.0:
            return a0, b0
    return min(a0, a1), max(b0, b1)


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
def best(
    kind: int,
    share: np.ndarray,
    alpha: np.ndarray,
    which: np.ndarray,
    cost: np.ndarray,
    codes: np.ndarray,
    params: np.ndarray,
    gain: float,
    loss: float,
    points: int,
    out: np.ndarray,
) -> None:
    """Thresholds that maximise total utility over everything the constraint allows, written into ``out``."""
    groups = share.size
    x = np.empty((groups, points))
    u = np.empty((groups, points))
    level = np.empty((groups, points))
    low, high = np.empty(groups), np.empty(groups)
    for s in range(groups):
        i, j = which[s, 0], which[s, 1]
        low[s], high[s] = span(kind, alpha[s], codes[i], params[i], codes[j], params[j])
    if kind == SIMPLE:
        low[:], high[:] = low.min(), high.max()
    for s in range(groups):
        i, j, c = which[s, 0], which[s, 1], cost[s]
        cc = codes[c] if c >= 0 else -1
        _grid(low[s], high[s], x[s])
        w = weight(kind, alpha[s])
        for k in range(points):
            below0, above0 = both(codes[i], params[i], x[s, k])
            below1, above1 = both(codes[j], params[j], x[s, k])
            total = gain * alpha[s] * above1 - loss * (1.0 - alpha[s]) * above0
            if cc >= 0:
                gap = below0 - below1 if below0 < 0.5 else above1 - above0
                total -= loss * (1.0 - alpha[s]) * gap * cdf(cc, params[c], gap)
            u[s, k] = total
            if kind == SIMPLE:
                level[s, k] = x[s, k]
            else:
                below = (1.0 - w) * below0 + w * below1
                above = (1.0 - w) * above0 + w * above1
                # Log odds keep both tails apart where a plain level would round to zero or one.
                level[s, k] = math.log(max(below, 1e-320)) - math.log(max(above, 1e-320))
    if kind == FREE:
        alone = np.ones(1)
        for s in range(groups):
            _refine(
                FREE,
                alone,
                alpha[s : s + 1],
                which[s : s + 1],
                cost[s : s + 1],
                codes,
                params,
                gain,
                loss,
                x[s : s + 1],
                u[s : s + 1],
                low[s : s + 1],
                high[s : s + 1],
                out[s : s + 1],
            )
        return
    total = np.empty((groups, points))
    for r in range(groups):
        total[r] = share[r] * u[r]
        for s in range(groups):
            if s != r:
                _add_along(level[r], level[s], u[s], share[s], total[r])
    _refine(kind, share, alpha, which, cost, codes, params, gain, loss, x, total, low, high, out)


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
def total_value(
    share: np.ndarray,
    alpha: np.ndarray,
    which: np.ndarray,
    cost: np.ndarray,
    codes: np.ndarray,
    params: np.ndarray,
    gain: float,
    loss: float,
    theta: np.ndarray,
) -> float:
    """Utility of the whole population at given thresholds."""
    total = 0.0
    for s in range(share.size):
        i, j, c = which[s, 0], which[s, 1], cost[s]
        cc = codes[c] if c >= 0 else -1
        total += share[s] * value(
            alpha[s], codes[i], params[i], codes[j], params[j], cc, params[c], gain, loss, theta[s]
        )
    return total


@njit(cache=True, nogil=True)
def total_slope(
    kind: int,
    share: np.ndarray,
    alpha: np.ndarray,
    which: np.ndarray,
    cost: np.ndarray,
    codes: np.ndarray,
    params: np.ndarray,
    gain: float,
    loss: float,
    theta: np.ndarray,
) -> float:
    """Derivative of total utility along the common level (along the threshold itself for FREE and SIMPLE)."""
    total = 0.0
    for s in range(share.size):
        i, j, c = which[s, 0], which[s, 1], cost[s]
        cc = codes[c] if c >= 0 else -1
        part = share[s] * slope(alpha[s], codes[i], params[i], codes[j], params[j], cc, params[c], gain, loss, theta[s])
        if kind not in (FREE, SIMPLE):
            w = weight(kind, alpha[s])
            density = mixture_pdf(w, codes[i], params[i], codes[j], params[j], theta[s])
            if not 0.0 < density < math.inf:
                return math.nan
            part /= density
        total += part
    return total


@njit(cache=True, nogil=True)
def _refine(
    kind: int,
    share: np.ndarray,
    alpha: np.ndarray,
    which: np.ndarray,
    cost: np.ndarray,
    codes: np.ndarray,
    params: np.ndarray,
    gain: float,
    loss: float,
    x: np.ndarray,
    total: np.ndarray,
    low: np.ndarray,
    high: np.ndarray,
    out: np.ndarray,
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
        found = _climb(kind, share, alpha, which, cost, codes, params, gain, loss, r, a, b, low, high, theta)
        if found > champion:
            champion = found
            out[:] = theta


@njit(cache=True, nogil=True)
def _climb(
    kind: int,
    share: np.ndarray,
    alpha: np.ndarray,
    which: np.ndarray,
    cost: np.ndarray,
    codes: np.ndarray,
    params: np.ndarray,
    gain: float,
    loss: float,
    r: int,
    a: float,
    b: float,
    low: np.ndarray,
    high: np.ndarray,
    theta: np.ndarray,
) -> float:
    """Golden section on exact values in [a, b] of group r, then halving on the sign of the derivative."""
    left, right = a, b
    c, d = b - _GOLD * (b - a), a + _GOLD * (b - a)
    spread(kind, alpha, which, codes, params, r, c, low, high, theta)
    fc = total_value(share, alpha, which, cost, codes, params, gain, loss, theta)
    spread(kind, alpha, which, codes, params, r, d, low, high, theta)
    fd = total_value(share, alpha, which, cost, codes, params, gain, loss, theta)
    for _ in range(12):
        if fc >= fd:
            b, d, fd = d, c, fc
            c = b - _GOLD * (b - a)
            spread(kind, alpha, which, codes, params, r, c, low, high, theta)
            fc = total_value(share, alpha, which, cost, codes, params, gain, loss, theta)
        else:
            a, c, fc = c, d, fd
            d = a + _GOLD * (b - a)
            spread(kind, alpha, which, codes, params, r, d, low, high, theta)
            fd = total_value(share, alpha, which, cost, codes, params, gain, loss, theta)
    # Values near a peak are flat to about the square root of the rounding error: the derivative settles the rest.
    reach = 0.5 * (b - a)
    a, b = max(left, a - reach), min(right, b + reach)
    for _ in range(100):
        middle = 0.5 * (a + b)
        if middle <= a or middle >= b:
            break
        spread(kind, alpha, which, codes, params, r, middle, low, high, theta)
        rise = total_slope(kind, share, alpha, which, cost, codes, params, gain, loss, theta)
        if math.isnan(rise):
            break
        if rise > 0.0:
            a = middle
        else:
            b = middle
    found, where = -math.inf, a
    for end in (left, 0.5 * (a + b), right):
        spread(kind, alpha, which, codes, params, r, end, low, high, theta)
        height = total_value(share, alpha, which, cost, codes, params, gain, loss, theta)
        if height > found:
            found, where = height, end
    spread(kind, alpha, which, codes, params, r, where, low, high, theta)
    return found


@njit(cache=True, nogil=True)
def best_batch(
    kind: int,
    share: np.ndarray,
    alpha: np.ndarray,
    which: np.ndarray,
    cost: np.ndarray,
    codes: np.ndarray,
    params: np.ndarray,
    gain: np.ndarray,
    loss: np.ndarray,
    points: int,
    first: int,
    last: int,
    out: np.ndarray,
) -> None:
    """`best` for instances first..last-1 of a batch."""
    for k in range(first, last):
        best(kind, share[k], alpha[k], which[k], cost[k], codes, params, gain[k], loss[k], points, out[k])


@njit(cache=True, nogil=True)
def turning_points(
    alpha: float,
    c0: int,
    p0: np.ndarray,
    c1: int,
    p1: np.ndarray,
    cc: int,
    pc: np.ndarray,
    gain: float,
    loss: float,
    points: int,
    found: np.ndarray,
) -> int:
    """All places where one group's utility turns, rising to falling or back; returns how many (room for found.size)."""
    left, right = span(FREE, alpha, c0, p0, c1, p1)
    x = np.empty(points)
    _grid(left, right, x)
    count, sign = 0, 0
    for k in range(points):
        rise = slope(alpha, c0, p0, c1, p1, cc, pc, gain, loss, x[k])
        now = 1 if rise > 0.0 else (-1 if rise < 0.0 else 0)
        if now == 0 or math.isnan(rise):
            continue
        if sign != 0 and now != sign and count < found.size:
            a, b = x[k - 1], x[k]
            for _ in range(100):
                middle = 0.5 * (a + b)
                if middle <= a or middle >= b:
                    break
                rise = slope(alpha, c0, p0, c1, p1, cc, pc, gain, loss, middle)
                if (rise > 0.0) == (sign > 0):
                    a = middle
                else:
                    b = middle
            found[count] = 0.5 * (a + b)
            count += 1
        sign = now
    return count
