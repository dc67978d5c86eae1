"""The `qualification` task: where qualification rates go when decisions repeat."""

from __future__ import annotations

from typing import Any

from pydantic import Field

from fairveil.dynamics import assumptions
from fairveil.dynamics.instances import GridResult, GroupTable, ModelSpec, ModelTask, Utility, expand, nest
from fairveil.dynamics.qualification.equilibria import constant_thresholds, long_run
from fairveil.dynamics.qualification.model import Qualification, common_condition, model, path
from fairveil.errors import SpecError
from fairveil.fairness.notions import QualificationRule, RateName
from fairveil.fields import Count
from fairveil.registry import register
from fairveil.task import Outcome, Part

#: Steps of the path that a single instance reports as a series.
SHOWN = 1000


class QualificationGroup(GroupTable):
    """A group of the qualification model; ``qualified`` is its rate at the start."""

    transitions: list[list[float]] = Field(
        description="chances to be qualified next: [[unqualified rejected, accepted], [qualified rejected, accepted]]"
    )


class QualificationSpec(ModelSpec):
    """Keys of a qualification spec. ``thresholds`` fixes them for good instead of optimising at every step."""

    utility: Utility = Field(default_factory=Utility, description="what right and wrong acceptances are worth")
    fairness: QualificationRule = Field("none", description="constraint on the two groups' thresholds")
    rate: RateName = Field("tpr", description="what eqopt equalises: true-positive (tpr) or false-positive rates (fpr)")
    steps: Count = Field(200, description="number of decisions")
    thresholds: dict[str, float] | None = Field(
        None, description="constant thresholds by group, instead of the best ones at every step"
    )


@register("task", "qualification")
class QualificationTask(ModelTask):
    """Qualification rates of groups under repeated optimal (fair) decisions.

    ``final`` are the rates after ``steps`` decisions; ``equilibrium``, and ``gap`` and ``thresholds`` there, the long
    run.
    """

    Spec = QualificationSpec
    Group = QualificationGroup
    block = 2500
    course = "qualified"
    long_run = frozenset(
        {"equilibrium", "gap", "thresholds", "oscillates", "period", "swing", "unique", "stable", "condition"}
    )

    def fill(self, model: Any) -> dict[str, Any]:
        if model.thresholds is not None and set(model.thresholds) != set(model.groups):
            raise SpecError(
                "constant thresholds need one number per group",
                path="thresholds",
                given=sorted(model.thresholds),
                allowed=", ".join(model.groups),
            )
        return super().fill(model)

    def check_group(self, group: Any, path: str) -> None:
        table = group.transitions
        if len(table) != 2 or any(len(row) != 2 for row in table):
            allowed = "[[T00, T01], [T10, T11]]: the chance to be qualified next, by state and decision"
            raise SpecError("transitions are two by two", path=f"{path}.transitions", given=table, allowed=allowed)

    def work(self, spec: dict[str, Any], block: dict[str, Any]) -> Part:
        system, violations = self._system(spec, block)
        found = long_run(system, spec["steps"])
        part: Part = {
            "equilibrium": found.equilibrium,
            "oscillates": found.settling.oscillates,
            "period": found.settling.period,
            "swing": found.settling.swing,
            "unique": found.unique,
            "stable": found.stable,
            "final": found.settling.after,
            "thresholds": system.thresholds(found.equilibrium),
            "condition": [common_condition(table) for table in system.transitions],
            "violations": violations,
        }
        if not spec["grid"]:
            part["path"] = path(system, min(spec["steps"], SHOWN))[:, 0]
        return part

    def _system(self, spec: dict[str, Any], block: dict[str, Any]) -> tuple[Qualification, list[str]]:
        instances = expand(spec, block["first"], block["last"])
        system = model(
            [item["groups"] for item in instances],
            [item["utility"] for item in instances],
            spec["fairness"],
            spec["rate"],
            check=spec["check"],
        )
        violations: list[str] = []
        if not spec["check"]:
            seen = assumptions.feature_violations(system.people)
            for table in system.transitions:
                seen += assumptions.transition_violations(system.people.names, table)
            violations = sorted({item.where for item in seen})
        if spec["thresholds"] is not None:
            fixed = [spec["thresholds"][name] for name in spec["groups"]]
            system = constant_thresholds(system, fixed)
        return system, violations

    def finish(self, spec: dict[str, Any], parts: list[Part]) -> Outcome:
        joined = GridResult(spec, parts, apart=("violations", "condition", "path"))
        metrics: dict[str, Any] = {
            "equilibrium": joined.by_group("equilibrium"),
            "gap": joined.gaps("equilibrium"),
            **{key: joined.listed(key) for key in ("oscillates", "unique", "stable", "period", "swing")},
            "final": joined.by_group("final"),
            "thresholds": joined.by_group("thresholds"),
            "condition": nest([str(kind) for part in parts for kind in part["condition"]], joined.shape),
            "assumptions": joined.assumptions,
        }
        series = {}
        if "path" in parts[0]:
            times = list(range(len(parts[0]["path"])))
            for s, name in enumerate(joined.names):
                series[f"qualified_{name}"] = {"x": times, "y": parts[0]["path"][:, s].tolist()}
        return Outcome(metrics, series, simulated=False)
