"""Fairness with manipulation: theorems 25-27 and propositions 7, 8 as checks on one scene of two groups."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from fairveil.dynamics.strategic.scene import Scene
from fairveil.lab.theorems.checks import Check, check
from fairveil.lab.theorems.premises import SCORES, Two, of_scene
from fairveil.lab.theorems.strategic import CLEAR, IDENTICAL, SAME, premises

FITS = "rates and marginal gains fit one of the three cases"
PEAKS = "both utilities have one extreme point"
MIRROR = "the mirror image lies beyond x*"
NARROW = "the gaps are in the order the statement needs"
TAIL = float(SCORES[0])
"""Thresholds further out are not among those that the brute-force search of premises compares."""


def _single(two: Two) -> bool:
    return all(side.single_peaked for side in two.sides)


def _alike(two: Two) -> str:
    """Both majorities qualified (high), both not (low), or neither."""
    even = two.sides[0].break_even
    rates = [side.rate for side in two.sides]
    return "high" if min(rates) > even else "low" if max(rates) < even else ""


def case_25(two: Two, criterion: str, s: int, near: float) -> int:
    """Which of the three cases of theorem 25 rates and marginal gains are in; 0 when none."""
    own, other = two.sides[s], two.sides[1 - s]
    even = own.break_even
    thresholds = two.thresholds(criterion, aware=False)
    marginal = [float(side.marginal(x)) for side, x in zip(two.sides, thresholds, strict=True)]
    rejected, accepted = ([pay * (1.0 + CLEAR) for pay in pays] for pays in _stakes(two))
    if own.rate < even < other.rate and marginal[s] > rejected[s] and marginal[1 - s] > accepted[1 - s]:
        return 1
    if _alike(two) == "high" and own.rate - even < near and all(m > a for m, a in zip(marginal, accepted, strict=True)):
        return 2
    below = _alike(two) == "low" and even - other.rate < near
    return 3 if below and all(m > r for m, r in zip(marginal, rejected, strict=True)) else 0


def _stakes(two: Two) -> tuple[list[float], list[float]]:
    """What rejecting all unqualified saves, and what accepting all qualified gains, by group."""
    return [side.loss * (1.0 - side.rate) for side in two.sides], [side.gain * side.rate for side in two.sides]


def theorem_25(scene: Scene, criterion: str, s: int = 0, near: float = 1e-6) -> Check:
    """A naive decision maker can earn more from *both* groups under a fairness constraint.

    Case 1 is a plain statement; cases 2 and 3 are limits, taken to apply when the rate in question is within ``near``
    of break-even. Group s is the one ahead under the naive policy.
    """
    two = of_scene(scene)
    seen: dict[str, Any] = {}
    own, other = two.sides[s], two.sides[1 - s]

    def holds() -> bool:
        free, fair = scene.policy(strategic=False), scene.policy(criterion, strategic=False)
        gained = (fair.utility - free.utility)[0]
        seen["gained"] = gained.tolist()
        return bool(gained.min() > -1e-12)

    return check(
        f"theorem 25 ({criterion})",
        {
            **premises(two),
            "group s is ahead under the naive policy": lambda: (
                own.level(criterion, own.naive) < other.level(criterion, other.naive) - CLEAR
            ),
            FITS: lambda: case_25(two, criterion, s, near) > 0,
        },
        holds,
        seen=seen,
    )


def theorem_26(scene: Scene, criterion: str) -> Check:
    """Single-peaked utilities: a constraint raises one threshold and lowers the other."""
    two = of_scene(scene)
    seen: dict[str, Any] = {}
    first, second = two.sides

    def moves() -> list[float]:
        free, fair = scene.policy().thresholds[0], scene.policy(criterion).thresholds[0]
        seen.update(free=free.tolist(), fair=fair.tolist())
        return sorted(scene.level(s, criterion, fair[s]) - scene.level(s, criterion, free[s]) for s in (0, 1))

    def holds() -> bool:
        low, high = moves()
        return low <= SAME and high >= -SAME

    def together() -> bool:
        low, high = moves()
        return low >= -SAME or high <= SAME

    return check(
        f"theorem 26.1 ({criterion})",
        {
            **premises(two),
            PEAKS: lambda: _single(two),
            "the unconstrained policy is not fair already": lambda: (
                abs(first.level(criterion, first.strategic) - second.level(criterion, second.strategic)) > CLEAR
            ),
        },
        holds,
        together,
        seen=seen,
    )


def _manipulation(scene: Scene, criterion: str) -> tuple[list[float], list[float]]:
    """Manipulation benefit in both groups without and with the constraint (the benefit orders the probabilities)."""
    free, fair = scene.policy().thresholds[0], scene.policy(criterion).thresholds[0]
    return [scene.benefit(s, free[s]) for s in (0, 1)], [scene.benefit(s, fair[s]) for s in (0, 1)]


def _towards(scene: Scene, s: int, target: float, steps: int = 8) -> Iterator[Scene]:
    """Scenes in which group s's rate goes to a target and its share to one."""
    for k in range(2, 2 + steps):
        part = 10.0 ** -(1.25 * k)
        alpha = target + (scene.alpha(s) - target) * part
        nearer = scene.changed(s, qualified=min(max(alpha, 1e-13), 1.0 - 1e-13), share=1.0 - part)
        yield nearer.changed(1 - s, share=part)


