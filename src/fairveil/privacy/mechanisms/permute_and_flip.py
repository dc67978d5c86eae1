"""Permute-and-flip: selection that is never less accurate than the exponential mechanism."""

from __future__ import annotations

from itertools import combinations

import numpy as np
from numpy.typing import ArrayLike

from fairveil.arrays import Floats, Ints
from fairveil.configuration import configuration
from fairveil.privacy.mechanisms.base import Selection, in_blocks
from fairveil.privacy.noise import Noise
from fairveil.registry import register


@register("mechanism", "permute-and-flip")
@configuration
class PermuteAndFlip(Selection):
    """Visit the candidates in random order and take the first whose coin, exp(-epsilon gap / (2 sensitivity)), shows 1.

    Guarantee: epsilon-DP (pure). The law is that of report-noisy-max with exponential noise.
    Sensitivity: the largest change of any one score; ``monotone`` (all scores move in one direction) halves the noise.
    Proof: raising the best score by s and lowering the picked one by s is the worst case; each coin then changes by at
    most exp(2 s/scale), and the chance of stopping earlier changes in the helpful direction only. Coins are exact for
    integer gaps and the permutation is exact (Fisher-Yates with exactly uniform integers).
    Cost: O(k) draws and memory; the best candidate always shows 1, so it ends within one pass.

    >>> from fairveil.privacy.noise import SeededNoise
    >>> int(PermuteAndFlip(sensitivity=1.0, epsilon=2.0).release([0.0, 50.0], SeededNoise(1)))
    1

    Reference: McKenna and Sheldon 2020; Ding et al. 2021.
    """

    def probabilities(self, scores: ArrayLike) -> Floats:
        """The law of the pick, as floats, by inclusion and exclusion over the other candidates (for small k)."""
        keep = np.exp(-self._gaps(scores) / self.scale_units)
        law = np.zeros(len(keep))
        for i, chance in enumerate(keep):
            others = np.delete(keep, i)
            for size in range(len(others) + 1):
                products = sum(float(np.prod(group)) for group in combinations(others, size))
                law[i] += chance * (-1) ** size * products / (size + 1)
        return law

    def releases(self, value: ArrayLike, noise: Noise, count: int) -> Ints:
        gaps = self._gaps(value)
        return in_blocks(lambda size: self._block(gaps, noise, size), count, len(gaps))

    def _block(self, gaps: Ints, noise: Noise, count: int) -> Ints:
        order = np.tile(np.arange(len(gaps)), (count, 1))
        rows = np.arange(count)
        for last in range(len(gaps) - 1, 0, -1):
            swap = noise.uniform_integers(last + 1, count)
            order[rows, last], order[rows, swap] = order[rows, swap], order[rows, last].copy()
        flips = noise.exponential_coins(gaps[order].ravel(), self.scale_units).reshape(order.shape)
        return order[rows, flips.argmax(1)]
