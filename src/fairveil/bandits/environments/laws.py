"""Reward laws of plain arms as arrays, and the compiled draws every simulator and the step API share.

A law is a row of numbers (kind, probability, two parameters). `draw` gives one reward; `draw_units` gives it on the
integer grid; `draw_sum` gives the sum of a whole episode on the grid, in one binomial draw where the law allows it.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from fairveil.privacy.noise import GRID_BITS
from fairveil.randomness import Generator

UNIT = 1 << GRID_BITS
BERNOULLI, TWO_POINT, BETA, UNIFORM, RECORDED, RESAMPLED = range(6)


class Laws(NamedTuple):
    """One entry an arm; ``rows`` and ``prefix`` hold a recorded table (rewards, running sums in grid units)."""

    kind: NDArray[np.int64]
    chance: NDArray[np.float64]
    low: NDArray[np.float64]
    high: NDArray[np.float64]
    rows: NDArray[np.float64]
    prefix: NDArray[np.int64]


def make_laws(
    kind: list[int], chance: list[float], low: list[float], high: list[float], rows: NDArray[np.float64] | None = None
) -> Laws:
    table = np.zeros((0, len(kind))) if rows is None else np.ascontiguousarray(rows, np.float64)
    units = (table * UNIT).astype(np.int64)
    prefix = np.concatenate([np.zeros((1, table.shape[1]), np.int64), np.cumsum(units, axis=0)])
    return Laws(np.array(kind, np.int64), np.array(chance), np.array(low), np.array(high), table, prefix)


@njit(cache=True, nogil=True)
def draw(laws: Laws, arm: int, index: int, rng: Generator) -> float:
    """One reward of an arm in round ``index``."""
    kind = laws.kind[arm]
    if kind == BERNOULLI:
        return 1.0 if rng.random() < laws.chance[arm] else 0.0
    if kind == TWO_POINT:
        return laws.high[arm] if rng.random() < laws.chance[arm] else laws.low[arm]
    if kind == BETA:
        return rng.beta(laws.low[arm], laws.high[arm])
    if kind == UNIFORM:
        return laws.low[arm] + (laws.high[arm] - laws.low[arm]) * rng.random()
    if kind == RECORDED:
        return laws.rows[index, arm]
    return laws.rows[rng.integers(0, laws.rows.shape[0]), arm]


@njit(cache=True, nogil=True)
def draw_units(laws: Laws, arm: int, index: int, rng: Generator) -> Any:
    """One reward on the integer grid, rounded toward zero as the step API does."""
    return np.int64(draw(laws, arm, index, rng) * UNIT)


@njit(cache=True, nogil=True)
def draw_sum(laws: Laws, arm: int, index: int, count: int, rng: Generator) -> Any:
    """The sum of rounds index .. index + count - 1 of one arm, in grid units: one draw where the law allows it."""
    kind = laws.kind[arm]
    if kind == BERNOULLI:
        return rng.binomial(count, laws.chance[arm]) * UNIT
    if kind == TWO_POINT:
        ups = rng.binomial(count, laws.chance[arm])
        return ups * np.int64(laws.high[arm] * UNIT) + (count - ups) * np.int64(laws.low[arm] * UNIT)
    if kind == RECORDED:
        return laws.prefix[index + count, arm] - laws.prefix[index, arm]
    total = np.int64(0)
    for step in range(count):
        total += draw_units(laws, arm, index + step, rng)
    return total
