"""Finite classes of rules: stumps, random linear rules, and one threshold per group on a private score.

A class is public. What an algorithm needs to know about the people is the table of accepted counts by hypothesis,
group and label; everything else (errors, rates, violations) follows from it.
"""

from __future__ import annotations

from typing import Literal

import numpy as np

from fairveil.arrays import Bools, Floats, Ints
from fairveil.errors import SpecError
from fairveil.fairness.groups import Counter
from fairveil.randomness import generator

UNIT = "one person's row (features, group and label)"
PUBLIC = (
    "public: the list of hypotheses, bounds and bins of the features, the two labels, the groups, the number of rows"
)
HypothesesName = Literal["stumps", "linear", "threshold-pairs"]
LEVELS = 33
MOST_GROUPS = 4
_CHUNK = 64


class Listed:
    """Rules that are counted one by one."""

    size: int

    def accepts(self, features: Floats, groups: Ints, chosen: Ints) -> Bools:
        """Decisions of shape (chosen, rows)."""
        raise NotImplementedError

    def table(self, features: Floats, groups: Ints, counter: Counter) -> Floats:
        """Accepted counts of shape (size, groups, labels)."""
        found = np.empty((self.size, counter.groups, 2))
        for start in range(0, self.size, _CHUNK):
            chosen = np.arange(start, min(start + _CHUNK, self.size))
            for h, accepted in zip(chosen, self.accepts(features, groups, chosen), strict=True):
                found[h] = counter.count(accepted)[:, :, 1]
        return found


class Stumps(Listed):
    """One encoded column, or its complement. ``size`` is twice the number of columns.

    >>> Stumps(2).accepts(np.array([[0.0, 1.0]]), np.array([0]), np.arange(4)).tolist()
    [[False], [True], [True], [False]]
    """

    def __init__(self, width: int) -> None:
        self.size = 2 * width

    def accepts(self, features: Floats, groups: Ints, chosen: Ints) -> Bools:
        return (features.T[chosen // 2] > 0.5) != (chosen % 2 == 1)[:, None]


class Linear(Listed):
    """``count`` random linear rules from a public seed: weights normal, thresholds normal around the middle."""

    def __init__(self, width: int, count: int, seed: int = 0) -> None:
        rng = generator(seed, "linear-rules")
        self.size = count
        self.weights = rng.normal(size=(count, width))
        self.limits = rng.normal(size=count) * np.sqrt(width) / 2

    def accepts(self, features: Floats, groups: Ints, chosen: Ints) -> Bools:
        return self.weights[chosen] @ features.T > self.limits[chosen, None]


class ThresholdPairs:
    """One threshold per group on a public grid of LEVELS levels of a (private) score given as the only column.

    >>> ThresholdPairs(2).size == LEVELS**2
    True
    """

    def __init__(self, groups: int) -> None:
        if groups > MOST_GROUPS:
            raise SpecError(
                "there are too many groups for a threshold each", path="hypotheses", given=groups,
                allowed=f"at most {MOST_GROUPS} groups", fix='hypotheses="stumps", or fewer sensitive columns',
            )  # fmt: skip
        self.groups, self.size = groups, LEVELS**groups
        self.grid = np.arange(LEVELS) / (LEVELS - 1)

    def levels(self, chosen: Ints) -> Ints:
        """Position on the grid by hypothesis and group."""
        return np.stack(np.unravel_index(chosen, (LEVELS,) * self.groups), axis=1)

    def accepts(self, features: Floats, groups: Ints, chosen: Ints) -> Bools:
        return features[:, 0] > self.grid[self.levels(chosen)][:, groups]

    def table(self, features: Floats, groups: Ints, counter: Counter) -> Floats:
        """By group a threshold needs LEVELS counts only; a hypothesis is one level for each group."""
        above = np.array([counter.count(features[:, 0] > limit)[:, :, 1] for limit in self.grid])
        levels = self.levels(np.arange(self.size))
        return above[levels, np.arange(self.groups)]


Hypotheses = Stumps | Linear | ThresholdPairs


def make(name: HypothesesName, width: int, groups: int, count: int) -> Hypotheses:
    """The class of this name for rows of ``width`` columns and so many groups."""
    if name == "stumps":
        return Stumps(width)
    return Linear(width, count) if name == "linear" else ThresholdPairs(groups)


def errors(table: Floats, people: Floats) -> Floats:
    """Wrong decisions by hypothesis: accepted with label 0 and declined with label 1."""
    return table[:, :, 0].sum(axis=1) + (people[:, 1] - table[:, :, 1]).sum(axis=1)


def violations(table: Floats, people: Floats, members: Bools, rows: int) -> Floats:
    """Signed A_g (FP - FP_g) by hypothesis and subgroup (a union of groups)."""
    negatives = people[:, 0]
    overall = table[:, :, 0].sum(axis=1) / max(float(negatives.sum()), 1.0)
    return (overall[:, None] * negatives - table[:, :, 0]) @ members.T / rows
