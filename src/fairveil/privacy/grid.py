"""Putting data on an integer grid without letting any norm grow, and noise for symmetric matrices on that grid.

Arithmetic on the grid errs on the side of privacy: scales round up, odds round down.
"""

from __future__ import annotations

import math
from decimal import Context, Decimal
from fractions import Fraction
from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike

from fairveil.arrays import Floats, Ints
from fairveil.errors import InputError
from fairveil.privacy.noise import GRID_BITS, ROW_BITS, Noise

LARGEST_UNIT = 2**61
"""Values saturate here: noise of any allowed scale can still be added without leaving 64 bits."""


def clip_unit(values: ArrayLike, *, strict: bool = False) -> Floats:
    """Rewards in [0, 1]: clip them, or refuse with ``strict``. NaN is always refused."""
    array = np.asarray(values, np.float64)
    if np.isnan(array).any():
        raise InputError("a reward is not a number", path="reward", allowed="a finite number in [0, 1]")
    if strict and ((array < 0) | (array > 1)).any():
        raise InputError(
            "a reward is out of range", path="reward", allowed="in [0, 1]", fix="rescale it, or strict=False"
        )
    return np.clip(array, 0.0, 1.0)


def to_units(values: ArrayLike, bits: int = GRID_BITS) -> Ints:
    """Round toward zero to integers in units of 2^-bits: |result| never exceeds |value| * 2^bits.

    Saturates at 2^61 units, which brings no two values further apart. NaN is refused.

    >>> to_units([0.5, -1.75], bits=1).tolist()
    [1, -3]
    """
    array = np.asarray(values, np.float64)
    if np.isnan(array).any():
        raise InputError("a value is not a number", path="value", allowed="numbers")
    with np.errstate(over="ignore"):  # infinity saturates like every other large value
        units = np.trunc(np.ldexp(array, bits))
    return np.clip(units, -LARGEST_UNIT, LARGEST_UNIT).astype(np.int64)


def from_units(units: ArrayLike, bits: int = GRID_BITS) -> Floats:
    """Back to the data's own units."""
    return np.ldexp(np.asarray(units, np.float64), -bits)


def scalar_units(values: ArrayLike, bound: float, bits: int = GRID_BITS) -> Ints:
    """Numbers clipped to [0, bound] and rounded toward zero: no integer exceeds the bound on the grid.

    >>> scalar_units([0.5, 7.0, -1.0], 1.0, bits=1).tolist()
    [1, 2, 0]
    """
    return to_units(np.clip(np.asarray(values, np.float64), 0.0, bound), bits)


def clip_norm(rows: ArrayLike, bound: float) -> Floats:
    """Scale every row down to l2 norm at most ``bound``; a row that is not finite is refused."""
    array = np.asarray(rows, np.float64)
    if not np.isfinite(array).all():
        raise InputError("a row is not finite", path="row", allowed="finite numbers")
    largest = np.maximum(np.abs(array).max(axis=-1, keepdims=True, initial=0.0), 1e-300)
    norms = np.linalg.norm(array / largest, axis=-1, keepdims=True)  # in units of the largest entry: cannot overflow
    norms = np.maximum(norms, 1.0)  # at least 1 unless the row is zero
    # Scaling the row in units of its largest entry keeps every factor far from the subnormal numbers.
    return np.where(norms > bound / largest, (array / largest) * (bound / norms), array)


def row_units(rows: ArrayLike, bound: float, bits: int = ROW_BITS) -> Ints:
    """Clip rows to the bound and round them toward zero: their outer products in integers keep the sensitivity.

    The integer rows obey the bound exactly: where floating-point clipping left a row above it by a rounding error, one
    more unit is taken off each entry.
    """
    units = to_units(clip_norm(rows, bound), bits)
    limit = math.floor(Fraction(bound) ** 2 * 4**bits)
    above = (units * units).sum(axis=-1, keepdims=True) > limit
    return np.where(above, units - np.sign(units), units)


