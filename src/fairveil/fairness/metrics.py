"""How differently a classifier treats groups: rates by group, the gaps between them, and the report that tells both.

Labels are 0 or 1; a decision is 0 or 1, or the probability of 1 under a randomised rule, and rates are expected rates
then. A rate over an empty set of people is NaN and takes no part in a gap; `unestimable` names it. The definitions
agree with fairlearn's ``MetricFrame`` and its difference metrics; a test compares them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from fairveil.arrays import Floats, Ints
from fairveil.errors import InputError
from fairveil.fairness.groups import Groups, Sensitive, cells, share, wilson
from fairveil.fairness.notions import NOTIONS, Notion
from fairveil.frames import Drawable, Kind, frame_of
from fairveil.privacy.guarantee import Guarantee
from fairveil.registry import register

CONSTRAINED = tuple(notion for notion in NOTIONS if notion.labels)
"""Notions that rates by label say."""
SINGLE = {notion.name: notion.labels[0] for notion in CONSTRAINED if len(notion.labels) == 1}
"""Notions of one constraint, with the labels of the people it is about."""
NOBODY = {
    "selected": "nobody is in this group",
    "error": "nobody is in this group",
    "true_positive": "nobody in this group has label 1",
    "false_positive": "nobody in this group has label 0",
}
"""Why a group can lack a rate."""
RATES = tuple(NOBODY)
ACCEPTED = {(0, 1): "selected", (1,): "true_positive", (0,): "false_positive"}
"""The rate of acceptance of the people of these labels."""


@dataclass(frozen=True)
class GroupRates(Drawable):
    """Rates of every group in the order of ``names``; ``count`` is how many people each rests on.

    >>> rates = group_rates([1, 0, 1, 0], [1, 0, 0, 0], ["a", "a", "b", "b"])
    >>> rates.names, rates.selected.tolist(), rates.error.tolist()
    (('a', 'b'), [0.5, 0.0], [0.0, 0.5])
    """

    names: tuple[str, ...]
    count: Ints
    selected: Floats
    error: Floats
    true_positive: Floats
    false_positive: Floats
    positives: Ints

    def rate(self, name: str) -> Floats:
        """One of `RATES` by its name."""
        found: Floats = getattr(self, name)
        return found

    def behind(self, name: str) -> Ints:
        """How many people of each group a rate rests on."""
        return {"true_positive": self.positives, "false_positive": self.count - self.positives}.get(name, self.count)

    def of(self, labels: tuple[int, ...]) -> Floats:
        """Acceptance rates of the people of these labels."""
        return self.rate(ACCEPTED[labels])

    def to_frame(self) -> Any:
        """One row a group: people, rates, and 95 % intervals of what a rate says about people like them (Wilson)."""
        table: dict[str, Any] = {"group": self.names, "count": self.count}
        for name in RATES:
            low, high = wilson(self.rate(name), self.behind(name).astype(np.float64))
            table |= {name: self.rate(name), f"{name}_low": low, f"{name}_high": high}
        rows = [dict(zip(table, row)) for row in zip(*table.values(), strict=True)]
        return frame_of(rows, "rates by group", "raw")

    @property
    def by_group(self) -> Any:
        """The rates alone with groups as the index, as ``MetricFrame.by_group``."""
        return self.to_frame().set_index("group")[list(RATES)]

    def difference(self) -> dict[str, float | None]:
        """Largest minus smallest rate, as ``MetricFrame.difference()``; None where no group has the rate."""
        return {name: gap(self.rate(name)) for name in RATES}

    def ratio(self) -> dict[str, float | None]:
        """Smallest over largest rate, as ``MetricFrame.ratio()``; None where no group has the rate above 0."""
        found: dict[str, float | None] = {}
        for name in RATES:
            known = self.rate(name)[~np.isnan(self.rate(name))]
            found[name] = float(known.min() / known.max()) if len(known) and known.max() > 0 else None
        return found

    def to_dict(self) -> dict[str, dict[str, float]]:
        """Plain numbers by group."""
        return {
            name: {"count": int(self.count[i]), **{rate: float(self.rate(rate)[i]) for rate in RATES}}
            for i, name in enumerate(self.names)
        }


def group_rates(truth: ArrayLike, decision: ArrayLike, sensitive: Sensitive | Groups) -> GroupRates:
    """Count once, divide once: every rate of every group in one pass."""
    y, d = labels_of(truth), chances_of(decision)
    groups = sensitive if isinstance(sensitive, Groups) else Groups.of(sensitive)
    if not len(y) == len(d) == len(groups.index):
        raise InputError("labels, decisions and groups have different lengths", allowed="one of each per person")
    return rates_of(cells(groups.index, y, d, len(groups.names)), groups.names)


def rates_of(counted: Floats, names: tuple[str, ...]) -> GroupRates:
    """Rates from counts of shape (groups, label, declined or accepted)."""
    people = counted.sum(axis=2)
    count, positives = people.sum(axis=1), people[:, 1]
    return GroupRates(
        names,
        np.rint(count).astype(np.int64),
        share(counted[:, :, 1].sum(axis=1), count),
        share(counted[:, 0, 1] + counted[:, 1, 0], count),
        share(counted[:, 1, 1], positives),
        share(counted[:, 0, 1], people[:, 0]),
        np.rint(positives).astype(np.int64),
    )


def rates_only(names: tuple[str, ...], rates: Mapping[str, Floats]) -> GroupRates:
    """Rates by group where the numbers of people are not known."""
    nobody = np.zeros(len(names), np.int64)
    return GroupRates(names, nobody, positives=nobody, **rates)


def gaps_of(rates: GroupRates) -> dict[str, float | None]:
    """Every gap by its registered name: largest minus smallest rate of the groups that have one; None without any."""
    return {**{notion.name: _notion_gap(rates, notion) for notion in CONSTRAINED}, "error-gap": gap(rates.error)}


def _notion_gap(rates: GroupRates, notion: Notion) -> float | None:
    known = [value for labels in notion.labels if (value := gap(rates.of(labels))) is not None]
    return max(known) if known else None


def weighted_of(counted: Floats) -> dict[str, float]:
    """Largest A_g B_g by notion: A_g the share of all people that are in g (and of the label the notion is about), B_g
    the distance of the group's rate to the overall rate. A group of nobody weighs nothing.

    This is Definition 8 of Cummings, Gupta, Kimpara and Morgenstern (2019) and its mirror images.
    """
    everybody = counted.sum()
    found = {}
    for name, labels in SINGLE.items():
        part = counted[:, list(labels)].sum(axis=1)
        people, chosen = part.sum(axis=1), part[:, 1]
        overall = chosen.sum() / max(people.sum(), 1e-300)
        found[name] = float(np.abs(chosen - people * overall).max() / everybody) if everybody > 0 else 0.0
    return found


def unestimable(rates: GroupRates) -> dict[str, dict[str, str]]:
    """Rates that cannot be known, by group, with the reason: such a group is named, never dropped silently.

    >>> unestimable(group_rates([1, 0, 0], [1, 0, 0], ["a", "a", "b"]))
    {'true_positive': {'b': 'nobody in this group has label 1'}}
    """
    found: dict[str, dict[str, str]] = {}
    for rate, reason in NOBODY.items():
        empty = {name: reason for name, count in zip(rates.names, rates.behind(rate), strict=True) if count == 0}
        if empty:
            found[rate] = empty
    return found


@register("metric", "demographic-parity")
def demographic_parity_gap(truth: ArrayLike, decision: ArrayLike, sensitive: Sensitive | Groups) -> float:
    """Largest difference of acceptance rates between groups.

    >>> demographic_parity_gap([0, 1, 0, 1], [1, 1, 0, 1], ["a", "a", "b", "b"])
    0.5
    """
    return _by_name("demographic-parity", truth, decision, sensitive)


@register("metric", "equal-opportunity")
def equal_opportunity_gap(truth: ArrayLike, decision: ArrayLike, sensitive: Sensitive | Groups) -> float:
    """Largest difference of true positive rates between groups."""
    return _by_name("equal-opportunity", truth, decision, sensitive)


@register("metric", "equalized-odds")
def equalized_odds_gap(truth: ArrayLike, decision: ArrayLike, sensitive: Sensitive | Groups) -> float:
    """The larger of the true positive gap and the false positive gap."""
    return _by_name("equalized-odds", truth, decision, sensitive)


@register("metric", "false-positive")
def false_positive_gap(truth: ArrayLike, decision: ArrayLike, sensitive: Sensitive | Groups) -> float:
    """Largest difference of false positive rates between groups."""
    return _by_name("false-positive", truth, decision, sensitive)


@register("metric", "error-gap")
def error_gap(truth: ArrayLike, decision: ArrayLike, sensitive: Sensitive | Groups) -> float:
    """Largest difference of error rates between groups."""
    return _by_name("error-gap", truth, decision, sensitive)


GAPS: dict[str, Callable[..., float]] = {
    "demographic-parity": demographic_parity_gap,
    "equal-opportunity": equal_opportunity_gap,
    "equalized-odds": equalized_odds_gap,
    "false-positive": false_positive_gap,
    "error-gap": error_gap,
}


def gap(rates: Floats) -> float | None:
    """Largest minus smallest of the rates that are known; None when none is."""
    known = rates[~np.isnan(rates)]
    return float(known.max() - known.min()) if len(known) else None


def _by_name(name: str, truth: ArrayLike, decision: ArrayLike, sensitive: Sensitive | Groups) -> float:
    return gaps_of(group_rates(truth, decision, sensitive))[name] or 0.0


def labels_of(values: ArrayLike, name: str = "truth") -> Ints:
    """Labels 0 and 1 as integers; anything else is refused."""
    array = np.asarray(values)
    if array.ndim != 1 or not np.isin(array, (0, 1)).all():
        raise InputError("labels are 0 or 1", path=name, allowed="a vector of zeros and ones")
    return array.astype(np.int64)


def chances_of(values: ArrayLike, name: str = "decision") -> Floats:
    """Decisions 0 and 1, or probabilities of 1, as floats; anything else is refused."""
    array = np.asarray(values)
    if array.ndim != 1 or array.dtype.kind not in "biuf" or not ((array >= 0) & (array <= 1)).all():
        raise InputError("decisions are 0 or 1, or the probability of 1", path=name, allowed="a vector in [0, 1]")
    return array.astype(np.float64)


class GroupReport(dict[str, Any], Drawable):
    """What `report_` of a classifier holds; ``kind`` says whether it was released with noise or counted as it is.

    >>> found = GroupReport("private", error=0.2, by_group={"a": {"count": 40.0, "selected": 0.5}})
    >>> found["error"], found.kind
    (0.2, 'private')
    """

    promise = ""
    """What it cost and whom that protects, in words for a title."""

    def __init__(self, kind: Kind, **found: Any) -> None:
        super().__init__(found)
        self.kind: Kind = kind

    def under(self, promise: Guarantee, *, simulated: bool) -> GroupReport:
        """The same report with what it cost; seeded noise makes it a simulation."""
        self.promise = str(promise)
        self.kind = "simulated" if simulated else self.kind
        return self

    def __reduce__(self) -> Any:
        return _again, (self.kind, dict(self), self.promise)

    def to_frame(self) -> Any:
        """One row a group where it has groups, else one row a notion of fairness."""
        if "by_group" in self:
            rows = [{"group": name, **rates} for name, rates in self["by_group"].items()]
        else:
            rows = [{"notion": name, "gap": gap} for name, gap in self["discrimination"].items()]
        return frame_of(rows, "report by group", self.kind, error=self["error"])


def _again(kind: Kind, found: dict[str, Any], promise: str = "") -> GroupReport:
    made = GroupReport(kind, **found)
    made.promise = promise
    return made
