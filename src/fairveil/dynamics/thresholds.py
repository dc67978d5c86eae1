"""Optimal thresholds of one decision, with or without equal rates: the problem all three models share.

Accepting x >= theta earns ``gain`` for a qualified and costs ``loss`` for an unqualified person. With gain = loss = 1
this is the error-minimising decision of the participation model. A constraint asks for the same rate in every group,
so a fair set of thresholds is one number, the common level; its first-order condition is monotone under a monotone
likelihood ratio and its root lies between the levels of the unconstrained thresholds. Everything is bracketed.
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit

from fairveil.dynamics.kernels import NORMAL, log_ratio, lower, mixture_pdf, pdf, sf, upper
from fairveil.dynamics.levels import DP, FPR, FREE, LOSS_BELOW, SIMPLE, TPR, below, spread, weight

_SCAN = 257


@njit(cache=True, nogil=True)
def free(alpha: float, c0: int, p0: np.ndarray, c1: int, p1: np.ndarray, gain: float, loss: float) -> float:
    """Unconstrained threshold: gain alpha f1 = loss (1 - alpha) f0 inside the overlap, else an end of it."""
    left, right = max(lower(c0, p0), lower(c1, p1)), min(upper(c0, p0), upper(c1, p1))
    if alpha >= 1.0 or left > right:
        return left
    if alpha <= 0.0:
        return right
    shift = math.log(gain * alpha) - math.log(loss * (1.0 - alpha))
    low = log_ratio(c0, p0, c1, p1, left) + shift
    if low >= 0.0:
        return left
    high = log_ratio(c0, p0, c1, p1, right) + shift
    if high <= 0.0:
        return right
    a, fa, b, fb = left, low, right, high
    share = 0.5
    for _ in range(200):
        x = a + share * (b - a)
        f = log_ratio(c0, p0, c1, p1, x) + shift
        a, fa, b, fb, share, done = advance(a, fa, b, fb, x, f)
        if done:
            break
    return a if abs(fa) < abs(fb) else b


@njit(cache=True, nogil=True)
def advance(
    a: float, fa: float, b: float, fb: float, x: float, f: float
) -> tuple[float, float, float, float, float, bool]:
    """One step of Chandrupatla's root finder: the new bracket with its values, where to look next, whether to stop.

    The next point is a + share (b - a): inverse quadratic where that is trustworthy, a halving otherwise. Infinite
    values (likelihood ratios at the end of a support) fall back to halving.
    """
    if (f > 0.0) == (fa > 0.0):
        c, fc, a, fa = a, fa, x, f
    else:
        c, fc, b, fb, a, fa = b, fb, a, fa, x, f
    best = a if abs(fa) < abs(fb) else b
    floor = 4e-16 * abs(best) / max(abs(b - a), 1e-300)
    if f == 0.0 or floor > 0.5 or abs(b - a) < 1e-300:
        return a, fa, b, fb, 0.5, True
    share = 0.5
    if abs(fa) < math.inf and abs(fb) < math.inf and abs(fc) < math.inf and fc != fb and fc != fa and fb != fa:
        xi, phi = (a - b) / (c - b), (fa - fb) / (fc - fb)
        if phi * phi < xi and (1.0 - phi) * (1.0 - phi) < 1.0 - xi:
            share = fa / (fb - fa) * fc / (fb - fc) + (c - a) / (b - a) * fa / (fc - fa) * fb / (fc - fb)
    return a, fa, b, fb, min(1.0 - floor, max(floor, share)), False


@njit(cache=True, nogil=True)
def marginal(
    kind: int, alpha: float, c0: int, p0: np.ndarray, c1: int, p1: np.ndarray, gain: float, loss: float, x: float
) -> float:
    """What rejecting one more unit of the constrained rate costs at threshold x; increasing in x."""
    if kind == SIMPLE:
        return gain * alpha * pdf(c1, p1, x) - loss * (1.0 - alpha) * pdf(c0, p0, x)
    ratio = log_ratio(c0, p0, c1, p1, x)
    if kind == TPR:
        return gain * alpha - loss * (1.0 - alpha) * math.exp(-ratio)
    if kind == FPR:
        return gain * alpha * math.exp(ratio) - loss * (1.0 - alpha)
    odds = ratio + math.log(alpha) - math.log1p(-alpha)
    if odds > 0.0:
        return gain - (gain + loss) * (math.exp(-odds) / (1.0 + math.exp(-odds)))
    return (gain + loss) * (math.exp(odds) / (1.0 + math.exp(odds))) - loss


@njit(cache=True, nogil=True)
def error(alpha: float, c0: int, p0: np.ndarray, c1: int, p1: np.ndarray, x: float) -> float:
    """Expected 0-1 loss of accepting above x."""
    return alpha * (1.0 - sf(c1, p1, x)) + (1.0 - alpha) * sf(c0, p0, x)


@njit(cache=True, nogil=True)
def _total(
    kind: int,
    share: np.ndarray,
    alpha: np.ndarray,
    which: np.ndarray,
    codes: np.ndarray,
    params: np.ndarray,
    gain: float,
    loss: float,
    theta: np.ndarray,
) -> float:
    value = 0.0
    for s in range(share.size):
        i, j = which[s, 0], which[s, 1]
        value += share[s] * marginal(kind, alpha[s], codes[i], params[i], codes[j], params[j], gain, loss, theta[s])
    return value


@njit(cache=True, nogil=True)
def fair(
    kind: int,
    share: np.ndarray,
    alpha: np.ndarray,
    which: np.ndarray,
    codes: np.ndarray,
    params: np.ndarray,
    gain: float,
    loss: float,
    out: np.ndarray,
) -> None:
    """Optimal thresholds of one instance under one constraint, written into ``out``."""
    groups = share.size
    for s in range(groups):
        i, j = which[s, 0], which[s, 1]
        out[s] = free(alpha[s], codes[i], params[i], codes[j], params[j], gain, loss)
    if kind == FREE or groups == 1:
        return
    if kind >= LOSS_BELOW:
        equal_loss(kind, alpha, which, codes, params, out)
        return
    if kind == SIMPLE:
        _same_threshold(share, alpha, which, codes, params, gain, loss, out)
        return
    # The outermost unconstrained levels bracket the fair one.
    first, last = 0, 0
    for s in range(1, groups):
        if below(kind, alpha, which, codes, params, s, out[s], first, out[first]):
            first = s
        if below(kind, alpha, which, codes, params, last, out[last], s, out[s]):
            last = s
    low, high, start, stop = np.empty(groups), np.empty(groups), out.copy(), out.copy()
    for s in range(groups):
        i, j = which[s, 0], which[s, 1]
        w = weight(kind, alpha[s])
        lo0, lo1, hi0, hi1 = (
            lower(codes[i], params[i]),
            lower(codes[j], params[j]),
            upper(codes[i], params[i]),
            upper(codes[j], params[j]),
        )
        low[s] = lo1 if w == 1.0 else (lo0 if w == 0.0 else min(lo0, lo1))
        high[s] = hi1 if w == 1.0 else (hi0 if w == 0.0 else max(hi0, hi1))
    spread(kind, alpha, which, codes, params, first, out[first], low, high, start)
    spread(kind, alpha, which, codes, params, last, out[last], low, high, stop)
    r = 0
    for s in range(1, groups):
        # The group whose level hardly moves with its threshold carries the search: its threshold is then exact too.
        if _thin(kind, alpha, which, codes, params, s, start, stop) < _thin(
            kind, alpha, which, codes, params, r, start, stop
        ):
            r = s
    for s in range(groups):
        low[s], high[s] = min(start[s], stop[s]), max(start[s], stop[s])
    a, b = start[r], stop[r]
    fa = _total(kind, share, alpha, which, codes, params, gain, loss, start)
    fb = _total(kind, share, alpha, which, codes, params, gain, loss, stop)
    out[:] = start if fa >= 0.0 else stop
    if fa >= 0.0 or fb <= 0.0 or a >= b:
        return
    portion = 0.5
    for _ in range(200):
        x = a + portion * (b - a)
        spread(kind, alpha, which, codes, params, r, x, low, high, out)
        f = _total(kind, share, alpha, which, codes, params, gain, loss, out)
        for s in range(groups):
            # Thresholds of all groups rise together, so each evaluation narrows every group's own bracket.
            if f < 0.0:
                low[s] = max(low[s], out[s] - 1e-14 * abs(out[s]))
            else:
                high[s] = min(high[s], out[s] + 1e-14 * abs(out[s]))
        before = x
        a, fa, b, fb, portion, done = advance(a, fa, b, fb, x, f)
        if done or abs(a + portion * (b - a) - before) <= 1e-15 * abs(before):
            break


@njit(cache=True, nogil=True)
def _thin(
    kind: int,
    alpha: np.ndarray,
    which: np.ndarray,
    codes: np.ndarray,
    params: np.ndarray,
    s: int,
    start: np.ndarray,
    stop: np.ndarray,
) -> float:
    i, j = which[s, 0], which[s, 1]
    return mixture_pdf(
        weight(kind, alpha[s]), codes[i], params[i], codes[j], params[j], 0.5 * (start[s] + stop[s])
    ) * max(abs(start[s]), abs(stop[s]))


@njit(cache=True, nogil=True)
def _same_threshold(
    share: np.ndarray,
    alpha: np.ndarray,
    which: np.ndarray,
    codes: np.ndarray,
    params: np.ndarray,
    gain: float,
    loss: float,
    out: np.ndarray,
) -> None:
    """One threshold for all. There can be several peaks between the groups' own optima, so scan first, then polish."""
    a, b = out.min(), out.max()
    theta = np.empty(out.size)
    best, where = -math.inf, 0
    for k in range(_SCAN):
        x = a + (b - a) * k / (_SCAN - 1)
        value = 0.0
        for s in range(out.size):
            i, j = which[s, 0], which[s, 1]
            value += share[s] * (
                gain * alpha[s] * sf(codes[j], params[j], x) - loss * (1.0 - alpha[s]) * sf(codes[i], params[i], x)
            )
        if value > best:
            best, where = value, k
    low = a + (b - a) * max(where - 1, 0) / (_SCAN - 1)
    high = a + (b - a) * min(where + 1, _SCAN - 1) / (_SCAN - 1)
    for _ in range(200):
        x = 0.5 * (low + high)
        if x <= low or x >= high:
            break
        theta[:] = x
        if _total(SIMPLE, share, alpha, which, codes, params, gain, loss, theta) < 0.0:
            low = x
        else:
            high = x
    out[:] = 0.5 * (low + high)


