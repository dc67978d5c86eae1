"""Anticipating manipulation: theorems 22-24 and proposition 6 as checks on one scene.

Statements are read with the corrections of docs/errata/thesis.md. Premises come from
`fairveil.lab.theorems.premises`, conclusions from the solvers. Thresholds far out in a tail, where utility is flat to
rounding, are compared with a tolerance in the level instead of in the threshold.
"""

from __future__ import annotations

import math
from typing import Any

from fairveil.dynamics.strategic.scene import Scene
from fairveil.lab.theorems.checks import Check, check
from fairveil.lab.theorems.premises import Two, of_scene, zoom

#: Levels closer than this are the same: a double cannot tell utilities apart there.
SAME = 1e-9

#: Premises found by brute force must hold by this much.
CLEAR = 1e-4

OPPOSITE = "one group is majority-qualified, the other not"
UNQUALIFIED = "both groups are majority-unqualified"
IDENTICAL = "identical features"
STRONG = "the marginal gain at the matching threshold is at least what rejecting saves"


def premises(two: Two) -> dict[str, Any]:
    """What all results of sections 6.5 and 6.6 assume."""
    return {
        "monotone likelihood ratio (assumption 11)": lambda: two.rising,
        "marginal gain rises (assumption 12)": lambda: all(side.rising_gain for side in two.sides),
    }


def above(scene: Scene, s: int, x: float, y: float) -> bool:
    """Is x a higher threshold than y, or is the difference beyond double precision?"""
    return x > y or _close(scene, s, x, y)


def _close(scene: Scene, s: int, x: float, y: float) -> bool:
    return all(abs(scene.level(s, kind, x) - scene.level(s, kind, y)) < SAME for kind in ("eqopt", "dp"))


def theorem_22(scene: Scene, s: int = 0) -> Check:
    """Where the anticipating threshold lies beside the naive one and x*, and which other extreme points exist."""
    alpha, delta = scene.alpha(s), scene.delta
    seen: dict[str, Any] = {}

    def holds() -> bool:
        peak, smart, naive = scene.peak(s), scene.theta(s), scene.theta(s, strategic=False)
        turns = [x for x, _ in scene.turning_points(s)]
        seen.update(peak=peak, strategic=smart, naive=naive, extreme_points=turns)
        others = [x for x in turns if not _close(scene, s, x, smart)]
        outer = scene.around(s, scene.gain * alpha if alpha > delta else scene.loss * (1.0 - alpha))
        if math.isclose(alpha, delta, rel_tol=1e-12):
            if outer is None:
                return _close(scene, s, smart, peak) and _close(scene, s, naive, peak)
            return any(_close(scene, s, smart, x) for x in outer)
        if alpha < delta:
            ordered = above(scene, s, smart, naive) and above(scene, s, naive, peak)
            if outer is None:
                return ordered and not others
            return ordered and above(scene, s, smart, outer[1]) and all(outer[0] <= x <= peak for x in others)
        ordered = above(scene, s, naive, smart) and above(scene, s, peak, naive)
        if outer is None:
            return ordered and not others
        return ordered and above(scene, s, outer[0], smart) and all(peak <= x <= outer[1] for x in others)

    def alone() -> bool:
        """The claim without its bound: there is never another extreme point."""
        return len(scene.turning_points(s)) == 1

    return check("theorem 22", premises(of_scene(scene)), holds, alone, qualified=alpha, break_even=delta, seen=seen)


def theorem_23(scene: Scene, criterion: str, s: int = 0) -> Check:
    """Anticipation widens the gap when group s is majority-qualified and the other (of two) is not."""
    r, two = 1 - s, of_scene(scene)
    seen: dict[str, Any] = {}
    own, other = two.sides[s], two.sides[r]

    def holds() -> bool:
        smart, naive = scene.policy(), scene.policy(strategic=False)
        wide, narrow = (float(p.unfairness(criterion)[0]) for p in (smart, naive))
        seen.update(strategic=wide, naive=narrow)
        return abs(wide) > abs(narrow) - SAME and wide * narrow >= -SAME

    return check(
        f"theorem 23 ({criterion})",
        {
            OPPOSITE: own.rate > own.break_even > other.rate,
            **premises(two),
            "level of x* no higher in the qualified group": lambda: (
                own.level(criterion, own.peak) <= other.level(criterion, other.peak) + 1e-12
            ),
        },
        holds,
        seen=seen,
    )


