"""The exponential mechanism, sampled exactly."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from fairveil.arrays import Floats, Ints
from fairveil.configuration import configuration
from fairveil.privacy.events import BoundedRangeEvent, Event
from fairveil.privacy.mechanisms.base import Selection
from fairveil.privacy.noise import Noise
from fairveil.registry import register


@register("mechanism", "exponential")
@configuration
class Exponential(Selection):
    """Pick candidate i with probability proportional to exp(epsilon score_i / (2 sensitivity)).

    Guarantee: epsilon-DP (pure), and epsilon-bounded-range, hence epsilon^2/8-zCDP.
    Sensitivity: the largest change of any one score. ``monotone`` (one record moves all scores in the same direction,
    as counts do) halves the noise.
    Proof: an integer score changes by at most s units, so every weight exp(-gap/scale) changes by a factor whose
    logarithm lies in an interval of length epsilon (2 s <= epsilon scale; s <= epsilon scale if monotone), and so does
    the normaliser. Weights are never computed: exact coins with the probability exp(-gap/scale) of integers decide, so
    huge and tiny scores neither overflow nor vanish.
    Cost: at most k proposals on average, O(k) memory.

    >>> from fairveil.privacy.noise import SeededNoise
    >>> mechanism = Exponential(sensitivity=1.0, epsilon=1.0)
    >>> int(mechanism.release([0.0, 1e9, -1e300], SeededNoise(1)))
    1

    Reference: McSherry and Talwar 2007; Cesar and Rogers 2021 (zCDP).
    """

    def event(self) -> Event:
        return BoundedRangeEvent(self.epsilon)

    def probabilities(self, scores: ArrayLike) -> Floats:
        """The law of the pick, as floats."""
        weights = np.exp(-self._gaps(scores) / self.scale_units)
        return weights / weights.sum()

    def releases(self, value: ArrayLike, noise: Noise, count: int) -> Ints:
        return noise.select(self._gaps(value), self.scale_units, count)
