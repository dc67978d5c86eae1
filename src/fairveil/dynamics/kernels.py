"""Compiled densities and distribution functions, one code path for every kind of distribution.

A distribution is a pair (code, parameters). Solvers receive codes and parameter rows, so a grid of ten thousand
instances is one array and one compiled loop. Upper tails are computed as survival functions, never as one minus a
distribution function: a solver that compares acceptance rates keeps all digits on both sides.
"""

from __future__ import annotations

import math

import numpy as np

from fairveil.compiling import njit

NORMAL, TRUNCNORM, BETA, UNIFORM, HISTOGRAM, TEMPERED = 0, 1, 2, 3, 4, 5

#: Standard deviations kept of a normal: beyond them the tail is below the smallest normal double.
NORMAL_REACH = 37.0

_ROOT_TWO = math.sqrt(2.0)
LOG_ROOT_TAU = 0.5 * math.log(2.0 * math.pi)


@njit(cache=True, nogil=True, inline="always")
def phi(z: float) -> float:
    """Standard normal distribution function."""
    return 0.5 * math.erfc(-z / _ROOT_TWO)


@njit(cache=True, nogil=True)
def normal_mass(low: float, high: float) -> float:
    """Standard normal mass between two points, from whichever tail keeps the digits."""
    if low > 0.0:
        return phi(-low) - phi(-high)
    return phi(high) - phi(low)


@njit(cache=True, nogil=True)
def _beta_fraction(a: float, b: float, x: float) -> float:
    """Continued fraction of the incomplete beta function (modified Lentz), for x below the mean region."""
    tiny = 1e-300
    c = 1.0
    d = 1.0 - (a + b) * x / (a + 1.0)
    d = 1.0 / (d if abs(d) > tiny else tiny)
    value = d
    for m in range(1, 2000):
        even = m * (b - m) * x / ((a + 2 * m - 1.0) * (a + 2 * m))
        d = 1.0 + even * d
        c = 1.0 + even / c
        d = 1.0 / (d if abs(d) > tiny else tiny)
        c = c if abs(c) > tiny else tiny
        value *= d * c
        odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1.0))
        d = 1.0 + odd * d
        c = 1.0 + odd / c
        d = 1.0 / (d if abs(d) > tiny else tiny)
        c = c if abs(c) > tiny else tiny
        step = d * c
        value *= step
        if abs(step - 1.0) < 1e-16:
            break
    return value


@njit(cache=True, nogil=True)
def beta_mass_below(a: float, b: float, log_beta: float, x: float, y: float) -> float:
    """Regularised incomplete beta at x, where y = 1 - x is passed separately so that neither side loses digits."""
    if x <= 0.0:
        return 0.0
    if y <= 0.0:
        return 1.0
    if b == 1.0:
        return x**a
    if a == 1.0:
        return -math.expm1(b * math.log(y))
    log_front = a * math.log(x) + b * math.log(y) - log_beta
    if x <= (a + 1.0) / (a + b + 2.0):
        return math.exp(log_front) * _beta_fraction(a, b, x) / a
    return 1.0 - math.exp(log_front) * _beta_fraction(b, a, y) / b


@njit(cache=True, nogil=True)
def _cell(p: np.ndarray, x: float) -> int:
    """Index of the histogram cell that holds x (edges p[1:n+2])."""
    low, high = 0, int(p[0])
    while high - low > 1:
        middle = (low + high) // 2
        if p[1 + middle] <= x:
            low = middle
        else:
            high = middle
    return low


@njit(cache=True, nogil=True)
def _cdf(code: int, p: np.ndarray, x: float) -> float:
    if code == NORMAL:
        return phi((x - p[0]) / p[1])
    if code == BETA:
        return beta_mass_below(p[0], p[1], p[2], x, 1.0 - x)
    if code == TRUNCNORM:
        if x <= p[2]:
            return 0.0
        if x >= p[3]:
            return 1.0
        return normal_mass((p[2] - p[0]) / p[1], (x - p[0]) / p[1]) / p[4]
    if code == UNIFORM:
        return min(1.0, max(0.0, (x - p[0]) / (p[1] - p[0])))
    n = int(p[0])
    if x <= p[1]:
        return 0.0
    if x >= p[1 + n]:
        return 1.0
    k = _cell(p, x)
    left, right = p[1 + k], p[2 + k]
    below, above = p[2 + n + k], p[3 + n + k]
    return below + (above - below) * (x - left) / (right - left)


@njit(cache=True, nogil=True)
def cdf(code: int, p: np.ndarray, x: float) -> float:
    """P(X <= x).

    A tempered distribution is another one whose density is multiplied by p[3] on [p[1], p[2]] and by p[4] elsewhere;
    p[5], p[6] are the base's masses below and above that interval, p[7:] its parameters.
    """
    if code != TEMPERED:
        return _cdf(code, p, x)
    base = int(p[0])
    if x <= p[1]:
        return p[4] * _cdf(base, p[7:], x)
    if x <= p[2]:
        return p[4] * p[5] + p[3] * (_cdf(base, p[7:], x) - p[5])
    return 1.0 - p[4] * _sf(base, p[7:], x)


