"""The `participation-criterion` task: which pairs of thresholds sustain two groups, and paths of such decisions."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from pydantic import Field

from fairveil.dynamics.instances import ModelSpec, ModelTask
from fairveil.dynamics.participation.criteria import FairSet, fair_set
from fairveil.dynamics.participation.model import Participation, model, simulate
from fairveil.dynamics.participation.retention import retention
from fairveil.dynamics.participation.task import ParticipationGroup
from fairveil.errors import SpecError
from fairveil.fields import Count, NonNegative
from fairveil.randomness import generator
from fairveil.registry import register
from fairveil.task import Outcome, Part


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
        axes = []
        for s in (0, 1):
            f0, f1 = system.people.feature(0, s, 0), system.people.feature(0, s, 1)
            axes.append(np.linspace(min(f0.reach[0], f1.reach[0]), max(f0.reach[1], f1.reach[1]), spec["points"]))
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
