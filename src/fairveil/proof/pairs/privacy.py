"""Audit pairs of mechanisms and running sums: the two inputs that separate the worlds best, as far as we know.

The first leaf of a sum is the worst one: a tree counts it on every level, and its column of a Toeplitz code is the
longest. An observer sees all published prefixes up to a power of two, projected on the difference between the two rows.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairveil.arrays import Floats
from fairveil.configuration import describe
from fairveil.errors import SpecError
from fairveil.privacy.histograms.histogram import Histogram
from fairveil.privacy.mechanisms import (
    AboveThreshold,
    Binomial,
    DiscreteGaussian,
    DiscreteLaplace,
    Gaussian,
    Laplace,
    Mechanism,
    NormGamma,
    OneBit,
    RandomizedResponse,
)
from fairveil.privacy.mechanisms.base import Selection
from fairveil.privacy.noise import Noise
from fairveil.privacy.sums.base import BoundedSum, RunningSum
from fairveil.proof.pairs import AuditPair, Run, claim_of, finer_claim
from fairveil.randomness import Generator
from fairveil.registry import register

CANDIDATES = 6
TRIALS = 100_000
"""A release is one draw: many of them are made at once."""
QUERIES, MANY_QUERIES = 6, 8


def _pair(mechanism: Mechanism, inputs: tuple[Any, Any], worlds: str, statistic: str) -> AuditPair:
    def run(world: int, trials: int, noise: Noise, rng: Generator) -> NDArray[Any]:
        return mechanism.releases(inputs[world], noise, trials)

    facts = describe(mechanism)
    stated: Any = facts.get("epsilon"), facts.get("delta")
    epsilon, delta = stated if None not in stated else claim_of(mechanism.event())
    return AuditPair(run, worlds, statistic, epsilon, delta, finer_claim(mechanism.event()), trials=TRIALS)


def _shift(mechanism: Any, length: float, dtype: Callable[[Any], Any]) -> tuple[Any, Any]:
    """Zero, and the same with the first coordinate moved by ``length``."""
    if mechanism.dimension == 1:
        return dtype(0), dtype(length)
    there = np.zeros(mechanism.dimension, dtype)  # type: ignore[call-overload]
    there[0] = length
    return np.zeros_like(there), there


@register("audit-pair", "mechanism:laplace")
def laplace_pair(mechanism: Laplace) -> AuditPair:
    """Value at the lower end of its range, or one sensitivity above."""
    low = 0.0 if mechanism.low is None else mechanism.low
    inputs = _shift(mechanism, mechanism.sensitivity, float)
    return _pair(mechanism, (inputs[0] + low, inputs[1] + low), "the value or value + sensitivity", "noisy value")


def _value_pair(mechanism: Mechanism, inputs: tuple[Any, Any]) -> AuditPair:
    return _pair(mechanism, inputs, "the value is 0 or the sensitivity", "noisy value")


@register("audit-pair", "mechanism:discrete-laplace")
def discrete_laplace_pair(mechanism: DiscreteLaplace) -> AuditPair:
    """0, or the sensitivity."""
    return _value_pair(mechanism, _shift(mechanism, mechanism.sensitivity, int))


@register("audit-pair", "mechanism:gaussian")
def gaussian_pair(mechanism: Gaussian) -> AuditPair:
    """0, or the sensitivity."""
    return _value_pair(mechanism, _shift(mechanism, mechanism.sensitivity, float))


@register("audit-pair", "mechanism:discrete-gaussian")
def discrete_gaussian_pair(mechanism: DiscreteGaussian) -> AuditPair:
    """0, or the sensitivity rounded down."""
    shift = math.floor(mechanism.sensitivity)
    if shift < 1:
        raise SpecError(
            "no two integers are this close", path="sensitivity", given=mechanism.sensitivity, allowed=">= 1"
        )
    return _value_pair(mechanism, _shift(mechanism, shift, int))


@register("audit-pair", "mechanism:one-bit")
def one_bit_pair(mechanism: OneBit) -> AuditPair:
    """One person's value is 0 or 1."""

    def run(world: int, trials: int, noise: Noise, rng: Generator) -> NDArray[Any]:
        return mechanism.encode(np.full(trials, float(world)), noise)

    return AuditPair(run, "one person's value is 0 or 1", "report", mechanism.epsilon)


