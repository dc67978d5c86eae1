"""The `longterm` task: any learner inside the participation or the qualification dynamics."""

from __future__ import annotations

import dataclasses
from functools import partial
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import Field, ValidationError

from fairveil.classify.learner import Learner, Public
from fairveil.configuration import describe
from fairveil.dynamics.instances import SpecTable, SteppedSpec, checked_groups, dumped
from fairveil.dynamics.longterm.loop import Loop, Own, World, simulate
from fairveil.dynamics.participation.model import retention
from fairveil.errors import SpecError, at, spec_error
from fairveil.fields import NonNegative, OpenUnit, Probability
from fairveil.privacy.guarantee import Guarantee, Neighbours
from fairveil.privacy.noise import make_noise
from fairveil.randomness import generator
from fairveil.registry import build, register
from fairveil.task import Outcome, Part, Task, run_blocks

Chances = Annotated[list[list[Probability]], Field(min_length=2, max_length=2)]


class OwnTable(SpecTable):
    """Staying by one's own decision: with chance ``right`` after a right one, ``wrong`` after a wrong one."""

    driver: Literal["own"] = "own"
    right: Probability = 0.95
    wrong: Probability = 0.5


class LongtermGroup(SpecTable):
    """One group."""

    qualified: OpenUnit = Field(description="share of the group that is qualified, at the start")
    features: dict[str, list[Any]] = Field(description="distribution of the features of label 0 and of label 1")
    arrivals: Annotated[int, Field(ge=1, le=10**7)] | None = Field(None, description="people a step (participation)")
    share: NonNegative | None = Field(None, description="share of the people (qualification)")
    transitions: Chances | None = Field(
        None, description="its own chances to be qualified next, where groups differ (qualification)"
    )


class LongtermSpec(SteppedSpec):
    """Keys of a longterm spec. ``people`` is the size of the population in the qualification model.

    ``retention`` is written as in a participation spec, or ``own`` (a table with ``right`` and ``wrong``).
    """

    model: Literal["participation", "qualification"] = Field(
        "participation", description="what changes: who stays, or who is qualified"
    )
    learner: dict[str, Any] = Field(description="the classifier that is retrained: its name and parameters")
    groups: dict[str, Any] = Field(description="the groups, by name")
    retention: str | dict[str, Any] = Field("accuracy", description="what makes people stay (participation)")
    transitions: Chances | None = Field(
        None, description="chances to be qualified next, by label and decision (qualification)"
    )
    steps: Annotated[int, Field(ge=1, le=10_000)] = Field(20, description="number of retrainings")
    people: Annotated[int, Field(ge=1, le=10**7)] = Field(1000, description="size of the population (qualification)")
    persons: Literal["stay", "fresh"] = Field(
        "stay", description="whether people stay the same persons or are drawn anew (qualification)"
    )
    group_feature: bool = Field(False, description="whether the classifier sees the group")
    evaluation: Annotated[int, Field(ge=10, le=10**6)] = Field(2000, description="fresh people a group is measured on")


@register("task", "longterm")
class LongtermTask(Task):
    """What a learner, private or fair or neither, does to groups when it is retrained on who is left.

    Metrics (one number a step): ``share``, ``qualified``, ``loss``, ``accepted`` by group, ``epsilon_spent`` (of one
    person so far; null without a guarantee), ``parity_gap``, ``opportunity_gap``; means over runs with ``_std``.
    """

    Spec = LongtermSpec
    Group = LongtermGroup

    def fill(self, model: Any) -> dict[str, Any]:
        spec = dumped(model)
        spec["groups"] = _complete_groups(spec)
        spec["retention"] = _complete_retention(spec["retention"])
        loop = _loop(spec)
        rows = int(loop.arrivals.sum())
        most = rows * spec["steps"] if spec["model"] == "participation" else rows
        learner: Learner = build("learner", spec["learner"], "learner")
        _check_learner(learner, spec)
        learner = learner.with_public(Public(tuple(spec["groups"]), 1.0))
        try:
            spec["learner"] = describe(learner.planned(_fits(spec), rows, most))
        except SpecError as problem:
            raise at(problem, "learner") from None
        return spec

    def blocks(self, spec: dict[str, Any]) -> list[dict[str, Any]]:
        return run_blocks(spec["runs"], 1)

    def work(self, spec: dict[str, Any], block: dict[str, Any]) -> Part:
        loop = _loop(spec)
        learner: Learner = build("learner", spec["learner"], "learner")
        runs = []
        for run in range(block["first"], block["last"]):
            rng = generator(spec["seed"], "longterm", run)
            noise = make_noise(spec["noise"], spec["seed"], "longterm", run)
            history = simulate(loop, partial(learner.estimator, noise, rng), rng)
            runs.append(
                {
                    "share": history.share,
                    "qualified": history.qualified,
                    "loss": history.loss,
                    "accepted": history.accepted,
                    "people": history.people.astype(float),
                    "parity_gap": _gap(history.accepted),
                    "opportunity_gap": _gap(history.hits),
                }
            )
        return {name: np.stack([run[name] for run in runs]) for name in runs[0]}

    def finish(self, spec: dict[str, Any], parts: list[Part]) -> Outcome:
        joined = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
        names = list(spec["groups"])
        times = [float(step + 1) for step in range(spec["steps"])]
        metrics: dict[str, Any] = {}
        series: dict[str, dict[str, list[float]]] = {}
        for name, values in joined.items():
            mean, std = values.mean(axis=0), values.std(axis=0, ddof=min(1, len(values) - 1))
            reach = 1.96 * std / np.sqrt(len(values))
            if values.ndim == 2:
                metrics[name], metrics[f"{name}_std"] = mean.tolist(), std.tolist()
                series[name] = _line(times, mean, reach)
                continue
            metrics[name] = {group: mean[:, s].tolist() for s, group in enumerate(names)}
            metrics[f"{name}_std"] = {group: std[:, s].tolist() for s, group in enumerate(names)}
            for s, group in enumerate(names):
                series[f"{name}_{group}"] = _line(times, mean[:, s], reach[:, s])
        learner: Learner = build("learner", spec["learner"], "learner")
        metrics["epsilon_spent"] = _spent(spec, learner)
        noise = make_noise(spec["noise"], spec["seed"])
        return Outcome(metrics, series, _promise(spec, learner), simulated=noise.simulated)


