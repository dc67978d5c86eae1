"""Fairness with manipulation: theorems 25-27 and propositions 7, 8 as checks on one scene of two groups."""

from __future__ import annotations

from collections.abc import Iterator

from fairveil.dynamics.distributions import Distribution
from fairveil.dynamics.kernels import NORMAL
from fairveil.dynamics.strategic.scene import Scene
from fairveil.lab.theorems.checks import Check, check
from fairveil.lab.theorems.strategic import SAME, premises


def theorem_25(scene: Scene, criterion: str, s: int = 0, near: float = 1e-6) -> Check:
    """A naive decision maker can earn more from *both* groups under a fairness constraint.

    Case 1 is a plain statement; cases 2 and 3 are limits, taken to apply when the rate in question is within ``near``
    of break-even. Group s is the one ahead under the naive policy.
    """
    r = 1 - s
    free, fair = scene.policy(strategic=False), scene.policy(criterion, strategic=False)
    rate = free.measures.rate(criterion)[0]
    alpha, delta = [scene.alpha(0), scene.alpha(1)], scene.delta
    marginal = [scene.marginal(g, float(fair.thresholds[0, g])) for g in (0, 1)]
    rejected = [scene.loss * (1.0 - alpha[g]) for g in (0, 1)]
    accepted = [scene.gain * alpha[g] for g in (0, 1)]
    case = 0
    if alpha[s] < delta < alpha[r] and marginal[s] > rejected[s] and marginal[r] > accepted[r]:
        case = 1
    elif min(alpha) > delta and alpha[s] - delta < near and all(marginal[g] > accepted[g] for g in (0, 1)):
        case = 2
    elif max(alpha) < delta and delta - alpha[r] < near and all(marginal[g] > rejected[g] for g in (0, 1)):
        case = 3
    gained = (fair.utility - free.utility)[0]
    return check(
        f"theorem 25 ({criterion})",
        {
            **premises(scene),
            "group s is ahead under the naive policy": rate[s] > rate[r] + SAME,
            "rates and marginal gains fit one of the three cases": case > 0,
        },
        lambda: gained.min() > -1e-12,
        case=case,
        gained=gained.tolist(),
    )


