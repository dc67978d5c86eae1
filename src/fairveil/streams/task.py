"""The ``stream`` task: release a sequence privately, many times, and compare with the truth. An experiment."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from pydantic import Field

from fairveil import registry
from fairveil.arrays import Floats
from fairveil.configuration import describe, field_names
from fairveil.data.series import Ar1
from fairveil.errors import SpecError
from fairveil.privacy.noise import Noise, make_noise
from fairveil.randomness import generator
from fairveil.registry import register
from fairveil.streams.protocol import MISSING, Releaser
from fairveil.streams.releasers.predictive import WEIGHTS, Predictive
from fairveil.streams.sequences import build_sequence, draw_sequence
from fairveil.task import Outcome, Part, Task, TaskSpec, run_blocks

POINTS = 2_000
"""Points of a series."""
BLOCK = 5
ORACLES = ("weight", "process_variance", "frequencies")
"""Keys that may be ``oracle``: chosen on the true error, in experiments only."""
EXPERIMENT = "metrics and true series compare with raw data: an experiment, nothing to publish"
ORACLE = "an oracle chose a parameter on the true error: not private"


class StreamSpec(TaskSpec):
    """Keys of a stream spec."""

    releaser: dict[str, Any] = Field(description="the releaser: its name and parameters")
    data: dict[str, Any] = Field(description="the sequence: its name and parameters")


@register("task", "stream")
class StreamTask(Task):
    """Release a sequence with a releaser and measure error, coverage and what was spent.

    ``releaser`` names one (`fairveil list releaser`), ``data`` a sequence or a generator. The horizon is the number of
    present values unless it is given. Data and noise come from the seed and the run alone, so equal seeds are paired.
    """

    Spec = StreamSpec

    def fill(self, model: StreamSpec) -> dict[str, Any]:
        source = build_sequence(model.data)
        full = model.model_dump(mode="json")
        full["data"] = describe(source)
        table = dict(model.releaser)
        target = registry.get("releaser", table.get("name", ""), "releaser.name")
        endless = table.get("unit", "sequence") != "sequence" or table.get("schedule", "even") != "even"
        if "horizon" in field_names(target) and "horizon" not in table and not endless:
            values = draw_sequence(source, generator(model.seed, "stream", "data", 0))
            table["horizon"] = int((~np.isnan(values)).sum())
            if table["horizon"] == 0:
                raise SpecError("the sequence has no value", path="data", allowed="at least one")
        full["releaser"] = describe(registry.build("releaser", table, "releaser"))
        return full

    def blocks(self, spec: dict[str, Any]) -> list[dict[str, Any]]:
        return list(run_blocks(spec["runs"], BLOCK))

    def work(self, spec: dict[str, Any], block: dict[str, Any]) -> Part:
        source = build_sequence(spec["data"])
        parts: dict[str, list[Any]] = {}
        for run in range(block["first"], block["last"]):
            values = draw_sequence(source, generator(spec["seed"], "stream", "data", run))
            for place, releaser in enumerate(candidates(spec["releaser"], values)):
                noise = make_noise(spec["noise"], spec["seed"], "stream", run)
                shown = release_all(releaser, values, noise)
                with np.errstate(over="ignore", invalid="ignore"):
                    found = measure(values, *shown)
                for name, value in found.items():
                    parts.setdefault(f"{place}/{name}", []).append(value)
                if run == 0:
                    parts[f"{place}/series"] = [np.stack([values, *shown[:4]])]
        return {name: np.array(found) for name, found in parts.items()}

    def finish(self, spec: dict[str, Any], parts: list[Part]) -> Outcome:
        values = draw_sequence(build_sequence(spec["data"]), generator(spec["seed"], "stream", "data", 0))
        found = candidates(spec["releaser"], values)
        joined = {name: np.concatenate([part[name] for part in parts if name in part]) for name in parts[0]}
        errors = [float(np.mean(joined[f"{place}/square"])) for place in range(len(found))]
        best = int(np.argmin(errors))
        releaser = found[best]
        own = {name.split("/")[1]: values for name, values in joined.items() if name.startswith(f"{best}/")}
        with np.errstate(over="ignore", invalid="ignore"):  # values whose squares are no numbers have no error
            metrics = _metrics(own)
        metrics |= _facts(releaser, spec, int(own["releases"][0]))
        guarantee = releaser.guarantee()
        if len(found) > 1:
            metrics["oracle"] = {
                key: describe(releaser)[key] for key in ORACLES if spec["releaser"].get(key) == "oracle"
            }
            guarantee = replace(guarantee, established=False, notes=(ORACLE, *guarantee.notes))
        return Outcome(metrics, _series(own["series"][0]), guarantee, spec["noise"] != "secure")


def candidates(table: dict[str, Any], values: Floats) -> list[Releaser]:
    """The releaser, or all that an ``oracle`` chooses from, with the data in hand."""
    wanted = [key for key in ORACLES if table.get(key) == "oracle"]
    if not wanted:
        return [registry.build("releaser", table, "releaser")]
    key = wanted[0]
    present = values[~np.isnan(values)]
    if key == "weight":
        choices: list[Any] = list(WEIGHTS)
    elif key == "process_variance":
        choices = [float(np.var(present) * 10**power) + 1e-300 for power in np.arange(-6.0, 1.1, 0.5)]
    else:
        longest = min(len(present), int(table.get("delay") or len(present))) // 2 + 1
        choices = sorted({max(1, round(x)) for x in np.geomspace(1, longest, 25)})
    return [registry.build("releaser", {**table, key: choice}, "releaser") for choice in choices]


def release_all(releaser: Releaser, values: Floats, noise: Noise) -> Floats:
    """value, low, high, plain of every step, and whether something was released there, a row each."""
    state = releaser.start()
    track = releaser.advance(state, values, noise)
    shown = np.full((5, len(values)), np.nan)
    kept = track.step >= 0
    rows = np.stack([track.value, track.low, track.high, track.plain, (track.status != MISSING).astype(float)])
    shown[:, track.step[kept]] = rows[:, kept]
    for late in releaser.finish(state):
        shown[:, late.step] = late.value, late.low, late.high, late.plain, float(late.status == "released")
    return shown


def measure(z: Floats, value: Floats, low: Floats, high: Floats, plain: Floats, used: Floats) -> dict[str, float]:
    """Errors of one run over the steps that have a true value."""
    known = ~np.isnan(z) & ~np.isnan(value)
    error = (value - z)[known]
    noisy = (plain - z)[known & ~np.isnan(plain)]
    inside = (low[known] <= z[known]) & (z[known] <= high[known])
    largest = float(np.abs(z[~np.isnan(z)]).max())
    return {
        "square": float(np.mean(error**2)),
        "relative_error": float(np.linalg.norm(error) / (len(error) * largest)) if largest > 0 else np.nan,
        "mae": float(np.mean(np.abs(error))),
        "bias": float(np.mean(error)),
        "coverage": float(np.mean(inside)),
        "interval_width": float(np.mean((high - low)[known])),
        "plain_square": float(np.mean(noisy**2)) if len(noisy) else np.nan,
        "releases": float(np.nansum(used)),
        "publications": float(len(noisy)),
        "steps": float(len(z)),
    }


def _metrics(own: dict[str, Any]) -> dict[str, Any]:
    """Means over runs, and standard deviations where they vary."""
    made: dict[str, Any] = {}
    for name, values in own.items():
        if name == "series":
            continue
        if name in ("square", "plain_square"):
            name, values = {"square": "rmse", "plain_square": "plain_rmse"}[name], np.sqrt(values)
            made[name] = float(np.sqrt(np.mean(values**2)))
        else:
            made[name] = float(np.mean(values))
        if len(values) > 1 and np.ptp(values) > 0:
            made[f"{name}_std"] = float(np.std(values, ddof=1))
    return made


def _facts(releaser: Releaser, spec: dict[str, Any], releases: int) -> dict[str, Any]:
    """What was known beforehand."""
    promise = releaser.guarantee()
    made: dict[str, Any] = {
        "noise_std": releaser.noise_std_at(max(0, releases - 1)),
        "delay": releaser.behind,
        "spent": promise.numbers,
        "note": EXPERIMENT,
    }
    source = build_sequence(spec["data"])
    if isinstance(releaser, Predictive) and releaser.known is not None and isinstance(source, Ar1):
        exact, printed = releaser.expected_error(source.std, source.correlation)
        made |= {"expected_rmse": exact, "theorem10_rmse": printed}
    return made


def _series(rows: Floats) -> dict[str, dict[str, list[float]]]:
    """Run 0, thinned: what was shown with its interval, the plain release, the truth, the error."""
    z, value, low, high, plain = rows
    stride = -(-len(z) // POINTS)
    step = np.arange(len(z))[::stride]

    def points(values: Floats) -> dict[str, list[float]]:
        return {"x": step.tolist(), "y": values[::stride].tolist()}

    released = {**points(value), "low": low[::stride].tolist(), "high": high[::stride].tolist()}
    return {"released": released, "plain": points(plain), "true": points(z), "error": points(value - z)}
