"""Fair private classification (Cummings, Gupta, Kimpara and Morgenstern 2019): what its artefacts share."""

from __future__ import annotations

import math
from typing import Any

from fairveil.lab.artefact import Line, Results, Scale, Spec, have

EPSILONS = (0.5, 1.0, 3.0)
PEOPLE = "Adult by sex where it is on this machine, else the generated stand-in"
SIZES: dict[str, tuple[int | None, int]] = {"quick": (8_000, 3), "standard": (None, 5), "paper": (None, 20)}
"""Rows (None: all) and runs by scale."""
OPPORTUNITY = "equal-opportunity"


def spec(learner: Spec, scale: Scale, sensitive: tuple[str, ...] = ("sex",), **more: Any) -> Spec:
    """One learner on the same people, split by the same seed."""
    rows, runs = SIZES[scale]
    name = "adult" if have("adult") else "synthetic-adult"
    if name == "synthetic-adult":
        rows = rows or 40_000
    data = {"name": name, "sensitive": list(sensitive), "rows": rows}
    return {"task": "classify", "learner": learner, "data": data, "runs": runs, "seed": 2019, **more}


def error_of(result: dict[str, Any], metric: str, key: str | None = None) -> tuple[float, float]:
    """A metric's mean and the standard error of that mean."""
    metrics = result["metrics"]
    value, spread = metrics[metric], metrics[f"{metric}_std"]
    if key is not None:
        value, spread = value[key], spread[key]
    return float(value), float(spread or 0.0) / math.sqrt(result["spec"]["runs"])


def points(results: Results, labels: list[str], x: list[float], metric: str, key: str | None, name: str) -> Line:
    found = [error_of(results[label], metric, key) for label in labels]
    return Line(
        name,
        tuple(x),
        tuple(value for value, _ in found),
        tuple(value - 1.96 * error for value, error in found),
        tuple(value + 1.96 * error for value, error in found),
    )