@njit(cache=True, nogil=True)
def sf(code: int, p: np.ndarray, x: float) -> float:
    """P(X > x), with full relative accuracy in the upper tail."""
    if code != TEMPERED:
        return _sf(code, p, x)
    base = int(p[0])
    if x > p[2]:
        return p[4] * _sf(base, p[7:], x)
    if x > p[1]:
        return p[4] * p[6] + p[3] * (_sf(base, p[7:], x) - p[6])
    return 1.0 - p[4] * _cdf(base, p[7:], x)


@njit(cache=True, nogil=True)
def _sf(code: int, p: np.ndarray, x: float) -> float:
    if code == NORMAL:
        return phi((p[0] - x) / p[1])
    if code == BETA:
        return beta_mass_below(p[1], p[0], p[2], 1.0 - x, x)
    if code == TRUNCNORM:
        if x <= p[2]:
            return 1.0
        if x >= p[3]:
            return 0.0
        return normal_mass((x - p[0]) / p[1], (p[3] - p[0]) / p[1]) / p[4]
    if code == UNIFORM:
        return min(1.0, max(0.0, (p[1] - x) / (p[1] - p[0])))
    return 1.0 - _cdf(code, p, x)


@njit(cache=True, nogil=True)
def logpdf(code: int, p: np.ndarray, x: float) -> float:
    """Log density; minus infinity outside the support."""
    if code == TEMPERED:
        return _logpdf(int(p[0]), p[7:], x) + math.log(p[3] if p[1] <= x <= p[2] else p[4])
    return _logpdf(code, p, x)


@njit(cache=True, nogil=True)
def _logpdf(code: int, p: np.ndarray, x: float) -> float:
    if code == NORMAL:
        z = (x - p[0]) / p[1]
        return -0.5 * z * z - p[2]
    if code == BETA:
        if x < 0.0 or x > 1.0:
            return -math.inf
        if x == 0.0:
            return math.inf if p[0] < 1.0 else (-p[2] if p[0] == 1.0 else -math.inf)
        if x == 1.0:
            return math.inf if p[1] < 1.0 else (-p[2] if p[1] == 1.0 else -math.inf)
        return (p[0] - 1.0) * math.log(x) + (p[1] - 1.0) * math.log1p(-x) - p[2]
    if code == TRUNCNORM:
        if x < p[2] or x > p[3]:
            return -math.inf
        z = (x - p[0]) / p[1]
        return -0.5 * z * z - p[5]
    if code == UNIFORM:
        return -math.log(p[1] - p[0]) if p[0] <= x <= p[1] else -math.inf
    n = int(p[0])
    if x < p[1] or x > p[1 + n]:
        return -math.inf
    k = _cell(p, x)
    mass = p[3 + n + k] - p[2 + n + k]
    return math.log(mass / (p[2 + k] - p[1 + k])) if mass > 0.0 else -math.inf


@njit(cache=True, nogil=True)
def pdf(code: int, p: np.ndarray, x: float) -> float:
    """Density."""
    value = logpdf(code, p, x)
    return math.exp(value) if value > -math.inf else 0.0


@njit(cache=True, nogil=True)
def ends(code: int, p: np.ndarray) -> tuple[float, float]:
    """Ends of the support; of a normal, where the tails vanish in double precision."""
    if code == TEMPERED:
        return _ends(int(p[0]), p[7:])
    return _ends(code, p)


@njit(cache=True, nogil=True)
def _ends(code: int, p: np.ndarray) -> tuple[float, float]:
    if code == NORMAL:
        return p[0] - NORMAL_REACH * p[1], p[0] + NORMAL_REACH * p[1]
    if code == BETA:
        return 0.0, 1.0
    if code == TRUNCNORM:
        return p[2], p[3]
    if code == UNIFORM:
        return p[0], p[1]
    return p[1], p[1 + int(p[0])]


@njit(cache=True, nogil=True)
def both(code: int, p: np.ndarray, x: float) -> tuple[float, float]:
    """(cdf, sf) for the price of one of them; whichever is small keeps its digits."""
    if code == NORMAL:
        z = (x - p[0]) / p[1]
        small = 0.5 * math.erfc(abs(z) / _ROOT_TWO)
        if z < 0.0:
            return small, 1.0 - small
        return 1.0 - small, small
    if code == BETA and 0.0 < x < 1.0 and p[0] != 1.0 and p[1] != 1.0:
        log_front = p[0] * math.log(x) + p[1] * math.log1p(-x) - p[2]
        if x <= (p[0] + 1.0) / (p[0] + p[1] + 2.0):
            below = math.exp(log_front) * _beta_fraction(p[0], p[1], x) / p[0]
            return below, 1.0 - below
        above = math.exp(log_front) * _beta_fraction(p[1], p[0], 1.0 - x) / p[1]
        return 1.0 - above, above
    return cdf(code, p, x), sf(code, p, x)
