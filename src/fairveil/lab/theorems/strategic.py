"""Anticipating manipulation: theorems 22-24 and proposition 6 as checks on one scene.

Statements are read with the corrections of docs/errata/thesis.md. Thresholds far out in a tail, where utility is flat
to rounding, are compared with a tolerance in the level instead of in the threshold.
"""

from __future__ import annotations

import math

from fairveil.dynamics.assumptions import feature_violations
from fairveil.dynamics.strategic.scene import Scene
from fairveil.lab.theorems.checks import Check, check

#: Levels closer than this are the same: a double cannot tell utilities apart there.
SAME = 1e-9


def premises(scene: Scene) -> dict[str, bool]:
    """What all results of sections 6.5 and 6.6 assume."""
    groups = range(scene.people.groups)
    return {
        "monotone likelihood ratio (assumption 11)": not feature_violations(scene.people),
        "marginal gain rises (assumption 12)": all(scene.rising_gain(s) for s in groups),
    }


def above(scene: Scene, s: int, x: float, y: float) -> bool:
    """Is x a higher threshold than y, or is the difference beyond double precision?"""
    return x > y or _close(scene, s, x, y)


def _close(scene: Scene, s: int, x: float, y: float) -> bool:
    return all(abs(scene.level(s, kind, x) - scene.level(s, kind, y)) < SAME for kind in ("eqopt", "dp"))


def theorem_22(scene: Scene, s: int = 0) -> Check:
    """Where the anticipating threshold lies beside the naive one and x*, and which other extreme points exist."""
    alpha, delta = scene.alpha(s), scene.delta
    peak, smart, naive = scene.peak(s), scene.theta(s), scene.theta(s, strategic=False)
    turns = [x for x, _ in scene.turning_points(s)]
    others = [x for x in turns if not _close(scene, s, x, smart)]
    top, rejected, accepted = scene.top_marginal(s), scene.loss * (1.0 - alpha), scene.gain * alpha

    def holds() -> bool:
        if math.isclose(alpha, delta, rel_tol=1e-12):
            outer = scene.around(s, rejected)
            if outer is None:
                return _close(scene, s, smart, peak) and _close(scene, s, naive, peak)
            return any(_close(scene, s, smart, x) for x in outer)
        if alpha < delta:
            ordered = above(scene, s, smart, naive) and above(scene, s, naive, peak)
            outer = scene.around(s, rejected)
            if outer is None:
                return ordered and not others
            return ordered and above(scene, s, smart, outer[1]) and all(outer[0] <= x <= peak for x in others)
        ordered = above(scene, s, naive, smart) and above(scene, s, peak, naive)
        outer = scene.around(s, accepted)
        if outer is None:
            return ordered and not others
        return ordered and above(scene, s, outer[0], smart) and all(peak <= x <= outer[1] for x in others)

    return check(
        "theorem 22",
        premises(scene),
        holds,
        qualified=alpha,
        break_even=delta,
        peak=peak,
        strategic=smart,
        naive=naive,
        top_marginal=top,
        extreme_points=turns,
    )


def theorem_23(scene: Scene, criterion: str, s: int = 0) -> Check:
    """Anticipation widens the gap when group s is majority-qualified and the other (of two) is not."""
    r = 1 - s
    smart, naive = scene.policy(), scene.policy(strategic=False)
    wide, narrow = (float(p.unfairness(criterion)[0]) for p in (smart, naive))
    level_s, level_r = (scene.level(g, criterion, scene.peak(g)) for g in (s, r))
    return check(
        f"theorem 23 ({criterion})",
        {
            **premises(scene),
            "one group is majority-qualified, the other not": scene.alpha(s) > scene.delta > scene.alpha(r),
            "level of x* no higher in the qualified group": level_s <= level_r,
        },
        lambda: abs(wide) > abs(narrow) - SAME and wide * narrow >= -SAME,
        strategic=wide,
        naive=narrow,
    )


