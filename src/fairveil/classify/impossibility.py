"""Task ``impossibility``: exact fairness and pure privacy, in exact fractions (Theorem 1 of Cummings et al. 2019).

The printed example shows nothing: each group has one positive point, so its true positive rate is the hypothesis at
that point under every distribution with this support. What is true: where every (x, a) of positive probability occurs
with both labels, moving mass zeta between two positive points of a group changes that group's rate by
zeta (h(x) - h(x'))/P_1a, so a hypothesis that stays exactly fair on all neighbours is constant on each group.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
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
    zeta: Annotated[float, Field(gt=0.0, lt=0.1)] = Field(0.01, description="mass that neighbouring distributions move")


@register("task", "impossibility")
class ImpossibilityTask(Task):
    """Which hypotheses on a grid are exactly fair and better than constant, and stay so on neighbouring distributions.

    Metrics: ``printed`` {fair, still_fair}, ``corrected`` {fair, fair_on_some, fair_on_all, smallest_gap}: the
    smallest, over the hypotheses, of the larger gap that a neighbour gives them. Counted in exact fractions.
    """

    Spec = ImpossibilitySpec

    def work(self, spec: dict[str, Any], block: dict[str, Any]) -> Part:
        return {}

    def finish(self, spec: dict[str, Any], parts: list[Part]) -> Outcome:
        zeta = Fraction(str(spec["zeta"]))
        metrics = {
            "printed": printed_example(spec["printed_levels"], zeta),
            "corrected": corrected_example(spec["levels"], zeta),
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
    often, seldom = Fraction(15, 100), Fraction(10, 100)
    places = [(x, a) for a in (0, 1) for x in (0, 1)]
    mass: Mass = {((x, a), y): often if x == y else seldom for x, a in places for y in (0, 1)}
    neighbours = [{**mass, ((1, a), 1): mass[(1, a), 1] - zeta, ((0, a), 1): mass[(0, a), 1] + zeta} for a in (0, 1)]
    fair = [rule for rule in rules(levels, places) if _good(rule, mass)]
    gaps = [[abs(opportunity_gap(rule, other)) for other in neighbours] for rule in fair]
    return {
        "fair": len(fair),
        "fair_on_some": sum(any(gap == 0 for gap in both) for both in gaps),
        "fair_on_all": sum(all(gap == 0 for gap in both) for both in gaps),
        "smallest_gap": float(min(max(both) for both in gaps)) if gaps else None,
    }


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
