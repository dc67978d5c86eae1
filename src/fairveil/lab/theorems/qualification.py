"""Fairness in the long run: theorems 17-21, corollary 2 and propositions 3-5 as checks on one instance of two groups.

Premises come from `fairveil.lab.theorems.premises`, conclusions from the solvers of the model.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from fairveil.dynamics.population import measure
from fairveil.dynamics.qualification.equilibria import (
    constant_thresholds,
    equalising,
    equilibria,
    fixed_point,
    other_utility,
    raised,
    settle,
)
from fairveil.dynamics.qualification.model import Qualification, uniqueness
from fairveil.errors import AssumptionError
from fairveil.lab.theorems.checks import Check, check
from fairveil.lab.theorems.premises import BELOW_ONE, Two, of_model

SAME = 1e-8

#: Rates of two groups closer than this are equal: equilibria are found to about 1e-12.
EQUAL = 1e-7

#: A policy whose rates differ by less than this may as well keep the constraint.
FAIR = 1e-3

CONTRACTION = "the step is a contraction"
MISSING = "same features, or the unconstrained policy is unfair (not in print)"
IDENTICAL = "identical features"
ENOUGH = "gain is large enough"
CASE = "condition 1a or 1b"
APART = "no rate can be reached by both groups"


def _under(system: Qualification, fairness: str) -> Qualification:
    return replace(system, fairness=fairness, rule=None)


def _equilibrium(system: Qualification) -> np.ndarray:
    """The equilibrium that damped iteration finds; premises say that there is one only."""
    point, residual = fixed_point(system, np.full((1, 2), 0.5))
    found: np.ndarray = point[0] if residual[0] < 1e-10 else equilibria(system, per_axis=5)[0][0]
    return found


def _basic(two: Two) -> dict[str, Any]:
    return {
        "monotone likelihood ratio (assumption 9)": lambda: two.rising,
        "transitions in (0, 1)": lambda: two.inner,
    }


def _either(two: Two) -> dict[str, Any]:
    return {**_basic(two), CASE: lambda: bool(two.case)}


def theorem_17(system: Qualification) -> Check:
    """An equilibrium exists for any transitions strictly between 0 and 1."""

    def holds() -> bool:
        residual = fixed_point(system, system.people.qualified)[1]
        return bool(residual[0] < 1e-9) or bool(equilibria(system, per_axis=5))

    return check("theorem 17", _basic(of_model(system)), holds, lambda: _settles(system))


def _settles(system: Qualification) -> bool:
    """More than theorems 17 and 18 say: the plain dynamics comes to rest."""
    return bool(settle(system).period[0] == 1)


def theorem_18(system: Qualification) -> Check:
    """Small responses of h to the rates leave one equilibrium."""
    two = of_model(system)
    found: list[list[float]] = []

    def holds() -> bool:
        found[:] = [point.tolist() for point, _ in equilibria(system, per_axis=5)]
        return len(found) == 1

    premises = {**_either(two), "responses are below one": lambda: two.meets_18(system.fairness)}
    return check(f"theorem 18 ({system.fairness})", premises, holds, lambda: _settles(system), equilibria=found)


def corollary_2(system: Qualification) -> Check:
    """Transitions that are close enough leave one equilibrium: they are drawn together until theorem 18 applies."""
    middle = system.transitions.mean(axis=-1, keepdims=True)

    def narrowed(part: float) -> Qualification:
        return replace(system, transitions=middle + part * (system.transitions - middle))

    def holds() -> bool:
        part = 1.0
        while not replace(two, transitions=narrowed(part).transitions[0]).meets_18(system.fairness):
            part *= 0.5
            if part < 1e-6:
                return False
        return all(len(equilibria(narrowed(part * k), per_axis=5)) == 1 for k in (1.0, 0.4, 0.1))

    two = of_model(system)
    return check(f"corollary 2 ({system.fairness})", _either(two), holds, lambda: two.meets_18(system.fairness))


def contraction(system: Qualification) -> Check:
    """Section 5.7: a contraction has one equilibrium, and it is reached from everywhere."""
    two = of_model(system)

    def holds() -> bool:
        ends = [settle(system, 400, np.array([start])).final[0] for start in np.ndindex(2, 2)]
        return len(equilibria(system, per_axis=4)) == 1 and float(np.ptp(ends, axis=0).max()) < 1e-6

    premises = {**_basic(two), CONTRACTION: lambda: two.lipschitz(system.fairness) < BELOW_ONE}
    return check(f"section 5.7, contraction ({system.fairness})", premises, holds)


def weaker(system: Qualification) -> Check:
    """Section 5.7: theorem 18's condition is weaker than a contraction, read as: a contraction meets it."""
    two = of_model(system)
    premises = {**_either(two), CONTRACTION: lambda: two.lipschitz(system.fairness) < BELOW_ONE}
    return check(f"section 5.7, weaker ({system.fairness})", premises, lambda: uniqueness(system, 17).holds)


