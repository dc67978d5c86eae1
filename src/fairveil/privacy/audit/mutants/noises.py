"""Noise that is broken on purpose: none, too little, or the same draws again."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from fairveil.privacy.noise import Ints, Noise, ZeroNoise

#: Below this a uniform integer picks one of a few things and is no coin.
SMALL_RANGE = 2**16


class Weakened(Noise):
    """A source whose laws are ``factor`` times as wide as what was asked for; coins are as much surer.

    It keeps the kind of the source it weakens, so that a ledger takes it for that one.
    """

    __slots__ = ("factor", "inner")

    def __init__(self, inner: Noise, factor: float) -> None:
        self.inner, self.factor = inner, factor

    @property
    def simulated(self) -> bool:  # type: ignore[override]
        return self.inner.simulated

    @property
    def protects(self) -> bool:  # type: ignore[override]
        return self.inner.protects

    def laplace(self, scale: float, size: int = 1) -> Ints:
        return self.inner.laplace(max(scale * self.factor, 2.0**-20), size)

    def gaussian(self, sigma: float, size: int = 1) -> Ints:
        return self.inner.gaussian(max(sigma * self.factor, 2.0**-20), size)

    def gaussians(self, sigmas: ArrayLike) -> Ints:
        return self.inner.gaussians(np.maximum(np.asarray(sigmas, np.float64) * self.factor, 2.0**-20))

    def uniform_integers(self, high: int, size: int = 1) -> Ints:
        """Drawn towards the middle: a coin of odds o becomes one of odds o^(1/factor), as with a larger budget."""
        if high < SMALL_RANGE:
            return self.inner.uniform_integers(high, size)
        share = (self.inner.uniform_integers(2**52, size) + 0.5) / 2**52
        up, down = share**self.factor, (1 - share) ** self.factor
        return np.minimum((up / (up + down) * high).astype(np.int64), high - 1)

    def exponential_coins(self, numerators: ArrayLike, denominator: int) -> Ints:
        return self.inner.exponential_coins(numerators, max(1, round(denominator * self.factor)))

    def select(self, gaps: ArrayLike, denominator: int, size: int = 1) -> Ints:
        return self.inner.select(gaps, max(1, round(denominator * self.factor)), size)

    def binomial(self, trials: int, size: int = 1) -> Ints:
        kept = max(1, round(trials * self.factor**2))
        return self.inner.binomial(kept, size) + (trials - kept) // 2


class Reused(Noise):
    """A source that answers every question with one and the same draw, as a constant in a module would.

    The draw is a twentieth of the scale below zero; a coin shows its likelier side.
    """

    __slots__ = ()

    def __init__(self, inner: Noise) -> None:
        """``inner`` is what should have been drawn from."""

    def laplace(self, scale: float, size: int = 1) -> Ints:
        return np.full(size, -round(scale / 20), np.int64)

    def gaussian(self, sigma: float, size: int = 1) -> Ints:
        return np.full(size, -round(sigma / 20), np.int64)

    def uniform_integers(self, high: int, size: int = 1) -> Ints:
        return np.full(size, high // 2, np.int64)

    def exponential_coins(self, numerators: ArrayLike, denominator: int) -> Ints:
        return (np.asarray(numerators, np.float64) / denominator < np.log(2.0)).astype(np.int64)

    def select(self, gaps: ArrayLike, denominator: int, size: int = 1) -> Ints:
        return np.full(size, np.argmin(np.asarray(gaps, np.int64)), np.int64)

    def binomial(self, trials: int, size: int = 1) -> Ints:
        return np.full(size, trials // 2 - round(np.sqrt(trials) / 40), np.int64)


def quiet(inner: Noise) -> Noise:
    """No noise, whatever was asked for."""
    return ZeroNoise()


def halved(inner: Noise) -> Noise:
    """Half of the noise."""
    return Weakened(inner, 0.5)