def symmetric_gaussian(noise: Noise, dimension: int, sigma: float) -> Ints:
    """A symmetric integer matrix of discrete Gaussians: off-diagonal std sigma, diagonal std sqrt(2) sigma.

    For two symmetric matrices that differ by D this noise costs rho = ||D||_F^2 / (4 sigma^2) in zCDP: an entry above
    the diagonal stands for two equal ones and costs D_ij^2/(2 sigma^2) = 2 D_ij^2/(4 sigma^2), a diagonal entry costs
    D_ii^2/(4 sigma^2). Replacing a row of norm at most L changes the sum of outer products by
    ||D||_F <= sqrt(2) L^2, hence rho = L^4/(2 sigma^2), that is mu = L^2/sigma on a fine grid.
    Only the d (d + 1)/2 entries on and above the diagonal are drawn.

    >>> from fairveil.privacy.noise import SeededNoise
    >>> drawn = symmetric_gaussian(SeededNoise(1), 3, 1000.0)
    >>> bool((drawn == drawn.T).all())
    True
    """
    upper = np.triu_indices(dimension, 1)
    matrix = np.zeros((dimension, dimension), np.int64)
    matrix[upper] = noise.gaussian(sigma, len(upper[0]))
    matrix += matrix.T
    matrix[np.diag_indices(dimension)] = noise.gaussian(math.nextafter(math.sqrt(2.0) * sigma, math.inf), dimension)
    return matrix


COIN_BITS = 62
"""Exact coins have probabilities that are multiples of 2^-62."""
COINS = 2**COIN_BITS
FINE = 20
"""Grids are chosen so that sensitivities and scales measure at least 2^20 units: rounding then costs under 1e-6."""
_LARGEST_LOG_ODDS = 43.0  # ln(2^62) < 42.98: beyond this a 62-bit coin cannot tell budgets apart


def exp_below(exponent: float) -> Fraction:
    """A rational number at most e^exponent, within 1e-45 of it (relatively).

    `Decimal.exp` is correctly rounded at 50 digits; taking off one part in 10^46 turns that into a lower bound.
    """
    near = Fraction(Decimal(exponent).exp(Context(prec=50)))
    return near * (1 - Fraction(1, 10**46))


@lru_cache(maxsize=1024)
def keep_weight(epsilon: float) -> int:
    """The largest n < 2^62 with n / (2^62 - n) <= e^epsilon: a coin n/2^62 never spends more than epsilon."""
    odds = exp_below(min(float(epsilon), _LARGEST_LOG_ODDS))
    return min(math.floor(COINS * odds / (1 + odds)), COINS - 1)


def float_above(value: Fraction) -> float:
    """The smallest float that is at least ``value``: a noise scale that never falls short.

    >>> float_above(Fraction(1, 3)) > 1 / 3, float_above(Fraction(1, 4))
    (True, 0.25)
    """
    near = float(value)
    return near if Fraction(near) >= value else math.nextafter(near, math.inf)


def grid_bits(*lengths: float | Fraction, fineness: int = FINE) -> int:
    """The smallest b such that every length is at least 2^fineness units of 2^-b (b is negative for large lengths).

    >>> grid_bits(1.0), grid_bits(0.75), grid_bits(1.0, 1024.0, fineness=4)
    (20, 21, 4)
    """
    exponent = min(math.frexp(float(length))[1] for length in lengths)
    return fineness + 1 - exponent


def units_above(length: float | Fraction, bits: int) -> int:
    """The length in units of 2^-bits, rounded up."""
    return math.ceil(Fraction(length) * Fraction(2) ** bits)


def share_above(sigma: float, honest: int) -> float:
    """A float s with honest s^2 >= sigma^2, checked in rational arithmetic: what each of so many parties draws.

    >>> share_above(3.0, 9), share_above(2.0**21, 1) == 2.0**21
    (1.0, True)
    """
    share = sigma / math.sqrt(honest)
    while honest * Fraction(share) ** 2 < Fraction(sigma) ** 2:
        share = math.nextafter(share, math.inf)
    return share


def sigma_above(sensitivity: float, rho: float) -> float:
    """A float sigma with sensitivity^2 / (2 sigma^2) <= rho, checked in rational arithmetic."""
    sigma = sensitivity / math.sqrt(2 * rho)
    while Fraction(sensitivity) ** 2 > 2 * Fraction(rho) * Fraction(sigma) ** 2:
        sigma = math.nextafter(sigma, math.inf)
    return sigma
