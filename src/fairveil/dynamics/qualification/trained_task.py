"""The `qualification-trained` task: qualification rates when a classifier is retrained on real features."""

from __future__ import annotations

from typing import Any

import numpy as np
from pydantic import Field

from fairveil.dynamics.logistic import dataset
from fairveil.dynamics.qualification.trained import endings, response_table
from fairveil.errors import AssumptionError, SpecError
from fairveil.fields import Count, OpenUnit
from fairveil.registry import register
from fairveil.task import Outcome, Part, Task, TaskSpec


class TrainedSpec(TaskSpec):
    """Keys: a data set, cut-offs of the classifier's score, sets of transitions [[T00, T01], [T10, T11]]."""

    data: str = Field("compas", description="data set, or a generator")
    rows: Count | None = Field(None, description="rows to keep; all when left out")
    columns: list[str] | None = Field(None, description="features to train on; all when left out")
    cutoffs: list[OpenUnit] = Field(
        default_factory=lambda: [0.5], description="scores from which on people are accepted"
    )
    transitions: list[list[list[float]]] = Field(
        description="sets of chances to be qualified next, by label and decision"
    )
    points: Count = Field(41, description="label rates at which a classifier is trained; straight lines between")
    steps: Count = Field(400, description="number of decisions")
    resample: bool = Field(False, description="draw the training rows anew for every rate")
    check: bool = Field(True, description="refuse transitions that break an assumption")


@register("task", "qualification-trained")
class TrainedTask(Task):
    """Long-run label rates of a data set under a classifier that is retrained as the rate moves."""

    Spec = TrainedSpec

    def fill(self, model: TrainedSpec) -> dict[str, Any]:
        table = np.array(model.transitions, dtype=float) if model.transitions else np.empty(0)
        if table.ndim != 3 or table.shape[1:] != (2, 2):
            allowed = "a list of [[T00, T01], [T10, T11]]"
            raise SpecError("transitions are two by two", path="transitions", allowed=allowed)
        bad = np.flatnonzero(~((table > 0) & (table < 1)).all(axis=(1, 2)))
        if bad.size and model.check:
            raise AssumptionError(
                "the assumption 'transitions lie strictly between 0 and 1' does not hold",
                path=f"transitions.{bad[0]}",
                given=table[bad[0]].tolist(),
                fix="change the input, or pass check=False to go on without the guarantee (the result is then marked)",
            )
        return super().fill(model)

    def work(self, spec: dict[str, Any], block: dict[str, Any]) -> Part:
        from fairveil.randomness import generator

        data, real = dataset(spec["data"], spec["seed"], spec["rows"])
        columns = spec["columns"] or [name for name in data.features if name not in data.sensitive]  # type: ignore[attr-defined]
        features = data.encode(columns).matrix  # type: ignore[attr-defined]
        target = data.column(data.target).categories  # type: ignore[attr-defined]
        labels = (np.asarray(data[data.target]) == target[-1]).astype(float)  # type: ignore[index, attr-defined]
        rng = generator(spec["seed"], "resample") if spec["resample"] else None
        table = response_table(features, labels, tuple(spec["cutoffs"]), spec["points"], rng=rng)
        start = float(labels.mean())
        every = np.array(spec["transitions"])
        found = [endings(table, row, every, start, spec["steps"]) for row in range(len(spec["cutoffs"]))]
        return {
            "rate": np.array([item.rate for item in found]),
            "swing": np.array([item.swing for item in found]),
            "oscillates": np.array([item.oscillates for item in found]),
            "start": start,
            "real": real,
            "rates": table.rates,
            "chosen0": table.chosen0,
            "chosen1": table.chosen1,
        }

    def finish(self, spec: dict[str, Any], parts: list[Part]) -> Outcome:
        part = parts[0]
        names = [f"{cutoff:g}" for cutoff in spec["cutoffs"]]
        metrics: dict[str, Any] = {
            key: {name: part[key][row].tolist() for row, name in enumerate(names)}
            for key in ("rate", "swing", "oscillates")
        }
        metrics |= {"start": float(part["start"]), "real_data": bool(part["real"]), "checked": spec["check"]}
        series = {}
        for row, name in enumerate(names):
            for y in (0, 1):
                series[f"chosen{y}_{name}"] = {"x": part["rates"].tolist(), "y": part[f"chosen{y}"][row].tolist()}
        return Outcome(metrics, series, simulated=False)
