"""One noisy vector of integers, paid in one currency: what a release of several sums at once costs and draws.

A `Price` is the budget of the whole release, never of one coordinate. Its currency picks the noise: epsilon the
discrete Laplace law, rho the discrete Gaussian law in zCDP, mu (or epsilon with delta) the Gaussian law of Gaussian
DP, which a ledger that counts mu^2 takes. Sums stand on the grid of `privacy.grid`, in units of 2^-20.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np

from fairveil.arrays import Floats, Ints
from fairveil.configuration import configuration
from fairveil.errors import SpecError
from fairveil.fields import Delta, Epsilon, Positive, described
from fairveil.privacy.charges import Currency
from fairveil.privacy.events import Event
from fairveil.privacy.grid import from_units
from fairveil.privacy.guarantee import Guarantee
from fairveil.privacy.mechanisms import DiscreteGaussian, DiscreteLaplace, Gaussian
from fairveil.privacy.noise import GRID_BITS, Noise

ONE = 2**GRID_BITS
"""One, in units of the grid."""
STATED_DELTA = 1e-6
"""The delta at which a budget in rho or mu is said in epsilon, where none is given."""


@configuration
class Price:
    """The budget of one whole release: epsilon; epsilon and delta; rho; or mu.

    >>> Price(rho=0.02).laplace, Price(epsilon=1.0).words
    (False, 'epsilon 1')
    """

    epsilon: Epsilon | None = described("budget in epsilon: Laplace noise (with delta: Gaussian)", default=None)
    delta: Delta | None = described("chance that epsilon is exceeded", default=None)
    rho: Positive | None = described("budget in zCDP: discrete Gaussian noise", default=None)
    mu: Positive | None = described("budget in Gaussian DP", default=None)

    def __post_init__(self) -> None:
        given = sum(value is not None for value in (self.epsilon, self.rho, self.mu))
        if given != 1 or (self.delta is not None and self.epsilon is None):
            raise SpecError(
                "a release has one budget",
                path="epsilon",
                given={"epsilon": self.epsilon, "delta": self.delta, "rho": self.rho, "mu": self.mu},
                allowed="epsilon; epsilon and delta; rho; or mu",
            )

    @classmethod
    def example(cls) -> Price:
        return cls(epsilon=1.0)

    @classmethod
    def of(cls, currency: Currency | str, amount: float) -> Price:
        """So much of a ledger's currency; a ledger that counts mu^2 is asked for its root."""
        kind = Currency(currency)
        if kind is Currency.GAUSSIAN:
            return cls(mu=math.sqrt(amount))
        return cls(epsilon=amount) if kind is Currency.EPSILON else cls(rho=amount)

    @property
    def currency(self) -> Currency:
        """The currency of a ledger that this budget is counted in as it stands."""
        if self.rho is not None:
            return Currency.ZCDP
        return Currency.EPSILON if self.laplace else Currency.GAUSSIAN

    @property
    def laplace(self) -> bool:
        """Whether its noise is Laplace noise; Gaussian otherwise."""
        return self.epsilon is not None and self.delta is None

    @property
    def words(self) -> str:
        if self.epsilon is not None:
            return f"epsilon {self.epsilon:g}" + ("" if self.delta is None else f" at delta {self.delta:g}")
        return f"rho {self.rho:g}" if self.rho is not None else f"mu {self.mu:g}"

    def to_dict(self) -> dict[str, float]:
        """What was given, and nothing else."""
        table = {"epsilon": self.epsilon, "delta": self.delta, "rho": self.rho, "mu": self.mu}
        return {name: value for name, value in table.items() if value is not None}

    def guarantee(self, **facts: Any) -> Guarantee:
        """The promise of one release to one unit."""
        if self.rho is not None:
            return Guarantee.zcdp(self.rho, STATED_DELTA, **facts)
        if self.mu is not None:
            return Guarantee.gaussian(self.mu, STATED_DELTA, **facts)
        epsilon = float(self.epsilon or 0.0)
        if self.delta is not None:
            return Guarantee.approximate(epsilon, self.delta, **facts)
        return Guarantee.pure(epsilon, **facts)


@dataclass(frozen=True)
class NoisyVector:
    """The mechanism of one release of ``dimension`` sums in grid units, jointly.

    ``l1``: the most by which one unit of privacy moves the vector, in grid units and whole numbers; ``square``: the
    most of its squared l2 norm. The noise is calibrated to these two numbers and to nothing else.

    >>> round(NoisyVector(Price(rho=0.02), 3 * ONE, 5 * ONE**2 // 2, 4).std, 3)
    7.906
    """

    price: Price
    l1: int
    square: int
    dimension: int

    @cached_property
    def mechanism(self) -> DiscreteLaplace | DiscreteGaussian | Gaussian:
        price, dimension = self.price, self.dimension
        if price.laplace and price.epsilon is not None:
            return DiscreteLaplace(sensitivity=self.l1, epsilon=price.epsilon, dimension=dimension)
        length = _root_above(self.square)
        if price.rho is not None:
            return DiscreteGaussian(sensitivity=length, rho=price.rho, dimension=dimension)
        budget: dict[str, Any] = {"epsilon": price.epsilon, "delta": price.delta, "mu": price.mu}
        return Gaussian(sensitivity=length / ONE, dimension=dimension, **budget)

    @property
    def std(self) -> float:
        """Standard deviation of the noise of one sum, in the data's own units."""
        if isinstance(self.mechanism, Gaussian):
            return self.mechanism.std
        drawn = self.mechanism.std if isinstance(self.mechanism, DiscreteLaplace) else self.mechanism.sigma
        return drawn / ONE

    def event(self) -> Event:
        return self.mechanism.event()

    def release(self, units: Ints, noise: Noise) -> Floats:
        """The noisy sums, in the data's own units."""
        return self.releases(units, noise, 1)[0]

    def releases(self, units: Ints, noise: Noise, count: int) -> Floats:
        """So many independent releases of the same sums, one a row: for audits and simulation."""
        vector = np.asarray(units, np.int64)
        if isinstance(self.mechanism, Gaussian):
            return np.asarray(self.mechanism.releases(from_units(vector), noise, count), np.float64)
        return from_units(self.mechanism.releases(vector, noise, count))


def _root_above(square: int) -> float:
    """A float that is at least the root of a whole number, by less than two units in its last place."""
    root = math.sqrt(square)
    while Fraction(root) ** 2 < square:
        root = math.nextafter(root, math.inf)
    return root
