"""Reward laws of plain arms as arrays, and the compiled draws every simulator and the step API share.

A law is a row of numbers (kind, probability, two parameters). `draw` gives one reward, `draw_sum` gives the
sum of a whole episode on the integer grid, in one binomial draw where the law allows it.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fairveil.compiling import njit
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
def draw(kind, chance, low, high, rows, arm, index, rng):
    """One reward of an arm in round ``index``.

    Takes the arrays of the laws; loops that run every round draw Bernoulli rewards themselves (same stream), because
    handing arrays to a function costs ten times the draw.
    """
    if kind[arm] == BERNOULLI:
        return 1.0 if rng.random() < chance[arm] else 0.0
    if kind[arm] == TWO_POINT:
        return high[arm] if rng.random() < chance[arm] else low[arm]
    if kind[arm] == BETA:
        return rng.beta(low[arm], high[arm])
    if kind[arm] == UNIFORM:
        return low[arm] + (high[arm] - low[arm]) * rng.random()
    if kind[arm] == RECORDED:
        return rows[index, arm]
    return rows[rng.integers(0, rows.shape[0]), arm]


@njit(cache=True, nogil=True)
def draw_one(laws: Laws, arm: int, index: int, rng: Generator) -> float:
    """One reward, for the step API."""
    kind, chance, low, high, rows, _ = laws
    return draw(kind, chance, low, high, rows, arm, index, rng)


@njit(cache=True, nogil=True)
def draw_sum(laws: Laws, arm: int, index: int, count: int, rng: Generator) -> Any:
    """The sum of rounds index .. index + count - 1 of one arm, in grid units: one draw where the law allows it."""
    kind, chance, low, high, rows, prefix = laws
    if kind[arm] == BERNOULLI:
        return rng.binomial(count, chance[arm]) * UNIT
    if kind[arm] == TWO_POINT:
        ups = rng.binomial(count, chance[arm])
        return ups * np.int64(high[arm] * UNIT) + (count - ups) * np.int64(low[arm] * UNIT)
    if kind[arm] == RECORDED:
        return prefix[index + count, arm] - prefix[index, arm]
    total = np.int64(0)
    for step in range(count):
        total += np.int64(draw(kind, chance, low, high, rows, arm, index + step, rng) * UNIT)
    return total
