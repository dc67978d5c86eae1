"""The `participation-criterion` task: which pairs of thresholds sustain two groups, and paths of such decisions.

This finds the criterion that the dynamics itself calls for: decisions that sustain the groups' proportions (4.4.4).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from pydantic import Field

from fairveil.dynamics.instances import ModelSpec, ModelTask
from fairveil.dynamics.participation.model import Participation, model, retention, simulate
from fairveil.dynamics.participation.task import ParticipationGroup
from fairveil.dynamics.population import measure
from fairveil.errors import SpecError
from fairveil.fields import Count, NonNegative
from fairveil.randomness import Generator, generator
from fairveil.registry import register
from fairveil.task import Outcome, Part


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
    grid = np.linspace(*system.people.reach(0, 1), points)
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


class CriterionSpec(ModelSpec):
    """Keys: two groups, the dynamics, points per axis, and the tolerances whose Delta-fair sets are followed."""

    retention: str | dict[str, Any] = Field("accuracy", description="what makes users stay")
    attraction: str | dict[str, Any] | None = Field(
        None, description="what makes users come, where growth depends on it"
    )
    growth: Literal["arrive", "attract", "quadratic"] = Field(
        "arrive", description="how newcomers and those who stay become the next population"
    )
    points: Count = Field(101, description="thresholds per axis")
    epsilons: list[NonNegative] = Field(
        default_factory=lambda: [0.05, 0.2, 0.5], description="tolerances whose nearly fair decisions are followed"
    )
    candidates: Count = Field(20, description="nearly fair decisions followed per tolerance")
    steps: Count = Field(60, description="number of decisions")


@register("task", "participation-criterion")
class CriterionTask(ModelTask):
    """Find the decisions that a participation dynamics itself calls for, and follow nearly fair ones."""

    Spec = CriterionSpec
    Group = ParticipationGroup

    def fill(self, model: Any) -> dict[str, Any]:
        retention(model.retention)
        if model.attraction is not None:
            retention(model.attraction, "attraction")
        if len(model.groups) != 2 or model.grid:
            raise SpecError("a fair set is drawn for two groups, one at a time", path="groups", given=len(model.groups))
        return super().fill(model)

    def work(self, spec: dict[str, Any], block: dict[str, Any]) -> Part:
        system = model(
            spec["groups"],
            "none",
            spec["retention"],
            growth=spec["growth"],
            draw=spec["attraction"],
            check=spec["check"],
        )
        axes = [np.linspace(*system.people.reach(0, s), spec["points"]) for s in (0, 1)]
        found = fair_set(system, *axes)
        part: Part = {"first": axes[0], "second": axes[1], "deviation": found.deviation}
        for k in range(len(spec["epsilons"])):
            part[f"path{k}"] = self._path(spec, system, found, k)
        return part

    def _path(self, spec: dict[str, Any], system: Participation, found: FairSet, k: int) -> np.ndarray:
        rng = generator(spec["seed"], "candidates", k)
        pairs = found.sample(rng, spec["epsilons"][k], spec["candidates"])
        chosen = rng.integers(len(pairs), size=spec["steps"])
        led = Participation(**{**vars(system), "rule": lambda _people, t: pairs[chosen[t]][None]})
        return simulate(led, spec["steps"]).share[:, 0, 0]

    def finish(self, spec: dict[str, Any], parts: list[Part]) -> Outcome:
        part = parts[0]
        finite = np.where(np.isfinite(part["deviation"]), part["deviation"], 1e9)
        metrics = {
            "first": part["first"].tolist(),
            "second": part["second"].tolist(),
            "deviation": finite.tolist(),
            "best": float(finite.min()),
            "inside": {f"{e:g}": float((finite <= finite.min() + e).mean()) for e in spec["epsilons"]},
        }
        times = list(range(1, spec["steps"] + 1))
        series = {
            f"share_{epsilon:g}": {"x": times, "y": part[f"path{k}"].tolist()}
            for k, epsilon in enumerate(spec["epsilons"])
        }
        return Outcome(metrics, series, simulated=True)