def theorem_24(scene: Scene, criterion: str, s: int = 0) -> Check:
    """Cheap manipulation in the advantaged group s (of two) mitigates unfairness and, cheaper still, turns it round.

    Costs Beta(epsilon, 1) with falling epsilon are tried; each satisfies assumption 12.
    """
    r = 1 - s
    naive = scene.policy(strategic=False)
    before = float(naive.measures.rate(criterion)[0, s] - naive.measures.rate(criterion)[0, r])
    seen: dict[str, float] = {}

    def gap(epsilon: float) -> float:
        rate = scene.changed(s, cost=["beta", epsilon, 1.0]).policy().measures.rate(criterion)[0]
        value = float(rate[s] - rate[r])
        if abs(value) < abs(before):
            seen.setdefault("mitigated_at", epsilon)
        if value < 0.0:
            seen.setdefault("turned_at", epsilon)
        return value

    def holds() -> bool:
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
        return len(seen) == 2

    return check(
        f"theorem 24 ({criterion})",
        {
            "monotone likelihood ratio (assumption 11)": not feature_violations(scene.people),
            "both groups are majority-unqualified": max(scene.alpha(0), scene.alpha(1)) < scene.delta,
            "group s is ahead under the naive policy": before > SAME,
            "the other group's marginal gain rises (assumption 12)": scene.rising_gain(r),
        },
        holds,
        naive=before,
        found=seen,
    )


def proposition_6(scene: Scene, criterion: str, s: int = 0) -> Check:
    """Identical features, alpha_r < alpha_s < break-even: when does anticipation turn the disadvantage round?

    Checked here: the group with the lower rate is behind under the naive policy, and a marginal gain of group s of at
    least loss (1 - alpha_s) at the threshold that matches the other group's turns the disadvantage round.
    """
    r = 1 - s
    naive, smart = scene.policy(strategic=False), scene.policy()
    rate = naive.measures.rate(criterion)[0]
    image = _matching(scene, criterion, r, scene.theta(r), s)
    strong = scene.marginal(s, image) >= scene.loss * (1.0 - scene.alpha(s))
    after = smart.measures.rate(criterion)[0]
    return check(
        f"proposition 6 ({criterion})",
        {
            **premises(scene),
            "identical features": scene.features(0) == scene.features(1),
            "alpha_r < alpha_s < break-even": scene.alpha(r) < scene.alpha(s) < scene.delta,
        },
        lambda: rate[r] <= rate[s] + SAME and (not strong or after[s] <= after[r] + SAME),
        naive=float(rate[s] - rate[r]),
        strategic=float(after[s] - after[r]),
        strong=strong,
    )


def proposition_6_equal(scene: Scene, s: int = 0) -> Check:
    """Identical features: a cost Beta(a, 1) of group s that makes both anticipating thresholds the same.

    The first-order conditions coincide when (Psi_s' - gain alpha_s)/(Psi_r' - gain alpha_r) equals the ratio of
    loss (1 - alpha) - gain alpha in the two groups. Whether the common point is then also the *best* threshold of
    group s is what is checked; ``applies`` is False when no cost of the family meets the condition.
    """
    r = 1 - s
    theta = scene.theta(r)
    z = scene.benefit(r, theta)

    def slack(g: int) -> float:
        return scene.loss * (1.0 - scene.alpha(g)) - scene.gain * scene.alpha(g)

    ratio = slack(s) / slack(r) if slack(r) != 0 else math.nan
    need = scene.gain * scene.alpha(s) + ratio * (scene.marginal(r, theta) - scene.gain * scene.alpha(r))
    shape = _beta_shape(z, need / (scene.loss * (1.0 - scene.alpha(s))))
    trial = None if shape is None else scene.changed(s, cost=["beta", shape, 1.0])
    return check(
        "proposition 6.1",
        {
            **premises(scene),
            "identical features": scene.features(0) == scene.features(1),
            "alpha_r < alpha_s < break-even": scene.alpha(r) < scene.alpha(s) < scene.delta,
            "a cost of the family meets the condition": trial is not None,
        },
        lambda: trial is not None and _close(trial, s, trial.theta(s), theta),
        other=theta,
        shape=shape,
        threshold=None if trial is None else trial.theta(s),
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


def _matching(scene: Scene, criterion: str, r: int, x: float, s: int) -> float:
    """Group s's threshold with the same rate as threshold x of group r."""
    if criterion == "eqopt" and scene.features(0) == scene.features(1):
        return x
    target = scene.level(r, criterion, x)
    f0, f1 = scene.features(s)
    low, high = min(f0.reach[0], f1.reach[0]), max(f0.reach[1], f1.reach[1])
    for _ in range(200):
        middle = 0.5 * (low + high)
        if scene.level(s, criterion, middle) < target:
            low = middle
        else:
            high = middle
    return 0.5 * (low + high)
