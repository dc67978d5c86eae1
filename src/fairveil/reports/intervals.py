"""Intervals of rates, means, gaps and ratios from noisy sums: post-processing, free, and written once for arrays.

Every function takes arrays whose last axis runs over groups (leading axes are repetitions) and returns such arrays.
Nothing here sees a row: sums, their noise and public numbers only.

| symbol | meaning |
|---|---|
| A, S, Q, n | chosen, shown, centred reward sum, rounds in which a group was shown |
| v | variance of the noise of one sum |
| z | normal quantile of the level |
| l, u | lower and upper limit of one group |

Laplace noise enters a normal formula with its standard deviation times ln(1/alpha)/(z sqrt 2), which makes the quantile
of the noise alone exact at the level alpha that is used.

References: Newcombe 1998 and Donner and Zou 2012 (limits of a difference from limits of its parts, "MOVER"); Wilson
1927 (a limit as a root of a quadratic).
"""

from __future__ import annotations

import math
from statistics import NormalDist
from typing import NamedTuple

import numpy as np

from fairveil.arrays import Bools, Floats

SURE = 0.001
"""Chance with which noise alone makes an empty group look as if somebody was there."""
STEPS = 60
"""Halvings in which a ratio is found: to the last digit of a float."""


class Tail(NamedTuple):
    """A two-sided level as numbers: the normal quantile, and what the noise's standard deviation is multiplied by."""

    z: float
    factor: float

    @classmethod
    def at(cls, alpha: float, laplace: bool) -> Tail:
        """
        >>> round(Tail.at(0.05, True).factor, 2), round(Tail.at(0.01, True).factor, 2), Tail.at(0.05, False).factor
        (1.08, 1.26, 1.0)
        """
        z = NormalDist().inv_cdf(1 - alpha / 2)
        return cls(z, math.log(1 / alpha) / (z * math.sqrt(2)) if laplace else 1.0)


class GroupSums(NamedTuple):
    """Noisy numbers of all groups and the variance of their noise; a public number has variance 0.

    ``covariance``: of the noise of two groups' ``chosen``, below 0 after the public total was used.
    """

    chosen: Floats
    shown: Floats
    rounds: Floats
    chosen_noise: Floats | float
    shown_noise: Floats | float = 0.0
    covariance: float = 0.0


class Limits(NamedTuple):
    """Point and interval of every group."""

    value: Floats
    low: Floats
    high: Floats


def balanced(noisy: Floats, total: Floats | float) -> Floats:
    """GroupSums moved equally so that they have their public total: noise v becomes v (1 - 1/G), covariance -v/G."""
    missing = np.asarray(total)[..., None] - noisy.sum(axis=-1, keepdims=True)
    return noisy + missing / noisy.shape[-1]


def _between(a: Floats, b: Floats, c: Floats, low: float, high: float) -> tuple[Floats, Floats]:
    """The interval where a x^2 + b x + c <= 0, inside [low, high]; all of it where a <= 0."""
    known = a > 0
    safe = np.where(known, a, 1.0)
    reach = np.sqrt(np.maximum(b * b - 4 * safe * c, 0.0))
    bottom, top = (np.clip((-b + sign * reach) / (2 * safe), low, high) for sign in (-1, 1))
    return np.where(known, bottom, low), np.where(known, top, high)


def rates(sums: GroupSums, tail: Tail, *, sampling: bool) -> Limits:
    """Rates chosen/shown. With ``sampling`` the rate behind the period, with at most one winner a round; without it the
    rate that happened, from which noise alone is taken."""
    chosen, shown, own = sums.chosen, sums.shown, z_squared(tail)
    noise, below = own * tail.factor**2 * sums.chosen_noise, own * tail.factor**2 * sums.shown_noise
    a, b = shown**2 - below, -2 * chosen * shown
    if sampling:
        a, b = a + own * shown**2 / np.maximum(sums.rounds, 1.0), b - own * shown
    low, high = _between(a, b, chosen**2 - noise, 0.0, 1.0)
    value = np.clip(chosen / np.where(shown > 0, shown, np.nan), 0.0, 1.0)
    return Limits(value, low, high)


def means(total: Floats, count: Floats, noise: Floats | float, count_noise: Floats | float, tail: Tail, *,
          sampling: bool) -> Limits:  # fmt: skip
    """Means in [0, 1] of values whose centred sums (value - 1/2) are given, on so many counted values."""
    own = z_squared(tail)
    spread, below = own * tail.factor**2 * noise, own * tail.factor**2 * count_noise
    held = np.maximum(count, 0.0)
    a, c = count**2 - below, total**2 - spread
    if sampling:
        a, c = a + own * held, c - own * held / 4
    low, high = _between(a, -2 * total * count, c, -0.5, 0.5)
    value = np.clip(total / np.where(count > 0, count, np.nan), -0.5, 0.5)
    return Limits(value + 0.5, low + 0.5, high + 0.5)


