"""Two distributions side by side: the features of a group's unqualified and qualified people, and their mixtures."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from fairveil.compiling import njit
from fairveil.dynamics.kernels import BETA, both, cdf, ends, logpdf, pdf, sf


class Pair(NamedTuple):
    """Features of one group: code and parameters of the unqualified (0) and of the qualified (1)."""

    c0: int
    p0: np.ndarray
    c1: int
    p1: np.ndarray


@njit(cache=True, nogil=True)
def log_ratio(pair: Pair, x: float) -> float:
    """log f1(x)/f0(x): minus infinity where only f0 has mass, plus infinity where only f1 has."""
    if pair.c0 == BETA and pair.c1 == BETA and 0.0 <= x <= 1.0:
        value = pair.p0[2] - pair.p1[2]
        if pair.p1[0] != pair.p0[0]:
            value += (pair.p1[0] - pair.p0[0]) * (math.log(x) if x > 0.0 else -math.inf)
        if pair.p1[1] != pair.p0[1]:
            value += (pair.p1[1] - pair.p0[1]) * (math.log1p(-x) if x < 1.0 else -math.inf)
        return value
    top, bottom = logpdf(pair.c1, pair.p1, x), logpdf(pair.c0, pair.p0, x)
    if top == -math.inf and bottom == -math.inf:
        return -math.inf if x <= ends(pair.c1, pair.p1)[0] else math.inf
    return top - bottom


@njit(cache=True, nogil=True)
def lead(below0: float, above0: float, below1: float, above1: float) -> float:
    """F0 - F1, what looking qualified gains an unqualified person, without cancellation in the tails."""
    return below0 - below1 if below0 < 0.5 else above1 - above0


@njit(cache=True, nogil=True)
def outer(w: float, first: tuple[float, float], second: tuple[float, float]) -> tuple[float, float]:
    """Ends of a mixture's support from the ends of its parts."""
    if w == 0.0:
        return first
    if w == 1.0:
        return second
    return min(first[0], second[0]), max(first[1], second[1])


@njit(cache=True, nogil=True)
def reach(w: float, pair: Pair) -> tuple[float, float]:
    """Ends of the support of the mixture that puts weight w on the second distribution."""
    return outer(w, ends(pair.c0, pair.p0), ends(pair.c1, pair.p1))


@njit(cache=True, nogil=True)
def mixture(w: float, pair: Pair, x: float) -> tuple[float, float]:
    """(cdf, sf) of the mixture that puts weight w on the second distribution."""
    if w == 0.0:
        return both(pair.c0, pair.p0, x)
    if w == 1.0:
        return both(pair.c1, pair.p1, x)
    below0, above0 = both(pair.c0, pair.p0, x)
    below1, above1 = both(pair.c1, pair.p1, x)
    return (1.0 - w) * below0 + w * below1, (1.0 - w) * above0 + w * above1


@njit(cache=True, nogil=True)
def mixture_pdf(w: float, pair: Pair, x: float) -> float:
    """Density of the mixture."""
    value = 0.0
    if w < 1.0:
        value += (1.0 - w) * pdf(pair.c0, pair.p0, x)
    if w > 0.0:
        value += w * pdf(pair.c1, pair.p1, x)
    return value


@njit(cache=True, nogil=True)
def mixture_quantile(
    w: float,
    pair: Pair,
    level: float,
    tail: float,
    left: float,
    right: float,
    guess: float,
) -> float:
    """The point in [left, right] where the mixture reaches a level; the smaller of level and tail (1 - level) decides.

    Newton steps from a guess inside a shrinking bracket. A step that leaves the bracket, or is more than half as long
    as the one before, is replaced by a halving: flat stretches and jumps of the density cost at most about sixty steps.
    Newton's error is squared by each step once it is near, so there a step below 1e-9 of the value is the last one; far
    away, where a density has a pole, such steps are only small.
    """
    if level <= 0.0 or tail <= 0.0:
        return left if level <= 0.0 else right
    by_tail = tail < level
    near = 1e-6 * min(level, tail)
    x = guess if left < guess < right else 0.5 * (left + right)
    scale = max(abs(left), abs(right))
    move = right - left
    for _ in range(200):
        below, above = mixture(w, pair, x)
        gap = tail - above if by_tail else below - level
        if gap == 0.0:
            return x
        if gap < 0.0:
            left = x
        else:
            right = x
        density = mixture_pdf(w, pair, x)
        step = x - gap / density if 0.0 < density < math.inf else math.nan
        if left < step < right and abs(step - x) <= 0.5 * move:
            if abs(gap) <= near and abs(step - x) <= 1e-9 * max(abs(x), 1e-12 * scale):
                return step
        else:
            step = 0.5 * (left + right)
        if right - left <= 2e-16 * scale:
            return step
        move, x = abs(step - x), step
    return x


@njit(cache=True, nogil=True)
def quantile(code: int, p: np.ndarray, level: float, tail: float) -> float:
    """The point where one distribution reaches a level; ``tail`` is 1 - level."""
    left, right = ends(code, p)
    return mixture_quantile(0.0, Pair(code, p, code, p), level, tail, left, right, 0.5 * (left + right))


@njit(cache=True, nogil=True)
def fill(kind: int, code: int, p: np.ndarray, points: np.ndarray, out: np.ndarray) -> None:
    """Evaluate one function on many points: 0 cdf, 1 sf, 2 pdf, 3 logpdf, 4 quantile."""
    for i in range(points.size):
        x = points[i]
        if kind == 0:
            out[i] = cdf(code, p, x)
        elif kind == 1:
            out[i] = sf(code, p, x)
        elif kind == 2:
            out[i] = pdf(code, p, x)
        elif kind == 3:
            out[i] = logpdf(code, p, x)
        else:
            out[i] = quantile(code, p, x, 1.0 - x)


@njit(cache=True, nogil=True)
def fill_log_ratio(pair: Pair, points: np.ndarray, out: np.ndarray) -> None:
    """`log_ratio` on many points."""
    for i in range(points.size):
        out[i] = log_ratio(pair, points[i])
