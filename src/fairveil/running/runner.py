"""`fairveil.run`: one spec in, one result out."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from fairveil import registry
from fairveil._version import __version__
from fairveil.errors import SpecError, StoreError
from fairveil.running.engines import Done, Engine, Job, make_engine, peak_memory
from fairveil.running.progress import Progress, Silent
from fairveil.running.store import ResultStore, spec_hash
from fairveil.task import Part, Task

REPEATED_KEYS = ("spec", "guarantee", "metrics", "series")
"""The part of a result that a spec and a seed determine; `meta` says how the run went."""


def complete(spec: Mapping[str, Any]) -> dict[str, Any]:
    """Check a spec and fill in every default, without running anything."""
    if not isinstance(spec, Mapping):
        raise SpecError("a spec is a table", given=type(spec).__name__, allowed='{"task": ..., ...}')
    if "task" not in spec:
        raise SpecError(
            "the spec names no task", path="task", allowed=", ".join(registry.names("task")), fix='task = "bandit", say'
        )
    return task_of(spec).complete(dict(spec))


def task_of(spec: Mapping[str, Any]) -> Task:
    return registry.get("task", spec["task"], "task")()


def run(
    spec: Mapping[str, Any],
    *,
    engine: str | Engine = "serial",
    workers: int | None = None,
    store: ResultStore | None = None,
    progress: Progress | None = None,
) -> dict[str, Any]:
    """Run a spec and return its result: ``spec``, ``guarantee``, ``metrics``, ``series``, ``meta``.

    The first four are the same for the same spec and seed on one machine, whatever the engine and number of workers
    (unless ``noise`` is ``secure``). With a store, finished results and finished blocks are reused.

    >>> import fairveil
    >>> result = fairveil.run({"task": "bandit", "rounds": 1000, "runs": 2, "seed": 1,
    ...     "policy": {"name": "adap-ucb", "epsilon": 1.0},
    ...     "environment": {"name": "bernoulli", "means": [0.2, 0.8]}})
    >>> result["guarantee"]["epsilon"], len(result["metrics"]["nash_regret"]) == len(result["spec"]["checkpoints"])
    (1.0, True)
    """
    return run_many({"": spec}, engine=engine, workers=workers, store=store, progress=progress)[""]


def run_many(
    specs: Mapping[str, Mapping[str, Any]],
    *,
    engine: str | Engine = "serial",
    workers: int | None = None,
    store: ResultStore | None = None,
    progress: Progress | None = None,
) -> dict[str, dict[str, Any]]:
    """Run several specs on one engine, their blocks side by side; equal specs run once. Results by label."""
    full = {label: complete(spec) for label, spec in specs.items()}
    sweep = _Sweep(full, store)
    bar = progress or Silent()
    bar.start(sweep.total, sweep.total - len(sweep.jobs))
    workforce = make_engine(engine, workers) if isinstance(engine, str) else engine
    try:
        for job, done in workforce.map(sweep.jobs):
            sweep.take(job, done)
            bar.advance()
    finally:
        if isinstance(engine, str):
            workforce.close()
    bar.finish()
    return {label: sweep.results[spec_hash(spec)] for label, spec in full.items()}


@dataclass
class _Open:
    """A spec whose blocks are not all done."""

    spec: dict[str, Any]
    parts: dict[int, Part]
    blocks: int
    started: float
    cpu: float = 0.0
    peak: float = 0.0


class _Sweep:
    """Which blocks of which specs are missing, and the results of the specs that are complete."""

    def __init__(self, specs: Mapping[str, dict[str, Any]], store: ResultStore | None) -> None:
        self.store = store
        self.results: dict[str, dict[str, Any]] = {}
        self.open: dict[str, _Open] = {}
        self.jobs: list[Job] = []
        self.total = 0
        for spec in {spec_hash(spec): spec for spec in specs.values()}.values():
            self._add(spec_hash(spec), spec)
        # First blocks compile: workers that start together should not compile the same code.
        self.jobs.sort(key=lambda job: job.index > 0)

    def _add(self, key: str, spec: dict[str, Any]) -> None:
        if self.store is not None and (known := self.store.get(spec)) is not None:
            self.results[key] = known
            return
        blocks = task_of(spec).blocks(spec)
        done = {i: self.store.get_part(spec, i) for i in range(len(blocks))} if self.store is not None else {}
        parts = {index: part for index, part in done.items() if part is not None}
        self.total += len(blocks)
        self.open[key] = _Open(spec, parts, len(blocks), time.perf_counter())
        self.jobs += [Job(key, index, spec, block) for index, block in enumerate(blocks) if index not in parts]
        if len(parts) == len(blocks):
            self._finish(key)

    def take(self, job: Job, done: Done) -> None:
        state = self.open[job.key]
        state.parts[job.index] = done.part
        state.cpu += done.cpu_seconds
        state.peak = max(state.peak, done.peak_mb)
        if len(state.parts) == state.blocks:
            self._finish(job.key)
        elif self.store is not None:
            self.store.put_part(job.spec, job.index, done.part)

    def _finish(self, key: str) -> None:
        state = self.open.pop(key)
        before = time.process_time()
        outcome = task_of(state.spec).finish(state.spec, [state.parts[index] for index in range(state.blocks)])
        result = {
            "spec": state.spec,
            "guarantee": outcome.guarantee.to_dict() if outcome.guarantee is not None else None,
            "metrics": plain(outcome.metrics),
            "series": {name: made for name, points in outcome.series.items() if (made := _points(name, points))},
            "meta": {
                "version": __version__,
                "seed": state.spec["seed"],
                "simulated": bool(outcome.simulated),
                **({"evaluation": True} if outcome.evaluation else {}),
                **({"notes": list(outcome.notes)} if outcome.notes else {}),
                "cpu_seconds": state.cpu + time.process_time() - before,
                "wall_seconds": time.perf_counter() - state.started,
                "peak_mb": max(state.peak, peak_memory()),
            },
        }
        if self.store is not None:
            self.store.put(result)
        self.results[key] = result


def _points(name: str, points: Mapping[str, Any]) -> dict[str, list[float | None]]:
    """A series as lists of floats; a band that is absent has no keys, and a series without points is none."""
    kept = {key: plain(list(points[key])) for key in ("x", "y", "low", "high") if key in points}
    lines = {key: [None if value is None else float(value) for value in values] for key, values in kept.items()}
    bands = ("low", "high")
    made = {key: line for key, line in lines.items() if key not in bands or any(v is not None for v in line)}
    lengths = {key: len(line) for key, line in made.items()}
    if not {"x", "y"} <= set(lengths) or len(set(lengths.values())) > 1:
        raise StoreError("a series needs x and y, and low and high of their length", path=name, given=lengths)
    return made if lengths["x"] else {}


def plain(value: Any, path: str = "") -> Any:
    """Plain Python values only, so that a result is JSON and equal results compare equal. Not-a-number becomes None."""
    if isinstance(value, np.generic):
        return plain(value.item(), path)
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, list | tuple):
        return [plain(item, path) for item in value]
    if isinstance(value, np.ndarray):
        return plain(value.tolist(), path)
    if isinstance(value, Mapping):
        return {str(key): plain(item, f"{path}.{key}") for key, item in value.items()}
    raise StoreError("a result holds something that is not plain data", path=path, given=type(value).__name__)