def theorem_19(system: Qualification, fairness: str, rate: float, printed: bool = False) -> Check:
    """Natural equality at any rate, and what a constraint does to it: kept for identical features, else broken.

    Transitions are built so that ``rate`` is an equilibrium of both groups without a constraint: each group's chances
    straddle it as the proof asks, on the side that the system's own condition (1a or 1b) has. ``printed`` leaves out
    the premise that is missing in print: where the unconstrained policy satisfies the constraint by itself (features of
    one group are a translation or stretch of the other's), nothing changes and equality stays.
    """
    two = of_model(system)
    built = _natural_equality(system, rate, two.case == "1a")
    start = np.full((1, 2), rate)
    seen: dict[str, Any] = {"unfair": unfairness(system, fairness, rate)}
    premises = {
        **_either(two),
        "the constrained equilibrium is unique": lambda: of_model(built).lone(fairness),
        MISSING: lambda: two.same_features or seen["unfair"] > FAIR,
    }
    if printed:
        del premises[MISSING]

    def holds() -> bool:
        fair = _equilibrium(_under(built, fairness))
        seen["fair"] = fair.tolist()
        gap, moved = abs(fair[0] - fair[1]), np.abs(_under(built, "none").step(start) - start).max()
        return float(moved) < SAME and bool(gap < EQUAL if two.same_features else gap > EQUAL)

    return check(f"theorem 19 ({fairness}{', as printed' if printed else ''})", premises, holds, seen=seen)


def unfairness(system: Qualification, fairness: str, rate: float) -> float:
    """By how much the unconstrained policy misses a constraint (``eqopt``, ``dp``) when both groups have this rate."""
    sides = [replace(side, rate=rate) for side in of_model(system).sides]
    first, second = (side.level(fairness, side.naive) for side in sides)
    return abs(first - second)


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
    two = of_model(system)
    seen: dict[str, Any] = {}

    def holds(widening: str = "1a") -> bool:
        before, after = (float(-np.diff(_equilibrium(_under(system, f)))[0]) for f in ("none", fairness))
        seen.update(case=two.case, gap=before, fair_gap=after)
        ordered = abs(after) >= abs(before) - SAME if two.case == widening else abs(after) <= abs(before) + SAME
        return ordered and before * after >= -SAME

    premises = {
        **_either(two),
        IDENTICAL: lambda: two.same_features,
        "both equilibria are unique": lambda: two.lone("none") and two.lone(fairness),
    }
    return check(f"theorem 20 ({fairness})", premises, holds, lambda: holds("1b"), seen=seen)


def theorem_21(system: Qualification) -> Check:
    """Same transitions, same features of the qualified, lower features of b's unqualified: who gains from fairness?"""
    two = of_model(system)
    gaps: dict[str, Any] = {}
    first, second = two.sides
    ladder = replace(first, f0=second.f0, f1=first.f0)

    def enough() -> bool:
        (t00, _), (t10, _) = system.transitions[0, 0]
        cross = ladder.peak
        return first.gain / first.loss >= float(first.f0.pdf(cross) / first.f1.pdf(cross)) * (1.0 - t10) / t00

    def holds() -> bool:
        for name in ("none", "eqopt", "dp"):
            gaps[name] = float(-np.diff(_equilibrium(_under(system, name)))[0])
        plain, equal, parity = gaps.values()
        return plain > -SAME and -SAME <= equal <= plain + SAME and parity <= plain + SAME

    premises = {
        **_basic(two),
        "features as in condition 2": lambda: first.f1 == second.f1 and ladder.rising,
        "same transitions": lambda: bool(np.all(system.transitions[0, 0] == system.transitions[0, 1])),
        "condition 1b": lambda: two.case == "1b",
        ENOUGH: enough,
        "all equilibria are unique": lambda: all(two.lone(name) for name in ("none", "eqopt", "dp")),
    }
    return check("theorem 21", premises, holds, gaps=gaps)


def _tilted(system: Qualification, two: Two, tilt: float) -> tuple[Qualification, Two]:
    """Fair thresholds that are optimal for another loss: higher under condition 1a, lower under 1b."""
    gain, loss = float(system.people.gain[0]), float(system.people.loss[0])
    loss = loss * tilt if two.case == "1a" else loss / tilt
    first, second = (replace(side, loss=loss) for side in two.sides)
    return other_utility(system, gain, loss), replace(two, sides=(first, second))


