"""Mistakes of single mechanisms: above-threshold with only one of its two noises."""

from __future__ import annotations

from contextlib import AbstractContextManager

from fairveil.privacy.audit.mutants import Mutant, Weakened, method, together, with_noise
from fairveil.privacy.mechanisms.above_threshold import AboveThreshold
from fairveil.privacy.noise import Ints, Noise, ZeroNoise
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
