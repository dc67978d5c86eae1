"""The `strategic` task: optimal thresholds when unqualified people may imitate qualified ones."""

from __future__ import annotations

from typing import Any

import numpy as np
from pydantic import Field

from fairveil.dynamics import assumptions
from fairveil.dynamics.distributions import Distribution, distribution
from fairveil.dynamics.instances import GridResult, GroupTable, ModelSpec, ModelTask, Utility, expand
from fairveil.dynamics.population import population
from fairveil.dynamics.strategic.scene import Scene, peak, solve
from fairveil.errors import SpecError
from fairveil.fairness.notions import RateName, StrategicRule
from fairveil.registry import register
from fairveil.task import Outcome, Part

#: Points of the curves that a single instance reports as series.
CURVE = 301


class StrategicGroup(GroupTable):
    """A group of the strategic model: features and the cost of manipulating them (on [0, infinity))."""

    cost: list[Any] = Field(description="distribution of what it costs to move a feature by one")


class StrategicSpec(ModelSpec):
    """Keys of a strategic spec. ``rate`` is what ``eqopt`` equalises; ``points`` the thresholds scanned per group."""

    utility: Utility = Field(default_factory=Utility, description="what right and wrong acceptances are worth")
    fairness: StrategicRule = Field("none", description="constraint on the two groups' thresholds")
    strategic: bool = Field(True, description="whether the decision maker expects manipulation")
    rate: RateName = Field("tpr", description="what eqopt equalises: true-positive (tpr) or false-positive rates (fpr)")
    points: int = Field(default=4096, ge=256, le=10**6, description="thresholds scanned per group")


@register("task", "strategic")
class StrategicTask(ModelTask):
    """Optimal thresholds under strategic manipulation, with or without anticipation, with or without equal rates."""

    Spec = StrategicSpec
    Group = StrategicGroup
    block = 500

    def check_group(self, group: Any, path: str) -> None:
        cost = distribution(group.cost, f"{path}.cost")
        if cost.support[0] < 0.0:
            raise SpecError(
                "a manipulation cost cannot be negative",
                path=f"{path}.cost",
                given=group.cost,
                allowed="a distribution on [0, infinity), such as a beta or a uniform from 0",
            )

    def work(self, spec: dict[str, Any], block: dict[str, Any]) -> Part:
        instances = expand(spec, block["first"], block["last"])
        people = population([item["groups"] for item in instances], [item["utility"] for item in instances])
        found = assumptions.feature_violations(people)
        if found and spec["check"]:
            raise found[0].error(f"groups.{found[0].group}.features")
        if found:
            people = assumptions.searched(people)
        policy = solve(people, spec["fairness"], spec["strategic"], spec["rate"], spec["points"])
        part: Part = {} if spec["grid"] else self._curves(instances[0])
        return part | {
            "peak": people.each(peak, people.which),
            "thresholds": policy.thresholds,
            "utility": policy.utility,
            "total": policy.total,
            "eqopt": policy.measures.rate(spec["rate"]),
            "dp": policy.measures.accepted,
            "manipulation": policy.manipulation,
            "rising": people.each(_rising, np.concatenate([people.which, people.cost[:, :, None]], axis=2)),
            "violations": [item.where for item in found],
        }

    def _curves(self, instance: dict[str, Any]) -> Part:
        """Utility, its extreme points and manipulation along the threshold, for one instance."""
        scene = Scene(instance["groups"], **instance["utility"])
        part: Part = {}
        for s in range(scene.people.groups):
            low, high = scene.window(s)
            x = np.linspace(low, high, CURVE)
            part[f"curve{s}"] = np.array(
                [x, [scene.utility(s, at) for at in x], [scene.utility(s, at, aware=False) for at in x]]
            )
            part[f"fraud{s}"] = np.array([scene.manipulation(s, at) for at in x])
            part[f"turns{s}"] = np.array(scene.turning_points(s)).reshape(-1, 2)
        return part

    def finish(self, spec: dict[str, Any], parts: list[Part]) -> Outcome:
        curves = tuple(key for key in parts[0] if key[-1].isdigit())
        joined = GridResult(spec, parts, apart=("violations", *curves))
        metrics: dict[str, Any] = {
            "thresholds": joined.by_group("thresholds"),
            "utility": {**joined.by_group("utility"), "total": joined.listed("total")},
            "unfairness": {key: joined.gaps(key) for key in ("eqopt", "dp")},
            "manipulation": joined.by_group("manipulation"),
            "acceptance": joined.by_group("dp"),
            "peak": joined.by_group("peak"),
            "assumptions": {**joined.assumptions, "rising_manipulation_gain": joined.by_group("rising")},
        }
        series: dict[str, dict[str, list[float]]] = {}
        if not spec["grid"]:
            names = joined.names
            metrics["extreme_points"] = {name: parts[0][f"turns{s}"].tolist() for s, name in enumerate(names)}
            for s, name in enumerate(names):
                x, aware, naive = parts[0][f"curve{s}"].tolist()
                series[f"utility_{name}"] = {"x": x, "y": aware}
                series[f"naive_utility_{name}"] = {"x": x, "y": naive}
                series[f"manipulation_{name}"] = {"x": x, "y": parts[0][f"fraud{s}"].tolist()}
        return Outcome(metrics, series, simulated=False)


def _rising(f0: Distribution, f1: Distribution, cost: Distribution) -> bool:
    """Assumption 12; reported, not enforced."""
    top = peak(f0, f1)
    return assumptions.assumption_12(f0, f1, cost, float(f0.cdf(top) - f1.cdf(top)))
