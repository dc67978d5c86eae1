"""What a private fit may say about itself: rates by group from noisy counts; intervals hold noise and sampling."""

from __future__ import annotations

import math

import numpy as np

from fairveil.arrays import Floats, Ints
from fairveil.classify.fair.zones import Zones
from fairveil.fairness.groups import Counter
from fairveil.fairness.metrics import gaps_of, rates_only, weighted_of
from fairveil.fairness.reports import GroupReport
from fairveil.privacy.noise import Noise

TOO_WIDE = 0.5
REACH = 1.959964
REASON = "too few people for the noise: the interval is wider than one half"
RATES: dict[str, tuple[tuple[int, int], ...]] = {
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
    """Error, gaps, weighted gaps and rates by group with 95 % intervals; ``sigma`` is that of one count in people.

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
    for rate, cells in RATES.items():
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