def theorem_24(scene: Scene, criterion: str, s: int = 0) -> Check:
    """Cheap manipulation in the advantaged group s (of two) mitigates unfairness and, cheaper still, turns it round.

    Costs Beta(epsilon, 1) with falling epsilon are tried; each satisfies assumption 12.
    """
    r, two = 1 - s, of_scene(scene)
    own, other = two.sides[s], two.sides[r]
    seen: dict[str, float] = {}

    def gap(epsilon: float) -> float:
        rate = scene.changed(s, cost=["beta", epsilon, 1.0]).policy().measures.rate(criterion)[0]
        value = float(rate[s] - rate[r])
        if abs(value) < abs(seen["naive"]):
            seen.setdefault("mitigated_at", epsilon)
        if value < 0.0:
            seen.setdefault("turned_at", epsilon)
        return value

    def holds() -> bool:
        seen.clear()
        naive = scene.policy(strategic=False).measures.rate(criterion)[0]
        seen["naive"] = float(naive[s] - naive[r])
        dear = 1e3
        for power in range(13):
            cheap = 10.0 ** (2.0 - 0.5 * power)
            if gap(cheap) < 0.0:
                break
            dear = cheap
        else:
            return False
        # The disadvantage turned between the two costs: close in on the cost at which it vanishes.
        while "mitigated_at" not in seen and dear - cheap > 1e-9 * dear:
            middle = 0.5 * (dear + cheap)
            if gap(middle) < 0.0:
                cheap = middle
            else:
                dear = middle
        return len(seen) == 3

    return check(
        f"theorem 24 ({criterion})",
        {
            UNQUALIFIED: max(own.rate, other.rate) < own.break_even,
            "monotone likelihood ratio (assumption 11)": lambda: two.rising,
            "group s is ahead under the naive policy": lambda: (
                own.level(criterion, own.naive) < other.level(criterion, other.naive) - CLEAR
            ),
            "the other group's marginal gain rises (assumption 12)": lambda: other.rising_gain,
            "the other group's rate is visible in doubles": lambda: (
                other.level(criterion, other.strategic) < 1.0 - CLEAR
            ),
        },
        holds,
        seen=seen,
    )


def _lower(two: Two, s: int) -> dict[str, Any]:
    """Proposition 6: identical features, and the other group has the lower of two rates below break-even."""
    own, other = two.sides[s], two.sides[1 - s]
    return {
        "alpha_r < alpha_s < break-even": other.rate < own.rate < own.break_even,
        IDENTICAL: lambda: two.same_features,
        **premises(two),
    }


def proposition_6(scene: Scene, criterion: str, s: int = 0) -> Check:
    """Identical features, alpha_r < alpha_s < break-even: group r is behind under the naive policy."""

    def ahead() -> float:
        rate = scene.policy(strategic=False).measures.rate(criterion)[0]
        return float(rate[s] - rate[1 - s])

    premises = _lower(of_scene(scene), s)
    return check(f"proposition 6 ({criterion})", premises, lambda: ahead() >= -SAME, lambda: ahead() <= SAME)


def proposition_6_turned(scene: Scene, criterion: str, s: int = 0) -> Check:
    """Part 2: a large marginal gain of group s at the threshold that matches the other group's turns the gap round."""
    r, two = 1 - s, of_scene(scene)
    seen: dict[str, Any] = {}
    own, other = two.sides[s], two.sides[r]

    def strong() -> bool:
        level = other.level(criterion, other.strategic)
        image = zoom(lambda xs: [-abs(own.level(criterion, x) - level) for x in xs], *own.reach, rounds=6)
        return bool(own.marginal(image) >= own.loss * (1.0 - own.rate) * (1.0 + CLEAR))

    def holds() -> bool:
        after = scene.policy().measures.rate(criterion)[0]
        seen["strategic"] = float(after[s] - after[r])
        return bool(after[s] <= after[r] + SAME)

    return check(f"proposition 6.2 ({criterion})", {**_lower(two, s), STRONG: strong}, holds, seen=seen)


def proposition_6_equal(scene: Scene, s: int = 0) -> Check:
    """Part 1, identical features: a cost Beta(a, 1) of group s that makes both anticipating thresholds the same.

    The first-order conditions coincide when (Psi_s' - gain alpha_s)/(Psi_r' - gain alpha_r) equals the ratio of
    loss (1 - alpha) - gain alpha in the two groups. Whether the common point is then also the *best* threshold of
    group s is what is checked; ``applies`` is False when no cost of the family meets the condition.
    """
    r = 1 - s

    def matched(at: Scene) -> float | None:
        theta = at.theta(r)
        slack = [at.loss * (1.0 - at.alpha(g)) - at.gain * at.alpha(g) for g in (0, 1)]
        ratio = slack[s] / slack[r] if slack[r] else math.nan
        need = at.gain * at.alpha(s) + ratio * (at.marginal(r, theta) - at.gain * at.alpha(r))
        return _beta_shape(at.benefit(r, theta), need / (at.loss * (1.0 - at.alpha(s))))

    def same(stretch: float) -> bool:
        shape = matched(scene)
        if shape is None:
            return False
        trial = scene.changed(s, cost=["beta", shape * stretch, 1.0])
        return _close(trial, s, trial.theta(s), scene.theta(r))

    return check(
        "proposition 6.1",
        {**_lower(of_scene(scene), s), "a cost of the family meets the condition": lambda: matched(scene) is not None},
        lambda: same(1.0),
        lambda: same(1.1),
    )


def _beta_shape(z: float, target: float) -> float | None:
    """A shape a with (1 + a) z^a = target on the falling branch (costly manipulation), if there is one."""
    if not 0.0 < z < 1.0 or target <= 0.0:
        return None
    low = max(0.0, -1.0 / math.log(z) - 1.0)
    if (1.0 + low) * z**low < target:
        return None
    high = low + 1.0
    while (1.0 + high) * z**high > target:
        high *= 2.0
    for _ in range(200):
        middle = 0.5 * (low + high)
        if (1.0 + middle) * z**middle > target:
            low = middle
        else:
            high = middle
    shape = 0.5 * (low + high)
    return shape if shape > 1e-9 else None
