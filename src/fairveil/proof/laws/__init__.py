"""Laws: what every thing of a kind keeps, each a function that raises ContractError where it is broken.

>>> def has_a_name(thing):
...     must(thing.name, "it has no name", "give it one")
>>> from types import SimpleNamespace
>>> check_laws({"has_a_name": has_a_name}, SimpleNamespace(name="tree"))
['has_a_name']
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from fairveil.arrays import Floats, Ints
from fairveil.errors import ContractError, FairveilError
from fairveil.privacy.guarantee import Guarantee
from fairveil.privacy.noise import Noise, SeededNoise, ZeroNoise


def must(holds: object, problem: str, fix: str = "") -> None:
    """What a law asks for."""
    if not holds:
        raise ContractError(problem, fix=fix)


@contextmanager
def refused(problem: str, *errors: type[Exception], fix: str = "") -> Iterator[None]:
    """What is tried inside must be refused with one of these errors: ``problem`` says what is wrong where it is not."""
    try:
        yield
    except errors:
        return
    raise ContractError(problem, fix=fix)


Costs = Iterator[tuple[str, float, float]]
"""What the worst unit costs, and what is promised, by configuration: ``(words, cost, claim)``."""


def in_words(keys: Mapping[str, Any]) -> str:
    """What is special about a configuration."""
    return ", ".join(f"{key} {value}" for key, value in keys.items() if value is not None)


def established(promise: Guarantee | None) -> bool:
    """Whether a thing promises something that is proven."""
    return promise is not None and promise.established


def check_laws(laws: Mapping[str, Callable[..., Any]], thing: Any, *more: Any) -> list[str]:
    """Run every law on a thing; returns their names, raises ContractError, which names the law, at the first broken."""
    for name, law in laws.items():
        try:
            law(thing, *more)
        except FairveilError as problem:  # a thing that refuses what the law asks of it keeps that law no more
            raise ContractError(f"{name}: {problem.problem}", path=thing.name, fix=problem.fix) from problem
    return list(laws)


class ThoughtOf(Noise):
    """Noise that a law thinks of: draws of both laws come out of one method, which is told their levels."""

    __slots__ = ()

    def drawn(self, levels: Floats) -> Ints:
        raise NotImplementedError

    def gaussian(self, sigma: float, size: int = 1) -> Ints:
        return self.drawn(np.full(size, sigma))

    def gaussians(self, sigmas: ArrayLike) -> Ints:
        return self.drawn(np.asarray(sigmas, np.float64))

    def laplace(self, scale: float, size: int = 1) -> Ints:
        return self.drawn(np.full(size, scale))

    def uniform_integers(self, high: int, size: int = 1) -> Ints:
        return ZeroNoise().uniform_integers(high, size)


class Asked(SeededNoise):
    """Seeded noise that remembers what it was asked for, as (scale, how many draws): a law adds up what they cost."""

    __slots__ = ("gaussian_levels", "laplace_scales")

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.laplace_scales: list[tuple[float, int]] = []
        self.gaussian_levels: list[tuple[float, int]] = []

    def laplace(self, scale: float, size: int = 1) -> Ints:
        self.laplace_scales.append((float(scale), size))
        return super().laplace(scale, size)

    def gaussian(self, sigma: float, size: int = 1) -> Ints:
        self.gaussian_levels.append((float(sigma), size))
        return super().gaussian(sigma, size)
