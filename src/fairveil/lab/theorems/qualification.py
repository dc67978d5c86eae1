"""Fairness in the long run: theorems 17-21 and propositions 3-5 as checks on one instance of two groups."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from fairveil.dynamics.assumptions import feature_violations, likelihood_ratio_fall
from fairveil.dynamics.distributions import pair
from fairveil.dynamics.mixtures import log_ratio
from fairveil.dynamics.qualification.equilibria import (
    common_rates,
    constant_thresholds,
    equalising,
    equilibria,
    fixed_point,
    other_utility,
    raised,
    reachable,
    settle,
)
from fairveil.dynamics.qualification.model import Qualification, common_condition, uniqueness
from fairveil.dynamics.thresholds import free
from fairveil.lab.theorems.checks import Check, check

SAME = 1e-8

#: Rates of two groups closer than this are equal: equilibria are found to about 1e-12.
EQUAL = 1e-7

#: A policy whose rates differ by less than this may as well keep the constraint.
FAIR = 1e-3


def _under(system: Qualification, fairness: str) -> Qualification:
    return replace(system, fairness=fairness, rule=None)


def _only(system: Qualification) -> np.ndarray | None:
    """The equilibrium if damped iteration from a grid of starts finds exactly one."""
    found = equilibria(system, per_axis=4)
    return found[0][0] if len(found) == 1 else None


def _same_features(system: Qualification) -> bool:
    people = system.people
    return all(people.feature(0, 0, y) == people.feature(0, 1, y) for y in (0, 1))


def theorem_17(system: Qualification) -> Check:
    """An equilibrium exists for any transitions strictly between 0 and 1."""
    point, residual = fixed_point(system, system.people.qualified)
    return check(
        "theorem 17",
        {
            "monotone likelihood ratio (assumption 9)": not feature_violations(system.people),
            "transitions in (0, 1)": bool(((system.transitions > 0) & (system.transitions < 1)).all()),
        },
        lambda: residual[0] < 1e-9 or bool(equilibria(system, per_axis=5)),
        equilibrium=point[0].tolist(),
        residual=float(residual[0]),
    )


def theorem_18(system: Qualification, points: int = 17) -> Check:
    """Small responses of h to the rates leave one equilibrium; they are measured at ``points`` rates an axis."""
    seen = uniqueness(system, points)
    found: list[list[float]] = []

    def holds() -> bool:
        found.extend(point.tolist() for point, _ in equilibria(system, per_axis=5))
        return len(found) == 1

    return check(
        f"theorem 18 ({system.fairness})",
        {
            "monotone likelihood ratio (assumption 9)": not feature_violations(system.people),
            "transitions in (0, 1)": bool(((system.transitions > 0) & (system.transitions < 1)).all()),
            "condition 1a or 1b": seen.case in ("0", "1a", "1b"),
            "responses are below one": seen.holds,
        },
        holds,
        case=seen.case,
        own=seen.own,
        cross=seen.cross,
        equilibria=found,
    )


def theorem_19(system: Qualification, fairness: str, rate: float, printed: bool = False) -> Check:
    """Natural equality at any rate, and what a constraint does to it: kept for identical features, else broken.

    Transitions are built so that ``rate`` is an equilibrium of both groups without a constraint: each group's chances
    straddle it as the proof asks, on the side that the system's own condition (1a or 1b) has. ``printed`` leaves out
    the premise that is missing in print: where the unconstrained policy satisfies the constraint by itself (features of
    one group are a translation or stretch of the other's), nothing changes and equality stays.
    """
    case = common_condition(system.transitions[0])
    built = _natural_equality(system, rate, case == "1a")
    start = np.full((1, 2), rate)
    free_step = _under(built, "none").step(start) - start
    fair = _only(_under(built, fairness))
    identical = _same_features(system)
    unfair = unfairness(system, fairness, rate)
    premises = {
        "monotone likelihood ratio (assumption 9)": not feature_violations(system.people),
        "condition 1a or 1b": case in ("1a", "1b"),
        "the constrained equilibrium is unique": fair is not None,
    }
    if not printed:
        premises["same features, or the unconstrained policy is unfair (not in print)"] = identical or unfair > FAIR

    def holds() -> bool:
        assert fair is not None
        gap = abs(fair[0] - fair[1])
        return float(np.abs(free_step).max()) < SAME and bool(gap < EQUAL if identical else gap > EQUAL)

    return check(
        f"theorem 19 ({fairness}{', as printed' if printed else ''})",
        premises,
        holds,
        identical=identical,
        unfair=unfair,
        residual=float(np.abs(free_step).max()),
        fair=None if fair is None else fair.tolist(),
    )


def unfairness(system: Qualification, fairness: str, rate: float) -> float:
    """By how much the unconstrained policy misses a constraint (``eqopt``, ``dp``) when both groups have this rate."""
    theta = _under(system, "none").thresholds(np.full((1, 2), rate))[0]
    chosen = [[float(system.people.feature(0, s, y).sf(theta[s])) for y in (0, 1)] for s in (0, 1)]
    levels = [own[1] if fairness == "eqopt" else (1.0 - rate) * own[0] + rate * own[1] for own in chosen]
    return abs(levels[0] - levels[1])


def _natural_equality(system: Qualification, rate: float, falling: bool) -> Qualification:
    """Transitions with the average chance of both states equal to ``rate`` at the unconstrained thresholds."""
    theta = _under(system, "none").thresholds(np.full((1, 2), rate))[0]
    tables = np.empty((1, 2, 2, 2))
    for s in (0, 1):
        for y in (0, 1):
            below = float(system.people.feature(0, s, y).cdf(theta[s]))
            reach = 0.8 * min(rate, 1.0 - rate)
            # Moves off the rate in inverse proportion to how many people get each decision.
            up, down = (below, 1.0 - below)
            scale = reach / max(up, down, 1e-12)
            low, high = rate - scale * down, rate + scale * up
            tables[0, s, y] = (low, high) if not falling else (rate + scale * down, rate - scale * up)
    return replace(system, transitions=np.clip(tables, 1e-6, 1.0 - 1e-6))


def theorem_20(system: Qualification, fairness: str) -> Check:
    """Identical features: a constraint widens the gap under condition 1a, narrows it under 1b, and never turns it."""
    case = common_condition(system.transitions[0])
    plain, fair = _only(_under(system, "none")), _only(_under(system, fairness))
    gaps = [None if point is None else float(point[0] - point[1]) for point in (plain, fair)]

    def holds() -> bool:
        before, after = gaps
        assert before is not None
        assert after is not None
        ordered = abs(after) >= abs(before) - SAME if case == "1a" else abs(after) <= abs(before) + SAME
        return ordered and before * after >= -SAME

    return check(
        f"theorem 20 ({fairness})",
        {
            "monotone likelihood ratio (assumption 9)": not feature_violations(system.people),
            "identical features": _same_features(system),
            "condition 1a or 1b": case in ("1a", "1b"),
            "both equilibria are unique": None not in gaps,
        },
        holds,
        case=case,
        gap=gaps[0],
        fair_gap=gaps[1],
    )


def theorem_21(system: Qualification) -> Check:
    """Same transitions, same features of the qualified, lower features of b's unqualified: who gains from fairness?"""
    people = system.people
    a0, b0, top = people.feature(0, 0, 0), people.feature(0, 1, 0), people.feature(0, 0, 1)
    ordered = top == people.feature(0, 1, 1) and a0 != b0 and likelihood_ratio_fall(b0, a0) is None
    case = common_condition(system.transitions[0])
    (t00, _t01), (t10, _t11) = system.transitions[0, 0]
    cross = float(free(0.5, pair(b0, a0), 1.0, 1.0))
    odds = float(np.exp(-log_ratio(pair(a0, top), cross)))
    enough = people.gain[0] / people.loss[0] >= odds * (1.0 - t10) / t00
    points = {name: _only(_under(system, name)) for name in ("none", "eqopt", "dp")}
    gaps = {name: None if point is None else float(point[0] - point[1]) for name, point in points.items()}

    def holds() -> bool:
        plain, equal, parity = (gaps[name] or 0.0 for name in ("none", "eqopt", "dp"))
        return plain > -SAME and -SAME <= equal <= plain + SAME and parity <= plain + SAME

    return check(
        "theorem 21",
        {
            "monotone likelihood ratio (assumption 9)": not feature_violations(people),
            "features as in condition 2": ordered,
            "same transitions": bool(np.all(system.transitions[0, 0] == system.transitions[0, 1])),
            "condition 1b": case == "1b",
            "gain is large enough": bool(enough),
            "all equilibria are unique": None not in gaps.values(),
        },
        holds,
        gaps=gaps,
    )


def proposition_3(system: Qualification, tilt: float = 1.5) -> Check:
    """Sub-optimal fair thresholds raise qualification: higher ones under condition 1a, lower ones under 1b."""
    case = common_condition(system.transitions[0])
    gain, loss = float(system.people.gain[0]), float(system.people.loss[0])
    other = other_utility(system, gain, loss * tilt if case == "1a" else loss / tilt)
    before, after = _only(system), _only(other)
    return check(
        f"proposition 3 ({system.fairness})",
        {
            "monotone likelihood ratio (assumption 9)": not feature_violations(system.people),
            "condition 1a or 1b": case in ("1a", "1b"),
            "both equilibria are unique": before is not None and after is not None,
        },
        lambda: before is not None and after is not None and bool(np.all(after > before - SAME)),
        case=case,
        before=None if before is None else before.tolist(),
        after=None if after is None else after.tolist(),
    )


def proposition_4(system: Qualification, part: float = 0.5) -> Check:
    """Constant thresholds of its own lead every group to any rate all of them can reach; else none does."""
    case = common_condition(system.transitions[0])
    span = common_rates(system)

    def holds() -> bool:
        if span is None:
            spans = [reachable(table) for table in system.transitions[0]]
            return max(low for low, _ in spans) > min(high for _, high in spans)
        target = span[0] + part * (span[1] - span[0])
        led = constant_thresholds(system, equalising(system, target))
        return all(
            np.abs(settle(led, 500, _everywhere(led, start)).final - target).max() < 1e-6 for start in (0.02, 0.98)
        )

    return check("proposition 4", {"condition 1a or 1b": case in ("1a", "1b")}, holds, case=case, rates=span)


def _everywhere(system: Qualification, rate: float) -> np.ndarray:
    return np.full((system.size, system.people.groups), rate)


def proposition_5(system: Qualification, group: int, state: int, decision: int, by: float = 0.02) -> Check:
    """Raising one transition of a group raises that group's equilibrium. ``other`` says what the other group's does."""
    before, after = _only(system), _only(raised(system, group, state, decision, by))
    change = None if before is None or after is None else after - before
    return check(
        f"proposition 5 ({system.fairness})",
        {
            "condition 1a or 1b": common_condition(system.transitions[0]) in ("1a", "1b"),
            "monotone likelihood ratio (assumption 9)": not feature_violations(system.people),
            "both equilibria are unique": change is not None,
        },
        lambda: change is not None and change[group] > -SAME,
        own=None if change is None else float(change[group]),
        other=None if change is None else float(change[1 - group]),
    )
