"""A report on a classifier: how often it is wrong, how equally it treats groups, and what that was counted on.

Of a result of task ``classify``, and of a fitted estimator (or a Pipeline that ends in one). Gaps are differences of
two rates; their limits follow from the rates' intervals by the rule of `fairveil.reports.intervals` (MOVER). Counts,
noise and people of two groups are different ones, so their rates are independent.
"""

from __future__ import annotations

from collections.abc import Mapping
from statistics import NormalDist
from typing import Any

import numpy as np

from fairveil._version import __version__
from fairveil.classify.spending import Spending
from fairveil.configuration import describe
from fairveil.errors import SpecError
from fairveil.fairness.metrics import ACCEPTED, CONSTRAINED, RATES
from fairveil.fairness.notions import Notion
from fairveil.lab.handover.document import Bars, Document, DocumentSection, TextGrid, number
from fairveil.lab.handover.words import promise_section, public_section, unprotected_section
from fairveil.privacy.guarantee import Guarantee
from fairveil.reports.intervals import Limits, gap, pair_alpha

ByGroup = Mapping[str, Mapping[str, Any]]
Gap = tuple[float, float, float, str, str]
"""A gap, its limits, and the groups with the higher and the lower rate."""

LEVEL = 0.95
"""Of the intervals of rates in results and reports of classifiers."""
NOTIONS = {notion.name: tuple(ACCEPTED[labels] for labels in notion.labels) for notion in CONSTRAINED}
NOTIONS["error-gap"] = ("error",)
"""The rates whose largest gap a notion is about."""
WORDS = {
    "selected": "accepted",
    "error": "wrong",
    "true_positive": "accepted of those with the positive label",
    "false_positive": "accepted of those with the other label",
}
PRIVATE = (
    "Private: from noisy counts of the people it was fitted on, covered by the promise below. Intervals contain the "
    "noise and the sampling."
)
RAW = "Raw: counted on people as they are, without noise. No promise covers these numbers."
SEEDED = (
    "The noise of this fit was seeded (random_state): it can be computed again, so it protects nobody. Fit without "
    "random_state before this is handed out."
)
UNCHARGED = (
    "The fit was not charged to a ledger. The promise below counts the fits of this estimator and its copies that are "
    "known; whether the same people were used elsewhere does not show here."
)
CHARGED = (
    "The fit was charged to a ledger before noise met the data. All fits of that ledger together, and what is left, "
    "are in its own report: fairveil report LEDGER."
)
LAB = "Lab numbers: counted without noise on held-out people, all of them invented."


def report_on_classifier(model: Any) -> Document:
    """What a fitted estimator may say about itself: accuracy, gaps and rates by group, cost and promise.

    ``model``: an estimator of `fairveil.classify`, or a Pipeline that ends in one.
    """
    fitted: Any = model.steps[-1][1] if hasattr(model, "steps") else model
    known = isinstance(fitted, Spending) and fitted.fitted
    if not known:
        raise SpecError(
            "this is not a fitted classifier of fairveil", path="model", given=type(fitted).__name__,
            allowed="an estimator of fairveil.classify after fit, or a Pipeline that ends in one", fix="fit it first",
        )  # fmt: skip
    promise: Guarantee = fitted.guarantee_
    learner, name = fitted.learner(), type(fitted).__name__
    document = Document(
        title=f"Report on a classifier: {name}",
        about=f"One fit of the learner {learner.name}. Written from what the fit published and from nothing else.",
        banner=SEEDED if fitted.simulated_ else "",
        made=f"fairveil {__version__}",
    )
    if promise.epsilon is not None:
        document.figures.append(("epsilon", number(promise.epsilon)))
        document.figures += [("delta", f"{promise.delta:.1g}")] if promise.delta else []
    document.sections.append(_fitted(fitted, learner))
    report = fitted.report_
    if report is None:
        document.sections.append(
            DocumentSection(
                "How well it decides, and how equally",
                withheld=[
                    "Error and rates by group: this learner publishes its weights alone (private-fair has both)."
                ],
            )
        )
    else:
        document.figures.insert(0, ("accuracy", f"{1 - report['error']:.1%}"))
        mark = RAW if report.kind == "raw" else PRIVATE
        document.sections += classified(report, learner.fairness, mark, describe(learner).get("slack", 0.0))
    document.sections += [
        DocumentSection("What was spent", text=[UNCHARGED if fitted.ledger is None else CHARGED]),
        promise_section(promise),
        public_section(promise, decides=False),
        unprotected_section(promise, decides=False),
        DocumentSection(
            "How to check this report",
            text=["The same software says what the learner does, and attacks its noise:"],
            code=[f"fairveil explain {learner.name}", f"fairveil audit {learner.name}"],
        ),
    ]
    return document


