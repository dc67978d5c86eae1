"""`fairveil.run`: one spec in, one result out."""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from fairveil._version import __version__
from fairveil.errors import StoreError
from fairveil.running.engines import Done, Engine, Job, SerialEngine, keep, make_engine, prepared, used
from fairveil.running.progress import Progress
from fairveil.running.store import ResultStore, spec_hash
from fairveil.task import Part, task_of

REPEATED_KEYS = ("spec", "guarantee", "metrics", "series")
"""The part of a result that a spec and a seed determine; `meta` says how the run went."""


_numbers = itertools.count()
"""Names of runs that nobody looks up again."""


def complete(spec: Mapping[str, Any]) -> dict[str, Any]:
    """Check a spec and fill in every default, without running anything."""
    return task_of(spec).complete(dict(spec))


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
    finished: Callable[[dict[str, dict[str, Any]]], None] | None = None,
) -> dict[str, dict[str, Any]]:
    """Run several specs on one engine, their blocks side by side; equal specs run once. Results by label.

    ``finished`` is called with all results that are there whenever there is one more.
    """
    sweep = _Sweep(store)
    # A hash is needed where equal specs are told apart, looked up in a store, or prepared again in another process.
    here = engine == "serial" or isinstance(engine, SerialEngine)
    hashed = store is not None or len(specs) > 1 or not here
    keys = {label: sweep.add(spec, hashed) for label, spec in specs.items()}
    # First blocks compile: workers that start together should not compile the same code.
    jobs = sorted(sweep.jobs, key=_late) if len(sweep.jobs) > 1 else sweep.jobs
    workforce = make_engine(engine, workers) if isinstance(engine, str) else engine
    if isinstance(progress, Progress):  # anything that starts, advances and finishes is told of blocks
        progress.watch(workforce.compiling)
    try:
        done = workforce.map(jobs)
        for job, made in done if progress is None else _told(done, progress, sweep.total, len(jobs)):
            if sweep.take(job, made) and finished is not None:
                finished({label: sweep.results[key] for label, key in keys.items() if key in sweep.results})
    finally:
        if isinstance(engine, str) and not here:
            workforce.close()
    return {label: sweep.results[key] for label, key in keys.items()}


def _told(done: Iterator[tuple[Job, Done]], bar: Progress, total: int, missing: int) -> Iterator[tuple[Job, Done]]:
    """Hand finished blocks through and tell about each."""
    bar.start(total, total - missing)
    for item in done:
        yield item
        bar.advance()
    bar.finish()


def _late(job: Job) -> bool:
    return job.index > 0


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

    def __init__(self, store: ResultStore | None) -> None:
        self.store = store
        self.results: dict[str, dict[str, Any]] = {}
        self.open: dict[str, _Open] = {}
        self.jobs: list[Job] = []
        self.total = 0

    def add(self, given: Mapping[str, Any], hashed: bool) -> str:
        """Prepare a spec and list its missing blocks; returns the key of its result."""
        task = task_of(given)
        spec, case = task.prepare(dict(given))
        key = spec_hash(spec) if hashed else f"run-{next(_numbers)}"
        if key in self.results or key in self.open:
            return key
        if self.store is not None and (known := self.store.get(spec, key)) is not None:
            self.results[key] = known
            return key
        keep(key, task, case)
        blocks = task.blocks(case)
        done = {i: self.store.get_part(spec, i, key) for i in range(len(blocks))} if self.store is not None else {}
        parts = {index: part for index, part in done.items() if part is not None}
        self.total += len(blocks)
        self.open[key] = _Open(spec, parts, len(blocks), time.perf_counter())
        self.jobs += [Job(key, index, spec, block) for index, block in enumerate(blocks) if index not in parts]
        if len(parts) == len(blocks):
            self._finish(key)
        return key

    def take(self, job: Job, done: Done) -> bool:
        """Keep a finished block; tells whether its spec is finished too."""
        state = self.open[job.key]
        state.parts[job.index] = done.part
        state.cpu += done.cpu_seconds
        state.peak = max(state.peak, done.peak_mb)
        if len(state.parts) == state.blocks:
            self._finish(job.key)
            return True
        if self.store is not None:
            self.store.put_part(job.spec, job.index, done.part, job.key)
        return False

    def _finish(self, key: str) -> None:
        state = self.open.pop(key)
        before, _ = used()
        task, case = prepared(key, state.spec, last=True)
        outcome = task.finish(case, [state.parts[index] for index in range(state.blocks)])
        after, peak = used()
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
                "cpu_seconds": state.cpu + after - before,
                "wall_seconds": time.perf_counter() - state.started,
                "peak_mb": max(state.peak, peak),
            },
        }
        if self.store is not None:
            self.store.put(result, key)
        self.results[key] = result


def _points(name: str, points: Mapping[str, Any]) -> dict[str, list[float | None]]:
    """A series as lists of floats; a band that is absent has no keys, and a series without points is none."""
    lines = {key: plain(list(points[key])) for key in ("x", "y", "low", "high") if key in points}
    made = {
        key: line if set(map(type, line)) == {float} else [None if value is None else float(value) for value in line]
        for key, line in lines.items()
        if key not in ("low", "high") or line.count(None) < len(line)
    }
    lengths = {key: len(line) for key, line in made.items()}
    if not {"x", "y"} <= set(lengths) or len(set(lengths.values())) > 1:
        raise StoreError("a series needs x and y, and low and high of their length", path=name, given=lengths)
    return made if lengths["x"] else {}


def plain(value: Any, path: str = "") -> Any:
    """Plain Python values only, so that a result is JSON and equal results compare equal. Not-a-number becomes None."""
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else None
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, np.generic):
        return plain(value.item(), path)
    if isinstance(value, list | tuple):
        if set(map(type, value)) == {float} and math.isfinite(sum(value)):
            return list(value)
        return [plain(item, path) for item in value]
    if isinstance(value, np.ndarray):
        return plain(value.tolist(), path)
    if isinstance(value, Mapping):
        return {str(key): plain(item, f"{path}.{key}") for key, item in value.items()}
    raise StoreError("a result holds something that is not plain data", path=path, given=type(value).__name__)
