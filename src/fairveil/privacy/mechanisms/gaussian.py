"""Gaussian noise on a fine integer grid, calibrated exactly."""

from __future__ import annotations

import math
from fractions import Fraction
from functools import lru_cache
from typing import NamedTuple

from numpy.typing import ArrayLike

from fairveil.arrays import Floats
from fairveil.configuration import configuration
from fairveil.errors import SpecError, undetermined_budget
from fairveil.fields import Count, Delta, Epsilon, Positive, described
from fairveil.privacy.conversions import GRID_CONSTANT, gdp_epsilon, gdp_mu, zcdp_epsilon
from fairveil.privacy.events import Event, GaussianEvent
from fairveil.privacy.grid import float_above, from_units, grid_bits, to_units, units_above
from fairveil.privacy.guarantee import Guarantee
from fairveil.privacy.mechanisms.base import Mechanism, as_vector, shaped
from fairveil.privacy.noise import MAX_SCALE, Noise
from fairveil.registry import register

RESERVE = 1e-4
"""Share of delta that is set aside for the grid."""
FINENESS = 26
"""Noise measures at least 2^26 grid units."""


class GridNoise(NamedTuple):
    """The Gaussian-DP parameter, the grid (units of 2^-bits) and the noise on it."""

    mu: float
    bits: int
    sigma_units: float


@register("mechanism", "gaussian")
@configuration
class Gaussian(Mechanism):
    """Add Gaussian noise to a real value or vector whose l2 sensitivity is bounded.

    Guarantee: mu-Gaussian DP up to the stated grid correction, hence (epsilon, delta)-DP with the exact (analytic)
    conversion, for every two inputs whose values differ by at most ``sensitivity`` in the l2 norm. Give either
    ``epsilon`` and ``delta`` or ``mu``.
    Sensitivity: coordinates are rounded toward zero to a grid, which adds less than sqrt(dimension) units.
    Proof: a Gaussian rounded to integers after integer shift is post-processing of a Gaussian release, mu-GDP with
    mu = sensitivity_units / sigma_units. The discrete Gaussian that is drawn differs from it by at most
    t = 0.021/sigma_units^2 in total variation per coordinate, which adds (1 + e^epsilon) t dimension to delta; sigma is
    at least 2^26 units, and more where that is needed to keep the addition below 1e-4 delta, which the calibration
    sets aside.
    Cost: one draw a coordinate; O(dimension) time and memory.

    >>> round(Gaussian(sensitivity=1.0, epsilon=1.0, delta=1e-5).std, 3), Gaussian(sensitivity=1.0, mu=0.5).std
    (3.731, 2.0)

    Reference: Balle and Wang 2018; Dong, Roth and Su 2022; Canonne, Kamath and Steinke 2020 (discrete law).
    """

    sensitivity: Positive = described("how far two neighbouring inputs may be apart (l2)", example=1.0)
    epsilon: Epsilon | None = described("budget of one release, with delta", default=None, example=1.0)
    delta: Delta | None = described("chance that the budget is exceeded", default=None, example=1e-5)
    mu: Positive | None = described("budget in Gaussian DP, instead of epsilon and delta", default=None)
    dimension: Count = described("number of coordinates", default=1)

    def __post_init__(self) -> None:
        given = (self.epsilon is not None, self.delta is not None, self.mu is not None)
        if given not in ((True, True, False), (False, False, True)):
            raise undetermined_budget(
                "epsilon", "epsilon and delta, or mu", epsilon=self.epsilon, delta=self.delta, mu=self.mu
            )
        try:
            fits = self.plan.sigma_units <= MAX_SCALE
        except OverflowError:  # noise wider than any number
            fits = False
        if not fits:
            raise SpecError(
                "no 64-bit grid is fine enough for this budget",
                path="epsilon" if self.mu is None else "mu",
                given=self.epsilon if self.mu is None else self.mu,
                fix="use discrete-gaussian (accounted in zCDP), or a larger delta",
            )

    @property
    def plan(self) -> GridNoise:
        """Everything the budget and the sensitivity determine."""
        return _plan(self.sensitivity, self.epsilon, self.delta, self.mu, self.dimension)

    @property
    def std(self) -> float:
        """Standard deviation of one coordinate, in the data's own units."""
        return math.ldexp(self.plan.sigma_units, -self.plan.bits)

    def event(self) -> Event:
        return GaussianEvent(self.plan.mu, draws=self.dimension, grid_sigma=self.plan.sigma_units)

    def guarantee(self) -> Guarantee:
        """The exact promise; with a ``mu`` so large that the grid shows, epsilon comes from zCDP, valid on any grid."""
        plan, delta = self.plan, 1e-5 if self.delta is None else self.delta
        epsilon = gdp_epsilon(plan.mu, delta * (1 - RESERVE)) if self.epsilon is None else self.epsilon
        if _log_loss(epsilon, self.dimension) - 2 * math.log(plan.sigma_units) > math.log(RESERVE * delta):
            epsilon = zcdp_epsilon(plan.mu**2 / 2, delta)
        return Guarantee.gaussian(plan.mu, delta, epsilon=epsilon, **self.facts)

    def releases(self, value: ArrayLike, noise: Noise, count: int) -> Floats:
        vector = as_vector(value, self.dimension)
        plan = self.plan
        drawn = noise.gaussian(plan.sigma_units, count * self.dimension).reshape(count, self.dimension)
        return shaped(from_units(to_units(vector, plan.bits) + drawn, plan.bits), value)


def _log_loss(epsilon: float, dimension: int) -> float:
    """ln of (1 + e^epsilon) GRID_CONSTANT d: what the grid adds to delta, times sigma^2 in grid units."""
    return math.log(GRID_CONSTANT * dimension) + epsilon + math.log1p(math.exp(-epsilon))


def fineness_for(epsilon: float, delta: float, draws: int) -> int:
    """How many bits fine noise has to be, so that the grid of so many draws adds less than `RESERVE` to delta."""
    loss = _log_loss(epsilon, draws) - math.log(RESERVE * delta)
    return max(FINENESS, math.ceil(loss / math.log(4.0)))


@lru_cache(maxsize=1024)
def _plan(
    sensitivity: float, epsilon: float | None, delta: float | None, mu: float | None, dimension: int
) -> GridNoise:
    fineness = FINENESS
    if mu is None and epsilon is not None and delta is not None:
        fineness = fineness_for(epsilon, delta, dimension)
        mu = gdp_mu(epsilon, delta * (1 - RESERVE))
    budget = Fraction(mu or 0.0)
    bits = max(grid_bits(sensitivity), grid_bits(Fraction(sensitivity) / budget, fineness=fineness))
    units: float = units_above(sensitivity, bits)
    if dimension > 1:
        units = math.nextafter(units + math.sqrt(dimension), math.inf)
    return GridNoise(float(budget), bits, float_above(Fraction(units) / budget))