def _fitted(fitted: Any, learner: Any) -> DocumentSection:
    other, positive = fitted.classes_
    rows = [("labels", f"{positive} (positive: accepted), {other}")]
    if fitted.group_names_:
        rows.append(("groups", ", ".join(map(str, fitted.group_names_))))
    if learner.fairness:
        rows.append(("to be equal between groups", Notion.of(learner.fairness).words))
    if awareness := describe(learner).get("awareness"):
        blind = awareness == "blind"
        rows.append(("the rule, when it decides", "does not read the group" if blind else "reads the group"))
    return DocumentSection("What was fitted", grids=[TextGrid(("", ""), tuple(rows))])


def classified(found: Mapping[str, Any], fairness: str, mark: str, slack: float = 0.0) -> list[DocumentSection]:
    """Error, gaps and rates of a report or of a result's metrics; ``mark`` says what they were counted on, ``slack`` is
    the gap that was tolerated."""
    error, by_group = found["error"], found.get("by_group")
    section = _marked("How well it decides, and how equally", mark)
    if error is not None:
        section.text.append(f"It is right for {1 - error:.1%} of the people and wrong for {error:.1%}.")
    if not by_group:
        rows = [(_called(name, fairness), number(value)) for name, value in found["discrimination"].items()]
        section.grids.append(TextGrid(("largest gap between two groups", "gap"), tuple(rows)))
        return [section]
    if fairness in NOTIONS:
        section.text += asked_and_kept(fairness, slack, gap_between(by_group, NOTIONS[fairness]))
    section.grids.append(
        TextGrid(
            ("largest gap between two groups", "gap", f"{LEVEL:.0%} interval", "higher", "lower"),
            tuple(_gap_row(name, rates, by_group, fairness) for name, rates in NOTIONS.items()),
        )
    )
    return [section, _rates_section(by_group, found.get("unestimable", {}), NOTIONS.get(fairness, ("selected",)), mark)]


def asked_and_kept(fairness: str, slack: float, found: Gap | None) -> list[str]:
    """What was asked for, and what the interval of its gap says: kept, not kept, or neither shown.

    >>> asked_and_kept("equal-opportunity", 0.1, (0.04, 0.0, 0.079, "f", "m"))[1]
    'Met: the gap is between 0 and 0.079 (95% interval), all of it within the tolerated 0.1.'
    """
    most = f"a gap of at most {number(slack)} between groups" if slack else "no gap between groups (slack 0)"
    asked = f"Asked for: {fairness.replace('-', ' ')}, with {most}. A fit aims at it; it does not promise it."
    if found is None:
        return [asked, "Whether it is met is not known: too few groups have a rate."]
    low, high = found[1:3]
    between = f"the gap is between {number(low)} and {number(high)} ({LEVEL:.0%} interval)"
    if slack:
        if high <= slack:
            verdict = f"Met: {between}, all of it within the tolerated {number(slack)}."
        elif low > slack:
            verdict = f"Not met: {between}, all of it above the tolerated {number(slack)}."
        else:
            verdict = f"Neither met nor missed for sure: {between}, and the tolerated {number(slack)} lies inside."
        return [asked, verdict]
    if low > 0:
        verdict = f"Not met exactly: {between}, so there is one, and {number(high)} is the largest to be expected."
    else:
        verdict = f"Neither met nor missed for sure: {between}, which holds both no gap and one of {number(high)}."
    return [asked, f"{verdict} No interval can show a gap of exactly 0: name one that is tolerable (slack)."]


def _marked(title: str, mark: str) -> DocumentSection:
    """A section that says what it was counted on; a warning where no promise covers it."""
    return DocumentSection(title, marked=mark) if mark in (RAW, LAB) else DocumentSection(title, text=[mark])


