"""Numbers to attack: coordinates of an output, linear combinations, and float bits."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
COORDINATES = 16
"""Coordinates attacked one by one; wider outputs are attacked through their best linear combination only."""


@dataclass(frozen=True)
class Score:
    """One number a trial, with the words that name it in a finding."""

    words: str
    of: Callable[[Floats], Floats]


def scores(zero: Floats, one: Floats, statistic: str) -> Iterator[Score]:
    """Every score worth trying, fixed by looking at these (proposal) trials only."""
    width = zero.shape[1]
    for column in range(min(width, COORDINATES)):
        name = statistic if width == 1 else f"{statistic}[{column}]"
        yield Score(name, _coordinate(column))
        if (np.rint(zero[:, column]) != zero[:, column]).any():
            yield Score(f"lowest set bit of {name}", _bit_of(column))
    if width > 1:
        weights = separating_direction(zero, one)
        yield Score(f"a linear combination of {statistic}", lambda rows: rows @ weights)


def _coordinate(column: int) -> Callable[[Floats], Floats]:
    return lambda rows: rows[:, column]


def _bit_of(column: int) -> Callable[[Floats], Floats]:
    return lambda rows: lowest_bit(rows[:, column])


def separating_direction(zero: Floats, one: Floats) -> Floats:
    """Fisher's direction: large mean shift against small spread. Noise that cancels in a combination is found here."""
    shift = one.mean(0) - zero.mean(0)
    scale = np.maximum(np.concatenate([zero, one]).std(0), 1e-300)
    centred = np.concatenate([zero - zero.mean(0), one - one.mean(0)]) / scale
    values, vectors = np.linalg.eigh(centred.T @ centred / len(centred))
    # a direction without spread separates perfectly if the means differ there: keep it, but bounded
    strength = (vectors.T @ (shift / scale)) / np.maximum(values, 1e-12)
    return (vectors @ strength) / scale


def lowest_bit(values: Floats) -> Floats:
    """log2 of the lowest set bit of each float: which grid it lies on. Zero counts as the coarsest grid.

    >>> lowest_bit(np.array([1.0, 0.75, 6.0, 0.0])).tolist()
    [0.0, -2.0, 1.0, 2000.0]
    """
    mantissa, exponent = np.frexp(values)
    whole = np.abs(np.ldexp(mantissa, 53)).astype(np.int64)
    low = (whole & -whole).astype(np.float64)
    with np.errstate(divide="ignore"):
        bit = np.log2(low) + exponent - 53
    return np.where(whole == 0, 2000.0, bit)
