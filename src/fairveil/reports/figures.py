"""From noisy sums to rates, means, gap and ratio with all their intervals; arrays in, arrays out."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from fairveil.arrays import Bools, Floats
from fairveil.reports.intervals import (
    GroupSums,
    Limits,
    Tail,
    estimable,
    gap,
    means,
    one_winner,
    pair_alpha,
    rates,
    ratio,
)


class Figure(NamedTuple):
    """One figure of every group: what is behind the period, what happened in it, and all groups at once."""

    expected: Limits
    realised: Limits
    simultaneous: Limits
    known: Bools


class Apart(NamedTuple):
    """max - min, or min/max, over known groups: the pair by position (largest, smallest) and its limits."""

    value: Floats
    low: Floats
    high: Floats
    most: Floats
    least: Floats


def rated(sums: GroupSums, level: float, laplace: bool) -> Figure:
    """Rates of all groups; a group that does not stand out of its noise is [0, 1]."""
    alpha, groups = 1 - level, sums.chosen.shape[-1]
    known = estimable(sums.shown, sums.shown_noise, laplace)
    tail, shared = Tail.at(alpha, laplace), Tail.at(alpha / groups, laplace)
    return _masked(
        rates(sums, tail, sampling=True), rates(sums, tail, sampling=False), rates(sums, shared, sampling=True), known
    )


def averaged(total: Floats, count: Floats, noise: float, count_noise: float, level: float, laplace: bool) -> Figure:
    """Means of all cells from centred sums; a cell that does not stand out of its noise is [0, 1]."""
    alpha, cells = 1 - level, total.shape[-1]
    known = estimable(count, count_noise, laplace)
    tail, shared = Tail.at(alpha, laplace), Tail.at(alpha / cells, laplace)
    given = (total, count, noise, count_noise)
    return _masked(
        means(*given, tail, sampling=True), means(*given, tail, sampling=False), means(*given, shared, sampling=True),
        known,
    )  # fmt: skip


def _masked(expected: Limits, realised: Limits, shared: Limits, known: Bools) -> Figure:
    def shown(limits: Limits) -> Limits:
        value, low, high = (
            np.where(known, held, blank) for held, blank in zip(limits, (np.nan, 0.0, 1.0), strict=True)
        )
        return Limits(value, low, high)

    return Figure(shown(expected), shown(realised), shown(shared), known)


def rates_apart(sums: GroupSums, figure: Figure, level: float, laplace: bool) -> tuple[Apart, Apart]:
    """Gap and impact ratio of rates with at most one winner a round."""
    tail = Tail.at(pair_alpha(1 - level, sums.chosen.shape[-1]), laplace)
    corrected = _filled(rates(sums, tail, sampling=True))
    return _apart(_filled(figure.expected), corrected, one_winner(sums), figure.known)


def means_apart(total: Floats, count: Floats, noise: float, count_noise: float, shared: float, figure: Figure,
                level: float, laplace: bool) -> tuple[Apart, Apart]:  # fmt: skip
    """Gap and ratio of means of different people: independent but for the noise that a public total shares.

    ``shared``: covariance of the noise of two counts, at most 0. It enters by m_i m_j, whose sign is not known: the
    correlation is taken as negative, which makes the interval longer.
    """
    tail = Tail.at(pair_alpha(1 - level, total.shape[-1]), laplace)
    corrected = _filled(means(total, count, noise, count_noise, tail, sampling=True))
    own = np.maximum(count, 0.0) / 4 + noise
    top = 0.25 * abs(shared) / np.sqrt(own[..., :, None] * own[..., None, :])
    return _apart(_filled(figure.expected), corrected, -np.minimum(1.0, top), figure.known)


def _filled(limits: Limits) -> Limits:
    return Limits(np.nan_to_num(limits.value, nan=0.5), limits.low, limits.high)


def _apart(single: Limits, corrected: Limits, correlation: Floats | float, known: Bools) -> tuple[Apart, Apart]:
    value = single.value
    most = np.where(known, value, -np.inf).argmax(axis=-1)
    least = np.where(known, value, np.inf).argmin(axis=-1)
    top, bottom = (np.take_along_axis(value, at[..., None], -1)[..., 0] for at in (most, least))
    enough = known.sum(axis=-1) >= 2
    low, high = gap(single, corrected, correlation, known)
    small, large = ratio(single, corrected, correlation, known)
    quotient = np.divide(bottom, top, out=np.ones_like(bottom), where=top > 0)

    def held(found: Floats, blank: float) -> Floats:
        return np.where(enough, found, blank)

    return (
        Apart(held(top - bottom, np.nan), held(low, 0.0), held(high, 1.0), most, least),
        Apart(held(quotient, np.nan), held(small, 0.0), held(large, 1.0), most, least),
    )