def _check_learner(learner: Learner, spec: dict[str, Any]) -> None:
    if not learner.longterm:
        raise SpecError(
            "this learner does not run in the long-term loop", path="learner.name", given=learner.name,
            fix="use it in task classify; private-fair, fair-nr and threshold-optimizer run here",
        )  # fmt: skip
    if spec["group_feature"] and learner.blind:
        raise SpecError(
            "a blind rule would read the group as a feature", path="group_feature", given=True, allowed="false",
            fix='or use awareness="aware"',
        )  # fmt: skip


def _fits(spec: dict[str, Any]) -> int:
    """In how many retrainings one person can be."""
    return spec["steps"] if spec["persons"] == "stay" else 1


def _spent(spec: dict[str, Any], learner: Learner) -> list[float | None]:
    return [learner.spent(min(step + 1, _fits(spec))) for step in range(spec["steps"])]


def _promise(spec: dict[str, Any], learner: Learner) -> Guarantee | None:
    promise = learner.guarantee()
    if promise is None:
        return None
    raw = "the models are protected; the shares, rates and gaps in this result are counted on the people themselves"
    promise = dataclasses.replace(promise, notes=(*promise.notes, raw))
    if _fits(spec) == 1:
        return dataclasses.replace(promise, unit="one person, who is in exactly one retraining")
    sequence = promise.neighbours is Neighbours.REPLACE_ROW
    return dataclasses.replace(
        promise,
        unit=f"one person's whole history, in up to {spec['steps']} retrainings",
        neighbours=Neighbours.REPLACE_SEQUENCE if sequence else promise.neighbours,
    )


def _loop(spec: dict[str, Any]) -> Loop:
    groups = spec["groups"]
    world = World.of(groups, spec["group_feature"])
    table = None
    if spec["model"] == "participation":
        sizes = np.array([group["arrivals"] for group in groups.values()], np.int64)
    else:
        sizes = _sizes(np.array([group["share"] for group in groups.values()], float), spec["people"])
        table = np.array([group["transitions"] for group in groups.values()], float)
    stay = _retention(spec["retention"])
    return Loop(world, spec["model"], sizes, spec["steps"], spec["persons"], stay, table, spec["evaluation"])


def _retention(table: Any) -> Any:
    if isinstance(table, dict) and table.get("driver") == "own":
        return Own(table["right"], table["wrong"])
    return retention(table)


def _complete_retention(table: Any) -> Any:
    own = table == "own" or (isinstance(table, dict) and table.get("driver") == "own")
    if not own:
        retention(table)
        return table
    try:
        return OwnTable.model_validate({} if table == "own" else table).model_dump(mode="json")
    except ValidationError as problem:
        raise spec_error(problem, "retention", frozenset(OwnTable.model_fields)) from None


def _sizes(share: np.ndarray, people: int) -> np.ndarray:
    """Whole numbers of people by largest remainder, at least one a group."""
    exact = share / share.sum() * people
    sizes = np.floor(exact).astype(np.int64)
    for s in np.argsort(sizes - exact)[: people - int(sizes.sum())]:
        sizes[s] += 1
    return np.maximum(sizes, 1)


def _complete_groups(spec: dict[str, Any]) -> dict[str, Any]:
    full: dict[str, Any] = {}
    for name, path, group in checked_groups(spec["groups"], LongtermGroup, "longterm", "entry"):
        filled = group.model_dump(mode="json")
        if spec["model"] == "participation":
            if group.arrivals is None:
                raise SpecError("this key is required", path=f"{path}.arrivals", fix="say how many people come a step")
        else:
            filled["transitions"] = filled["transitions"] or spec["transitions"]
            filled["share"] = 1.0 if group.share is None else group.share
            _check_transitions(filled["transitions"], path)
        full[name] = filled
    if spec["model"] == "qualification" and sum(group["share"] for group in full.values()) <= 0:
        raise SpecError("shares must have a positive sum", path="groups")
    return full


def _check_transitions(table: Any, path: str) -> None:
    if table is None or any(len(row) != 2 for row in table):
        raise SpecError(
            "the qualification model needs transitions",
            path=f"{path}.transitions",
            given=table,
            allowed="[[T00, T01], [T10, T11]]: the chance to be qualified next, by state and decision",
        )


def _gap(rates: np.ndarray) -> np.ndarray:
    return rates.max(axis=1) - rates.min(axis=1)


def _line(times: list[float], mean: np.ndarray, reach: np.ndarray) -> dict[str, list[float]]:
    return {"x": times, "y": mean.tolist(), "low": (mean - reach).tolist(), "high": (mean + reach).tolist()}