@register("audit-pair", "mechanism:randomized-response")
def randomized_response_pair(mechanism: RandomizedResponse) -> AuditPair:
    """One person's category is 0 or 1."""
    return _pair(mechanism, (0, 1), "one person's category is 0 or 1", "report")


def selection_pair(mechanism: Selection) -> AuditPair:
    """One candidate is a sensitivity ahead of all others, or behind them."""
    top = mechanism.sensitivity
    ahead, behind = np.zeros(CANDIDATES), np.full(CANDIDATES, top)
    ahead[0], behind[0] = top, 0.0
    if mechanism.monotone:
        behind[:] = 0.0
        worlds = "candidate 0 has one sensitivity more in world 0, all other scores are equal"
    else:
        worlds = "candidate 0 is one sensitivity ahead of all others, or one behind"
    return _pair(mechanism, (ahead, behind), worlds, "picked candidate")


for _name in ("exponential", "permute-and-flip", "report-noisy-max"):
    register("audit-pair", f"mechanism:{_name}")(selection_pair)


@register("audit-pair", "mechanism:above-threshold")
def above_threshold_pair(mechanism: AboveThreshold) -> AuditPair:
    """Queries on the threshold, or one sensitivity away from it in the direction that hurts most."""
    top = mechanism.sensitivity
    low, high = np.full(QUERIES, mechanism.threshold - top), np.full(QUERIES, mechanism.threshold)
    if mechanism.monotone:
        low[-1] = high[-1]
        worlds = "all queries but the last rise by the sensitivity"
    else:
        low[-1], high[-1] = high[-1], low[-1]
        worlds = "all queries but the last rise by the sensitivity, the last one falls"
    return _pair(mechanism, (low, high), worlds, "stopping time")


@register("audit-pair", "mechanism:above-threshold/below")
def below_threshold_pair(mechanism: AboveThreshold) -> AuditPair:
    """All queries on the threshold, or all below it: hints that add up unless the threshold has a noise of its own."""
    on = np.full(MANY_QUERIES, mechanism.threshold)
    pair = _pair(mechanism, (on, on - mechanism.sensitivity), "all queries fall by the sensitivity", "stopping time")
    return replace(pair, trials=2 * TRIALS)


@register("audit-pair", "mechanism:norm-gamma")
def norm_gamma_pair(mechanism: NormGamma) -> AuditPair:
    """0, or the sensitivity along the first axis; the statistic is the log-likelihood ratio of the continuous law."""
    centres = np.zeros((2, mechanism.dimension))
    centres[1, 0] = mechanism.sensitivity

    def run(world: int, trials: int, noise: Noise, rng: Generator) -> NDArray[Any]:
        released = mechanism.releases(centres[world], noise, trials)
        return np.linalg.norm(released - centres[1], axis=1) - np.linalg.norm(released - centres[0], axis=1)

    worlds = "the vector is 0 or the sensitivity along the first axis"
    return AuditPair(run, worlds, "difference of the distances to both inputs", mechanism.epsilon)


@register("audit-pair", "mechanism:binomial")
def binomial_pair(mechanism: Binomial) -> AuditPair:
    """0, or the sensitivity."""
    pair = _value_pair(mechanism, (0, mechanism.sensitivity))
    return replace(pair, trials=10 * TRIALS)  # the claim at one delta shows little of the noise


WATCHED = 8
"""Releases that an audit watches."""
BESIDE = 9
"""Other rows in the leaf of an outlier."""
_NUMBERS = 2**20
"""Numbers that are simulated side by side."""


def worst_rows(sums: RunningSum) -> tuple[Floats, Floats]:
    """Two rows whose exchange moves the sum by exactly its sensitivity.

    >>> from fairveil.privacy.sums import BatchSum
    >>> [row.tolist() for row in worst_rows(BatchSum(shape="symmetric", dimension=2, mu=1.0))]
    [[1.0, 0.0], [0.0, 1.0]]
    """
    first, second = np.zeros(sums.dimension), np.zeros(sums.dimension)
    first[0] = sums.bound
    if sums.neighbours == "replace-row" and sums.shape == "vector":
        second[0] = -sums.bound
    if sums.neighbours == "replace-row" and sums.shape == "symmetric" and sums.dimension > 1:
        second[1] = sums.bound
    return first, second