@njit(cache=True, nogil=True)
def equal_loss(
    kind: int, alpha: np.ndarray, which: np.ndarray, codes: np.ndarray, params: np.ndarray, out: np.ndarray
) -> None:
    """Every group suffers the largest of the groups' smallest errors, below or above its own best threshold.

    At least one side always exists: a smallest error is at most one half, and accepting all or none costs one half or
    more on one of the two sides. When the asked side cannot reach the loss, the other one is taken.
    """
    target = -1.0
    for s in range(alpha.size):
        i, j = which[s, 0], which[s, 1]
        target = max(target, error(alpha[s], codes[i], params[i], codes[j], params[j], out[s]))
    for s in range(alpha.size):
        i, j = which[s, 0], which[s, 1]
        own = error(alpha[s], codes[i], params[i], codes[j], params[j], out[s])
        if own >= target:
            continue
        below = kind == LOSS_BELOW
        if below and 1.0 - alpha[s] < target:
            below = False
        elif not below and alpha[s] < target:
            below = True
        if below:
            near, far = out[s], min(lower(codes[i], params[i]), lower(codes[j], params[j]))
        else:
            near, far = out[s], max(upper(codes[i], params[i]), upper(codes[j], params[j]))
        for _ in range(200):
            x = 0.5 * (near + far)
            if x in (near, far):
                break
            if error(alpha[s], codes[i], params[i], codes[j], params[j], x) < target:
                near = x
            else:
                far = x
        out[s] = near


