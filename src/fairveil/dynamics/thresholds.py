"""Optimal thresholds of one decision, with or without equal rates: the problem all three models share.

Accepting x >= theta earns ``gain`` for a qualified and costs ``loss`` for an unqualified person. With gain = loss = 1
this is the error-minimising decision of the participation model. A constraint asks for the same rate in every group,
so a fair set of thresholds is one number, the common level; its first-order condition is monotone under a monotone
likelihood ratio and its root lies between the levels of the unconstrained thresholds. Everything is bracketed.
"""

from __future__ import annotations

import math

import numpy as np

from fairveil.compiling import njit
from fairveil.dynamics.kernels import NORMAL, ends, pdf, sf
from fairveil.dynamics.mixtures import Pair, log_ratio, mixture_pdf, reach
from fairveil.dynamics.problem import (
    DP,
    FPR,
    FREE,
    LOSS_BELOW,
    SIMPLE,
    TPR,
    Instance,
    Instances,
    below,
    features,
    instance,
    spread,
    weight,
)

_SCAN, _RESCANS = 257, 8


@njit(cache=True, nogil=True)
def free(alpha: float, pair: Pair, gain: float, loss: float) -> float:
    """Unconstrained threshold: gain alpha f1 = loss (1 - alpha) f0 inside the overlap, else an end of it."""
    low0, high0 = ends(pair.c0, pair.p0)
    low1, high1 = ends(pair.c1, pair.p1)
    left, right = max(low0, low1), min(high0, high1)
    if alpha >= 1.0 or left > right:
        return left
    if alpha <= 0.0:
        return right
    shift = math.log(gain * alpha) - math.log(loss * (1.0 - alpha))
    low = log_ratio(pair, left) + shift
    if low >= 0.0:
        return left
    high = log_ratio(pair, right) + shift
    if high <= 0.0:
        return right
    a, fa, b, fb = left, low, right, high
    share = 0.5
    for _ in range(200):
        x = a + share * (b - a)
        f = log_ratio(pair, x) + shift
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
def marginal(kind: int, alpha: float, pair: Pair, gain: float, loss: float, x: float) -> float:
    """What rejecting one more unit of the constrained rate costs at threshold x; increasing in x."""
    if kind == SIMPLE:
        return gain * alpha * pdf(pair.c1, pair.p1, x) - loss * (1.0 - alpha) * pdf(pair.c0, pair.p0, x)
    ratio = log_ratio(pair, x)
    if kind == TPR:
        return gain * alpha - loss * (1.0 - alpha) * math.exp(-ratio)
    if kind == FPR:
        return gain * alpha * math.exp(ratio) - loss * (1.0 - alpha)
    odds = ratio + math.log(alpha) - math.log1p(-alpha)
    if odds > 0.0:
        return gain - (gain + loss) * (math.exp(-odds) / (1.0 + math.exp(-odds)))
    return (gain + loss) * (math.exp(odds) / (1.0 + math.exp(odds))) - loss


@njit(cache=True, nogil=True)
def error(alpha: float, pair: Pair, x: float) -> float:
    """Expected 0-1 loss of accepting above x."""
    return alpha * (1.0 - sf(pair.c1, pair.p1, x)) + (1.0 - alpha) * sf(pair.c0, pair.p0, x)


@njit(cache=True, nogil=True)
def _total(problem: Instance, theta: np.ndarray) -> float:
    value = 0.0
    for s in range(problem.share.size):
        pair = features(problem, s)
        value += problem.share[s] * marginal(problem.kind, problem.alpha[s], pair, problem.gain, problem.loss, theta[s])
    return value