def theorem_26_extreme(scene: Scene, criterion: str, s: int = 0) -> Check:
    """A very (un)qualified and well represented group s: the constraint incentivises one group and not the other.

    The statement holds beyond unknown bounds, so group s's rate is moved towards 1 (or 0) and its share towards 1 until
    the pattern appears and stays. For opposite majorities the incentivised group must be s.
    """
    r, two = 1 - s, of_scene(scene)
    opposite = two.sides[s].rate > scene.delta > two.sides[r].rate
    seen: list[bool] = []

    def followed(turned: bool) -> bool:
        seen.clear()
        for trial in _towards(scene, s, 0.0 if _alike(two) == "low" else 1.0):
            free, fair = _manipulation(trial, criterion)
            up = [fair[g] - free[g] for g in (0, 1)]
            if seen and seen[-1] and min(abs(u) for u in up) < 1e-5:
                # Further on the two thresholds of group s are the same number to the search.
                break
            one, other = (r, s) if turned else (s, r)
            pattern = up[one] > -SAME and up[other] < SAME
            together = min(up) > -SAME or max(up) < SAME
            apart = pattern or (up[other] > -SAME and up[one] < SAME)
            seen.append(pattern if opposite else together if turned else apart)
        return bool(seen) and seen[-1]

    return check(
        f"theorem 26.1 extreme ({criterion})",
        {
            **premises(two),
            "majorities opposite (s qualified) or alike": opposite or _alike(two),
            PEAKS: lambda: _single(two),
            "the other group's manipulation is visible in doubles": lambda: (
                two.sides[r].benefit(two.sides[r].strategic) > CLEAR
            ),
        },
        lambda: followed(False),
        lambda: followed(True),
        seen=seen,
    )


def theorem_26_several(scene: Scene, criterion: str) -> Check:
    """Utilities with several peaks: what happens to incentives when both thresholds move the same way."""
    two = of_scene(scene)
    seen: dict[str, Any] = {}
    alpha, delta = [side.rate for side in two.sides], scene.delta

    def together() -> bool:
        fair = two.thresholds(criterion, aware=True)
        moves = [float(side.f1.cdf(x) - side.f1.cdf(side.strategic)) for side, x in zip(two.sides, fair, strict=True)]
        return min(moves) > 10 * CLEAR or max(moves) < -10 * CLEAR

    def holds(turned: bool = False) -> bool:
        free, fair = scene.policy().thresholds[0], scene.policy(criterion).thresholds[0]
        before, after = _manipulation(scene, criterion)
        seen.update(free=free.tolist(), fair=fair.tolist(), before=before, after=after)
        up = [after[g] >= before[g] - SAME for g in (0, 1)]
        down = [after[g] <= before[g] + SAME for g in (0, 1)]
        if max(alpha) > delta > min(alpha):
            s = 0 if alpha[0] > delta else 1
            raised = (fair[0] > free[0]) != turned
            return (up[s] and down[1 - s]) if raised else (down[s] and up[1 - s])
        return all(down) if turned else any(up)

    return check(
        f"theorem 26.2 ({criterion})",
        {
            **premises(two),
            "one utility has several extreme points": lambda: not _single(two),
            "own thresholds inside the search": all(TAIL < float(s.f1.cdf(s.strategic)) < 1 - TAIL for s in two.sides),
            "both thresholds move the same way": together,
            "no rate is at break-even": all(abs(a - delta) > 1e-9 for a in alpha),
        },
        holds,
        lambda: holds(turned=True),
        seen=seen,
    )


