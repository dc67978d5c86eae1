"""Three ways to change the long run: other fair thresholds, separate thresholds, better transitions."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from fairveil.dynamics.population import Population, optimal_thresholds
from fairveil.dynamics.qualification.model import Qualification
from fairveil.errors import AssumptionError


def other_utility(system: Qualification, gain: float, loss: float) -> Qualification:
    """A sub-optimal fair policy: thresholds that would be optimal for another gain and loss (proposition 3).

    They satisfy the same constraint at every step and lie above the optimal ones for every qualification rate when
    loss/gain is larger, below when it is smaller.
    """

    def rule(people: Population) -> np.ndarray:
        size = people.size
        changed = replace(people, gain=np.full(size, float(gain)), loss=np.full(size, float(loss)))
        return optimal_thresholds(changed, system.fairness, system.rate)

    return replace(system, rule=rule)


def constant_thresholds(system: Qualification, thresholds: Any) -> Qualification:
    """The same thresholds at every step; each group then moves affinely towards one stable equilibrium."""
    fixed = np.broadcast_to(np.asarray(thresholds, dtype=float), (system.size, system.people.groups)).copy()

    def rule(people: Population) -> np.ndarray:
        return fixed if people.size == len(fixed) else fixed[: people.size]

    if np.ptp(fixed, axis=0).max() > 0 and system.size > 1:
        raise ValueError("constant_thresholds takes one instance, or the same thresholds for all")
    return replace(system, rule=rule)


def reachable(transitions: Any) -> tuple[float, float]:
    """The odds (1 - alpha)/alpha that some threshold of a group can make an equilibrium (proposition 4).

    >>> reachable([[0.4, 0.5], [0.5, 0.9]])
    (0.19999999999999996, 1.25)
    """
    (t00, t01), (t10, t11) = transitions
    return (1.0 - max(t11, t10)) / max(t01, t00), (1.0 - min(t11, t10)) / min(t01, t00)


def common_rates(system: Qualification, instance: int = 0) -> tuple[float, float] | None:
    """Qualification rates that every group can be led to, or None when there is none."""
    spans = [reachable(table) for table in system.transitions[instance]]
    low, high = max(span[0] for span in spans), min(span[1] for span in spans)
    return (1.0 / (1.0 + high), 1.0 / (1.0 + low)) if low <= high else None


def equalising(system: Qualification, target: float, instance: int = 0) -> np.ndarray:
    """Constant thresholds (groups,) that lead every group to the same rate ``target`` (proposition 4).

    h(theta) = (1 - g1)/g0 runs monotonically between the ends of `reachable` under conditions 1a and 1b; it is inverted
    by halving. Constant thresholds make each group's step affine with slope g1 - g0 in (-1, 1), so the rate converges
    from everywhere; thresholds that merely fall with the rate need not under condition 1b.
    """
    one = system.select(np.array([instance]))
    people, odds = one.people, 1.0 / target - 1.0
    out = np.empty(people.groups)
    for s in range(people.groups):
        low, high = reachable(one.transitions[0, s])
        if not low <= odds <= high:
            raise AssumptionError(
                "no threshold leads this group to the rate",
                path=f"groups.{people.names[s]}",
                given=target,
                allowed=f"a rate in [{1 / (1 + high):.6g}, {1 / (1 + low):.6g}]",
            )
        f0, f1 = people.feature(0, s, 0), people.feature(0, s, 1)
        left, right = min(f0.reach[0], f1.reach[0]), max(f0.reach[1], f1.reach[1])
        (t00, t01), (t10, t11) = one.transitions[0, s]

        def height(x: float, f0: Any = f0, f1: Any = f1, t: Any = (t00, t01, t10, t11)) -> float:
            keep = t[2] * f1.cdf(x) + t[3] * f1.sf(x)
            return (1.0 - keep) / (t[0] * f0.cdf(x) + t[1] * f0.sf(x))

        rising = height(right) >= height(left)
        for _ in range(200):
            middle = 0.5 * (left + right)
            if middle in (left, right):
                break
            if (height(middle) < odds) == rising:
                left = middle
            else:
                right = middle
        out[s] = 0.5 * (left + right)
    return out


def raised(system: Qualification, group: int, state: int, decision: int, by: float) -> Qualification:
    """Better transitions: one chance of one group raised by ``by`` (proposition 5).

    The group's own equilibrium rises. Under condition 1a with a constraint the other group's can fall.
    """
    transitions = system.transitions.copy()
    transitions[:, group, state, decision] = np.minimum(transitions[:, group, state, decision] + by, 1.0 - 1e-9)
    return replace(system, transitions=transitions)
