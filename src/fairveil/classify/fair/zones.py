"""Noisy counts, before the game and after it. Before: by label, group and zone of the score, which say how large groups
are and how dense people are around the threshold. After: votes by group, from which a fit reports rates on itself.

Blocks: groups too small to be told apart through the noise share a multiplier. They read released counts only.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from fairveil.arrays import Floats, Ints
from fairveil.fairness.groups import Counter
from fairveil.fairness.metrics import GroupReport, gaps_of, rates_only, weighted_of
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


TOO_WIDE = 0.5
REACH = 1.959964
REASON = "too few people for the noise: the interval is wider than one half"
COUNTED: dict[str, tuple[tuple[int, int], ...]] = {
    "selected": ((0, 1), (1, 1)),
    "error": ((0, 1), (1, 0)),
    "true_positive": ((1, 1),),
    "false_positive": ((0, 1),),
}
"""Cells (label, decision) whose people a rate counts; it is divided by all people of those labels."""


def release_report(counter: Counter, voted: Ints, plays: int, sigma: float, noise: Noise) -> Floats:
    """Votes by group, label and decision with noise, in people (votes over plays).

    A row with j of M votes adds (j, M - j) to two cells: its l2 weight is at most M, whatever j is.
    """
    exact = counter.count(voted, plays)
    return (exact + noise.gaussian(sigma, exact.size).reshape(exact.shape)) / plays


def summary(counted: Floats, zones: Zones, sigma: float, names: tuple[str, ...]) -> GroupReport:
    """What a private fit may say about itself; ``sigma`` is that of one count in people.

    Error, gaps, weighted gaps, and rates by group with 95 % intervals that hold noise and sampling.

    Sizes are inverse-variance means of zones and report. A group whose interval is wider than one half is
    ``unestimable`` and takes no part in a gap.
    """
    weight = np.array([1 / (3 * zones.sigma**2), 1 / (2 * sigma**2)])
    people = (weight[0] * zones.sizes + weight[1] * counted.sum(axis=2)) / weight.sum()
    found: dict[str, Floats] = {}
    by_group: dict[str, dict[str, float | None]] = {
        name: {"count": max(float(people[g].sum()), 0.0), "positives": max(float(people[g, 1]), 0.0)}
        for g, name in enumerate(names)
    }
    unestimable: dict[str, dict[str, str]] = {}
    for rate, cells in COUNTED.items():
        value, low, high = _rate(counted, people, cells, sigma)
        known = high - low <= TOO_WIDE
        found[rate] = np.where(known, value, np.nan)
        for g, name in enumerate(names):
            if not known[g]:
                unestimable.setdefault(rate, {})[name] = REASON
            by_group[name] |= {
                rate: float(value[g]) if known[g] else None,
                f"{rate}_low": float(low[g]),
                f"{rate}_high": float(high[g]),
            }
    rates = rates_only(names, found)
    return GroupReport(
        "private",
        error=_overall_error(counted),
        discrimination=gaps_of(rates),
        weighted=weighted_of(_consistent(counted)),
        by_group=by_group,
        unestimable=unestimable,
    )


def _rate(
    counted: Floats, people: Floats, cells: tuple[tuple[int, int], ...], sigma: float
) -> tuple[Floats, Floats, Floats]:
    labels = sorted({label for label, _ in cells})
    size = np.maximum(people[:, labels].sum(axis=1), 1.0)
    part = sum(counted[:, label, decision] for label, decision in cells)
    whole = np.maximum(counted[:, labels].sum(axis=(1, 2)), 1.0)
    value = np.clip(part / whole, 0.0, 1.0)
    # part - value whole has noise in every cell: (1 - value)^2 for those counted, value^2 for the others
    noise = sigma**2 * len(labels) * ((1 - value) ** 2 + value**2) / size**2
    sampling = np.maximum(value * (1 - value), 1 / (4 * size)) / size
    reach = REACH * np.sqrt(noise + sampling)
    return value, np.maximum(value - reach, 0.0), np.minimum(value + reach, 1.0)


def _overall_error(counted: Floats) -> float:
    return min(1.0, max(0.0, float((counted[:, 0, 1] + counted[:, 1, 0]).sum()) / max(float(counted.sum()), 1.0)))


def _consistent(counted: Floats) -> Floats:
    """No cell below zero: a weighted gap needs people."""
    safe = np.maximum(counted, 0.0)
    return safe if math.isfinite(float(safe.sum())) and safe.sum() > 0 else safe + 1e-300
