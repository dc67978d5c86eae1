"""The `participation` task: which groups stay when decisions repeat."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Literal

import numpy as np
from pydantic import Field

from fairveil.dynamics import assumptions
from fairveil.dynamics.instances import FeatureTable, GridResult, ModelSpec, ModelTask, SpecTable, expand
from fairveil.dynamics.participation.learned import LEARNERS, simulate_learned
from fairveil.dynamics.participation.limits import limit
from fairveil.dynamics.participation.model import DRIFTS, model, retention, simulate
from fairveil.errors import SpecError
from fairveil.fairness.notions import ParticipationRule, RateName
from fairveil.fields import Count, NonNegative, Positive
from fairveil.randomness import generator
from fairveil.registry import register
from fairveil.task import Outcome, Part

#: Points of the path that a single instance reports as series.
SHOWN = 1000


class ParticipationGroup(FeatureTable):
    """A group of the participation model: new users per step, label rate and features."""

    arrivals: Positive = Field(description="people who come in a step")


class Reshape(SpecTable):
    """Decisions that change people: ``composition`` moves label rates, ``effort`` moves features."""

    kind: Literal["composition", "effort"]
    pace: NonNegative = 0.1


class ParticipationSpec(ModelSpec):
    """Keys of a participation spec; see `retention` and `growth` for the models of staying and growing."""

    fairness: ParticipationRule = Field(
        "none", description="constraint on the two groups' thresholds; eqopt equalises the rate that `rate` names"
    )
    rate: RateName = Field(
        "fpr",
        description="what eqopt equalises: false-positive (fpr, as in the thesis) or true-positive rates (tpr)",
    )
    retention: str | dict[str, Any] = Field("accuracy", description="what makes users stay")
    attraction: str | dict[str, Any] | None = Field(
        None, description="what makes users come, where growth depends on it"
    )
    growth: Literal["arrive", "join", "attract", "quadratic"] = Field(
        "arrive", description="how newcomers and those who stay become the next population"
    )
    reshape: Reshape | None = Field(None, description="how decisions change people")
    follow_labels: bool = Field(False, description="whether label rates are recomputed from who stayed")
    decisions: Literal["optimal", "learned", "kernel"] = Field(
        "optimal", description="thresholds from the true distributions, or learned from the people who are there"
    )
    steps: Count = Field(100, description="number of decisions")


@register("task", "participation")
class ParticipationTask(ModelTask):
    """Shares of groups among the users in the long run, under repeated one-shot (fair) decisions."""

    Spec = ParticipationSpec
    Group = ParticipationGroup
    block = 500
    course = "share"
    long_run = frozenset({"limit", "limit_thresholds", "limit_residual"})

    def fill(self, model: Any) -> dict[str, Any]:
        if model.retention != "subgroup":
            retention(model.retention)
        if model.attraction is not None:
            retention(model.attraction, "attraction")
        if model.decisions != "optimal" and (model.grid or model.reshape or model.retention == "subgroup"):
            raise SpecError(
                "learned decisions follow one population with group retention and fixed features",
                path="decisions",
                given=model.decisions,
                fix="leave out grid, reshape and subgroup retention",
            )
        return super().fill(model)

    def blocks(self, spec: dict[str, Any]) -> list[dict[str, Any]]:
        if spec["decisions"] != "optimal":
            return [{"first": 0, "last": 1, "run": run} for run in range(spec["runs"])]
        return super().blocks(spec)

    def work(self, spec: dict[str, Any], block: dict[str, Any]) -> Part:
        instances = expand(spec, block["first"], block["last"])
        drift = spec["reshape"]
        system = model(
            [item["groups"] for item in instances],
            spec["fairness"],
            spec["retention"],
            spec["rate"],
            spec["growth"],
            spec["attraction"],
            DRIFTS[drift["kind"]](drift["pace"]) if drift else None,
            follow_labels=spec["follow_labels"],
            check=spec["check"],
        )
        if spec["decisions"] in LEARNERS:
            rng = generator(spec["seed"], "run", block["run"])
            history = simulate_learned(system, spec["steps"], rng, learn=LEARNERS[spec["decisions"]])
        else:
            history = simulate(system, spec["steps"])
        part: Part = {
            "share": history.share[-1],
            "thresholds": history.thresholds[-1],
            "loss": history.loss[-1],
            "numbers": history.numbers[-1],
            "monotone": _monotone(history.share[:, :, 0]),
            "violations": [item.where for item in assumptions.feature_violations(system.people)],
            "separated": system.people.each(assumptions.monotone_features, system.people.which),
        }
        if system.drift is None and not system.follow_labels and spec["decisions"] == "optimal":
            end = limit(system)
            part |= {"limit": end.share, "limit_thresholds": end.thresholds, "residual": end.residual}
        if not spec["grid"]:
            part["path"] = np.stack([history.share[:, 0], history.thresholds[:, 0], history.loss[:, 0]])
            part["average"] = history.average_loss[:, 0]
            part["path_numbers"] = history.numbers[:, 0]
        return part

    def finish(self, spec: dict[str, Any], parts: list[Part]) -> Outcome:
        if spec["decisions"] != "optimal":
            # Runs are repetitions of one instance: average what each of them measured.
            spread = np.std([part["share"][0] for part in parts], axis=0, ddof=min(1, len(parts) - 1))
            mean = {key: np.mean([part[key] for part in parts], axis=0) for key in parts[0] if key != "violations"}
            mean |= {"violations": parts[0]["violations"], "monotone": np.array([all(p["monotone"][0] for p in parts)])}
            outcome = self._joined(spec, [mean])
            outcome.metrics["share_std"] = dict(zip(spec["groups"], spread.tolist(), strict=True))
            return replace(outcome, simulated=True)
        return self._joined(spec, parts)

    def _joined(self, spec: dict[str, Any], parts: list[Part]) -> Outcome:
        joined = GridResult(spec, parts, apart=("violations", "path", "average", "path_numbers"))
        limited = "limit" in joined.found
        metrics: dict[str, Any] = {
            "share": joined.by_group("share"),
            # Without a stationary formula (moving features or labels) the last simulated share stands for the limit.
            "limit": joined.by_group("limit" if limited else "share"),
            "thresholds": joined.by_group("thresholds"),
            "loss": joined.by_group("loss"),
            "numbers": joined.by_group("numbers"),
            "monotone": joined.listed("monotone"),
            "assumptions": {**joined.assumptions, "monotone_features": joined.by_group("separated")},
        }
        if limited:
            metrics["limit_thresholds"] = joined.by_group("limit_thresholds")
            metrics["limit_residual"] = joined.listed("residual")
        return Outcome(metrics, _series(joined.names, parts[0]), simulated=False)


def _monotone(share: np.ndarray) -> np.ndarray:
    """Does the first group's share (steps, instances) move in one direction only?"""
    change = np.diff(share, axis=0)
    return np.asarray((change >= -1e-12).all(axis=0) | (change <= 1e-12).all(axis=0))


def _series(names: list[str], part: Part) -> dict[str, dict[str, list[float]]]:
    if "path" not in part:
        return {}
    steps = part["path"].shape[1]
    shown = np.unique(np.linspace(0, steps - 1, min(steps, SHOWN)).astype(int))
    times = (shown + 1).tolist()
    out = {"average_loss": {"x": times, "y": part["average"][shown].tolist()}}
    for s, name in enumerate(names):
        for row, what in enumerate(("share", "threshold", "loss")):
            out[f"{what}_{name}"] = {"x": times, "y": part["path"][row, shown, s].tolist()}
        out[f"numbers_{name}"] = {"x": times, "y": part["path_numbers"][shown, s].tolist()}
    return out
