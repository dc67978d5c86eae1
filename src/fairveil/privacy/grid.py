"""Putting data on an integer grid without letting any norm grow, and noise for symmetric matrices on that grid."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fairveil.errors import InputError
from fairveil.privacy.noise import GRID_BITS, ROW_BITS, Ints, Noise

LARGEST_UNIT = 2**61
"""Values saturate here: noise of any allowed scale can still be added without leaving 64 bits."""


def clip_unit(values: ArrayLike, *, strict: bool = False) -> NDArray[np.float64]:
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


def from_units(units: ArrayLike, bits: int = GRID_BITS) -> NDArray[np.float64]:
    """Back to the data's own units."""
    return np.ldexp(np.asarray(units, np.float64), -bits)


def scalar_units(values: ArrayLike, bound: float, bits: int = GRID_BITS) -> Ints:
    """Numbers clipped to [0, bound] and rounded toward zero: no integer exceeds the bound on the grid.

    >>> scalar_units([0.5, 7.0, -1.0], 1.0, bits=1).tolist()
    [1, 2, 0]
    """
    return to_units(np.clip(np.asarray(values, np.float64), 0.0, bound), bits)


def clip_norm(rows: ArrayLike, bound: float) -> NDArray[np.float64]:
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
