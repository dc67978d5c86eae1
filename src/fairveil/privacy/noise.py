"""Where private randomness comes from. All draws are integers: data are put on a grid first, noise is added in integers.

`SecureNoise` draws with OpenDP's exact samplers from the operating system's entropy and is the only source that may
serve people. `SeededNoise` repeats itself for simulation and tests and marks every result it touches. `ZeroNoise`
exists for tests alone and no ledger accepts it. No source converts into another, and none can be copied into a seed.
"""

from __future__ import annotations

import os
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairveil.errors import PrivacyError
from fairveil.randomness import Generator, generator

Ints = NDArray[np.int64]
GRID_BITS = 20
"""Scalars are counted in units of 2^-20."""
ROW_BITS = 16
"""Rows of a matrix sum are counted in units of 2^-16, their products in units of 2^-32."""
MAX_SCALE = 2.0**52


class Noise:
    """Source of integer noise. ``simulated`` marks results; ``protects`` is what a ledger asks for."""

    simulated: bool = True
    protects: bool = False

    def laplace(self, scale: float, size: int = 1) -> Ints:
        """``size`` draws of the discrete Laplace law, P(z) proportional to exp(-|z|/scale)."""
        raise NotImplementedError

    def gaussian(self, sigma: float, size: int = 1) -> Ints:
        """``size`` draws of the discrete Gaussian law, P(z) proportional to exp(-z^2/(2 sigma^2))."""
        raise NotImplementedError

    def uniform_integers(self, high: int, size: int = 1) -> Ints:
        """``size`` uniform integers in [0, high); exact for every high up to 2^62."""
        raise NotImplementedError

    def bernoulli(self, numerator: int, denominator: int, size: int = 1) -> Ints:
        """``size`` exact coins that show 1 with probability numerator/denominator."""
        if not 0 <= numerator <= denominator or denominator < 1:
            raise PrivacyError("a coin needs a probability", given=(numerator, denominator), allowed="0 <= p <= 1")
        return (self.uniform_integers(denominator, size) < numerator).astype(np.int64)

    def __reduce__(self) -> Any:
        raise PrivacyError("noise cannot be pickled or copied", fix="make a new source where it is needed")


def _scale(name: str, value: float) -> float:
    if not isinstance(value, int | float) or isinstance(value, bool) or not 2.0**-20 <= value <= MAX_SCALE:
        raise PrivacyError(
            "the noise scale does not fit the grid", path=name, given=value, allowed="in [2^-20, 2^52] grid units"
        )
    return float(value)


class SecureNoise(Noise):
    """Exact samplers on OS entropy. Safe across threads and forks: OpenDP and os.urandom keep no state here."""

    simulated = False
    protects = True

    def laplace(self, scale: float, size: int = 1) -> Ints:
        from fairveil.privacy import _opendp

        return _opendp.discrete_laplace(_scale("scale", scale), size)

    def gaussian(self, sigma: float, size: int = 1) -> Ints:
        from fairveil.privacy import _opendp

        return _opendp.discrete_gaussian(_scale("sigma", sigma), size)

    def uniform_integers(self, high: int, size: int = 1) -> Ints:
        if not 1 <= high <= 2**62:
            raise PrivacyError("the range of a uniform integer is wrong", given=high, allowed="in [1, 2^62]")
        limit = (2**64 // high) * high  # rejecting the tail makes the draw exactly uniform
        drawn: list[NDArray[np.uint64]] = []
        missing = size
        while missing > 0:
            words = np.frombuffer(os.urandom(8 * (missing + 8)), dtype=np.uint64)
            good = words[words < np.uint64(limit)] if limit < 2**64 else words
            drawn.append(good[:missing])
            missing -= len(drawn[-1])
        return (np.concatenate(drawn) % np.uint64(high)).astype(np.int64) if size else np.zeros(0, np.int64)


class SeededNoise(Noise):
    """Repeatable noise with the same laws, for simulation and tests. Protects nobody.

    >>> SeededNoise(1).laplace(2.0**20, 2).tolist() == SeededNoise(1).laplace(2.0**20, 2).tolist()
    True
    """

    def __init__(self, seed: int, *path: int | str) -> None:
        self.generator: Generator = generator(seed, "noise", *path)

    def laplace(self, scale: float, size: int = 1) -> Ints:
        success = -np.expm1(-1.0 / _scale("scale", scale))
        up, down = self.generator.geometric(success, size), self.generator.geometric(success, size)
        return up - down

    def gaussian(self, sigma: float, size: int = 1) -> Ints:
        if _scale("sigma", sigma) >= 64.0:  # rounding differs from the discrete law by less than 1e-300 here
            return np.rint(self.generator.normal(0.0, sigma, size)).astype(np.int64)
        reach = int(np.ceil(40 * sigma)) + 1
        points = np.arange(-reach, reach + 1)
        weights = np.exp(-0.5 * (points / sigma) ** 2)
        return self.generator.choice(points, size=size, p=weights / weights.sum()).astype(np.int64)

    def uniform_integers(self, high: int, size: int = 1) -> Ints:
        return self.generator.integers(0, high, size, dtype=np.int64)


class ZeroNoise(Noise):
    """No noise at all: shows in tests what an algorithm does without privacy. Never accepted by a ledger."""

    def laplace(self, scale: float, size: int = 1) -> Ints:
        _scale("scale", scale)
        return np.zeros(size, np.int64)

    def gaussian(self, sigma: float, size: int = 1) -> Ints:
        _scale("sigma", sigma)
        return np.zeros(size, np.int64)

    def uniform_integers(self, high: int, size: int = 1) -> Ints:
        return np.full(size, high // 2, np.int64)


def make_noise(kind: str, seed: int, *path: int | str) -> Noise:
    """The source a spec asks for: ``seeded`` (repeatable) or ``secure``."""
    return SecureNoise() if kind == "secure" else SeededNoise(seed, *path)
