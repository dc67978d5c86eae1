"""A published histogram: everything here is post-processing and may be used any number of times."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from fairveil.errors import InputError
from fairveil.privacy.sums.shapes import Floats


@dataclass(frozen=True)
class PrivateHistogram:
    """Counts per bin, their total, and a distribution function that rises from 0 to 1.

    ``counts`` are unbiased and may be negative; ``levels[k]`` is the share of the first k bins, made monotone by
    least squares (isotonic regression) and kept in [0, 1]. ``empty`` says that the total is below one: nothing is known
    and the distribution function is that of the uniform law.

    >>> shown = PrivateHistogram.of(0.0, 1.0, np.array([1.0, 3.0, 0.0, 4.0]), 8.0)
    >>> shown.cdf([0.0, 0.25, 0.5, 2.0]).tolist(), float(shown.quantile(0.5))
    ([0.0, 0.125, 0.5, 1.0], 0.5)
    """

    edges: Floats
    counts: Floats
    total: float
    levels: Floats
    empty: bool

    @classmethod
    def of(cls, low: float, high: float, counts: Floats, total: float) -> PrivateHistogram:
        from scipy.optimize import isotonic_regression

        edges = np.linspace(low, high, len(counts) + 1)
        empty = not total >= 1.0
        if empty:
            levels = np.linspace(0.0, 1.0, len(edges))
        else:
            inner = isotonic_regression(np.cumsum(counts)[:-1]).x if len(counts) > 1 else np.zeros(0)
            levels = np.concatenate([[0.0], np.clip(inner / total, 0.0, 1.0), [1.0]])
        for array in (edges, counts, levels):
            array.setflags(write=False)
        return cls(edges, counts, float(total), levels, empty)

    def cdf(self, points: ArrayLike) -> Floats:
        """Share of values at or below each point, linear inside a bin, in [0, 1] and monotone."""
        return np.asarray(np.interp(_numbers(points), self.edges, self.levels))

    def quantile(self, shares: ArrayLike) -> Floats:
        """The smallest point whose `cdf` reaches each share in [0, 1]."""
        wanted = _numbers(shares)
        if ((wanted < 0) | (wanted > 1)).any():
            raise InputError("a share is out of range", path="shares", allowed="in [0, 1]")
        right = np.clip(np.searchsorted(self.levels, wanted, side="left"), 1, len(self.levels) - 1)
        below, above = self.levels[right - 1], self.levels[right]
        part = np.clip((wanted - below) / np.where(above > below, above - below, 1.0), 0.0, 1.0)
        return np.asarray(self.edges[right - 1] + part * (self.edges[right] - self.edges[right - 1]))


def _numbers(values: ArrayLike) -> Floats:
    array = np.asarray(values, np.float64)
    if np.isnan(array).any():
        raise InputError("a point is not a number", path="points", allowed="numbers")
    return array
