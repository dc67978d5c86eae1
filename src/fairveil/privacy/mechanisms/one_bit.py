"""One-bit reports of a number in [0, 1]: the local mechanism for rewards."""

from __future__ import annotations

import math
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from fairveil.arrays import Floats, Ints
from fairveil.configuration import configuration
from fairveil.fields import Epsilon, described
from fairveil.privacy.grid import COINS, clip_unit, keep_weight
from fairveil.privacy.mechanisms.base import LOCAL, PureMechanism
from fairveil.privacy.noise import Noise
from fairveil.registry import register


@register("mechanism", "one-bit")
@configuration
class OneBit(PureMechanism):
    """Report x in [0, 1] as one random bit whose mean, decoded, is x.

    Guarantee: epsilon-DP (pure, local) for any two values of one person's input.
    Sensitivity: none is needed; x is clipped to [0, 1] on the person's side.
    Proof: x is first rounded at random to b in {0, 1} with P(b = 1) = x, then b is kept with probability p and flipped
    otherwise. p is an exact multiple of 2^-62 with p/(1 - p) <= e^epsilon, so both bits have likelihoods within
    e^epsilon of each other whatever b was; the rounding happens before and costs nothing.
    Cost: two exact coins a report; O(1) memory. Variance ((e^eps+1)/(e^eps-1))^2/4 - (x - 1/2)^2.

    >>> from fairveil.privacy.noise import SeededNoise
    >>> mechanism = OneBit(epsilon=1.0)
    >>> reports = mechanism.encode(np.full(200_000, 0.3), SeededNoise(1))
    >>> bool(abs(mechanism.decode(reports).mean() - 0.3) < 0.01)
    True

    Reference: Warner 1965; Duchi, Jordan and Wainwright 2018.
    """

    facts: ClassVar[dict[str, Any]] = {**LOCAL, "unit": "one person's value"}
    epsilon: Epsilon = described("budget of one report", example=1.0)

    @cached_property
    def keep(self) -> float:
        """P(report = b): e^eps / (e^eps + 1), rounded down to the exact coin that is thrown."""
        return keep_weight(self.epsilon) / COINS

    @cached_property
    def low(self) -> float:
        """P(report = 1) for x = 0."""
        return (COINS - keep_weight(self.epsilon)) / COINS

    @cached_property
    def slope(self) -> float:
        """P(report = 1 | x = 1) - P(report = 1 | x = 0); the decoded report spans an interval of length 1/slope."""
        return (2 * keep_weight(self.epsilon) - COINS) / COINS

    def probability(self, x: ArrayLike) -> Any:
        """P(report = 1) as floats, for simulators that draw their own seeded coins."""
        return self.low + np.asarray(x, np.float64) * self.slope

    def variance(self, x: ArrayLike) -> Any:
        """Variance of the decoded report."""
        p = self.probability(x)
        return p * (1 - p) / self.slope**2

    def encode(self, x: ArrayLike, noise: Noise) -> Ints:
        """One bit for every entry of x; entries outside [0, 1] are clipped, NaN is refused."""
        values = clip_unit(x)
        rounded = noise.uniform_integers(COINS, values.size) < np.floor(values.ravel() * COINS).astype(np.int64)
        kept = noise.uniform_integers(COINS, values.size) < keep_weight(self.epsilon)
        return (rounded == kept).astype(np.int64).reshape(values.shape)

    def decode(self, bits: ArrayLike) -> Floats:
        """Unbiased estimates of x: ((e^eps + 1) bit - 1) / (e^eps - 1)."""
        return (np.asarray(bits, np.float64) - self.low) / self.slope

    def release(self, value: ArrayLike, noise: Noise) -> Floats:
        """The decoded report (one for every entry of an array)."""
        return self.decode(self.encode(value, noise))

    def releases(self, value: float, noise: Noise, count: int) -> Floats:
        return self.release(np.full(count, value), noise)


def half_width(epsilon: float, count: float, log_inverse_failure: float) -> float:
    """Hoeffding half width of the mean of ``count`` decoded reports: sqrt(L / (2 n)) (e^eps + 1) / (e^eps - 1)."""
    return math.sqrt(log_inverse_failure / (2 * count)) / math.tanh(epsilon / 2)
