"""What is summed: scalars, vectors or outer products, as flat int64 arrays on a public grid.

A scalar lies in [0, bound]; a vector has l2 norm at most bound; a symmetric sum adds v v^T for rows v of l2 norm at
most bound and keeps the upper triangle only (diagonal first, then the entries above it, row by row).

Sensitivity (largest l2, for matrices Frobenius, change of the sum when one row changes):

=================  ============  ============
shape              replace-row   zero-out-row
=================  ============  ============
scalar in [0, b]   b             b
vector, norm b     2 b           b
symmetric, norm b  sqrt(2) b^2   b^2
=================  ============  ============

For two rows of norm b, ||vv^T - ww^T||_F^2 = |v|^4 + |w|^4 - 2 <v,w>^2 <= 2 b^4, reached by orthogonal rows.
A symmetric difference D has ||D||_F^2 = sum_i D_ii^2 + 2 sum_{i<j} D_ij^2, so noise of std s on the diagonal and
s/sqrt(2) above
it costs exactly mu = ||D||_F / s: the noise is isometric and no pair of rows is better protected than another.

Rows are rounded toward zero to integers BEFORE the product is formed: the norm of the integer row cannot exceed the
bound, so the integer products keep the sensitivity. Rounding the entries of v v^T instead would raise it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fairveil.arrays import Floats, Ints
from fairveil.errors import InputError
from fairveil.privacy.encodings import RowCode
from fairveil.privacy.grid import row_units, scalar_units
from fairveil.privacy.noise import Noise
from fairveil.privacy.stability import ROW, Chain

CODES = {"scalar": RowCode(1.0, 1.0), "vector": RowCode(1.0, 2.0), "symmetric": RowCode(1.0, math.sqrt(2.0))}
"""The columns of the table above, for b = 1."""
CAPACITY = 2.0**61
"""No integer sum may reach this: the other half of int64 is room for noise."""


@dataclass(frozen=True)
class Grid:
    """One shape on one grid: rows are counted in units of 2^-bits, sums in units of 2^-sum_bits.

    ``copies`` lays several independent streams of the same rows side by side in one flat array, for simulation.
    """

    shape: str
    dimension: int
    bound: float
    neighbours: str
    bits: int
    copies: int = 1

    @cached_property
    def sum_bits(self) -> int:
        """Products of two rows count in squared units."""
        return 2 * self.bits if self.shape == "symmetric" else self.bits

    @cached_property
    def width(self) -> int:
        """Numbers in one flat array."""
        return self.copies * self._single

    @cached_property
    def _single(self) -> int:
        return self.dimension * (self.dimension + 1) // 2 if self.shape == "symmetric" else self.dimension

    @cached_property
    def row_limit(self) -> float:
        """Largest norm of an integer row."""
        return math.ldexp(self.bound, self.bits)

    @cached_property
    def entry_limit(self) -> float:
        """Largest absolute value that one row adds to one number of the sum."""
        return self.row_limit**2 if self.shape == "symmetric" else self.row_limit

    @property
    def sensitivity(self) -> float:
        """Largest change of the integer sum, in units, when one row changes."""
        unit = Chain(ROW, replaced=self.neighbours == "replace-row")
        return CODES[self.shape].moved(unit) * self.entry_limit

    @cached_property
    def spread(self) -> Floats:
        """Noise std of every number of the flat sum relative to the noise level: 1, or 1/sqrt(2) off the diagonal."""
        single = np.ones(self._single)
        if self.shape == "symmetric":
            single[self.dimension :] = math.sqrt(0.5)
        spread = np.tile(single, self.copies)
        spread.setflags(write=False)
        return spread

    @cached_property
    def upper(self) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        """Row and column of every number of a flat symmetric sum."""
        above = np.triu_indices(self.dimension, 1)
        diagonal = np.arange(self.dimension)
        return np.concatenate([diagonal, above[0]]), np.concatenate([diagonal, above[1]])

    def rows(self, values: ArrayLike) -> Ints:
        """One row or a block of rows, clipped and rounded toward zero to integers, as a fresh (rows, width) array."""
        try:
            array = np.array(values, np.float64)
        except (TypeError, ValueError):
            raise InputError("rows are numbers", path="rows", allowed="an array of numbers") from None
        if self.shape == "scalar":
            array = array.reshape(-1, 1) if array.ndim < 2 else array
        elif array.ndim == 1:
            array = array[None, :]
        columns = 1 if self.shape == "scalar" else self.dimension
        if array.ndim != 2 or array.shape[1] != columns:
            raise InputError(
                "the rows have the wrong shape",
                path="rows",
                given=array.shape,
                allowed=f"({columns},) or (any, {columns})",
            )
        if not np.isfinite(array).all():
            raise InputError("a row is not finite", path="rows", allowed="finite numbers")
        if self.shape == "scalar":
            return scalar_units(array, self.bound, self.bits)
        return row_units(array, self.bound, self.bits)

    def total(self, values: ArrayLike) -> tuple[Ints, int]:
        """The flat integer sum of a block of rows and how many rows it holds."""
        rows = self.rows(values)
        if self.shape != "symmetric":
            flat = rows.sum(axis=0)
        else:
            first, second = self.upper
            flat = rows[0, first] * rows[0, second] if len(rows) == 1 else (rows.T @ rows)[first, second]
        return np.tile(flat, self.copies), len(rows)

    @property
    def draws_by_row(self) -> bool:
        """Does one call for several noises draw what as many calls do? Not where streams draw one after the other."""
        return self.shape != "symmetric" or self.copies == 1

    def draw(self, noise: Noise, sigma: float, count: int = 1) -> Ints:
        """``count`` flat integer noises of level ``sigma`` (units): N(0, sigma^2), off the diagonal N(0, sigma^2/2)."""
        if self.shape != "symmetric":
            return noise.gaussian(sigma, count * self.width).reshape(count, self.width)
        # Stream after stream: side by side they draw what they would draw one after the other.
        single = sigma * self.spread[: self._single]
        drawn = noise.gaussians(np.broadcast_to(single, (self.copies, count, self._single)))
        return drawn.transpose(1, 0, 2).reshape(count, self.width)

    def publish(self, flat: ArrayLike) -> Floats:
        """A flat sum in units as a fresh float array in the data's own units: shape (), (d,) or (d, d)."""
        return self.unpack(np.ldexp(np.asarray(flat, np.float64), -self.sum_bits))

    def unpack(self, flat: Floats) -> Floats:
        """Flat numbers (..., width) in their own shape: (...), (..., d) or (..., d, d), after an axis of copies."""
        if self.copies > 1:
            flat = flat.reshape(*flat.shape[:-1], self.copies, self._single)
        if self.shape == "scalar":
            return np.array(flat[..., 0])
        if self.shape == "vector":
            return np.array(flat)
        full = np.empty((*flat.shape[:-1], self.dimension, self.dimension))
        first, second = self.upper
        full[..., first, second] = flat
        full[..., second, first] = flat
        return full