@njit(cache=True, nogil=True, inline="always")
def _unit(c: int, p: np.ndarray) -> float:
    """A length on which a distribution changes."""
    return p[1] if c == NORMAL else 0.1 * (upper(c, p) - lower(c, p))


@njit(cache=True, nogil=True)
def follow(
    kind: int,
    share: np.ndarray,
    alpha: np.ndarray,
    which: np.ndarray,
    codes: np.ndarray,
    params: np.ndarray,
    gain: float,
    loss: float,
    out: np.ndarray,
) -> bool:
    """Newton from the thresholds in ``out`` to the fair ones nearby; False (and ``out`` spoilt) when that fails.

    The condition is monotone, so a root found here is the root. Densities turn a move of one group's threshold into
    the moves that keep the others at the same level.
    """
    groups = share.size
    low, high, pace = np.empty(groups), np.empty(groups), np.empty(groups)
    r, thinnest, unit, size = 0, math.inf, 1.0, 0.0
    for s in range(groups):
        i, j = which[s, 0], which[s, 1]
        # What the terms of the sum are of the order of.
        price = gain * alpha[s] if kind == TPR else (loss * (1.0 - alpha[s]) if kind == FPR else gain + loss)
        size += share[s] * price
        low[s] = min(lower(codes[i], params[i]), lower(codes[j], params[j]))
        high[s] = max(upper(codes[i], params[i]), upper(codes[j], params[j]))
        length = min(_unit(codes[i], params[i]), _unit(codes[j], params[j]))
        density = mixture_pdf(weight(kind, alpha[s]), codes[i], params[i], codes[j], params[j], out[s]) * length
        if not 0.0 < density < math.inf:
            return False
        if density < thinnest:
            r, thinnest, unit = s, density, length
    x = out[r]
    for _ in range(12):
        spread(kind, alpha, which, codes, params, r, x, low, high, out)
        f = _total(kind, share, alpha, which, codes, params, gain, loss, out)
        for s in range(groups):
            i, j = which[s, 0], which[s, 1]
            pace[s] = mixture_pdf(weight(kind, alpha[s]), codes[i], params[i], codes[j], params[j], out[s])
        small = 1e-6 * unit
        own = pace[r]
        for s in range(groups):
            if not 0.0 < pace[s] < math.inf:
                return False
            pace[s] = out[s] + small * own / pace[s]
        rise = (_total(kind, share, alpha, which, codes, params, gain, loss, pace) - f) / small
        if not 0.0 < rise < math.inf or math.isnan(f):
            return False
        step = -f / rise
        if abs(step) > 4.0 * unit:
            return False
        x += step
        if not low[r] < x < high[r]:
            return False
        if abs(step) <= 1e-8 * unit:
            # Beside a jump of a density the sum looks infinitely steep and steps vanish: only a sum of zero is a root.
            spread(kind, alpha, which, codes, params, r, x, low, high, out)
            f = _total(kind, share, alpha, which, codes, params, gain, loss, out)
            return abs(f) <= 1e-11 * size
    return False


@njit(cache=True, nogil=True)
def fair_batch(
    kind: int,
    share: np.ndarray,
    alpha: np.ndarray,
    which: np.ndarray,
    codes: np.ndarray,
    params: np.ndarray,
    gain: np.ndarray,
    loss: np.ndarray,
    first: int,
    last: int,
    warm: bool,
    out: np.ndarray,
) -> None:
    """`fair` for instances first..last-1 of a batch; ``warm`` starts from the thresholds in ``out``."""
    linked = kind in (TPR, FPR, DP) and share.shape[1] > 1
    for k in range(first, last):
        if warm and linked and follow(kind, share[k], alpha[k], which[k], codes, params, gain[k], loss[k], out[k]):
            continue
        fair(kind, share[k], alpha[k], which[k], codes, params, gain[k], loss[k], out[k])
