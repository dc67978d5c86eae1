"""Where private randomness comes from. All draws are integers: data are put on a grid first, then noise is added.

`SecureNoise` draws with OpenDP's exact samplers from the operating system's entropy and is the only source that may
serve people. `SeededNoise` repeats itself for simulation and tests and marks every result it touches. `ZeroNoise`
exists for tests alone and no ledger accepts it. No source converts into another, and none can be copied into a seed.
"""

from __future__ import annotations

import math
import os
from abc import ABC, abstractmethod
from functools import lru_cache
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fairveil.arrays import Bools, Floats, Ints
from fairveil.compiling import njit
from fairveil.errors import PrivacyError, SpecError
from fairveil.randomness import Generator, generator

GRID_BITS = 20
"""Scalars are counted in units of 2^-20."""
ROW_BITS = 16
"""Rows of a matrix sum are counted in units of 2^-16, their products in units of 2^-32."""
MAX_SCALE = 2.0**52
MAX_RANGE = 2**62


class Noise(ABC):
    """Source of integer noise. ``simulated`` marks results; ``protects`` is what a ledger asks for.

    A source has no attributes of its own that could be changed: what it protects is fixed by its class.
    """

    __slots__ = ()
    simulated: bool = True
    protects: bool = False
    stream: Generator | None = None
    """The generator behind seeded noise, for `compiled_laplace`; None where compiled loops may not draw."""

    @abstractmethod
    def laplace(self, scale: float, size: int = 1) -> Ints:
        """``size`` draws of the discrete Laplace law, P(z) proportional to exp(-|z|/scale)."""

    def laplace_in_turn(self, scale: float, size: int = 1) -> Ints:
        """The same law, as single draws would come: a batch and single steps meet the same seeded numbers."""
        return self.laplace(scale, size)

    @abstractmethod
    def gaussian(self, sigma: float, size: int = 1) -> Ints:
        """``size`` draws of the discrete Gaussian law, P(z) proportional to exp(-z^2/(2 sigma^2))."""

    def gaussians(self, sigmas: ArrayLike) -> Ints:
        """One draw of the discrete Gaussian law for every entry of an array of levels: many releases in one call."""
        levels = np.asarray(sigmas, np.float64)
        kinds, where = np.unique(levels, return_inverse=True)
        drawn = np.empty(levels.shape, np.int64)
        for number, level in enumerate(kinds.tolist()):
            own = where.reshape(levels.shape) == number
            drawn[own] = self.gaussian(level, int(own.sum()))
        return drawn

    @abstractmethod
    def uniform_integers(self, high: int, size: int = 1) -> Ints:
        """``size`` uniform integers in [0, high); exact for every high up to 2^62."""

    def bernoulli(self, numerator: int, denominator: int, size: int = 1) -> Ints:
        """``size`` exact coins that show 1 with probability numerator/denominator."""
        if not 0 <= numerator <= denominator or denominator < 1:
            raise PrivacyError("a coin needs a probability", given=(numerator, denominator), allowed="0 <= p <= 1")
        return (self.uniform_integers(denominator, size) < numerator).astype(np.int64)

    def exponential_coins(self, numerators: ArrayLike, denominator: int) -> Ints:
        """Exact coins: entry i shows 1 with probability exp(-numerators[i] / denominator), in integers throughout.

        For g in [0, 1] throw coins of probability g/1, g/2, g/3, ... until one shows 0; the number of throws is odd
        with probability exp(-g) (Canonne, Kamath and Steinke 2020). A larger exponent is a product of such coins, and
        the first failure ends it, so even huge exponents cost O(1) expected throws.
        """
        left = np.array(numerators, np.int64)
        if left.ndim != 1 or (left < 0).any() or not 1 <= denominator <= MAX_RANGE:
            raise PrivacyError(
                "an exponential coin needs exponents", allowed="numerators >= 0, denominator in [1, 2^62]"
            )
        alive = np.ones(len(left), bool)
        whole = np.flatnonzero(left >= denominator)
        while len(whole):
            passed = self._exponential_fraction(np.full(len(whole), denominator), denominator)
            alive[whole[~passed]] = False
            left[whole] -= denominator
            whole = whole[passed]
            whole = whole[left[whole] >= denominator]
        rest = np.flatnonzero(alive)
        alive[rest] = self._exponential_fraction(left[rest], denominator)
        return alive.astype(np.int64)

    def _exponential_fraction(self, numerators: Ints, denominator: int) -> Bools:
        """exp(-n/d) coins for 0 <= n <= d."""
        odd = np.ones(len(numerators), bool)
        running, throw = np.arange(len(numerators)), 1
        while len(running):
            # probability n/(d throw) as two coins: the product of the denominators could leave 62 bits
            ones = self.uniform_integers(denominator, len(running)) < numerators[running]
            ones &= self.uniform_integers(throw, len(running)) == 0
            running, throw = running[ones], throw + 1
            odd[running] = throw % 2 == 1
        return odd

    def select(self, gaps: ArrayLike, denominator: int, size: int = 1) -> Ints:
        """``size`` exact draws of an index i with probability proportional to exp(-gaps[i] / denominator).

        Rejection: propose an index uniformly, keep it on an exponential coin. Some gap must be 0, so at most
        ``len(gaps)`` proposals are needed on average; they are drawn in blocks and the first one kept counts.
        """
        costs = np.asarray(gaps, np.int64)
        if costs.ndim != 1 or len(costs) == 0 or costs.min() != 0:
            raise PrivacyError(
                "a selection needs gaps to the best candidate", allowed="a vector whose smallest entry is 0"
            )
        chosen = np.zeros(size, np.int64)
        waiting = np.arange(size)
        while len(waiting):
            width = int(min(len(costs), max(1, _SELECT_BLOCK // len(waiting))))
            proposed = self.uniform_integers(len(costs), len(waiting) * width)
            kept = self.exponential_coins(costs[proposed], denominator).reshape(len(waiting), width)
            first, found = kept.argmax(1), kept.any(1)
            rows = np.flatnonzero(found)
            chosen[waiting[rows]] = proposed.reshape(len(waiting), width)[rows, first[rows]]
            waiting = waiting[~found]
        return chosen

    def binomial(self, trials: int, size: int = 1) -> Ints:
        """``size`` exact counts of heads in ``trials`` fair coins, by counting random bits."""
        _coins(trials)
        words, rest = divmod(trials, 32)
        heads = np.zeros(size, np.int64)
        for start in range(0, size, max(1, _BIT_BLOCK // max(words, 1))):
            stop = min(size, start + max(1, _BIT_BLOCK // max(words, 1)))
            bits = np.bitwise_count(self.uniform_integers(2**32, words * (stop - start)))
            heads[start:stop] = bits.reshape(stop - start, words).sum(1, dtype=np.int64)
        return heads + np.bitwise_count(self.uniform_integers(2**rest, size)) if rest else heads

    def __reduce__(self) -> Any:
        raise PrivacyError("noise cannot be pickled or copied", fix="make a new source where it is needed")


_BIT_BLOCK = 2**20
_SELECT_BLOCK = 2**10


def _scale(name: str, value: float) -> float:
    number = isinstance(value, int | float | np.integer | np.floating) and not isinstance(value, bool)
    if not number or not 2.0**-20 <= value <= MAX_SCALE:
        raise PrivacyError(
            "the noise scale does not fit the grid", path=name, given=value, allowed="in [2^-20, 2^52] grid units"
        )
    return float(value)


def _range(high: int) -> int:
    if isinstance(high, bool) or not isinstance(high, int | np.integer) or not 1 <= high <= MAX_RANGE:
        raise PrivacyError("the range of a uniform integer is wrong", given=high, allowed="an integer in [1, 2^62]")
    return int(high)


def _coins(trials: int) -> int:
    if isinstance(trials, bool) or not isinstance(trials, int | np.integer) or not 0 <= trials <= 2**32:
        raise PrivacyError("the number of coins is wrong", given=trials, allowed="an integer in [0, 2^32]")
    return int(trials)


class SecureNoise(Noise):
    """Exact samplers on OS entropy. Safe across threads and forks: a forked child draws values of its own."""

    __slots__ = ()
    simulated = False
    protects = True

    def laplace(self, scale: float, size: int = 1) -> Ints:
        return np.asarray(_exact_sampler("laplace", _scale("scale", scale))([0] * size), np.int64)

    def gaussian(self, sigma: float, size: int = 1) -> Ints:
        return np.asarray(_exact_sampler("gaussian", _scale("sigma", sigma))([0] * size), np.int64)

    def uniform_integers(self, high: int, size: int = 1) -> Ints:
        high = _range(high)  # a Python integer: a NumPy one would overflow below
        limit = 2**64 // high * high  # rejecting the tail makes the draw exactly uniform
        drawn: list[NDArray[np.uint64]] = [np.zeros(0, np.uint64)]
        missing = size
        while missing > 0:
            words = np.frombuffer(os.urandom(8 * missing), dtype=np.uint64)
            drawn.append(words[words < np.uint64(limit)] if limit < 2**64 else words)
            missing -= len(drawn[-1])
        return (np.concatenate(drawn) % np.uint64(high)).astype(np.int64)


@lru_cache(maxsize=512)
def _exact_sampler(law: str, scale: float) -> Any:
    """OpenDP's sampler of a discrete law. Imported only where secure noise is drawn.

    Not through `opendp.prelude`: that loads scikit-learn, SciPy's statistics and pandas where they are installed, a
    second of every start.
    """
    from opendp.domains import atom_domain, vector_domain
    from opendp.measurements import make_gaussian, make_laplace
    from opendp.metrics import l1_distance, l2_distance
    from opendp.mod import enable_features

    enable_features("contrib")
    rows = vector_domain(atom_domain(T="i64"))
    if law == "laplace":
        return make_laplace(rows, l1_distance(T="i64"), scale=scale)
    return make_gaussian(rows, l2_distance(T="f64"), scale=scale)


class SeededNoise(Noise):
    """Repeatable noise with the same laws, for simulation and tests. Protects nobody.

    Discrete Laplace is a difference of geometric draws; discrete Gaussian is inverted from its table below sigma 1024
    and a rounded normal above, which differs from the discrete law by at most 0.021/sigma^2 in total variation.

    >>> SeededNoise(1).laplace(2.0**20, 2).tolist() == SeededNoise(1).laplace(2.0**20, 2).tolist()
    True
    """

    __slots__ = ("stream",)

    def __init__(self, seed: int, *path: int | str) -> None:
        self.stream: Generator = generator(seed, "noise", *path)

    def laplace(self, scale: float, size: int = 1) -> Ints:
        success = laplace_parameter(scale)
        up, down = self.stream.geometric(success, size), self.stream.geometric(success, size)
        return up - down

    def laplace_in_turn(self, scale: float, size: int = 1) -> Ints:
        pairs = self.stream.geometric(laplace_parameter(scale), (size, 2))
        return pairs[:, 0] - pairs[:, 1]

    def gaussian(self, sigma: float, size: int = 1) -> Ints:
        if _scale("sigma", sigma) >= _TABLE_SIGMA:
            if size < _MANY:
                return np.rint(self.stream.normal(0.0, sigma, size)).astype(np.int64)
            return self._many_rounded_normals(np.broadcast_to(float(sigma), (1, size)))[0]
        table = _gaussian_table(float(sigma))
        return np.searchsorted(table, self.stream.random(size), side="right") - len(table) // 2

    def gaussians(self, sigmas: ArrayLike) -> Ints:
        """In the order of the entries: the draws, bit for bit, of calls of `gaussian` for each run of equal levels."""
        levels = np.asarray(sigmas, np.float64)
        if levels.size == 0:
            return np.zeros(levels.shape, np.int64)
        once = levels[tuple(slice(None) if step else slice(1) for step in levels.strides)]
        if _scale("sigma", float(once.min())) >= _TABLE_SIGMA:
            _scale("sigma", float(once.max()))
            if levels.size < _MANY:
                return np.rint(self.stream.standard_normal(levels.shape) * levels).astype(np.int64)
            return self._many_rounded_normals(levels.reshape(-1, levels.shape[-1])).reshape(levels.shape)
        flat = levels.ravel()
        runs = pairwise([0, *(np.flatnonzero(np.diff(flat)) + 1).tolist(), len(flat)])
        drawn = [self.gaussian(float(flat[first]), last - first) for first, last in runs]
        return np.concatenate(drawn).reshape(levels.shape)

    def _many_rounded_normals(self, sigmas: Floats) -> Ints:
        """Of these levels, row by row: a compiled loop draws the numbers that NumPy draws, in a third of the time."""
        drawn = np.empty(sigmas.shape, np.int64)
        _draw_rounded_normals(self.stream, sigmas, drawn)
        return drawn

    def uniform_integers(self, high: int, size: int = 1) -> Ints:
        return self.stream.integers(0, _range(high), size, dtype=np.int64)

    def binomial(self, trials: int, size: int = 1) -> Ints:
        return self.stream.binomial(_coins(trials), 0.5, size).astype(np.int64)


_TABLE_SIGMA = 1024.0
_MANY = 10_000
"""Draws that are worth a compiled loop."""


@njit(cache=True, nogil=True)
def _draw_rounded_normals(stream: Generator, sigmas: Floats, drawn: Ints) -> None:
    for row in range(drawn.shape[0]):
        for column in range(drawn.shape[1]):
            drawn[row, column] = np.int64(np.rint(stream.standard_normal() * sigmas[row, column]))


@lru_cache(maxsize=64)
def _gaussian_table(sigma: float) -> Floats:
    """Distribution function on -reach..reach; beyond 12 sigma there is less mass than a float can show."""
    reach = int(np.ceil(12 * sigma)) + 1
    weights = np.exp(-0.5 * (np.arange(-reach, reach + 1) / sigma) ** 2)
    table = np.cumsum(weights) / weights.sum()
    table[-1] = 1.0
    return table


def laplace_parameter(scale: float) -> float:
    """Discrete Laplace noise of this scale (grid units) as the parameter of `compiled_laplace`."""
    return -math.expm1(-1.0 / _scale("scale", scale))


@njit(cache=True, nogil=True)
def compiled_laplace(stream: Generator, success: float) -> int:
    """One seeded discrete Laplace draw inside a compiled simulator: the only place where such a loop draws noise.

    ``stream`` is `Noise.stream` and ``success`` comes from `laplace_parameter`. The law is that of `Noise.laplace`, and
    for one draw at a time the numbers are those of `SeededNoise.laplace`. Protects nobody.
    """
    up = stream.geometric(success)
    return up - stream.geometric(success)


class ZeroNoise(Noise):
    """No noise at all: shows in tests what an algorithm does without privacy. Never accepted by a ledger."""

    __slots__ = ()

    def laplace(self, scale: float, size: int = 1) -> Ints:
        _scale("scale", scale)
        return np.zeros(size, np.int64)

    def gaussian(self, sigma: float, size: int = 1) -> Ints:
        _scale("sigma", sigma)
        return np.zeros(size, np.int64)

    def uniform_integers(self, high: int, size: int = 1) -> Ints:
        return np.full(size, _range(high) // 2, np.int64)

    def exponential_coins(self, numerators: ArrayLike, denominator: int) -> Ints:
        """A coin shows 1 where the exponent is zero: the limit of an infinite budget."""
        return (np.asarray(numerators, np.int64) == 0).astype(np.int64)

    def select(self, gaps: ArrayLike, denominator: int, size: int = 1) -> Ints:
        return np.full(size, np.argmin(np.asarray(gaps, np.int64)), np.int64)

    def binomial(self, trials: int, size: int = 1) -> Ints:
        return np.full(size, _coins(trials) // 2, np.int64)


def make_noise(kind: str, seed: int, *path: int | str) -> Noise:
    """The source a spec asks for: ``seeded`` (repeatable) or ``secure``."""
    if kind not in ("seeded", "secure"):
        raise SpecError("the noise is not known", path="noise", given=kind, allowed="seeded, secure")
    return SecureNoise() if kind == "secure" else SeededNoise(seed, *path)
