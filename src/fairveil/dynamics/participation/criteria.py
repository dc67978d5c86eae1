"""Finding the criterion that the dynamics itself calls for: decisions that sustain the groups' proportions (4.4.4)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fairveil.dynamics.measures import measure
from fairveil.dynamics.participation.model import Participation
from fairveil.randomness import Generator


@dataclass(frozen=True)
class FairSet:
    """How well pairs of thresholds sustain two groups: ``deviation[i, j]`` belongs to first[i] and second[j].

    It is |(N_a/N_b)/(beta_a/beta_b) - 1| at the resting numbers N; infinite where a group has no stable number.
    """

    first: np.ndarray
    second: np.ndarray
    deviation: np.ndarray

    def inside(self, epsilon: float) -> np.ndarray:
        """The Delta-fair set, Delta = epsilon beta_a/beta_b above the smallest deviation, as a mask."""
        return self.deviation <= self.deviation.min() + epsilon

    def sample(self, rng: Generator, epsilon: float, count: int) -> np.ndarray:
        """Random pairs (count, 2) from the Delta-fair set."""
        rows = np.argwhere(self.inside(epsilon))
        chosen = rows[rng.integers(len(rows), size=count)]
        return np.stack([self.first[chosen[:, 0]], self.second[chosen[:, 1]]], axis=1)


def resting_ratio(system: Participation, group: int, thresholds: np.ndarray) -> np.ndarray:
    """N/beta of one group at rest for each of many thresholds: equal values in all groups sustain the proportions.

    Linear models: attraction/(1 - retention). Quadratic model: equal ratios mean equal beta * retention.
    """
    many = system.select(np.zeros(len(thresholds), dtype=int))
    theta = np.repeat(np.asarray(thresholds, dtype=float)[:, None], system.people.groups, axis=1)
    return many.rest(measure(many.people, theta))[:, group] / many.arrivals[:, group]


def fair_set(system: Participation, first: np.ndarray, second: np.ndarray) -> FairSet:
    """Deviation of every pair of thresholds of two groups, one instance."""
    left, right = resting_ratio(system, 0, first), resting_ratio(system, 1, second)
    with np.errstate(invalid="ignore", divide="ignore"):
        ratio = left[:, None] / right[None, :]
    deviation = np.abs(ratio - 1.0)
    return FairSet(np.asarray(first), np.asarray(second), np.where(np.isfinite(deviation), deviation, np.inf))


def sustaining(system: Participation, first: float, points: int = 2001) -> list[float]:
    """Every threshold of the second group that sustains the proportions beside threshold ``first`` of the first."""
    f0, f1 = system.people.feature(0, 1, 0), system.people.feature(0, 1, 1)
    grid = np.linspace(min(f0.reach[0], f1.reach[0]), max(f0.reach[1], f1.reach[1]), points)
    target = resting_ratio(system, 0, np.array([first]))[0]
    gap = resting_ratio(system, 1, grid) - target
    found = []
    for k in np.flatnonzero(np.isfinite(gap[:-1]) & np.isfinite(gap[1:]) & (gap[:-1] * gap[1:] < 0)):
        a, b, sign = grid[k], grid[k + 1], np.sign(gap[k])
        for _ in range(60):
            middle = 0.5 * (a + b)
            if np.sign(resting_ratio(system, 1, np.array([middle]))[0] - target) == sign:
                a = middle
            else:
                b = middle
        found.append(float(0.5 * (a + b)))
    return found