def theorem_26(scene: Scene, criterion: str) -> Check:
    """Single-peaked utilities: a constraint raises one threshold and lowers the other."""
    free, fair = scene.policy().thresholds[0], scene.policy(criterion).thresholds[0]
    levels = [[scene.level(s, criterion, x[s]) for s in (0, 1)] for x in (free, fair)]
    moves = [levels[1][s] - levels[0][s] for s in (0, 1)]
    return check(
        f"theorem 26.1 ({criterion})",
        {
            **premises(scene),
            "both utilities have one extreme point": scene.single_peaked(0) and scene.single_peaked(1),
            "the unconstrained policy is not fair already": abs(levels[0][0] - levels[0][1]) > 1e-6,
        },
        lambda: min(moves) <= SAME and max(moves) >= -SAME,
        free=free.tolist(),
        fair=fair.tolist(),
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
    r, delta = 1 - s, scene.delta
    opposite = scene.alpha(s) > delta > scene.alpha(r)
    high = min(scene.alpha(0), scene.alpha(1)) > delta
    low = max(scene.alpha(0), scene.alpha(1)) < delta
    seen: list[bool] = []

    def holds() -> bool:
        for trial in _towards(scene, s, 0.0 if low else 1.0):
            free, fair = _manipulation(trial, criterion)
            up = [fair[g] - free[g] for g in (0, 1)]
            if seen and seen[-1] and min(abs(u) for u in up) < 1e-5:
                # Further on the two thresholds of group s are the same number to the search.
                break
            pattern = up[s] > -SAME and up[r] < SAME
            seen.append(pattern if opposite else pattern or (up[s] < SAME and up[r] > -SAME))
        return bool(seen) and seen[-1]

    return check(
        f"theorem 26.1 extreme ({criterion})",
        {
            **premises(scene),
            "both utilities have one extreme point": scene.single_peaked(0) and scene.single_peaked(1),
            "majorities opposite (s qualified) or alike": opposite or high or low,
            "the other group's manipulation is visible in doubles": scene.benefit(r, scene.theta(r)) > 1e-4,
        },
        holds,
        opposite=opposite,
        seen=seen,
    )


def theorem_26_several(scene: Scene, criterion: str) -> Check:
    """Utilities with several peaks: what happens to incentives when both thresholds move the same way."""
    free, fair = scene.policy().thresholds[0], scene.policy(criterion).thresholds[0]
    before, after = _manipulation(scene, criterion)
    alpha, delta = [scene.alpha(0), scene.alpha(1)], scene.delta
    together = (fair - free).min() > 1e-9 or (fair - free).max() < -1e-9
    raised = fair[0] > free[0]

    def holds() -> bool:
        up = [after[g] >= before[g] - SAME for g in (0, 1)]
        down = [after[g] <= before[g] + SAME for g in (0, 1)]
        if max(alpha) > delta > min(alpha):
            s = 0 if alpha[0] > delta else 1
            return (up[s] and down[1 - s]) if raised else (down[s] and up[1 - s])
        return up[0] or up[1]

    return check(
        f"theorem 26.2 ({criterion})",
        {
            **premises(scene),
            "one utility has several extreme points": not (scene.single_peaked(0) and scene.single_peaked(1)),
            "both thresholds move the same way": together,
            "no rate is at break-even": all(abs(a - delta) > 1e-9 for a in alpha),
        },
        holds,
        free=free.tolist(),
        fair=fair.tolist(),
        before=before,
        after=after,
    )


def disincentive_condition(scene: Scene, criterion: str, s: int = 0) -> bool:
    """The premise of theorem 27: the mirror of the other group's threshold lies beyond x* of group s, in levels.

    Below x* when both are majority-qualified, above when both are majority-unqualified.
    """
    r = 1 - s
    mirror = scene.mirror(r, scene.theta(r))
    gap = scene.level(s, criterion, scene.peak(s)) - scene.level(r, criterion, mirror)
    return gap > 0.0 if min(scene.alpha(0), scene.alpha(1)) > scene.delta else gap < 0.0


def theorem_27(scene: Scene, criterion: str, s: int = 0) -> Check:
    """Majorities alike: a constraint can disincentivise both groups when s is near break-even and well represented.

    The condition on levels depends on alpha_s under demographic parity, so it is asked at the limit, where it is used.
    """
    alpha, delta = [scene.alpha(0), scene.alpha(1)], scene.delta
    high, low = min(alpha) > delta, max(alpha) < delta
    edge = list(_towards(scene, s, delta, 4))
    limit = scene.changed(s, qualified=delta + (1e-9 if high else -1e-9))
    seen: list[bool] = []

    def holds() -> bool:
        for trial in edge:
            before, after = _manipulation(trial, criterion)
            seen.append(all(after[g] < before[g] + 1e-12 for g in (0, 1)))
        return seen[-1]

    return check(
        f"theorem 27 ({criterion})",
        {
            **premises(limit),
            "majorities alike": high or low,
            "both utilities have one extreme point": limit.single_peaked(0) and limit.single_peaked(1),
            "the mirror image lies beyond x*": (high or low) and disincentive_condition(limit, criterion, s),
        },
        holds,
        seen=seen,
    )


def proposition_7(scene: Scene, criterion: str, s: int = 0, near: float = 1e-7) -> Check:
    """Gaussian features with one deviation: near break-even the condition of theorem 27 is met.

    For eqopt only the other group r is near break-even; for dp both are, and the sides of break-even and of the utility
    must fit. Below break-even the eqopt branch needs the opposite order of the gaps.
    """
    r = 1 - s
    alpha, delta = [scene.alpha(0), scene.alpha(1)], scene.delta
    high = min(alpha) > delta
    gaps = [_gap(*scene.features(g)) for g in (0, 1)]
    moved = scene.changed(r, qualified=delta + (near if high else -near))
    if criterion == "dp":
        moved = moved.changed(s, qualified=delta + (near if high else -near))
    narrow = 0 < gaps[s] < gaps[r] if high or criterion == "dp" else 0 < gaps[r] < gaps[s]
    sides = criterion == "eqopt" or (scene.gain < scene.loss if high else scene.gain > scene.loss)
    return check(
        f"proposition 7 ({criterion})",
        {
            "Gaussian features with one deviation": min(gaps) > 0,
            "majorities alike": high or max(alpha) < delta,
            "the gaps are in the order the statement needs": narrow,
            "gain and loss fit": sides,
            "both utilities have one extreme point": moved.single_peaked(0) and moved.single_peaked(1),
        },
        lambda: disincentive_condition(moved, criterion, s),
        gaps=gaps,
    )


def _gap(f0: Distribution, f1: Distribution) -> float:
    if f0.code != NORMAL or f1.code != NORMAL or f0.params[1] != f1.params[1]:
        return -1.0
    return float(f1.params[0] - f0.params[0])


def proposition_8(scene: Scene) -> Check:
    """Identical features and opposite majorities: equal opportunity never disincentivises both groups."""
    before, after = _manipulation(scene, "eqopt")
    alpha, delta = [scene.alpha(0), scene.alpha(1)], scene.delta
    return check(
        "proposition 8",
        {
            **premises(scene),
            "identical features": scene.features(0) == scene.features(1),
            "opposite majorities": max(alpha) > delta > min(alpha),
        },
        lambda: not all(after[g] < before[g] - SAME for g in (0, 1)),
        before=before,
        after=after,
    )
