"""Task ``impossibility``: exact fairness and pure privacy, in exact fractions (Theorem 1 of Cummings et al. 2019).

The printed neighbour shows nothing: each group has one positive point, so its true positive rate is the hypothesis at
that point under every distribution with this support. What is true: where every (x, a) of positive probability occurs
with both labels, moving mass zeta between two positive points of a group changes that group's rate by
zeta (h(x) - h(x'))/P_1a, so a hypothesis that stays exactly fair on all neighbours is constant on each group.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from fractions import Fraction
from typing import Annotated, Any

from pydantic import Field

from fairveil.registry import register
from fairveil.task import Outcome, Part, Task, TaskSpec

Point = tuple[int, int]
Mass = dict[tuple[Point, int], Fraction]
"""Probability of ((x, a), y)."""
Rule = dict[Point, Fraction]
"""Probability of accepting (x, a)."""


class ImpossibilitySpec(TaskSpec):
    """Keys of an impossibility spec: grid levels of the two examples, and the mass that neighbours move."""

    levels: Annotated[int, Field(ge=2, le=21)] = Field(11, description="grid levels of the repaired example")
    printed_levels: Annotated[int, Field(ge=2, le=21)] = Field(5, description="grid levels of the printed example")
    extension_levels: Annotated[int, Field(ge=2, le=11)] = Field(6, description="grid levels of the named extensions")
    zeta: Annotated[float, Field(gt=0.0, lt=0.1)] = Field(0.01, description="mass that neighbouring distributions move")


@register("task", "impossibility")
class ImpossibilityTask(Task):
    """Which hypotheses on a grid are exactly fair and better than constant, and stay so on neighbouring distributions.

    Metrics: ``printed`` {fair, still_fair}, ``corrected`` {fair, fair_on_some, fair_on_all, smallest_gap}: the
    smallest, over the hypotheses, of the larger gap that a neighbour gives them. ``extensions`` {notion: {fair, lost,
    deltas}} are the notions that the text says its proof reaches: how many fair and useful hypotheses some neighbour
    makes unfair, and, where none stays fair on all, the number k such that under (epsilon, delta) a fair and useful one
    comes out with probability at most k delta. Counted in exact fractions.
    """

    Spec = ImpossibilitySpec

    def work(self, spec: dict[str, Any], block: dict[str, Any]) -> Part:
        return {}

    def finish(self, spec: dict[str, Any], parts: list[Part]) -> Outcome:
        zeta = Fraction(str(spec["zeta"]))
        metrics = {
            "printed": printed_example(spec["printed_levels"], zeta),
            "corrected": corrected_example(spec["levels"], zeta),
            "extensions": extensions(spec["extension_levels"], zeta),
        }
        return Outcome(metrics, simulated=False)


def printed_example(levels: int, zeta: Fraction) -> dict[str, int]:
    """Four points, one positive in each group; the neighbour moves zeta from the one to the other."""
    points = [((0, 0), 0), ((1, 0), 1), ((2, 1), 0), ((3, 1), 1)]
    uniform: Mass = dict.fromkeys(points, Fraction(1, 4))
    moved = {**uniform, points[1]: Fraction(1, 4) - zeta, points[3]: Fraction(1, 4) + zeta}
    fair = [rule for rule in rules(levels, [place for place, _ in points]) if _good(rule, uniform)]
    return {"fair": len(fair), "still_fair": sum(_good(rule, moved) for rule in fair)}


def corrected_example(levels: int, zeta: Fraction) -> dict[str, Any]:
    """x, a, y in {0, 1}, every (x, a) with both labels; neighbours move zeta between the positives of one group."""
    places, mass = _both_labels()
    neighbours = [{**mass, ((1, a), 1): mass[(1, a), 1] - zeta, ((0, a), 1): mass[(0, a), 1] + zeta} for a in (0, 1)]
    fair = [rule for rule in rules(levels, places) if _good(rule, mass)]
    gaps = [[abs(opportunity_gap(rule, other)) for other in neighbours] for rule in fair]
    return {
        "fair": len(fair),
        "fair_on_some": sum(any(gap == 0 for gap in both) for both in gaps),
        "fair_on_all": sum(all(gap == 0 for gap in both) for both in gaps),
        "smallest_gap": float(min(max(both) for both in gaps)) if gaps else None,
    }


def _both_labels() -> tuple[list[Point], Mass]:
    often, seldom = Fraction(15, 100), Fraction(10, 100)
    places = [(x, a) for a in (0, 1) for x in (0, 1)]
    return places, {((x, a), y): often if x == y else seldom for x, a in places for y in (0, 1)}


def _accepted(rule: Rule, mass: Mass, group: int, label: int | None = None) -> Fraction:
    """Share of a group, or of one label of it, that is accepted."""
    people = {(place, y): p for (place, y), p in mass.items() if place[1] == group and label in (None, y)}
    return sum((p * rule[place] for (place, _), p in people.items()), Fraction(0)) / sum(people.values(), Fraction(0))


def _odds(rule: Rule, mass: Mass) -> bool:
    return all(_accepted(rule, mass, 0, y) == _accepted(rule, mass, 1, y) for y in (0, 1))


def _difference(most: Fraction) -> Callable[[Rule, Mass], bool]:
    return lambda rule, mass: abs(_accepted(rule, mass, 0) - _accepted(rule, mass, 1)) <= most


def _impact(rule: Rule, mass: Mass) -> bool:
    low, high = sorted(_accepted(rule, mass, a) for a in (0, 1))
    return 5 * low >= 4 * high


NOTIONS: dict[str, Callable[[Rule, Mass], bool]] = {
    "equalised odds": _odds,
    "mean difference 0": _difference(Fraction(0)),
    "mean difference at most .1": _difference(Fraction(1, 10)),
    "disparate impact at least .8": _impact,
}


def extensions(levels: int, zeta: Fraction) -> dict[str, dict[str, int | None]]:
    """The corrected example under other notions; neighbours move zeta between the features of one label and group."""
    places, mass = _both_labels()
    neighbours = []
    for a, y, (source, target) in itertools.product((0, 1), (0, 1), ((0, 1), (1, 0))):
        moved = {((source, a), y): mass[(source, a), y] - zeta, ((target, a), y): mass[(target, a), y] + zeta}
        neighbours.append({**mass, **moved})
    found: dict[str, dict[str, int | None]] = {}
    for name, fair in NOTIONS.items():
        good = [rule for rule in rules(levels, places) if fair(rule, mass) and error(rule, mass) < Fraction(1, 2)]
        lost = [frozenset(k for k, rule in enumerate(good) if not fair(rule, other)) for other in neighbours]
        found[name] = {"fair": len(good), "lost": len(frozenset().union(*lost)), "deltas": _cover(lost, len(good))}
    return found


def _cover(lost: list[frozenset[int]], count: int) -> int | None:
    """The fewest neighbours that lose every hypothesis between them; None when they do not."""
    for size in range(1, len(lost) + 1):
        for some in itertools.combinations(lost, size):
            if len(frozenset().union(*some)) == count:
                return size
    return None


def rules(levels: int, places: list[Point]) -> Iterator[Rule]:
    """Every rule with values on a grid."""
    grid = [Fraction(i, levels - 1) for i in range(levels)]
    for values in itertools.product(grid, repeat=len(places)):
        yield dict(zip(places, values, strict=True))


def opportunity_gap(rule: Rule, mass: Mass) -> Fraction:
    """True positive rate of group 0 minus that of group 1."""
    rates = []
    for group in (0, 1):
        positive = {place: p for (place, y), p in mass.items() if y == 1 and place[1] == group}
        hits = sum((p * rule[place] for place, p in positive.items()), Fraction(0))
        rates.append(hits / sum(positive.values(), Fraction(0)))
    return rates[0] - rates[1]


def error(rule: Rule, mass: Mass) -> Fraction:
    return sum((p * (1 - rule[place] if y == 1 else rule[place]) for (place, y), p in mass.items()), Fraction(0))


def _good(rule: Rule, mass: Mass) -> bool:
    """Exactly fair, and with less error than any constant rule."""
    positives = sum(p for (_, y), p in mass.items() if y == 1)
    return opportunity_gap(rule, mass) == 0 and error(rule, mass) < min(positives, 1 - positives)