def proposition_3(system: Qualification, tilt: float = 1.5) -> Check:
    """Sub-optimal fair thresholds raise qualification: higher ones under condition 1a, lower ones under 1b."""
    two = of_model(system)
    seen: dict[str, Any] = {}
    other, theirs = _tilted(system, two, tilt)

    def change() -> np.ndarray:
        seen.update(before=_equilibrium(system).tolist(), after=_equilibrium(other).tolist(), case=two.case)
        return np.array(seen["after"]) - np.array(seen["before"])

    premises = {
        **_either(two),
        "both equilibria are unique": lambda: two.lone(system.fairness) and theirs.lone(system.fairness),
    }
    return check(
        f"proposition 3 ({system.fairness})",
        premises,
        lambda: np.all(change() > -SAME),
        lambda: np.all(change() < SAME),
        seen=seen,
    )


def proposition_3_utility(system: Qualification, tilts: tuple[float, ...] = (1.02, 1.002, 1.0002, 1.00002)) -> Check:
    """Appendix D.10: fair thresholds close enough to the optimal ones earn more in the long run (EqOpt, 1b)."""
    two = of_model(system)
    seen: dict[str, Any] = {}

    def earned(by: float) -> float:
        gains = []
        for one in (system, _tilted(system, two, by)[0]):
            rates = _equilibrium(one)[None]
            people = one.people.with_rates(rates)
            gains.append(float((people.share * measure(people, one.thresholds(rates)).utility).sum()))
        seen.update(optimal=gains[0], other=gains[1])
        return gains[1] - gains[0]

    premises = {
        **_either(two),
        "equal true positive rates, condition 1b": lambda: system.fairness == "eqopt" and two.case == "1b",
        IDENTICAL: lambda: two.same_features,
        "both equilibria are unique": lambda: two.lone("eqopt") and _tilted(system, two, tilts[0])[1].lone("eqopt"),
        "decisions matter": lambda: (
            float(np.abs(np.diff(system.transitions)).min()) > 0.02
            and all(0.01 < a < 0.99 for a in two.accepted("eqopt", np.array([0.2, 0.8]))[0][1].flat)
        ),
    }

    def close_enough() -> bool:
        return any(earned(tilt) > 0.0 for tilt in tilts)

    return check("proposition 3, utility", premises, close_enough, lambda: earned(50.0) > 0.0, seen=seen)


def _spans(system: Qualification) -> list[tuple[float, float]]:
    """The intervals of proposition 4, for the odds (1 - alpha)/alpha."""
    return [((1.0 - t[1].max()) / t[0].max(), (1.0 - t[1].min()) / t[0].min()) for t in system.transitions[0]]


def proposition_4(system: Qualification, part: float = 0.5) -> Check:
    """Constant thresholds of its own lead every group to any rate all of them can reach."""
    two = of_model(system)
    low, high = (pick(ends) for pick, ends in zip((max, min), zip(*_spans(system), strict=True), strict=True))

    def holds() -> bool:
        target = 1.0 / (1.0 + low + part * (high - low))
        try:
            led = constant_thresholds(system, equalising(system, target))
        except AssumptionError:
            return False
        return all(
            np.abs(settle(led, 500, np.full((1, 2), start)).final - target).max() < 1e-6 for start in (0.02, 0.98)
        )

    premises = {**_basic(two), CASE: lambda: bool(two.case), "a rate can be reached by both groups": low < high}
    return check("proposition 4", premises, holds)


def proposition_4_apart(system: Qualification) -> Check:
    """Where the intervals do not meet no thresholds lead both groups to one rate: every threshold is tried."""
    two = of_model(system)
    spans = _spans(system)

    def holds() -> bool:
        reached = []
        for s, side in enumerate(two.sides):
            theta = np.linspace(*side.reach, 801)
            many = system.select(np.zeros(theta.size, dtype=int))
            gain, keep = many.moves(np.repeat(theta[:, None], 2, axis=1))
            rates = (gain / (1.0 - keep + gain))[:, s]
            reached.append((float(rates.min()), float(rates.max())))
        return max(low for low, _ in reached) > min(high for _, high in reached)

    apart = max(low for low, _ in spans) > min(high for _, high in spans)
    return check("proposition 4, apart", {**_either(two), APART: apart}, holds, spans=spans)


def proposition_5(system: Qualification, group: int, state: int, decision: int, by: float = 0.02) -> Check:
    """Raising one transition of a group raises that group's equilibrium. ``other`` says what the other group's does."""
    two, better = of_model(system), raised(system, group, state, decision, by)
    seen: dict[str, Any] = {}
    theirs = replace(two, transitions=better.transitions[0])

    def change() -> np.ndarray:
        moved = _equilibrium(better) - _equilibrium(system)
        seen.update(own=float(moved[group]), other=float(moved[1 - group]))
        return moved

    premises = {
        **_either(two),
        "the raised chance is below one": lambda: theirs.inner and theirs.case == two.case,
        "both equilibria are unique": lambda: two.lone(system.fairness) and theirs.lone(system.fairness),
    }
    return check(
        f"proposition 5 ({system.fairness})",
        premises,
        lambda: change()[group] > -SAME,
        lambda: np.all(change() > -SAME),
        seen=seen,
    )
