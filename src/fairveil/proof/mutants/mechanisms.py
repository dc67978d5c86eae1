"""Mistakes of single mechanisms: above-threshold with one of its noises, and copies with one planted mistake each."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any

from numpy.typing import NDArray

from fairveil.arrays import Floats, Ints
from fairveil.privacy.mechanisms import AboveThreshold, Binomial, Gaussian, Laplace
from fairveil.privacy.noise import Noise, ZeroNoise
from fairveil.proof.engine.bounds import FinerClaim
from fairveil.proof.mutants import Mutant, Weakened, broken_copy, method, together, with_noise
from fairveil.proof.pairs import AuditPair
from fairveil.randomness import Generator
from fairveil.registry import register


class Without(Weakened):
    """A source that draws nothing where one scale of Laplace noise is asked for."""

    __slots__ = ("missing",)

    def __init__(self, inner: Noise, missing: float) -> None:
        super().__init__(inner, 1.0)
        self.missing = missing

    def laplace(self, scale: float, size: int = 1) -> Ints:
        return (ZeroNoise() if scale == self.missing else self.inner).laplace(scale, size)


def _without(mechanism: AboveThreshold, missing: float) -> AbstractContextManager[None]:
    change = with_noise(lambda inner: Without(inner, missing))
    return together(*(method(type(mechanism), name, change) for name in ("releases", "start", "ask")))


@register("mutant", "mechanism:above-threshold/bare-threshold")
def bare_threshold(mechanism: AboveThreshold) -> Mutant:
    """Every query is compared with the threshold itself."""
    words = "a threshold without noise"
    return Mutant("bare-threshold", words, lambda thing: _without(thing, mechanism.threshold_scale))


@register("mutant", "mechanism:above-threshold/bare-queries")
def bare_queries(mechanism: AboveThreshold) -> Mutant:
    """Queries are compared as they are with a threshold that was noised once."""
    return Mutant("bare-queries", "queries without noise", lambda thing: _without(thing, mechanism.query_scale))


TRIALS = 100_000


@broken_copy("mechanism:laplace/wrong-sensitivity")
def wrong_sensitivity(epsilon: float) -> AuditPair:
    """Replacing a value in [-1, 1] moves a sum by 2, but the noise is calibrated to adding or removing it: to 1."""

    def run(world: int, trials: int, noise: Noise, rng: Generator) -> Floats:
        return Laplace(sensitivity=1.0, epsilon=epsilon).releases(2.0 * world - 1.0, noise, trials)

    return AuditPair(run, "one person's value is -1 or 1", "noisy sum", epsilon, trials=TRIALS)


@broken_copy("mechanism:gaussian/uncounted-rows")
def uncounted_rows(epsilon: float) -> AuditPair:
    """One person has four rows in a Gaussian sum whose noise is calibrated to one: seen in mu, hardly in epsilon."""
    sound = Gaussian(sensitivity=1.0, epsilon=epsilon, delta=1e-5)

    def run(world: int, trials: int, noise: Noise, rng: Generator) -> Floats:
        return sound.releases(4.0 * world, noise, trials)

    claim = FinerClaim("mu", sound.plan.mu)
    return AuditPair(run, "four rows of one person are 0 or 1", "noisy sum", epsilon, 1e-5, claim, TRIALS)


@broken_copy("mechanism:laplace/float-noise")
def float_noise(epsilon: float) -> AuditPair:
    """Textbook Laplace noise in floating point: its low bits tell which grid the value was on."""

    def run(world: int, trials: int, noise: Noise, rng: Generator) -> Floats:
        return rng.laplace(0.0, 1 / epsilon, trials) + float(world)

    return AuditPair(run, "the value is 0 or 1", "noisy value", epsilon, trials=TRIALS)


@broken_copy("mechanism:binomial/shown-fraction")
def shown_fraction(epsilon: float) -> AuditPair:
    """Integer noise on a value halved after the fact: the fraction is released without noise."""

    def run(world: int, trials: int, noise: Noise, rng: Generator) -> NDArray[Any]:
        return world / 2 + Binomial(sensitivity=1, epsilon=epsilon, delta=1e-5).releases(0, noise, trials)

    return AuditPair(run, "the value is 0 or 1, its weight 1/2", "noisy value", epsilon, 1e-5, trials=TRIALS)
