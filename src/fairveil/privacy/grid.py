"""Putting data on an integer grid without letting any norm grow."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fairveil.errors import InputError
from fairveil.privacy.noise import GRID_BITS, ROW_BITS


def clip_unit(values: ArrayLike, *, strict: bool = False) -> NDArray[np.float64]:
    """Rewards in [0, 1]: clip them, or refuse with ``strict``. NaN is always refused."""
    array = np.asarray(values, np.float64)
    if np.isnan(array).any():
        raise InputError("a reward is not a number", path="reward", allowed="a finite number in [0, 1]")
    if strict and ((array < 0) | (array > 1)).any():
        raise InputError("a reward is out of range", path="reward", allowed="in [0, 1]", fix="rescale it, or strict=False")
    return np.clip(array, 0.0, 1.0)


def to_units(values: ArrayLike, bits: int = GRID_BITS) -> NDArray[np.int64]:
    """Round toward zero to integers in units of 2^-bits: |result| never exceeds |value| * 2^bits."""
    return np.trunc(np.asarray(values, np.float64) * 2.0**bits).astype(np.int64)


def from_units(units: ArrayLike, bits: int = GRID_BITS) -> NDArray[np.float64]:
    return np.asarray(units, np.float64) * 2.0**-bits


def clip_norm(rows: ArrayLike, bound: float) -> NDArray[np.float64]:
    """Scale every row down to l2 norm at most ``bound``; a row that is not finite is refused."""
    array = np.asarray(rows, np.float64)
    if not np.isfinite(array).all():
        raise InputError("a row is not finite", path="row", allowed="finite numbers")
    norms = np.linalg.norm(array, axis=-1, keepdims=True)
    return array * np.minimum(1.0, bound / np.maximum(norms, 1e-300))


def row_units(rows: ArrayLike, bound: float, bits: int = ROW_BITS) -> NDArray[np.int64]:
    """Clip rows to the bound and round them toward zero: their outer products in integers keep the sensitivity."""
    return to_units(clip_norm(rows, bound), bits)
