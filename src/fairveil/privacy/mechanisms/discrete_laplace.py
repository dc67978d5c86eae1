"""Laplace noise for integers (the two-sided geometric law)."""

from __future__ import annotations

import math
from fractions import Fraction
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike

from fairveil.arrays import Floats, Ints
from fairveil.configuration import configuration
from fairveil.fields import Count, Epsilon, described
from fairveil.privacy.grid import float_above
from fairveil.privacy.mechanisms.base import PureMechanism, as_integers, shaped
from fairveil.privacy.noise import Noise
from fairveil.registry import register


@register("mechanism", "discrete-laplace")
@configuration
class DiscreteLaplace(PureMechanism):
    """Add two-sided geometric noise to an integer or a vector of integers.

    Guarantee: epsilon-DP (pure) for every two inputs whose values differ by at most ``sensitivity`` in the l1 norm.
    Sensitivity: an integer; values that are not integers are refused: integer noise would show their fraction.
    Proof: P(z) is proportional to exp(-|z|/s) with s >= sensitivity/epsilon, and |y - u|_1 - |y - v|_1 <= |u - v|_1.
    Cost: one draw a coordinate; O(dimension) time and memory.

    >>> from fairveil.privacy.noise import SeededNoise
    >>> DiscreteLaplace(sensitivity=1, epsilon=1.0).release(41, SeededNoise(3)).dtype
    dtype('int64')

    Reference: Ghosh, Roughgarden and Sundararajan 2012.
    """

    sensitivity: Count = described("how far two neighbouring inputs may be apart (l1)", example=1)
    epsilon: Epsilon = described("budget of one release", example=1.0)
    dimension: Count = described("number of coordinates", default=1)

    @cached_property
    def scale(self) -> float:
        return float_above(Fraction(self.sensitivity) / Fraction(self.epsilon))

    @property
    def std(self) -> float:
        return 0.0 if self.scale < 1e-3 else 1 / (math.sqrt(2) * math.sinh(1 / (2 * self.scale)))

    def probability(self, z: ArrayLike) -> Floats:
        """P(noise = z) = tanh(1/(2s)) exp(-|z|/s)."""
        return math.tanh(1 / (2 * self.scale)) * np.exp(-np.abs(np.asarray(z, np.float64)) / self.scale)

    def releases(self, value: ArrayLike, noise: Noise, count: int) -> Ints:
        drawn = noise.laplace(self.scale, count * self.dimension).reshape(count, self.dimension)
        return shaped(as_integers(value, self.dimension) + drawn, value)
