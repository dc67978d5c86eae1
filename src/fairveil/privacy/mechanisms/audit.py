"""Audit pairs of the mechanisms: for each the pair of inputs that separates the worlds best, as far as we know."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairveil.errors import SpecError
from fairveil.privacy.audit.pair import AuditPair, claim_of, finer_claim
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
from fairveil.privacy.mechanisms.selection import Selection
from fairveil.privacy.noise import Noise
from fairveil.randomness import Generator
from fairveil.registry import register

CANDIDATES = 6
TRIALS = 100_000
"""A release is one draw: many of them are made at once."""
QUERIES, MANY_QUERIES = 6, 8


def _pair(mechanism: Mechanism, inputs: tuple[Any, Any], worlds: str, statistic: str) -> AuditPair:
    def run(world: int, trials: int, noise: Noise, rng: Generator) -> NDArray[Any]:
        return mechanism.releases(inputs[world], noise, trials)

    stated: Any = getattr(mechanism, "epsilon", None), getattr(mechanism, "delta", None)
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


@register("audit-pair", "mechanism:discrete-laplace")
def discrete_laplace_pair(mechanism: DiscreteLaplace) -> AuditPair:
    """0, or the sensitivity."""
    return _pair(
        mechanism, _shift(mechanism, mechanism.sensitivity, int), "the value is 0 or the sensitivity", "noisy value"
    )


@register("audit-pair", "mechanism:gaussian")
def gaussian_pair(mechanism: Gaussian) -> AuditPair:
    """0, or the sensitivity."""
    inputs = _shift(mechanism, mechanism.sensitivity, float)
    return _pair(mechanism, inputs, "the value is 0 or the sensitivity", "noisy value")


@register("audit-pair", "mechanism:discrete-gaussian")
def discrete_gaussian_pair(mechanism: DiscreteGaussian) -> AuditPair:
    """0, or the sensitivity rounded down."""
    shift = math.floor(mechanism.sensitivity)
    if shift < 1:
        raise SpecError(
            "no two integers are this close", path="sensitivity", given=mechanism.sensitivity, allowed=">= 1"
        )
    return _pair(mechanism, _shift(mechanism, shift, int), "the value is 0 or the sensitivity", "noisy value")


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
    top, inputs = mechanism.sensitivity, []
    for below in (0.0, top):
        inputs.append(np.full(MANY_QUERIES, mechanism.threshold - below))
    pair = _pair(mechanism, (inputs[0], inputs[1]), "all queries fall by the sensitivity", "stopping time")
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
    pair = _pair(mechanism, (0, mechanism.sensitivity), "the value is 0 or the sensitivity", "noisy value")
    return replace(pair, trials=10 * TRIALS)  # the claim at one delta shows little of the noise
