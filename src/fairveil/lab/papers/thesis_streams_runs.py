"""Real-time release of sequential data: sequences, methods and budgets that the figures of the chapter share."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import ClassVar

import numpy as np

from fairveil.lab.artefact import Artefact, Chart, Line, Results, Spec, have
from fairveil.lab.papers.thesis_streams_claims import error
from fairveil.randomness import generator
from fairveil.streams.sequences import build_sequence, draw_sequence

DELTA = 1e-7
RUNS = {"quick": 2, "standard": 5, "paper": 10}
ORACLE = "weights, process variances and frequencies are chosen on the true error, as printed: this reads the data"
MATCHED = (
    "at equal variance T Laplace releases of scale b tend to mu = sqrt(T) D/b and Gaussians have sqrt(T) D/(b sqrt 2): "
    "the Gaussian is the more private in mu, and has no pure epsilon at all"
)
PROPOSED, OURS = "proposed (best weight)", "private-kalman (ours)"
FAST, DFT = "FAST (best process variance)", "DFT (best frequencies)"
METHODS = {
    "baseline-Laplace": {"name": "baseline-laplace"},
    "baseline-Normal": {"name": "baseline-gaussian"},
    PROPOSED: {"name": "predictive", "weight": "oracle"},
    FAST: {"name": "fast", "process_variance": "oracle"},
    DFT: {"name": "dft", "frequencies": "oracle"},
    OURS: {"name": "private-kalman"},
}
PURE = ("baseline-laplace", "fast", "dft", "ba", "bd")
LEVELS = (0.1, 0.3, 1.0, 3.0, 10.0)
"""Noise of figure 3.4 at equal variance, in standard deviations of the sequence."""
SEARCHED = (
    "FAST's estimates depend on the ratio of the two variances in its filter alone, so that where the process variance "
    "is searched for it does not matter which variance stands for the Laplace noise"
)


def sequences() -> dict[str, tuple[Spec, list[int]]]:
    """The recorded sequences and their public seasons; generated ones where the files are not there."""
    if not (have("bikeshare") and have("traffic")):
        return {
            "generated days": ({"name": "seasonal", "rows": 365, "periods": [7]}, [7]),
            "generated hours": ({"name": "seasonal", "rows": 2000}, [24, 168]),
        }
    return {
        "bike days 2011": ({"name": "bikeshare", "every": "day", "year": 2011}, [7]),
        "bike hours 2011": ({"name": "bikeshare", "year": 2011}, [24, 168]),
        "traffic": ({"name": "traffic"}, [24, 168]),
    }


def facts(table: Spec) -> tuple[int, float]:
    """Number of values and standard deviation of a sequence: what a level of noise is compared with."""
    values = draw_sequence(build_sequence(table), generator(0, "stream", "data", 0))
    present = values[~np.isnan(values)]
    return len(present), float(np.std(present))


def spec_of(method: Spec, budget: Spec, data: Spec, runs: int, seasons: list[int]) -> Spec:
    own = {"seasons": seasons} if method["name"] == "private-kalman" else {}
    return {"task": "stream", "releaser": {**method, **budget, **own}, "data": data, "runs": runs, "seed": 17}


def at_epsilon(method: Spec, epsilon: float) -> Spec:
    return {"epsilon": epsilon} if method["name"] in PURE else {"epsilon": epsilon, "delta": DELTA}


def at_level(method: Spec, steps: int, noise: float) -> Spec:
    """The budget at which the plain noise has this standard deviation (sensitivity 1)."""
    if method["name"] in PURE:
        return {"epsilon": math.sqrt(2.0) * steps / noise}
    return {"mu": math.sqrt(steps) / noise}


def curves(results: Results, title: str, methods: Iterable[str], cells: list[tuple[float, str]], x: str) -> Chart:
    """One curve a method over the cells; ours is dashed."""
    made = []
    for method in methods:
        points = [(at, error(results, f"{label} | {method}")[0]) for at, label in cells]
        x_values, y_values = (tuple(side) for side in zip(*points, strict=True))
        made.append(Line(method, x_values, y_values, dashed=method == OURS))
    return Chart(title, x, "relative error", tuple(made), log_x=True, log_y=True)


class StreamArtefact(Artefact):
    """Base of the figures of the chapter."""

    data: ClassVar[tuple[str, ...]] = ("bikeshare", "traffic")
