"""Blocks: groups too small to be told apart through the noise share a multiplier. Reads released counts only."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fairveil.classify.fair.notions import Notion

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


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