@njit(cache=True, nogil=True)
def fair(problem: Instance, out: np.ndarray) -> None:
    """Optimal thresholds of one instance under one constraint, written into ``out``."""
    groups = problem.share.size
    for s in range(groups):
        pair = features(problem, s)
        out[s] = free(problem.alpha[s], pair, problem.gain, problem.loss)
    if problem.kind == FREE or groups == 1:
        return
    if problem.kind >= LOSS_BELOW:
        equal_loss(problem, out)
        return
    if problem.kind == SIMPLE:
        _same_threshold(problem, out)
        return
    low, high, start, stop = np.empty(groups), np.empty(groups), out.copy(), out.copy()
    _bracket(problem, out, low, high, start, stop)
    r = 0
    for s in range(1, groups):
        # The group whose level hardly moves with its threshold carries the search: its threshold is then exact too.
        if _thin(problem, s, start, stop) < _thin(problem, r, start, stop):
            r = s
    for s in range(groups):
        low[s], high[s] = min(start[s], stop[s]), max(start[s], stop[s])
    a, b = start[r], stop[r]
    fa = _total(problem, start)
    fb = _total(problem, stop)
    out[:] = start if fa >= 0.0 else stop
    if fa >= 0.0 or fb <= 0.0 or a >= b:
        return
    portion = 0.5
    for _ in range(200):
        x = a + portion * (b - a)
        spread(problem, r, x, low, high, out)
        f = _total(problem, out)
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
def _bracket(
    problem: Instance, out: np.ndarray, low: np.ndarray, high: np.ndarray, start: np.ndarray, stop: np.ndarray
) -> None:
    """The outermost of the unconstrained levels in ``out`` bracket the fair one: thresholds of all groups at both, in
    ``start`` and ``stop``; the ends of each group's support in ``low`` and ``high``.
    """
    groups, first, last = problem.share.size, 0, 0
    for s in range(1, groups):
        if below(problem, s, out[s], first, out[first]):
            first = s
        if below(problem, last, out[last], s, out[s]):
            last = s
    for s in range(groups):
        low[s], high[s] = reach(weight(problem.kind, problem.alpha[s]), features(problem, s))
    spread(problem, first, out[first], low, high, start)
    spread(problem, last, out[last], low, high, stop)


@njit(cache=True, nogil=True)
def _thin(problem: Instance, s: int, start: np.ndarray, stop: np.ndarray) -> float:
    pair = features(problem, s)
    return mixture_pdf(weight(problem.kind, problem.alpha[s]), pair, 0.5 * (start[s] + stop[s])) * max(
        abs(start[s]), abs(stop[s])
    )


@njit(cache=True, nogil=True)
def _earned(problem: Instance, x: float) -> float:
    """Expected utility of one threshold for all."""
    value = 0.0
    for s in range(problem.share.size):
        pair = features(problem, s)
        earned = problem.gain * problem.alpha[s] * sf(pair.c1, pair.p1, x)
        value += problem.share[s] * (earned - problem.loss * (1.0 - problem.alpha[s]) * sf(pair.c0, pair.p0, x))
    return value


@njit(cache=True, nogil=True)
def _same_threshold(problem: Instance, out: np.ndarray) -> None:
    """One threshold for all. There can be several peaks between the groups' own optima, so scan first, then polish.

    Where groups live on very different scales a cell of the scan can hold several peaks: what polishing finds is then
    worse than what the scan saw, and the cell is scanned again.
    """
    a, b = out.min(), out.max()
    theta = np.empty(out.size)
    for _ in range(_RESCANS):
        best, where = -math.inf, 0
        for k in range(_SCAN):
            value = _earned(problem, a + (b - a) * k / (_SCAN - 1))
            if value > best:
                best, where = value, k
        low = a + (b - a) * max(where - 1, 0) / (_SCAN - 1)
        high = a + (b - a) * min(where + 1, _SCAN - 1) / (_SCAN - 1)
        a, b = low, high
        for _ in range(200):
            x = 0.5 * (low + high)
            if x <= low or x >= high:
                break
            theta[:] = x
            if _total(problem, theta) < 0.0:
                low = x
            else:
                high = x
        out[:] = 0.5 * (low + high)
        if _earned(problem, out[0]) >= best - 1e-12:
            break


