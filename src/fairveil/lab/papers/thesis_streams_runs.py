"""Real-time release of sequential data: what the figures of the chapter share.

Sequences, methods and budgets, and comparisons of methods over the cells of a figure, with their bands.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import replace
from typing import ClassVar

import numpy as np

from fairveil.lab.artefact import Artefact, Chart, Claim, Line, Results, Spec, have, last
from fairveil.randomness import generator
from fairveil.streams.sequences import build_sequence, draw_sequence

Pairs = list[tuple[str, str]]


def error(results: Results, label: str) -> tuple[float, float]:
    """Relative error and the standard error of its mean."""
    return last(results[label], "relative_error")


def _leads(results: Results, pairs: Iterable[tuple[str, str]]) -> list[Claim]:
    """For each pair, the log ratio of the second's error to the first's, with its band."""
    found = []
    for low, high in pairs:
        (a, da), (b, db) = error(results, low), error(results, high)
        found.append(Claim.around(low, "", math.log(b / a), 1.96 * math.hypot(da / a, db / b)))
    return found


def _won(leads: list[Claim]) -> str:
    least = min(lead.margin for lead in leads)
    return f"in {sum(lead.margin > 0 for lead in leads)} of {len(leads)} cells; worst ratio {math.exp(-least):.3g}"


def smaller(results: Results, text: str, where: str, pairs: Iterable[tuple[str, str]], note: str = "") -> Claim:
    """'The first of each pair is below the second': on average over the cells, and clearly above it in none.

    One cell whose band lies on the other side refutes it; bands are widened for the number of cells (Bonferroni).
    """
    pairs = list(pairs)
    worst = Claim.every(text, where, _leads(results, pairs), f"{_won(_leads(results, pairs))}. {note}".strip())
    found = worst if worst.high < 0 else generally(results, text, where, pairs, note)
    return replace(found, refuted_by="one cell on the other side, beyond its band")


def generally(results: Results, text: str, where: str, pairs: Iterable[tuple[str, str]], note: str = "") -> Claim:
    """'The first of each pair is generally below the second': mean log ratio over the cells, with its band."""
    leads = _leads(results, pairs)
    margin = float(np.mean([lead.margin for lead in leads]))
    reach = math.sqrt(sum((lead.high - lead.margin) ** 2 for lead in leads)) / len(leads)
    return Claim.around(text, where, margin, reach, f"{_won(leads)}. {note}".strip())


def larger_lead(results: Results, text: str, where: str, here: Pairs, there: Pairs) -> Claim:
    """'The first of a pair is ahead by more here than there': the difference of mean log ratios, with its band."""
    first, second = (generally(results, text, where, pairs) for pairs in (here, there))
    margin, reach = first.margin - second.margin, math.hypot(first.high - first.margin, second.high - second.margin)
    note = f"mean ratio to the other {math.exp(-first.margin):.3g} here, {math.exp(-second.margin):.3g} there"
    return Claim.around(text, where, margin, reach, note)


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
