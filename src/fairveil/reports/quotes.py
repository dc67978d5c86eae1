"""Before anything is charged: how sure a report will be at a price, which price a wanted certainty needs, a dry run.

Everything here is computed from public numbers, or from rows that are made up.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from fairveil.arrays import Floats
from fairveil.errors import SpecError
from fairveil.privacy.charges import Currency
from fairveil.privacy.noise import SeededNoise
from fairveil.privacy.vectors import Price
from fairveil.randomness import generator
from fairveil.reports.evaluation import Evaluation
from fairveil.reports.fairness import FairnessReport
from fairveil.reports.intervals import GroupSums, Tail, averaged, rated
from fairveil.reports.rows import PlaceRows

RATES = (0.1, 0.5)
"""Rates (or means) at which half-widths are quoted."""
SMALLEST, LARGEST = 1e-6, 1e3
CANDIDATES = 4
"""Candidates of a round in rows that are made up."""


def half_widths(report: FairnessReport, places: int, sizes: Mapping[str, float] | None = None) -> list[dict[str, Any]]:
    """Expected half-widths by group, at rates .1 and .5: sampling and noise together.

    ``sizes``: how many of each group are shown (the arms' people in a trial), public; equal shares without it.

    >>> quoted = half_widths(FairnessReport(("a", "b"), rho=0.02, rewards=False), 2000)
    >>> quoted[0]["name"], round(quoted[0]["at"]["0.1"], 4)
    ('a', 0.0091)
    """
    names, groups = report.names, len(report.names)
    per = 1 if report.family == "nash" else CANDIDATES
    shown = np.array([float((sizes or {}).get(name, per * places / groups)) for name in names])
    variance, laplace = report.vector.std**2, report.price.laplace
    found: dict[str, Floats] = {}
    for rate in RATES:
        if report.family == "exposure":
            tail = Tail.at(1 - report.level, laplace)
            own = 2 * variance * (1 if report.blanks else 1 - 1 / groups) / max(places, 1) ** 2
            half = np.full(groups, tail.z * math.sqrt(2 * rate * (1 - rate) / max(places, 1) + tail.factor**2 * own))
        elif report.family == "nash":
            many = len(report.actions)
            counted = variance * many if report.private_groups else 0.0
            limits = averaged((rate - 0.5) * shown, shown, variance * many, counted, report.level, laplace).expected
            half = (limits.high - limits.low) / 2
        else:
            rounds = np.minimum(shown, places)
            noisy = variance if report.private_groups else 0.0
            chosen = np.minimum(rate * shown, rounds / 2)  # above half of its rounds a group is surer again
            own = variance * (1 if report.blanks else 1 - 1 / groups)
            sums = GroupSums(chosen, shown, rounds, own, noisy)
            limits = rated(sums, report.level, laplace).expected
            half = (limits.high - limits.low) / 2
        found[f"{rate:g}"] = half
    return [
        {"name": name, "at": {rate: float(half[g]) for rate, half in found.items()}} for g, name in enumerate(names)
    ]


def widest(report: FairnessReport | Evaluation, places: int, sizes: Mapping[str, float] | None = None) -> float:
    """The largest of all half-widths that would be quoted."""
    if isinstance(report, Evaluation):
        return max(report.half_widths(places))
    rows = half_widths(report, places, sizes)
    held = [row for row in rows if (sizes or {}).get(row["name"], 1.0) >= 1.0]  # of nobody nothing is to be known
    return max(max(row["at"].values()) for row in held or rows)


def budget_for(report: FairnessReport | Evaluation, half_width: float, places: int,
               sizes: Mapping[str, float] | None = None) -> Price:  # fmt: skip
    """The smallest budget, in the currency of this report, with which every half-width is at most ``half_width``.

    >>> wanted = budget_for(FairnessReport(("a", "b"), rho=1.0, rewards=False), 0.016, 2000)
    >>> 0.0005 < wanted.rho < 0.001
    True
    """
    currency = report.price.currency
    low, high = SMALLEST, LARGEST
    best = widest(_priced(report, currency, high), places, sizes)
    if best > half_width:
        raise SpecError(
            "so few places cannot be that sure, with any budget", path="half_width", given=half_width,
            allowed=f"at least {best:.4g}: sampling alone", fix="more places, larger groups, or a wider interval",
        )  # fmt: skip
    for _ in range(60):
        middle = math.sqrt(low * high)
        wide = widest(_priced(report, currency, middle), places, sizes) > half_width
        low, high = (middle, high) if wide else (low, middle)
    return Price.of(currency, _rounded_up(high))


def _rounded_up(amount: float) -> float:
    """Four digits, never less."""
    digits = 3 - math.floor(math.log10(amount))
    return math.ceil(amount * 10**digits * (1 - 1e-12)) / 10**digits


def _priced(report: Any, currency: Currency, amount: float) -> Any:
    price = Price.of(currency, amount)
    return replace(report, epsilon=price.epsilon, delta=None, rho=price.rho, mu=price.mu)


def dry_run(report: FairnessReport | Evaluation, places: int, seed: int = 1) -> dict[str, Any]:
    """What would be published, on rows that are made up and with seeded noise: it costs nothing and says nothing."""
    rng, noise = generator(seed, "dry-run"), SeededNoise(seed, "dry-run")
    if isinstance(report, Evaluation):
        largest = np.array(report.largest_weights)
        weights = np.where(rng.random((places, len(largest))) < 1 / largest, largest, 0.0)
        made = report.release(weights, (rng.random(places) < 0.5).astype(np.float64), noise)
        return {"simulated": True, **made}
    groups = len(report.names)
    rows = PlaceRows(group=rng.integers(0, groups, places), reward=(rng.random(places) < 0.5).astype(np.float64))
    if report.family == "nash":
        rows = replace(rows, arm=rng.integers(0, len(report.actions), places))
    elif report.family == "exposure":
        laws = rng.dirichlet(np.ones(groups), (2, places))
        rows = PlaceRows(group=rows.group, played=laws[0], deserved=laws[1])
    else:
        count = min(CANDIDATES, report.most_shown or CANDIDATES)
        candidates = rng.integers(0, groups, (places, count))
        shown = (candidates[:, :, None] == np.arange(groups)).sum(axis=1)
        rows = replace(rows, group=candidates[np.arange(places), rng.integers(0, count, places)], shown=shown)
    return {"simulated": True, **report.release(rows, noise)}
