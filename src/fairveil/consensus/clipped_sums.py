"""Integer sums over clipped rows: what a node of `private-admm` reads its data for.

Rows are put on an integer grid one by one (rounded toward zero, so norms do not grow) and a row's pull is an integer
coefficient times the integer row. Sums of integers have no rounding, so replacing a row changes a sum by at most the
difference of two contributions, each within its bound exactly; a float error in sigma only picks another allowed pull.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from fairveil.compiling import njit
from fairveil.consensus.rows import Rows
from fairveil.privacy.grid import row_units

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
PULL_BITS = 16
"""Pulls are counted in units of 2^-16."""


class UnitRows:
    """A node's rows on the grid: l2 norm at most 2^bits, l1 norm at most ``reach`` units. Private, made once.

    Putting rows on the grid is part of loading them; `moments` and `pulls` are the passes that count as reads.
    """

    def __init__(self, rows: Rows, bits: int, reach: int) -> None:
        units = row_units(rows.values, 1.0, bits)
        length = np.abs(units).sum(axis=1, keepdims=True)
        above = length > reach
        if above.any():
            shorter = np.sign(units) * (np.abs(units) * reach // np.maximum(length, 1))
            units = np.where(above, shorter, units)
        self.rows, self.bits = rows, bits
        self.units = units.astype(np.int32)

    def moments(self) -> tuple[Ints, Ints]:
        """Sums of x (units of 2^-bits) and of x*x (units of 4^-bits). One pass."""
        self.rows.reads += 1
        first, second = np.zeros(self.rows.width, np.int64), np.zeros(self.rows.width, np.int64)
        add_moments(self.units, self.rows.columns, first, second)
        return first, second

    def pulls(self, weights: Floats, steepest: int) -> Ints:
        """Sum of -y min(sigma(-y f.x), s) x in units of 2^-(bits + 16); ``steepest`` is s in units of 2^-16. One pass.

        >>> rows = UnitRows(Rows.dense([[1.0], [1.0]], [1, 1]), 4, 16)
        >>> rows.pulls(np.zeros(1), 2**15).tolist() == [-2 * 2**15 * 16]
        True
        """
        self.rows.reads += 1
        out = np.zeros(self.rows.width, np.int64)
        scaled = np.ldexp(weights, -self.bits)
        add_pulls(self.units, self.rows.columns, self.rows.signs, scaled, steepest, out)
        return out


@njit(cache=True, nogil=True)
def add_moments(units, columns, first, second):
    for r in range(len(units)):
        for k in range(units.shape[1]):
            value = np.int64(units[r, k])
            first[columns[r, k]] += value
            second[columns[r, k]] += value * value


@njit(cache=True, nogil=True)
def add_pulls(units, columns, signs, weights, steepest, out):
    for r in range(len(units)):
        z = 0.0
        for k in range(units.shape[1]):
            z += units[r, k] * weights[columns[r, k]]
        chance = 1.0 / (1.0 + math.exp(signs[r] * z))
        pull = min(np.int64(chance * 65536.0), steepest)
        if not chance >= 0.0:  # weights that are not finite: still an allowed pull
            pull = np.int64(0)
        if signs[r] > 0:
            pull = -pull
        for k in range(units.shape[1]):
            out[columns[r, k]] += pull * np.int64(units[r, k])
