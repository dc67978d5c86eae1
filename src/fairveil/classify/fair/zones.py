"""Noisy counts by label, group and zone of the score: group sizes, and how dense people are around the threshold.

Blocks: groups too small to be told apart through the noise share a multiplier. They read released counts only.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from fairveil.arrays import Floats, Ints
from fairveil.fairness.groups import Counter
from fairveil.fairness.notions import Notion
from fairveil.privacy.noise import Noise

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


@dataclass(frozen=True)
class Blocks:
    """``of[g]`` is the block of group g; ``largest`` is the block with the most people by the released counts."""

    of: Ints
    count: int
    largest: int

    @property
    def models(self) -> list[int]:
        """Blocks that a blind rule models: all but the largest."""
        return [block for block in range(self.count) if block != self.largest]

    def names(self, groups: tuple[str, ...]) -> tuple[tuple[str, ...], ...]:
        """The groups of each block."""
        return tuple(tuple(groups[g] for g in np.flatnonzero(self.of == block)) for block in range(self.count))

    def summed(self, by_group: Floats) -> Floats:
        """Rows of a table by group added up by block."""
        total = np.zeros((self.count, *by_group.shape[1:]))
        np.add.at(total, self.of, by_group)
        return total


def choose_blocks(sizes: Floats, notion: Notion, least: float, most: int | None) -> Blocks:
    """Put the smallest together until each block has ``least`` people (of the kind the notion is about).

    Two groups stay two blocks. ``most`` bounds the number of blocks (a blind rule has few models).

    >>> sizes = np.array([[9, 9], [1, 1], [2, 2], [50, 50]])
    >>> choose_blocks(sizes, Notion.of("equal-opportunity"), 3, None).of.tolist()
    [1, 0, 0, 2]
    """
    relevant = notion.sizes(sizes)
    sets = [(float(size), [g]) for g, size in enumerate(relevant)]
    while len(sets) > 2:
        sets.sort(key=lambda entry: entry[0])
        if sets[0][0] >= least and (most is None or len(sets) <= most):
            break
        first, second = sets[0], sets[1]
        sets = [(max(first[0], 0.0) + max(second[0], 0.0), sorted(first[1] + second[1])), *sets[2:]]
    sets.sort(key=lambda entry: entry[0])
    of = np.empty(len(relevant), np.int64)
    for block, (_, members) in enumerate(sets):
        of[members] = block
    people = np.zeros(len(sets))
    np.add.at(people, of, sizes.sum(axis=1))
    return Blocks(of, len(sets), int(np.argmax(people)))


def least_people(least: float, mu: float, audit_part: float) -> float:
    """``least`` standard deviations of what all audits together know about a block's size."""
    return least * math.sqrt(2) / (mu * math.sqrt(audit_part))
