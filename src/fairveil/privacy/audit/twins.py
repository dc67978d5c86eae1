"""Broken twins: mechanisms with one planted mistake each. An audit that does not catch all of them is worth nothing.

Every twin claims ``epsilon`` and protects less. They live here, away from the mechanisms, because `make audit` plants
them beside the sound ones; nothing else may import them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairveil.privacy.audit.bounds import FinerClaim
from fairveil.privacy.audit.pair import AuditPair
from fairveil.privacy.mechanisms import AboveThreshold, Binomial, Gaussian, Laplace
from fairveil.privacy.noise import Noise
from fairveil.randomness import Generator

Floats = NDArray[np.floating[Any]]


def half_noise(epsilon: float) -> AuditPair:
    """Noise of half the scale."""

    def run(world: int, trials: int, noise: Noise, rng: Generator) -> Floats:
        return Laplace(sensitivity=1.0, epsilon=2 * epsilon).releases(float(world), noise, trials)

    return AuditPair(run, "the value is 0 or 1", "noisy value", epsilon)


def reused_noise(epsilon: float) -> AuditPair:
    """Two queries of half the budget each, answered with one and the same draw: their difference has no noise."""

    def run(world: int, trials: int, noise: Noise, rng: Generator) -> Floats:
        first = Laplace(sensitivity=1.0, epsilon=epsilon / 2).releases(0.0, noise, trials)
        return np.stack([first, first + world], axis=1)

    return AuditPair(run, "the second query is 0 or 1, the first is 0", "noisy answers", epsilon)


def missing_clip(epsilon: float) -> AuditPair:
    """A value that should have been clipped to [0, 1] is 3."""

    def run(world: int, trials: int, noise: Noise, rng: Generator) -> Floats:
        return Laplace(sensitivity=1.0, epsilon=epsilon).releases(3.0 * world, noise, trials)

    return AuditPair(run, "one person's value is 0 or 3 in a range of [0, 1]", "noisy sum", epsilon)


def wrong_sensitivity(epsilon: float) -> AuditPair:
    """Replacing a value in [-1, 1] moves a sum by 2, but the noise is calibrated to adding or removing it: to 1."""

    def run(world: int, trials: int, noise: Noise, rng: Generator) -> Floats:
        return Laplace(sensitivity=1.0, epsilon=epsilon).releases(2.0 * world - 1.0, noise, trials)

    return AuditPair(run, "one person's value is -1 or 1", "noisy sum", epsilon)


def uncounted_rows(epsilon: float) -> AuditPair:
    """One person has four rows in a Gaussian sum whose noise is calibrated to one: seen in mu, hardly in epsilon."""
    sound = Gaussian(sensitivity=1.0, epsilon=epsilon, delta=1e-5)

    def run(world: int, trials: int, noise: Noise, rng: Generator) -> Floats:
        return sound.releases(4.0 * world, noise, trials)

    claim = FinerClaim("mu", sound.plan.mu)
    return AuditPair(run, "four rows of one person are 0 or 1", "noisy sum", epsilon, 1e-5, claim)


def float_noise(epsilon: float) -> AuditPair:
    """Textbook Laplace noise in floating point: its low bits tell which grid the value was on."""

    def run(world: int, trials: int, noise: Noise, rng: Generator) -> Floats:
        return rng.laplace(0.0, 1 / epsilon, trials) + float(world)

    return AuditPair(run, "the value is 0 or 1", "noisy value", epsilon)


def bare_queries(epsilon: float) -> AuditPair:
    """Above-threshold with noise on the threshold alone: two queries that cross each other give it away."""
    sound = AboveThreshold(sensitivity=1.0, epsilon=epsilon, threshold=0.0)

    def run(world: int, trials: int, noise: Noise, rng: Generator) -> Floats:
        limits = noise.laplace(sound.threshold_scale, trials) * 2.0**-sound.bits
        above = np.array([0.0, 1.0] if world == 0 else [1.0, 0.0]) >= limits[:, None]
        return np.where(above.any(1), above.argmax(1), 2).astype(np.float64)

    return AuditPair(run, "the queries are (0, 1) or (1, 0)", "stopping time", epsilon)


def shown_fraction(epsilon: float) -> AuditPair:
    """Integer noise on a value halved after the fact: the fraction is released without noise."""

    def run(world: int, trials: int, noise: Noise, rng: Generator) -> Floats:
        return world / 2 + Binomial(sensitivity=1, epsilon=epsilon, delta=1e-5).releases(0, noise, trials)

    return AuditPair(run, "the value is 0 or 1, its weight 1/2", "noisy value", epsilon, 1e-5)


TWINS: dict[str, Callable[[float], AuditPair]] = {
    "half-noise": half_noise,
    "reused-noise": reused_noise,
    "missing-clip": missing_clip,
    "wrong-sensitivity": wrong_sensitivity,
    "uncounted-rows": uncounted_rows,
    "float-noise": float_noise,
    "bare-queries": bare_queries,
    "shown-fraction": shown_fraction,
}
