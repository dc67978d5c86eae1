"""One population of the strategic model with the curves the theory speaks about: benefit, gain, turning points.

`solve` has the four policies of a decision maker who may anticipate manipulation and may be bound to equal rates.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from fairveil.dynamics import assumptions, search, thresholds
from fairveil.dynamics.distributions import Distribution, pair
from fairveil.dynamics.population import (
    POINTS,
    Measures,
    Population,
    best_thresholds,
    halved,
    measure,
    optimal_thresholds,
    population,
)
from fairveil.dynamics.problem import Stakes
from fairveil.errors import SpecError


@dataclass(frozen=True)
class Solution:
    """Thresholds of a batch and what they lead to when people respond; arrays are (instances, groups)."""

    thresholds: np.ndarray
    measures: Measures
    share: np.ndarray

    @property
    def utility(self) -> np.ndarray:
        """The decision maker's true utility per group, with manipulation."""
        return self.measures.utility

    @property
    def total(self) -> np.ndarray:
        return (self.share * self.measures.utility).sum(axis=1)

    @property
    def manipulation(self) -> np.ndarray:
        """Share of unqualified people who manipulate."""
        return self.measures.manipulation

    def unfairness(self, criterion: str) -> np.ndarray:
        """Rate of the first group minus rate of the second (instances,), before manipulation."""
        rate = self.measures.rate(criterion)
        return rate[:, 0] - rate[:, 1]


def solve(
    people: Population,
    fairness: str = "none",
    strategic: bool = True,
    rate: str = "tpr",
    points: int = POINTS,
) -> Solution:
    """Optimal policy; a strategic decision maker anticipates manipulation, the other one takes features as they come.

    The strategic problem can have several peaks and is searched on ``points`` thresholds per group; the other problem
    has one root when the likelihood ratio is monotone.

    >>> from fairveil.dynamics import fico_groups, population
    >>> groups = {name: {**group, "cost": ["beta", 10, 2]}
    ...           for name, group in fico_groups(["caucasian", "african-american"]).items()}
    >>> float(solve(population(groups)).unfairness("eqopt")[0].round(3))       # printed in table 6.2
    0.355
    """
    if strategic:
        thresholds = best_thresholds(people, fairness, rate, points)
    else:
        thresholds = optimal_thresholds(people, fairness, rate)
    return Solution(thresholds, measure(people, thresholds), people.share)


def peak(f0: Distribution, f1: Distribution) -> float:
    """x*: where f1 = f0, the threshold that invites most manipulation."""
    return float(thresholds.free(0.5, pair(f0, f1), 1.0, 1.0))


