"""Report noisy max with Laplace noise on integers."""

from __future__ import annotations

from numpy.typing import ArrayLike

from fairveil.arrays import Ints
from fairveil.configuration import configuration
from fairveil.privacy.mechanisms.base import Selection, in_blocks
from fairveil.privacy.noise import Noise
from fairveil.registry import register


@register("mechanism", "report-noisy-max")
@configuration
class ReportNoisyMax(Selection):
    """Add Laplace noise to every score and report which candidate comes first; the noisy scores stay hidden.

    Guarantee: epsilon-DP (pure), whatever the number of candidates.
    Sensitivity: the largest change of any one score; ``monotone`` (all scores move in one direction) halves the noise.
    Proof: fix the noise of all candidates but i. Candidate i is reported exactly when its integer noise reaches some
    threshold m (ties go to the lower index, a public rule). With the neighbour's scores noise of m + 2 s units suffices
    (m + s if monotone), and for the integer Laplace law P(z >= m + a) >= exp(-a/scale) P(z >= m), because it holds
    point by point. scale >= 2 s/epsilon (s/epsilon).
    Cost: k draws, O(k) memory.

    >>> from fairveil.privacy.noise import SeededNoise
    >>> int(ReportNoisyMax(sensitivity=1.0, epsilon=1.0).release([3.0, 1e12], SeededNoise(1)))
    1

    Reference: Dwork and Roth 2014, section 3.3.
    """

    def releases(self, value: ArrayLike, noise: Noise, count: int) -> Ints:
        units = self._units(value)

        def picks(size: int) -> Ints:
            drawn = noise.laplace(float(self.scale_units), size * len(units))
            return (units + drawn.reshape(size, len(units))).argmax(1)

        return in_blocks(picks, count, len(units))
