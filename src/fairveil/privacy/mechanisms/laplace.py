"""Laplace noise on a fine integer grid, for real numbers and vectors."""

from __future__ import annotations

import math
from fractions import Fraction
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike

from fairveil.arrays import Floats
from fairveil.configuration import configuration
from fairveil.errors import SpecError
from fairveil.fields import Count, Epsilon, Positive, described
from fairveil.privacy.grid import float_above, from_units, to_units, units_above
from fairveil.privacy.mechanisms.base import OnFineGrid, as_vector, shaped
from fairveil.privacy.noise import Noise
from fairveil.registry import register


@register("mechanism", "laplace")
@configuration
class Laplace(OnFineGrid):
    """Add Laplace noise to a real value or vector whose l1 sensitivity is bounded.

    Guarantee: epsilon-DP (pure) for every two inputs whose values differ by at most ``sensitivity`` in the l1 norm.
    Sensitivity: the value is rounded toward zero to a grid on which ``sensitivity`` is at least 2^20 units. Rounding
    moves two coordinates apart by less than one unit, so the integer vectors differ by at most
    ceil(sensitivity / unit) + dimension - 1 units; the noise is calibrated to that number, not to the real one.
    Proof: with integer noise P(z) proportional to exp(-|z|_1/s) the likelihoods of any output under two integer
    inputs differ by a factor exp(|u - v|_1 / s) at most, and s >= sensitivity_units / epsilon.
    Cost: one draw a coordinate; O(dimension) time and memory. Standard deviation sqrt(2) sensitivity/epsilon.

    With ``low`` and ``high`` every coordinate is clipped to that public range first.

    >>> from fairveil.privacy.noise import SeededNoise
    >>> mechanism = Laplace(sensitivity=1.0, epsilon=0.5)
    >>> round(mechanism.std, 3), bool(abs(mechanism.release(100.0, SeededNoise(1)) - 100) < 30)
    (2.828, True)

    Reference: Dwork, McSherry, Nissim and Smith 2006; Ghosh, Roughgarden and Sundararajan 2012 (integers).
    """

    sensitivity: Positive = described("how far two neighbouring inputs may be apart (l1)", example=1.0)
    epsilon: Epsilon = described("budget of one release", example=1.0)
    dimension: Count = described("number of coordinates", default=1)
    low: float | None = described("public lower end; values below are moved there", default=None)
    high: float | None = described("public upper end; values above are moved there", default=None)

    def __post_init__(self) -> None:
        ends = self.low, self.high
        if ends != (None, None) and not (self.low is not None and self.high is not None and self.low < self.high):
            raise SpecError("the public range is not a range", path="low", given=ends, allowed="low < high, or neither")

    @cached_property
    def sensitivity_units(self) -> int:
        return units_above(self.sensitivity, self.bits) + self.dimension - 1

    @cached_property
    def scale_units(self) -> float:
        return float_above(self.sensitivity_units / Fraction(self.epsilon))

    @property
    def std(self) -> float:
        """Standard deviation of one coordinate, in the data's own units."""
        s = self.scale_units
        return math.ldexp(1 / (math.sqrt(2) * math.sinh(1 / (2 * s))), -self.bits)

    def releases(self, value: ArrayLike, noise: Noise, count: int) -> Floats:
        vector = as_vector(value, self.dimension)
        if self.low is not None and self.high is not None:
            vector = np.clip(vector, self.low, self.high)
        drawn = noise.laplace(self.scale_units, count * self.dimension).reshape(count, self.dimension)
        return shaped(from_units(to_units(vector, self.bits) + drawn, self.bits), value)