def _rates_section(
    by_group: ByGroup, unknown: Mapping[str, Mapping[str, str]], drawn: tuple[str, ...], mark: str
) -> DocumentSection:
    section = _marked("Rates by group", mark)
    section.text.append(f"Shares of people, with {LEVEL:.0%} intervals in brackets.")
    rows = [
        (name, _people(held.get("count")), *(_span(held, rate) for rate in RATES)) for name, held in by_group.items()
    ]
    section.grids.append(TextGrid(("group", "people", *(WORDS[rate] for rate in RATES)), tuple(rows)))
    for rate in drawn:
        known = [(name, held) for name, held in by_group.items() if _known(held, rate)]
        entries = tuple((name, held[rate], held[f"{rate}_low"], held[f"{rate}_high"]) for name, held in known)
        if entries:
            section.drawings.append(Bars(f"{WORDS[rate]}, {LEVEL:.0%} intervals", entries))
    section.withheld += [
        f"{WORDS[rate][0].upper()}{WORDS[rate][1:]}, {name}: {reason}."
        for rate, groups in unknown.items()
        for name, reason in groups.items()
    ]
    return section


def _gap_row(notion: str, rates: tuple[str, ...], by_group: ByGroup, fairness: str) -> tuple[str, ...]:
    found = gap_between(by_group, rates)
    if found is None:
        return (_called(notion, fairness), "not known", "", "", "")
    value, low, high, most, least = found
    return (_called(notion, fairness), number(value), f"{number(low)} to {number(high)}", most, least)


def gap_between(by_group: ByGroup, rates: tuple[str, ...]) -> Gap | None:
    """The largest gap of these rates with its limits, and the groups with the higher and the lower rate.

    The lower limit is shared by all pairs of groups and all rates. Arms of the rates' intervals are stretched to that
    level by normal quantiles; a limit that reached 0 or 1 stays there.

    >>> rate = {"a": {"r": 0.5, "r_low": 0.45, "r_high": 0.55}, "b": {"r": 0.3, "r_low": 0.25, "r_high": 0.35}}
    >>> [round(x, 3) for x in gap_between(rate, ("r",))[:3]]
    [0.2, 0.119, 0.271]
    """
    names = list(by_group)
    single = Limits(*(_table(by_group, rates, end) for end in ("", "_low", "_high")))
    known = ~np.isnan(single.value)
    enough = known.sum(axis=1) >= 2
    if not enough.any():
        return None
    shared = pair_alpha(1 - LEVEL, len(names)) / len(rates)
    stretch = NormalDist().inv_cdf(1 - shared / 2) / NormalDist().inv_cdf(0.5 + LEVEL / 2)
    wider = (single.value + stretch * (end - single.value) for end in (single.low, single.high))
    low, high = gap(single, Limits(single.value, *(np.clip(end, 0.0, 1.0) for end in wider)), 0.0, known)
    most, least = np.where(known, single.value, -np.inf), np.where(known, single.value, np.inf)
    apart = np.where(enough, most.max(axis=1) - least.min(axis=1), -np.inf)
    place = int(apart.argmax())
    return (
        float(apart[place]), float(low[enough].max()), float(high[enough].max()), names[int(most[place].argmax())],
        names[int(least[place].argmin())],
    )  # fmt: skip


def _table(by_group: ByGroup, rates: tuple[str, ...], end: str) -> Any:
    return np.array(
        [[held[rate + end] if _known(held, rate) else np.nan for held in by_group.values()] for rate in rates], float
    )


def _known(held: Mapping[str, Any], rate: str) -> bool:
    value = held.get(rate)
    return value is not None and value == value


def _span(held: Mapping[str, Any], rate: str) -> str:
    if not _known(held, rate):
        return "not known"
    return f"{number(held[rate])} ({number(held[f'{rate}_low'])} to {number(held[f'{rate}_high'])})"


def _people(count: float | None) -> str:
    """A noisy count of people, in whole people."""
    return number(count) if count is None else f"{count:,.0f}"


def _called(notion: str, fairness: str) -> str:
    return notion.replace("-", " ") + (" (asked for)" if notion == fairness else "")