def direction(sums: RunningSum, first: Floats, second: Floats) -> Floats:
    """Unit vector (or matrix) from one row's contribution to the other's."""
    if sums.shape == "symmetric":
        difference = np.outer(first, first) - np.outer(second, second)
    else:
        difference = first - second if sums.shape == "vector" else np.asarray(first[0] - second[0])
    return difference / np.linalg.norm(difference)


def watched(sums: RunningSum) -> int:
    """How many releases an audit makes."""
    if not isinstance(sums, BoundedSum):
        return WATCHED - 1
    return min(WATCHED, 1 << (int(sums.releases).bit_length() - 1))


def run_prefixes(
    sums: RunningSum, rows: tuple[Floats, Floats], world: int, trials: int, noise: Noise, rng: Generator
) -> Floats:
    """Projected prefixes of ``trials`` streams: the first leaf holds the row of this world, later leaves are empty."""
    projection = direction(sums, *worst_rows(sums)).reshape(-1)
    block = max(1, _NUMBERS // sums.grid.width)
    parts = []
    for start in range(0, trials, block):
        copies = min(block, trials - start)
        wide = sums.many(copies)
        state = wide.add(wide.start(), rows[world] if sums.shape != "scalar" else rows[world][..., 0])
        seen = np.empty((copies, watched(sums)))
        for release in range(seen.shape[1]):
            state, estimate = wide.release(state, noise)
            seen[:, release] = estimate.reshape(copies, -1) @ projection
        parts.append(seen)
    return np.concatenate(parts)


def _claimed(sums: RunningSum | Histogram, run: Run, worlds: str, statistic: str) -> AuditPair:
    epsilon, delta = claim_of(sums.event(), 1e-5 if sums.delta is None else sums.delta)
    return AuditPair(run, worlds, statistic, epsilon, delta, finer_claim(sums.event()))


def _sum_pair(sums: RunningSum, rows: tuple[Floats, Floats], worlds: str) -> AuditPair:
    return _claimed(sums, partial(run_prefixes, sums, rows), worlds, "published prefixes along the difference")


def replaced_row(sums: RunningSum) -> AuditPair:
    """The first row is one or the other of the two rows that are furthest apart."""
    return _sum_pair(sums, worst_rows(sums), "the first row is exchanged for the one that moves the sum most")


def outlying_row(sums: RunningSum) -> AuditPair:
    """The first row is zero or far outside the bound, beside others at the bound.

    A sum that does not clip gives itself away, and so does one that takes its bound from the largest row: the others
    shrink with it.
    """
    rows = np.zeros((2, 1 + BESIDE, sums.dimension))
    rows[:, 1:, 0], rows[1, 0, 0] = sums.bound, 10 * sums.bound
    return _sum_pair(
        sums, (rows[0], rows[1]), "the first row is zero or ten times the bound, beside others at the bound"
    )


for _name in ("batch", "tree", "toeplitz", "hybrid"):
    register("audit-pair", f"sum:{_name}")(replaced_row)
    register("audit-pair", f"sum:{_name}/outlier")(outlying_row)


def run_counts(
    histogram: Histogram, values: tuple[list[float], list[float]], world: int, trials: int, noise: Noise, rng: Generator
) -> Floats:
    """Published counts of ``trials`` histograms of the values of this world."""
    state = histogram.add(histogram.start(), values[world])
    return histogram.measure(state, noise, trials)


def _counted(histogram: Histogram, values: tuple[list[float], list[float]], worlds: str) -> AuditPair:
    return _claimed(histogram, partial(run_counts, histogram, values), worlds, "published counts")


@register("audit-pair", "sum:histogram")
def moved_value(histogram: Histogram) -> AuditPair:
    """One value moves from the first bin to the last, which share no node of the tree but the root."""
    return _counted(histogram, ([histogram.low], [histogram.high]), "one value lies in the first bin or in the last")


@register("audit-pair", "sum:histogram/absent")
def absent_value(histogram: Histogram) -> AuditPair:
    """One value is there or not: promised only where the total is private."""
    if histogram.total != "noisy":
        raise SpecError("a public total shows how many values there are", path="total", allowed='"noisy"')
    return _counted(histogram, ([histogram.low], []), "one value is present or absent")
