"""What the models assume about features, costs and transitions; each check says where an assumption fails.

Enforced: supports overlap, the likelihood ratio f1/f0 does not fall, transitions lie strictly between 0 and 1.
Reported only: features monotone on the overlap (assumption 7), rising marginal manipulation gain (assumption 12).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from fairveil.dynamics import kernels
from fairveil.dynamics.distributions import Distribution, pair
from fairveil.dynamics.mixtures import fill_log_ratio
from fairveil.dynamics.population import Population
from fairveil.errors import AssumptionError

POINTS = 2049


@dataclass(frozen=True)
class Violation:
    """One assumption that does not hold: its name, the group, where, and what was seen there."""

    assumption: str
    group: str
    where: str

    def error(self, path: str) -> AssumptionError:
        return AssumptionError(
            f"the assumption '{self.assumption}' does not hold",
            path=path,
            given=self.where,
            fix="change the input, or pass check=False to go on without the guarantee (the result is then marked)",
        )


def overlap(f0: Distribution, f1: Distribution) -> tuple[float, float]:
    """The interval on which both labels can occur; empty when the first number is not below the second."""
    return max(f0.reach[0], f1.reach[0]), min(f0.reach[1], f1.reach[1])


def likelihood_ratio_fall(f0: Distribution, f1: Distribution, points: int = POINTS) -> float | None:
    """Where f1/f0 first falls on the overlap, or None when it never does. A ratio that is constant counts as falling.

    Normals, truncated or not, are decided exactly; others on a fine grid and at every cell of a histogram.

    >>> from fairveil.dynamics.distributions import distribution
    >>> likelihood_ratio_fall(distribution(["normal", 0, 1]), distribution(["normal", 1, 1])) is None
    True
    """
    low, high = overlap(f0, f1)
    if {f0.code, f1.code} <= {kernels.NORMAL, kernels.TRUNCNORM}:
        fall = _normal_fall(f0, f1)
    else:
        fall = _grid_fall(f0, f1, low, high, points)
    if fall is not None:
        return fall
    # Outside the overlap the ratio is 0 below and infinite above, unless the supports are nested the wrong way round.
    if f1.reach[0] < f0.reach[0]:
        return f1.reach[0]
    if f1.reach[1] < f0.reach[1]:
        return f0.reach[1]
    return None


def _normal_fall(f0: Distribution, f1: Distribution) -> float | None:
    """The log ratio is a parabola, so its slope is linear: look at it at both ends of the overlap of the supports."""
    (m0, s0), (m1, s1) = f0.params[:2].tolist(), f1.params[:2].tolist()
    low, high = max(f0.support[0], f1.support[0]), min(f0.support[1], f1.support[1])
    rise = 1.0 / s0**2 - 1.0 / s1**2
    level = m1 / s1**2 - m0 / s0**2
    if rise == 0.0:
        return None if level > 0.0 else float(m1 if math.isinf(low) else low)
    turn = -level / rise
    if rise > 0.0:
        return None if low >= turn else (turn if math.isinf(low) else low)
    return None if high <= turn else max(turn, low)


def _grid_fall(f0: Distribution, f1: Distribution, low: float, high: float, points: int) -> float | None:
    x = low + (high - low) * (np.arange(points) + 0.5) / points
    edges = [_edges(item) for item in (f0, f1)]
    cells = np.unique(np.concatenate([[low, high], *edges]))
    cells = cells[(cells >= low) & (cells <= high)]
    if any(item.size for item in edges):
        x = np.unique(np.concatenate([x, 0.5 * (cells[1:] + cells[:-1])]))
    ratio = np.empty(x.size)
    fill_log_ratio(pair(f0, f1), x, ratio)
    ratio = np.clip(ratio, -1e300, 1e300)
    falls = np.flatnonzero(np.diff(ratio) < -1e-10 * (1.0 + np.abs(ratio[1:])))
    if falls.size:
        return float(x[falls[0] + 1])
    return float(x[0]) if ratio[-1] - ratio[0] <= 0.0 and f0.reach == f1.reach else None


def _edges(item: Distribution) -> np.ndarray:
    if item.code != kernels.HISTOGRAM:
        return np.empty(0)
    return item.params[1 : 2 + int(item.params[0])]


def feature_violations(people: Population) -> list[Violation]:
    """Violations of overlap and of the monotone likelihood ratio, at most one per group."""
    found: dict[str, Violation] = {}
    for s, name in enumerate(people.names):
        for i, j in np.unique(people.which[:, s], axis=0):
            f0, f1 = people.distributions[i], people.distributions[j]
            low, high = overlap(f0, f1)
            if not low < high:
                where = f"group {name}: f0 lives on {_interval(f0)}, f1 on {_interval(f1)}"
                found.setdefault(name, Violation("the supports of the two labels overlap", name, where))
            elif (fall := likelihood_ratio_fall(f0, f1)) is not None:
                where = f"group {name}: f1/f0 does not rise at x = {fall:.6g}"
                found.setdefault(name, Violation("monotone likelihood ratio", name, where))
    return list(found.values())


def require_features(people: Population) -> None:
    """Raise AssumptionError for the first violation."""
    for violation in feature_violations(people):
        raise violation.error(f"groups.{violation.group}.features")


def checked(people: Population, check: bool) -> Population:
    """People whose features are as assumed, or, unchecked, as thresholds can be found for them."""
    if not check:
        return searched(people)
    require_features(people)
    return people


def searched(people: Population) -> Population:
    """The same people with every instance marked whose likelihood ratio falls somewhere: its thresholds are searched.

    Where the labels do not overlap, the usual rule is right: any threshold between them.
    """
    pairs = {(int(i), int(j)) for i, j in np.unique(people.which.reshape(-1, 2), axis=0)}
    laws = people.distributions
    falls = {
        pair
        for pair in pairs
        if np.less(*overlap(laws[pair[0]], laws[pair[1]]))
        and likelihood_ratio_fall(laws[pair[0]], laws[pair[1]]) is not None
    }
    if not falls:
        return people
    several = [any(tuple(pair) in falls for pair in row) for row in people.which.tolist()]
    return replace(people, several=np.array(several))


def transition_violations(names: tuple[str, ...], transitions: Any) -> list[Violation]:
    """Transitions (groups, 2, 2) must lie strictly between 0 and 1."""
    table = np.asarray(transitions, dtype=float)
    found = []
    for s, name in enumerate(names):
        for y in (0, 1):
            for d in (0, 1):
                if not 0.0 < table[s, y, d] < 1.0:
                    where = f"group {name}: T{y}{d} = {table[s, y, d]:g}"
                    found.append(Violation("transitions lie strictly between 0 and 1", name, where))
    return found


def assumption_7(people: Population, instance: int = 0) -> dict[str, bool]:
    """Per group: is f1 strictly rising and f0 strictly falling on the overlap?"""
    return {name: monotone_features(*people.features(instance, s)) for s, name in enumerate(people.names)}


def monotone_features(f0: Distribution, f1: Distribution) -> bool:
    """Assumption 7 of one group."""
    low, high = overlap(f0, f1)
    x = np.linspace(low, high, POINTS)[1:-1]
    return bool(low < high and np.all(np.diff(f1.pdf(x)) > 0) and np.all(np.diff(f0.pdf(x)) < 0))


def rising_gain_limit(cost: Distribution) -> float:
    """Largest z up to which the marginal manipulation gain F_C(z) + z P_C(z) does not fall.

    Closed forms: (a + 1)/(a + b) for Beta(a, b) with b >= 1 (never for b = 1: the gain rises on all of [0, 1]),
    the upper end for a uniform cost on [0, c]. Others are found on a grid.
    """
    if cost.code == kernels.BETA and cost.params[1] >= 1.0:
        a, b = cost.params[:2]
        return 1.0 if b == 1.0 else float(min(1.0, (a + 1.0) / (a + b)))
    if cost.code == kernels.UNIFORM and cost.params[0] <= 0.0:
        return float(cost.params[1])
    z = np.linspace(0.0, 1.0, 20001)
    density = cost.pdf(z)
    gain = cost.cdf(z) + np.where(z > 0, z * np.where(np.isfinite(density), density, 0.0), 0.0)
    falls = np.flatnonzero(np.diff(gain) < -1e-12)
    return float(z[falls[0]]) if falls.size else 1.0


def assumption_12(f0: Distribution, f1: Distribution, cost: Distribution, peak: float) -> bool:
    """Does the marginal gain rise up to the largest manipulation benefit ``peak`` = max F0 - F1?"""
    limit = rising_gain_limit(cost)
    return bool(peak <= limit * (1.0 + 1e-12))


def _interval(item: Distribution) -> str:
    low, high = item.support
    return f"[{low:g}, {high:g}]" if math.isfinite(low) else "the whole line"
