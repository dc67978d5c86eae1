"""Gaussian noise for integers, accounted in zCDP."""

from __future__ import annotations

from functools import cached_property, lru_cache

import numpy as np
from numpy.typing import ArrayLike

from fairveil.arrays import Floats, Ints
from fairveil.configuration import configuration
from fairveil.errors import SpecError, undetermined_budget
from fairveil.fields import Count, Delta, Epsilon, Positive, described
from fairveil.privacy.conversions import zcdp_rho
from fairveil.privacy.events import Event, ZcdpEvent
from fairveil.privacy.grid import sigma_above
from fairveil.privacy.mechanisms.base import Mechanism, as_integers, shaped
from fairveil.privacy.noise import MAX_SCALE, Noise
from fairveil.registry import register


@register("mechanism", "discrete-gaussian")
@configuration
class DiscreteGaussian(Mechanism):
    """Add discrete Gaussian noise to an integer or a vector of integers.

    Guarantee: rho-zCDP for every two integer inputs that differ by at most ``sensitivity`` in the l2 norm, on any grid,
    however coarse. It is not mu-GDP. Give either ``rho`` or ``epsilon`` and ``delta``.
    Sensitivity: in the l2 norm, in integer units; values that are not integers are refused.
    Proof: for an integer shift k the Renyi divergence of order a between the law and its shift is at most
    a k^2/(2 sigma^2) (the normaliser of the tilted law is largest at integer shifts), coordinates add up, and
    sensitivity^2/(2 sigma^2) <= rho is checked in rational arithmetic.
    Cost: one draw a coordinate; O(dimension) time and memory.

    >>> round(DiscreteGaussian(sensitivity=1.0, rho=0.125).sigma, 6)
    2.0

    Reference: Canonne, Kamath and Steinke 2020; Bun and Steinke 2016.
    """

    sensitivity: Positive = described("how far two neighbouring inputs may be apart (l2)", example=1.0)
    rho: Positive | None = described("budget in zCDP, instead of epsilon and delta", default=None)
    epsilon: Epsilon | None = described("budget of one release, with delta", default=None, example=1.0)
    delta: Delta | None = described("chance that the budget is exceeded", default=None, example=1e-5)
    dimension: Count = described("number of coordinates", default=1)

    def __post_init__(self) -> None:
        given = (self.rho is not None, self.epsilon is not None, self.delta is not None)
        if given not in ((True, False, False), (False, True, True)):
            raise undetermined_budget(
                "rho", "rho, or epsilon and delta", rho=self.rho, epsilon=self.epsilon, delta=self.delta
            )
        if not 2.0**-20 <= self.sigma <= MAX_SCALE:
            raise SpecError(
                "the noise does not fit 64-bit integers",
                path="sensitivity",
                given=self.sensitivity,
                allowed="sensitivity/sqrt(2 rho) in [2^-20, 2^52]",
            )

    @cached_property
    def spent(self) -> float:
        """rho of one release."""
        if self.rho is not None:
            return self.rho
        return _rho(float(self.epsilon or 0.0), float(self.delta or 0.0))

    @cached_property
    def sigma(self) -> float:
        return sigma_above(self.sensitivity, self.spent)

    def event(self) -> Event:
        return ZcdpEvent(self.spent)

    def probability(self, z: ArrayLike) -> Floats:
        """P(noise = z), normalised over 40 sigma."""
        reach = int(40 * self.sigma) + 2
        mass = np.exp(-0.5 * (np.arange(-reach, reach + 1) / self.sigma) ** 2).sum()
        return np.exp(-0.5 * (np.asarray(z, np.float64) / self.sigma) ** 2) / mass

    def releases(self, value: ArrayLike, noise: Noise, count: int) -> Ints:
        drawn = noise.gaussian(self.sigma, count * self.dimension).reshape(count, self.dimension)
        return shaped(as_integers(value, self.dimension) + drawn, value)


_rho = lru_cache(maxsize=1024)(zcdp_rho)
