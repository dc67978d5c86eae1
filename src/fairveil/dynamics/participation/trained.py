"""The `participation-trained` task: shares of two groups of a data set under a retrained classifier on many features.

Groups stay as long as the classifier serves them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from pydantic import Field

from fairveil.dynamics.logistic import dataset, fit_logistic, scores
from fairveil.errors import SpecError
from fairveil.fairness.notions import CutoffsName
from fairveil.fields import Count, Positive
from fairveil.registry import register
from fairveil.task import Outcome, Part, Task, TaskSpec

CRITERIA = ("simple", "fpr", "fnr", "eqloss")
"""All of them, in the order of results: names that `fairveil.fairness.notions` calls ``cutoffs``."""


@dataclass(frozen=True)
class LossTable:
    """Losses of both groups (criteria, shares, 2) when the classifier is trained with the first group at each share."""

    shares: np.ndarray
    criteria: tuple[str, ...]
    loss: np.ndarray

    def at(self, row: int, share: float) -> np.ndarray:
        return np.array([np.interp(share, self.shares, self.loss[row, :, s]) for s in (0, 1)])


def loss_table(
    features: np.ndarray,
    labels: np.ndarray,
    group: np.ndarray,
    criteria: tuple[str, ...] = CRITERIA,
    points: int = 11,
    penalty: float = 1.0,
) -> LossTable:
    """Train at ``points`` shares of the first group (``group`` == 0) and tune cut-offs of the score per criterion.

    ``simple`` uses one cut-off of one half; ``fpr`` and ``fnr`` cut-offs with equal rates of that error; ``eqloss``
    equal error rates, the better group served as badly as the other one's best.
    """
    shares = np.linspace(0.02, 0.98, points)
    counts = np.array([(group == s).sum() for s in (0, 1)], dtype=float)
    loss = np.empty((len(criteria), points, 2))
    found: np.ndarray | None = None
    for k, share in enumerate(shares):
        each = np.array([share, 1.0 - share]) / counts
        found = fit_logistic(features, labels, each[group], penalty, found)
        score = scores(found, features)
        parts = [
            (np.sort(score[(group == s) & (labels == 0)]), np.sort(score[(group == s) & (labels == 1)])) for s in (0, 1)
        ]
        for row, criterion in enumerate(criteria):
            loss[row, k] = _tuned(parts, (share, 1.0 - share), criterion)
    return LossTable(shares, tuple(criteria), loss)


def _errors(parts: tuple[np.ndarray, np.ndarray], cutoff: np.ndarray) -> np.ndarray:
    low, high = parts
    wrong = len(low) - np.searchsorted(low, cutoff) + np.searchsorted(high, cutoff)
    return wrong / (len(low) + len(high))


def _tuned(
    parts: list[tuple[np.ndarray, np.ndarray]], weight: tuple[float, float], criterion: str, points: int = 2001
) -> list[float]:
    if criterion == "simple":
        return [float(_errors(part, np.array([0.5]))[0]) for part in parts]
    levels = np.linspace(0.0, 1.0, points)
    if criterion == "eqloss":
        least = [float(_errors(part, levels).min()) for part in parts]
        return [max(least)] * 2
    label = 0 if criterion == "fpr" else 1
    errors = [_errors(part, np.quantile(part[label], levels)) for part in parts]
    best = int(np.argmin(weight[0] * errors[0] + weight[1] * errors[1]))
    return [float(error[best]) for error in errors]


def shares_over_time(table: LossTable, row: int, steps: int, arrivals: tuple[float, float] = (1.0, 1.0)) -> np.ndarray:
    """Share of the first group (steps,) when users stay with the accuracy of their group."""
    now = np.array(arrivals, dtype=float)
    out = []
    for _ in range(steps):
        share = now[0] / now.sum()
        out.append(share)
        now = now * (1.0 - table.at(row, share)) + np.array(arrivals)
    return np.array(out)


class TrainedSpec(TaskSpec):
    """Keys: a data set, the column and value that make the first group (everybody else is the second), criteria."""

    data: str = Field("adult", description="data set, or a generator")
    rows: Count | None = Field(None, description="rows to keep; all when left out")
    column: str = Field(description="the column that makes the groups")
    value: str = Field(description="its value in the first group; everybody else is the second")
    criteria: list[CutoffsName] = Field(
        default_factory=lambda: list(CRITERIA), description="fairness criteria to train under"
    )
    arrivals: list[Positive] = Field(default_factory=lambda: [1.0, 1.0], description="new users of both groups a step")
    points: Count = Field(11, description="shares at which a classifier is trained; straight lines between")
    steps: Count = Field(60, description="number of decisions")


@register("task", "participation-trained")
class TrainedTask(Task):
    """Shares of two groups of a data set when users stay with the accuracy of a classifier retrained on them."""

    Spec = TrainedSpec

    def fill(self, model: TrainedSpec) -> dict[str, Any]:
        if len(model.arrivals) != 2:
            raise SpecError("there are two groups", path="arrivals", given=model.arrivals, allowed="two numbers")
        return super().fill(model)

    def work(self, spec: dict[str, Any], block: dict[str, Any]) -> Part:
        data, labels, real = dataset(spec["data"], spec["seed"], spec["rows"])
        features = data.encode([name for name in data.features if name != spec["column"]]).matrix
        group = (np.asarray(data[spec["column"]]) != spec["value"]).astype(int)
        if group.min() == group.max():
            allowed = ", ".join(map(str, data.column(spec["column"]).categories))
            raise SpecError("one of the two groups is empty", path="value", given=spec["value"], allowed=allowed)
        table = loss_table(features, labels, group, tuple(spec["criteria"]), spec["points"])
        first, second = spec["arrivals"]
        paths = [shares_over_time(table, row, spec["steps"], (first, second)) for row in range(len(spec["criteria"]))]
        return {"paths": np.array(paths), "loss": table.loss, "shares": table.shares, "real": real}

    def finish(self, spec: dict[str, Any], parts: list[Part]) -> Outcome:
        part = parts[0]
        times = list(range(1, spec["steps"] + 1))
        metrics: dict[str, Any] = {"share": {}, "loss": {}, "real_data": bool(part["real"])}
        series = {}
        for row, name in enumerate(spec["criteria"]):
            metrics["share"][name] = float(part["paths"][row, -1])
            last = [float(np.interp(part["paths"][row, -1], part["shares"], part["loss"][row, :, s])) for s in (0, 1)]
            metrics["loss"][name] = last
            series[f"share_{name}"] = {"x": times, "y": part["paths"][row].tolist()}
        return Outcome(metrics, series, simulated=False)
