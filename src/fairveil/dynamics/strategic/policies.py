"""The four policies of a decision maker who may anticipate manipulation and may be bound to equal rates."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fairveil.dynamics.measures import Measures, measure
from fairveil.dynamics.population import POINTS, Population, best_thresholds, optimal_thresholds


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