class Scene:
    """Groups with costs and a utility; group indices are 0, 1, ... in the order given.

    >>> from fairveil.dynamics import fico_groups
    >>> scene = Scene({name: {**group, "cost": ["beta", 10, 2]} for name, group in fico_groups().items()})
    >>> round(scene.peak(0), 6)                   # x* of table 6.1
    0.276818
    """

    def __init__(self, groups: Mapping[str, Any], gain: float = 1.0, loss: float = 1.0) -> None:
        self.groups = {name: dict(table) for name, table in groups.items()}
        self.people: Population = population(groups, {"gain": gain, "loss": loss})
        if np.any(self.people.cost < 0):
            raise SpecError("every group needs a manipulation cost", path="groups", fix='add "cost": ["beta", 10, 2]')
        self.gain, self.loss = float(gain), float(loss)
        self._solved: dict[tuple[str, bool], Solution] = {}
        self._peaks: dict[int, float] = {}

    def changed(self, group: int, **facts: Any) -> Scene:
        """The same scene with some facts of one group replaced."""
        name = self.people.names[group]
        return Scene({**self.groups, name: {**self.groups[name], **facts}}, self.gain, self.loss)

    @cached_property
    def delta(self) -> float:
        """The qualification rate at which accepting everybody breaks even."""
        return self.loss / (self.gain + self.loss)

    def alpha(self, s: int) -> float:
        return float(self.people.qualified[0, s])

    def features(self, s: int) -> tuple[Distribution, Distribution]:
        return self.people.features(0, s)

    def cost(self, s: int) -> Distribution:
        found = self.people.cost_of(0, s)
        assert found is not None
        return found

    def policy(self, fairness: str = "none", strategic: bool = True) -> Solution:
        key = (fairness, strategic)
        if key not in self._solved:
            self._solved[key] = solve(self.people, fairness, strategic)
        return self._solved[key]

    def recall(self, thresholds: np.ndarray, fairness: str = "none", strategic: bool = True) -> None:
        """Take over thresholds (1, groups) that were solved for elsewhere, such as one point of a grid."""
        self._solved[fairness, strategic] = Solution(thresholds, measure(self.people, thresholds), self.people.share)

    def theta(self, s: int, fairness: str = "none", strategic: bool = True) -> float:
        return float(self.policy(fairness, strategic).thresholds[0, s])

    def peak(self, s: int) -> float:
        """x* of a group."""
        if s not in self._peaks:
            self._peaks[s] = peak(*self.features(s))
        return self._peaks[s]

    def window(self, s: int) -> tuple[float, float]:
        """An interval of thresholds worth drawing: all but a thousandth of each label."""
        ends = [item.ppf(q) for item in self.features(s) for q in (1e-3, 1.0 - 1e-3)]
        return float(min(ends)), float(max(ends))

    def benefit(self, s: int, x: float) -> float:
        """F0(x) - F1(x)."""
        return float(search.benefit(pair(*self.features(s)), float(x)))

    def marginal(self, s: int, x: float) -> float:
        """The marginal manipulation gain at threshold x."""
        cost = self.cost(s)
        return self.loss * (1.0 - self.alpha(s)) * float(search.pressure(cost.code, cost.params, self.benefit(s, x)))

    def top_marginal(self, s: int) -> float:
        """Largest marginal gain over all thresholds; at x* when it rises with the benefit (assumption 12)."""
        return self.marginal(s, self.peak(s))

    def manipulation(self, s: int, x: float) -> float:
        return float(self.cost(s).cdf(self.benefit(s, x)))

    def utility(self, s: int, x: float, aware: bool = True) -> float:
        """Utility of threshold x in group s; ``aware=False`` ignores manipulation."""
        at = self._stakes(s)
        return float(search.value(at if aware else at._replace(cost_code=-1), float(x)))

    def _stakes(self, s: int) -> Stakes:
        cost = self.cost(s)
        return Stakes(self.alpha(s), pair(*self.features(s)), cost.code, cost.params, self.gain, self.loss)

    def level(self, s: int, criterion: str, x: float) -> float:
        """Share below x: of the qualified (eqopt) or of everybody (dp)."""
        f0, f1 = self.features(s)
        if criterion == "eqopt":
            return float(f1.cdf(x))
        return self.alpha(s) * float(f1.cdf(x)) + (1.0 - self.alpha(s)) * float(f0.cdf(x))

    def turning_points(self, s: int, points: int = POINTS) -> list[tuple[float, float]]:
        """Every extreme point (threshold, utility) of the group's own utility, left to right."""
        room = np.empty(16)
        count = search.turning_points(self._stakes(s), points, room)
        return [(float(x), self.utility(s, float(x))) for x in room[:count]]

    def around(self, s: int, height: float) -> tuple[float, float] | None:
        """The thresholds below and above x* at which the marginal gain has this height; None when it never has."""
        if self.top_marginal(s) <= height:
            return None
        low, high = self._span(s)
        return self._cross(s, low, height, self.marginal), self._cross(s, high, height, self.marginal)

    def mirror(self, s: int, x: float) -> float:
        """The other threshold with the same manipulation benefit as x, on the far side of x*."""
        low, high = self._span(s)
        return self._cross(s, high if x < self.peak(s) else low, self.benefit(s, x), self.benefit)

    def _span(self, s: int) -> tuple[float, float]:
        low, high = search.span(0, self.alpha(s), pair(*self.features(s)))
        return low, high

    def _cross(self, s: int, far: float, height: float, curve: Any) -> float:
        return halved(self.peak(s), far, lambda x: not curve(s, x) > height)

    def rising_gain(self, s: int) -> bool:
        """Assumption 12 for this group."""
        return assumptions.assumption_12(*self.features(s), self.cost(s), self.benefit(s, self.peak(s)))

    def single_peaked(self, s: int) -> bool:
        """Does the group's utility have one extreme point only?"""
        return len(self.turning_points(s)) == 1