@njit(cache=True, nogil=True)
def equal_loss(problem: Instance, out: np.ndarray) -> None:
    """Every group suffers the largest of the groups' smallest errors, below or above its own best threshold.

    At least one side always exists: a smallest error is at most one half, and accepting all or none costs one half or
    more on one of the two sides. When the asked side cannot reach the loss, the other one is taken.
    """
    target = -1.0
    for s in range(problem.alpha.size):
        pair = features(problem, s)
        target = max(target, error(problem.alpha[s], pair, out[s]))
    for s in range(problem.alpha.size):
        pair = features(problem, s)
        own = error(problem.alpha[s], pair, out[s])
        if own >= target:
            continue
        below = problem.kind == LOSS_BELOW
        if below and 1.0 - problem.alpha[s] < target:
            below = False
        elif not below and problem.alpha[s] < target:
            below = True
        left, right = reach(0.5, pair)
        near, far = out[s], left if below else right
        for _ in range(200):
            x = 0.5 * (near + far)
            if x in (near, far):
                break
            if error(problem.alpha[s], pair, x) < target:
                near = x
            else:
                far = x
        out[s] = near


@njit(cache=True, nogil=True, inline="always")
def _unit(c: int, p: np.ndarray) -> float:
    """A length on which a distribution changes."""
    low, high = ends(c, p)
    return p[1] if c == NORMAL else 0.1 * (high - low)


@njit(cache=True, nogil=True)
def _carrier(problem: Instance, out: np.ndarray, low: np.ndarray, high: np.ndarray) -> tuple[int, float, float]:
    """The group whose level hardly moves with its threshold (-1: a density is no number), a length on which it changes,
    and what the terms of the sum are of the order of; the ends of each group's support in ``low`` and ``high``.
    """
    r, thinnest, unit, size = -1, math.inf, 1.0, 0.0
    for s in range(problem.share.size):
        pair = features(problem, s)
        price = problem.gain + problem.loss
        if problem.kind == TPR:
            price = problem.gain * problem.alpha[s]
        elif problem.kind == FPR:
            price = problem.loss * (1.0 - problem.alpha[s])
        size += problem.share[s] * price
        low[s], high[s] = reach(0.5, pair)
        length = min(_unit(pair.c0, pair.p0), _unit(pair.c1, pair.p1))
        density = mixture_pdf(weight(problem.kind, problem.alpha[s]), pair, out[s]) * length
        if not 0.0 < density < math.inf:
            return -1, unit, size
        if density < thinnest:
            r, thinnest, unit = s, density, length
    return r, unit, size


@njit(cache=True, nogil=True)
def follow(problem: Instance, out: np.ndarray) -> bool:
    """Newton from the thresholds in ``out`` to the fair ones nearby; False (and ``out`` spoilt) when that fails.

    The condition is monotone, so a root found here is the root. Densities turn a move of one group's threshold into
    the moves that keep the others at the same level.
    """
    groups = problem.share.size
    low, high, pace = np.empty(groups), np.empty(groups), np.empty(groups)
    r, unit, size = _carrier(problem, out, low, high)
    if r < 0:
        return False
    x = out[r]
    for _ in range(12):
        spread(problem, r, x, low, high, out)
        f = _total(problem, out)
        for s in range(groups):
            pair = features(problem, s)
            pace[s] = mixture_pdf(weight(problem.kind, problem.alpha[s]), pair, out[s])
        small = 1e-6 * unit
        own = pace[r]
        for s in range(groups):
            if not 0.0 < pace[s] < math.inf:
                return False
            pace[s] = out[s] + small * own / pace[s]
        rise = (_total(problem, pace) - f) / small
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
            spread(problem, r, x, low, high, out)
            f = _total(problem, out)
            return abs(f) <= 1e-11 * size
    return False


@njit(cache=True, nogil=True)
def fair_batch(batch: Instances, first: int, last: int, warm: bool, out: np.ndarray) -> None:
    """`fair` for instances first..last-1 of a batch; ``warm`` starts from the thresholds in ``out``."""
    linked = batch.kind in (TPR, FPR, DP) and batch.share.shape[1] > 1
    for k in range(first, last):
        problem = instance(batch, k)
        if warm and linked and follow(problem, out[k]):
            continue
        fair(problem, out[k])
