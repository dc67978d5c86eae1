"""A node's rows: few nonzero entries each, norm at most 1, and every pass over them is counted.

Rows are kept as fixed-width lists of (column, value): one-hot records have one entry an attribute, dense rows have all
of them. Whoever reads a node's data goes through `Rows.gradient`, `Rows.curvature` or `Rows.sums`, which count.
Nodes of `private-admm` read theirs for integer sums over clipped rows (`UnitRows`).
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fairveil.arrays import Floats, Ints
from fairveil.compiling import njit
from fairveil.consensus.losses import Loss, curvature_at, loss_at, slope_at
from fairveil.errors import InputError
from fairveil.privacy.grid import clip_norm, row_units

PULL_BITS = 16
"""Pulls are counted in units of 2^-16."""


class Rows:
    """The rows and labels of one node, clipped to norm 1. Its repr shows sizes only.

    >>> rows = Rows.dense([[3.0, 4.0], [0.0, 0.5]], [1, -1])
    >>> len(rows), rows.width, rows.values.round(6).tolist()
    (2, 2, [[0.6, 0.8], [0.0, 0.5]])
    """

    def __init__(self, values: Floats, columns: NDArray[np.int32], signs: Floats, width: int) -> None:
        self.values, self.columns, self.signs, self.width = values, columns, signs, width
        self.reads = 0

    @classmethod
    def dense(cls, rows: ArrayLike, labels: ArrayLike, *, strict: bool = False) -> Rows:
        """Rows of a matrix. Rows longer than 1 are scaled down, or refused with ``strict``; nobody learns how many."""
        array = np.asarray(rows, np.float64)
        if array.ndim != 2 or array.shape[1] < 1:
            raise InputError("rows are a matrix", path="X", given=f"shape {array.shape}", allowed="(rows, columns)")
        columns = np.broadcast_to(np.arange(array.shape[1], dtype=np.int32), array.shape)
        return cls.entries(array, columns, labels, array.shape[1], strict=strict)

    @classmethod
    def entries(
        cls, values: ArrayLike, columns: ArrayLike, labels: ArrayLike, width: int, *, strict: bool = False
    ) -> Rows:
        """Rows given by their entries: ``values[r, k]`` stands in column ``columns[r, k]``; columns rise along a row.

        A column that came twice in a row would add up its entries and make the row longer than its norm says.
        """
        found = np.asarray(values, np.float64)
        places = np.asarray(columns)
        whole = places.dtype.kind in "iu" and places.shape == found.shape and found.ndim == 2
        if not whole or (places < 0).any() or (places >= width).any() or (np.diff(places, axis=1) <= 0).any():
            raise InputError(
                "the columns of a row do not rise",
                path="columns",
                allowed=f"whole numbers from 0 to {width - 1}, each once",
            )
        signs = np.asarray(labels, np.float64)
        if not np.isfinite(found).all():
            raise InputError("a row is not finite", path="X", allowed="finite numbers")
        if signs.shape != (len(found),) or not np.isin(signs, (-1.0, 1.0)).all():
            raise InputError("a label is not known", path="y", allowed="-1 or 1, one a row")
        if strict and (np.linalg.norm(found, axis=1) > 1 + 1e-9).any():
            raise InputError(
                "a row is longer than 1", path="X", allowed="rows of norm at most 1", fix="rescale, or strict=False"
            )
        return cls(clip_norm(found, 1.0), np.ascontiguousarray(places, np.int32), signs, width)

    def __len__(self) -> int:
        return len(self.signs)

    def __repr__(self) -> str:
        return f"Rows({len(self)} x {self.width})"

    def take(self, chosen: NDArray[Any]) -> Rows:
        """A copy with some of the rows, its own count of reads."""
        return Rows(self.values[chosen], self.columns[chosen], self.signs[chosen], self.width)

    def uncounted(self) -> Rows:
        """The same rows for an experimenter who measures on them: their passes are not the node's."""
        return Rows(self.values, self.columns, self.signs, self.width)

    def mean_losses(self, candidates: Floats, loss: Loss) -> Floats:
        """Mean loss of every candidate (one a row): measured, not counted as a read."""
        found: Floats = mean_losses(self.values, self.columns, self.signs, candidates, loss.code, loss.number)
        return found

    def gradient(self, weights: Floats, loss: Loss) -> Floats:
        """Sum over rows of L'(y f.x) y x. One pass."""
        self.reads += 1
        out = np.zeros(self.width)
        add_gradient(self.values, self.columns, self.signs, weights, loss.code, loss.number, out)
        return out

    def curvature(self, weights: Floats, loss: Loss) -> tuple[Floats, Floats]:
        """The gradient, and the sum over rows of L''(y f.x) x x'. One pass."""
        self.reads += 1
        gradient, matrix = np.zeros(self.width), np.zeros((self.width, self.width))
        add_curvature(self.values, self.columns, self.signs, weights, loss.code, loss.number, gradient, matrix)
        return gradient, matrix + np.triu(matrix, 1).T


@njit(cache=True, nogil=True)
def add_gradient(values, columns, signs, weights, code, number, out):
    """Adds the gradient of the summed loss to ``out``."""
    for r in range(len(signs)):
        z = 0.0
        for k in range(values.shape[1]):
            z += values[r, k] * weights[columns[r, k]]
        pull = signs[r] * slope_at(code, number, signs[r] * z)
        if pull != 0.0:
            for k in range(values.shape[1]):
                out[columns[r, k]] += pull * values[r, k]


@njit(cache=True, nogil=True)
def add_curvature(values, columns, signs, weights, code, number, gradient, matrix):
    """Adds gradient and the upper half of the Hessian of the summed loss; columns rise along a row."""
    for r in range(len(signs)):
        z = 0.0
        for k in range(values.shape[1]):
            z += values[r, k] * weights[columns[r, k]]
        z *= signs[r]
        pull = signs[r] * slope_at(code, number, z)
        bend = curvature_at(code, number, z)
        for k in range(values.shape[1]):
            value, column = values[r, k], columns[r, k]
            gradient[column] += pull * value
            if bend != 0.0 and value != 0.0:
                value *= bend
                for j in range(k, values.shape[1]):
                    matrix[column, columns[r, j]] += value * values[r, j]


@njit(cache=True, nogil=True)
def mean_losses(values, columns, signs, candidates, code, number):
    """Mean loss over the rows of every candidate (one a row of ``candidates``)."""
    total = np.zeros(len(candidates))
    for r in range(len(signs)):
        for c in range(len(candidates)):
            z = 0.0
            for k in range(values.shape[1]):
                z += values[r, k] * candidates[c, columns[r, k]]
            total[c] += loss_at(code, number, signs[r] * z)
    return total / max(1, len(signs))


@njit(cache=True, nogil=True)
def scores(values, columns, weights):
    """f.x of every row."""
    out = np.zeros(len(values))
    for r in range(len(values)):
        for k in range(values.shape[1]):
            out[r] += values[r, k] * weights[columns[r, k]]
    return out


class UnitRows:
    """A node's rows on the grid: l2 norm at most 2^bits, l1 norm at most ``reach`` units. Private, made once.

    Rows are put on an integer grid one by one (rounded toward zero, so norms do not grow) and a row's pull is an
    integer coefficient times the integer row. Sums of integers have no rounding, so replacing a row changes a sum by at
    most the difference of two contributions, each within its bound exactly; a float error in sigma only picks another
    allowed pull.

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
