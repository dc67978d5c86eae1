"""The `qualification-trained` task: qualification rates when a classifier is retrained on real features.

This is the COMPAS experiment, and any data set like it. People of the data are reweighted to the qualification rate of
the moment, the classifier is trained on them, and its error rates move the rate on. The classifier depends on the rate
alone, so its responses are tabulated once and every set of transitions is then a map of the interval.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from pydantic import Field

from fairveil.dynamics.logistic import dataset, fit_logistic, scores
from fairveil.errors import AssumptionError, SpecError
from fairveil.fields import Count, OpenUnit
from fairveil.randomness import Generator, generator
from fairveil.registry import register
from fairveil.task import Outcome, Part, Task, TaskSpec


@dataclass(frozen=True)
class ResponseTable:
    """Chances of decision 1 for labels 0 and 1 (thresholds, rates) when the classifier is trained at each rate."""

    rates: np.ndarray
    cutoffs: tuple[float, ...]
    chosen0: np.ndarray
    chosen1: np.ndarray

    def step(self, row: int, rate: np.ndarray, transitions: np.ndarray) -> np.ndarray:
        """Next rates for many transitions (k, 2, 2) at once, under the cut-off of one row."""
        d0 = np.interp(rate, self.rates, self.chosen0[row])
        d1 = np.interp(rate, self.rates, self.chosen1[row])
        gain = transitions[:, 0, 0] * (1.0 - d0) + transitions[:, 0, 1] * d0
        keep = transitions[:, 1, 0] * (1.0 - d1) + transitions[:, 1, 1] * d1
        return gain * (1.0 - rate) + keep * rate


def response_table(
    features: np.ndarray,
    labels: np.ndarray,
    cutoffs: tuple[float, ...] = (0.5,),
    points: int = 41,
    learner: Any = None,
    rng: Generator | None = None,
) -> ResponseTable:
    """Train at ``points`` rates between 0.02 and 0.98 and record what each cut-off decides.

    ``learner`` is any scikit-learn style classifier (fit with sample_weight, predict_proba); the default is our own
    logistic regression. With ``rng`` people are resampled to each rate instead of reweighted.
    """
    rates = np.linspace(0.02, 0.98, points)
    share = float(labels.mean())
    chosen = np.empty((2, len(cutoffs), points))
    found: np.ndarray | None = None
    for k, rate in enumerate(rates):
        weights = np.where(labels == 1, rate / share, (1.0 - rate) / (1.0 - share))
        rows = np.arange(len(labels))
        if rng is not None:
            rows = rng.choice(len(labels), size=len(labels), p=weights / weights.sum())
            weights = np.ones(len(labels))
        if learner is None:
            found = fit_logistic(features[rows], labels[rows], weights, start=found)
            score = scores(found, features[rows])
        else:
            score = learner.fit(features[rows], labels[rows], sample_weight=weights).predict_proba(features[rows])[:, 1]
        for y in (0, 1):
            mine = score[labels[rows] == y]
            chosen[y, :, k] = [(mine >= cutoff).mean() for cutoff in cutoffs]
    return ResponseTable(rates, tuple(cutoffs), chosen[0], chosen[1])


@dataclass(frozen=True)
class Ending:
    """Where each set of transitions ends: rate (mean over the last steps), swing and whether it oscillates."""

    rate: np.ndarray
    swing: np.ndarray
    oscillates: np.ndarray


def endings(table: ResponseTable, row: int, transitions: np.ndarray, start: float, steps: int = 400) -> Ending:
    """Iterate the map for many transitions (k, 2, 2); an oscillation is a swing that has not died out at the end."""
    now = np.full(len(transitions), float(start))
    tail = []
    for t in range(steps):
        now = table.step(row, now, transitions)
        if t >= steps - 32:
            tail.append(now)
    last = np.array(tail)
    swing = last.max(axis=0) - last.min(axis=0)
    return Ending(last.mean(axis=0), swing, swing > 1e-4)


def transition_grid(case: str, values: tuple[float, ...] = (0.1, 0.3, 0.5, 0.7, 0.9)) -> np.ndarray:
    """The 125 sets of a case: the larger chance of each state from ``values``, the smaller one k times it.

    >>> transition_grid("1a").shape
    (125, 2, 2)
    """
    out = []
    for first in values:
        for second in values:
            for k in values:
                rising = {"1a": (False, False), "1b": (True, True), "1c": (True, False), "1d": (False, True)}[case]
                pair = zip((first, second), rising, strict=True)
                out.append([[k * top, top] if up else [top, k * top] for top, up in pair])
    return np.array(out)


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
        data, labels, real = dataset(spec["data"], spec["seed"], spec["rows"])
        columns = spec["columns"] or [name for name in data.features if name not in data.sensitive]
        features = data.encode(columns).matrix
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
