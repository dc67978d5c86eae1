"""The `strategic` task: optimal thresholds when unqualified people may imitate qualified ones."""

from __future__ import annotations

from typing import Any

import numpy as np
from pydantic import Field

from fairveil.dynamics import assumptions
from fairveil.dynamics.distributions import distribution, pair
from fairveil.dynamics.instances import GroupTable, ModelSpec, ModelTask, Utility, expand, nest, shape_of
from fairveil.dynamics.population import Population, population
from fairveil.dynamics.strategic.scene import Scene, solve
from fairveil.dynamics.thresholds import free
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
            "peak": _peaks(people),
            "thresholds": policy.thresholds,
            "utility": policy.utility,
            "total": policy.total,
            "eqopt": policy.measures.rate(spec["rate"]),
            "dp": policy.measures.accepted,
            "manipulation": policy.manipulation,
            "rising": _rising(people),
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
        names, shape = list(spec["groups"]), shape_of(spec)
        keys = [key for key in parts[0] if key not in ("violations",) and not key[-1].isdigit()]
        joined = {key: np.concatenate([part[key] for part in parts]) for key in keys}

        def table(key: str) -> dict[str, Any]:
            return {name: nest(joined[key][:, s].tolist(), shape) for s, name in enumerate(names)}

        metrics: dict[str, Any] = {
            "thresholds": table("thresholds"),
            "utility": {**table("utility"), "total": nest(joined["total"].tolist(), shape)},
            "unfairness": {key: gaps(joined[key], names, shape) for key in ("eqopt", "dp")},
            "manipulation": table("manipulation"),
            "acceptance": table("dp"),
            "peak": table("peak"),
            "assumptions": {
                "checked": spec["check"],
                "violations": sorted({str(text) for part in parts for text in part["violations"]}),
                "rising_manipulation_gain": {
                    name: nest(joined["rising"][:, s].tolist(), shape) for s, name in enumerate(names)
                },
            },
        }
        series: dict[str, dict[str, list[float]]] = {}
        if not spec["grid"]:
            metrics["extreme_points"] = {name: parts[0][f"turns{s}"].tolist() for s, name in enumerate(names)}
            for s, name in enumerate(names):
                x, aware, naive = parts[0][f"curve{s}"].tolist()
                series[f"utility_{name}"] = {"x": x, "y": aware}
                series[f"naive_utility_{name}"] = {"x": x, "y": naive}
                series[f"manipulation_{name}"] = {"x": x, "y": parts[0][f"fraud{s}"].tolist()}
        return Outcome(metrics, series, simulated=False)


def gaps(rate: np.ndarray, names: list[str], shape: tuple[int, ...]) -> Any:
    """First group minus second; a table over all pairs when there are more than two, zero for one group."""
    if len(names) == 1:
        return nest([0.0] * len(rate), shape)
    if len(names) == 2:
        return nest((rate[:, 0] - rate[:, 1]).tolist(), shape)
    return {
        f"{first} - {second}": nest((rate[:, i] - rate[:, j]).tolist(), shape)
        for i, first in enumerate(names)
        for j, second in enumerate(names)
        if i < j
    }


def _peaks(people: Population) -> np.ndarray:
    """x* of every group: the threshold that invites most manipulation."""
    out = np.empty(people.share.shape)
    known: dict[tuple[int, int], float] = {}
    for k in range(people.size):
        for s in range(people.groups):
            key = (int(people.which[k, s, 0]), int(people.which[k, s, 1]))
            if key not in known:
                f0, f1 = (people.distributions[row] for row in key)
                known[key] = float(free(0.5, pair(f0, f1), 1.0, 1.0))
            out[k, s] = known[key]
    return out


def _rising(people: Population) -> np.ndarray:
    """Assumption 12 per instance and group; reported, not enforced."""
    out = np.empty(people.share.shape, dtype=bool)
    known: dict[tuple[int, int, int], bool] = {}
    for k in range(people.size):
        for s in range(people.groups):
            key = (int(people.which[k, s, 0]), int(people.which[k, s, 1]), int(people.cost[k, s]))
            if key not in known:
                f0, f1, cost = (people.distributions[row] for row in key)
                peak = free(0.5, pair(f0, f1), 1.0, 1.0)
                known[key] = assumptions.assumption_12(f0, f1, cost, float(f0.cdf(peak) - f1.cdf(peak)))
            out[k, s] = known[key]
    return out
