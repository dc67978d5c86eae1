"""Noisy counts by label, group and zone of the score: group sizes, and how dense people are around the threshold."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fairveil.fairness.counting import Counter
from fairveil.privacy.noise import Noise

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
EDGES = (0.3, 0.7)
"""Zones of the score: below, around, above."""
LEAST_DENSITY = 0.05


@dataclass(frozen=True)
class Zones:
    """Released counts of shape (groups, labels, zones) with discrete Gaussian noise of std ``sigma`` each.

    One row is in one cell, so zero-out-row neighbours differ by one in one count.
    """

    counts: Ints
    sigma: float

    @property
    def sizes(self) -> Floats:
        """People by group and label; each the sum of three counts, so of variance 3 sigma^2."""
        return self.counts.sum(axis=2).astype(np.float64)

    def density(self, labels: tuple[int, ...]) -> float:
        """Share of these labels' people around the threshold, per unit of the score; at least LEAST_DENSITY."""
        chosen = self.counts[:, list(labels)]
        people = max(float(chosen.sum()), 1.0)
        return max(float(chosen[:, :, 1].sum()) / (people * (EDGES[1] - EDGES[0])), LEAST_DENSITY)


def release_zones(score: Floats, labels: Ints, groups: Ints, names: int, sigma: float, noise: Noise) -> Zones:
    """Count and add noise."""
    zone = np.searchsorted(EDGES, score, side="right")
    exact = Counter(3 * groups + zone, labels, 3 * names).people.reshape(names, 3, 2).transpose(0, 2, 1)
    drawn = noise.gaussian(sigma, exact.size).reshape(exact.shape)
    return Zones(exact + drawn, sigma)