def disincentive_condition(scene: Scene, criterion: str, s: int = 0) -> bool:
    """The premise of theorem 27: the mirror of the other group's threshold lies beyond x* of group s, in levels.

    Below x* when both are majority-qualified, above when both are majority-unqualified. With the solvers' thresholds.
    """
    r = 1 - s
    gap = scene.level(s, criterion, scene.peak(s)) - scene.level(r, criterion, scene.mirror(r, scene.theta(r)))
    return gap > 0.0 if min(scene.alpha(0), scene.alpha(1)) > scene.delta else gap < 0.0


def _beyond(two: Two, criterion: str, s: int) -> bool:
    """The same by brute force."""
    own, other = two.sides[s], two.sides[1 - s]
    gap = own.level(criterion, own.peak) - other.level(criterion, other.mirror(other.strategic))
    return gap > CLEAR if _alike(two) == "high" else gap < -CLEAR


def theorem_27(scene: Scene, criterion: str, s: int = 0) -> Check:
    """Majorities alike: a constraint can disincentivise both groups when s is near break-even and well represented.

    The condition on levels depends on alpha_s under demographic parity, so it is asked at the limit, where it is used.
    """
    high = _alike(of_scene(scene)) == "high"
    edge = list(_towards(scene, s, scene.delta, 4))
    limit = of_scene(scene.changed(s, qualified=scene.delta + (1e-9 if high else -1e-9)))
    seen: list[bool] = []

    def holds() -> bool:
        for trial in edge:
            before, after = _manipulation(trial, criterion)
            seen.append(all(after[g] < before[g] + 1e-12 for g in (0, 1)))
        return seen[-1]

    return check(
        f"theorem 27 ({criterion})",
        {
            "majorities alike": _alike(of_scene(scene)),
            **premises(limit),
            PEAKS: lambda: _single(limit),
            MIRROR: lambda: _beyond(limit, criterion, s),
        },
        holds,
        seen=seen,
    )


def proposition_7(scene: Scene, criterion: str, s: int = 0, near: float = 1e-7) -> Check:
    """Gaussian features with one deviation: near break-even the condition of theorem 27 is met.

    For eqopt only the other group r is near break-even; for dp both are, and the sides of break-even and of the utility
    must fit. Below break-even the eqopt branch needs the opposite order of the gaps. The condition is looked at with
    the solvers' thresholds here, since it is what the proposition concludes.
    """
    r, two = 1 - s, of_scene(scene)
    high = _alike(two) == "high"
    edge = scene.delta + (near if high else -near)
    gaps = [side.f1.spec[1] - side.f0.spec[1] for side in two.sides]
    laws = {(law.spec[0], law.spec[2]) for side in two.sides for law in (side.f0, side.f1)}
    narrow = 0 < gaps[s] < gaps[r] if high or criterion == "dp" else 0 < gaps[r] < gaps[s]

    def moved() -> Scene:
        found = scene.changed(r, qualified=edge)
        return found.changed(s, qualified=edge) if criterion == "dp" else found

    return check(
        f"proposition 7 ({criterion})",
        {
            "Gaussian features with one deviation": len(laws) == 1 and laws.pop()[0] == "normal",
            "majorities alike": _alike(two),
            NARROW: narrow,
            "gain and loss fit": criterion == "eqopt" or (scene.gain < scene.loss if high else scene.gain > scene.loss),
            PEAKS: lambda: _single(of_scene(moved())),
        },
        lambda: disincentive_condition(moved(), criterion, s),
        gaps=gaps,
    )


def proposition_8(scene: Scene) -> Check:
    """Identical features and opposite majorities: equal opportunity never disincentivises both groups."""
    two = of_scene(scene)
    seen: dict[str, Any] = {}

    def fell() -> bool:
        before, after = _manipulation(scene, "eqopt")
        seen.update(before=before, after=after)
        return all(after[g] < before[g] - SAME for g in (0, 1))

    return check(
        "proposition 8",
        {"opposite majorities": not _alike(two), IDENTICAL: lambda: two.same_features, **premises(two)},
        lambda: not fell(),
        seen=seen,
    )
