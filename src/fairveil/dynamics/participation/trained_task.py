"""The `participation-trained` task: shares of two groups of a data set under a retrained classifier."""

from __future__ import annotations

from typing import Any, Literal, get_args

import numpy as np
from pydantic import Field

from fairveil.dynamics.logistic import dataset
from fairveil.dynamics.participation.trained import loss_table, shares_over_time
from fairveil.errors import SpecError
from fairveil.fields import Count, Positive
from fairveil.registry import register
from fairveil.task import Outcome, Part, Task, TaskSpec

Criterion = Literal["simple", "fpr", "fnr", "eqloss"]


class TrainedSpec(TaskSpec):
    """Keys: a data set, the column and value that make the first group (everybody else is the second), criteria."""

    data: str = Field("adult", description="data set, or a generator")
    rows: Count | None = Field(None, description="rows to keep; all when left out")
    column: str = Field(description="the column that makes the groups")
    value: str = Field(description="its value in the first group; everybody else is the second")
    criteria: list[Criterion] = Field(
        default_factory=lambda: list(get_args(Criterion)), description="fairness criteria to train under"
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
        data: Any
        data, real = dataset(spec["data"], spec["seed"], spec["rows"])
        features = data.encode([name for name in data.features if name != spec["column"]]).matrix
        labels = (np.asarray(data[data.target]) == data.column(data.target).categories[-1]).astype(float)
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
