"""Noisy rank tables: one histogram per group of where its members' scores lie, averaged with a prior belief."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from fairveil.bandits.meritocratic.schema import Floats, Ints
from fairveil.privacy.histograms import Histogram
from fairveil.privacy.noise import Noise

DOUBT = 0.15
"""How far a rank read off the standard normal law is typically wrong; the histogram takes over when it is better."""
WIDEST = 0.25
"""Variance of one person's contribution to a middle rank: the largest there is."""


class RankTables(NamedTuple):
    """Estimated distribution functions at the edges of equal bins of [0, 1], and how unsure each group's ranks are."""

    tables: Floats  # (groups, bins + 1)
    std: Floats  # (groups,)


def rank_tables(histogram: Histogram, position: Floats, group: Ints, groups: int, noise: Noise) -> RankTables:
    """Release one histogram per group, each person in one of them, and average it with the uniform law of positions.

    Positions are scores through the normal law that all scores are believed to have, so a group that nobody was seen
    of keeps that belief. Weights are inverse to variances that are public: the noise, the (noisy) total, the doubt.
    """
    believed = np.linspace(0.0, 1.0, histogram.bins + 1)
    noise_std = histogram.expected_std(histogram.bins // 2)
    tables, stds = [], []
    for number in range(groups):
        _, shown = histogram.release(histogram.add(histogram.start(), position[group == number]), noise)
        total = max(shown.total, 1.0)  # itself noisy for groups that may be absent
        variance = (noise_std / total) ** 2 + WIDEST / total
        trust = DOUBT**2 / (DOUBT**2 + variance) if not shown.empty else 0.0
        tables.append(trust * shown.levels + (1 - trust) * believed)
        stds.append(math.sqrt(trust**2 * variance + (1 - trust) ** 2 * DOUBT**2))
    return RankTables(np.stack(tables), np.array(stds))