def z_squared(tail: Tail) -> float:
    return tail.z * tail.z


def estimable(count: Floats, noise: Floats | float, laplace: bool) -> Bools:
    """Whether a noisy count stands out of its own noise; decided on noisy numbers alone."""
    sd = np.sqrt(np.asarray(noise, np.float64))
    reach = math.log(1 / (2 * SURE)) / math.sqrt(2) if laplace else NormalDist().inv_cdf(1 - SURE)
    return (count >= 1.0) & (count > reach * sd)


def one_winner(sums: GroupSums) -> Floats:
    """Correlation of two groups' chosen, below 0: who is chosen in a round keeps the others out. Shape (..., G, G).

    Only one group wins a round, so a winner more in one group is one less in the others: -min(V_i, V_j) at most, with
    V = A (1 - A/n); noise adds the covariance that a public total gives it.
    """
    chosen, rounds = np.maximum(sums.chosen, 0.0), np.maximum(sums.rounds, 1.0)
    own = np.maximum(chosen * (1 - np.minimum(chosen / rounds, 1.0)), 0.0)
    noisy = own + sums.chosen_noise
    shared = np.minimum(own[..., :, None], own[..., None, :]) - sums.covariance
    root = np.sqrt(np.maximum(noisy[..., :, None] * noisy[..., None, :], 1e-300))
    return -np.minimum(1.0, shared / root)


def _reach(first: Floats, second: Floats, correlation: Floats) -> Floats:
    return np.sqrt(np.maximum(first**2 + second**2 - 2 * correlation * first * second, 0.0))


def _arms(limits: Limits) -> tuple[Floats, Floats]:
    """How far the limits are below and above the point."""
    return np.maximum(limits.value - limits.low, 0.0), np.maximum(limits.high - limits.value, 0.0)


def differences(limits: Limits, correlation: Floats | float) -> tuple[Floats, Floats]:
    """Lower and upper limit of value_i - value_j for every ordered pair, shape (..., G, G)."""
    down, up = _arms(limits)
    apart = limits.value[..., :, None] - limits.value[..., None, :]
    r = np.asarray(correlation, np.float64)
    low = apart - _reach(down[..., :, None], up[..., None, :], r)
    high = apart + _reach(up[..., :, None], down[..., None, :], r)
    return low, high


def _pairs(known: Bools) -> Bools:
    """Ordered pairs of two different groups that are both known."""
    both = known[..., :, None] & known[..., None, :]
    return both & ~np.eye(known.shape[-1], dtype=bool)


def gap(single: Limits, corrected: Limits, correlation: Floats | float, known: Bools) -> tuple[Floats, Floats]:
    """Limits of max - min over known groups.

    The upper one is the largest of all pairs' at the single level: the pair with the true gap is one of them. The lower
    one is the largest of all pairs' at a level that is shared by the pairs (``corrected``), and at least 0.
    """
    pairs = _pairs(known)
    high = np.where(pairs, differences(single, correlation)[1], -np.inf).max(axis=(-2, -1))
    low = np.where(pairs, differences(corrected, correlation)[0], -np.inf).max(axis=(-2, -1))
    return np.clip(low, 0.0, 1.0), np.clip(high, 0.0, 1.0)


def _ratios(limits: Limits, correlation: Floats | float, lower: bool) -> Floats:
    """For every ordered pair the largest k in [0, 1] at which value_i - k value_j is positive by its lower limit.

    By its upper limit where ``lower`` is false. Found by halving: the limits fall with k.
    """
    down, up = _arms(limits)
    first, second = (down, up) if lower else (up, down)
    one, other = limits.value[..., :, None], limits.value[..., None, :]
    r = np.asarray(correlation, np.float64)
    bottom, top = np.zeros(np.broadcast(one, other).shape), np.ones(np.broadcast(one, other).shape)
    for _ in range(STEPS):
        middle = (bottom + top) / 2
        reach = _reach(first[..., :, None], middle * second[..., None, :], r)
        inside = one - middle * other + (-reach if lower else reach) >= 0
        bottom, top = np.where(inside, middle, bottom), np.where(inside, top, middle)
    return bottom if lower else top


def ratio(single: Limits, corrected: Limits, correlation: Floats | float, known: Bools) -> tuple[Floats, Floats]:
    """Limits of min/max over known groups: the lower one at the single level, the upper one shared by the pairs."""
    pairs = _pairs(known)
    low = np.where(pairs, _ratios(single, correlation, True), np.inf).min(axis=(-2, -1))
    high = np.where(pairs, _ratios(corrected, correlation, False), np.inf).min(axis=(-2, -1))
    return np.clip(low, 0.0, 1.0), np.clip(high, 0.0, 1.0)


def pair_alpha(alpha: float, groups: int) -> float:
    """Two-sided level of one pair where all ordered pairs share one side of alpha."""
    return alpha / max(groups * (groups - 1), 1)


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
