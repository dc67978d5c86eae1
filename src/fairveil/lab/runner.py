"""`fairveil.run`: one spec in, one result out."""

from __future__ import annotations

import math
import resource
import sys
import time
from collections.abc import Mapping
from typing import Any

import numpy as np

from fairveil import registry
from fairveil._version import __version__
from fairveil.errors import SpecError, StoreError
from fairveil.lab.engines import Engine, make_engine
from fairveil.lab.progress import Progress, Silent
from fairveil.lab.store import Store
from fairveil.task import Part, Task

REPEATED_KEYS = ("spec", "guarantee", "metrics", "series")
"""The part of a result that a spec and a seed determine; `meta` says how the run went."""


def complete(spec: Mapping[str, Any]) -> dict[str, Any]:
    """Check a spec and fill in every default, without running anything."""
    if not isinstance(spec, Mapping):
        raise SpecError("a spec is a table", given=type(spec).__name__, allowed='{"task": ..., ...}')
    if "task" not in spec:
        raise SpecError("the spec names no task", path="task", allowed=", ".join(registry.names("task")))
    return task_of(spec).complete(dict(spec))


def task_of(spec: Mapping[str, Any]) -> Task:
    return registry.get("task", spec["task"], "task")()


def run(
    spec: Mapping[str, Any],
    *,
    engine: str | Engine = "serial",
    workers: int | None = None,
    store: Store | None = None,
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
    full = complete(spec)
    if store is not None and (known := store.get(full)) is not None:
        return known
    return _run_new(full, engine, workers, store, progress or Silent())


def _run_new(
    spec: dict[str, Any], engine: str | Engine, workers: int | None, store: Store | None, progress: Progress
) -> dict[str, Any]:
    task = task_of(spec)
    started = time.perf_counter()
    blocks = task.blocks(spec)
    parts: list[Part | None] = [store.get_part(spec, index) if store else None for index in range(len(blocks))]
    missing = [index for index, part in enumerate(parts) if part is None]
    progress.start(len(blocks), len(blocks) - len(missing))
    own_engine = isinstance(engine, str)
    workforce: Engine = make_engine(engine, workers) if isinstance(engine, str) else engine
    cpu = 0.0
    peak = 0.0
    try:
        for index, done in workforce.map(spec, [(index, blocks[index]) for index in missing]):
            parts[index] = done.part
            cpu += done.cpu_seconds
            peak = max(peak, done.peak_mb)
            if store is not None:
                store.put_part(spec, index, done.part)
            progress.advance()
    finally:
        if own_engine:
            workforce.close()
    before = time.process_time()
    outcome = task.finish(spec, [part for part in parts if part is not None])
    cpu += time.process_time() - before
    result = {
        "spec": spec,
        "guarantee": outcome.guarantee.to_dict() if outcome.guarantee is not None else None,
        "metrics": plain(outcome.metrics),
        "series": {name: _points(points) for name, points in outcome.series.items()},
        "meta": {
            "version": __version__,
            "seed": spec["seed"],
            "simulated": bool(outcome.simulated),
            "cpu_seconds": cpu,
            "wall_seconds": time.perf_counter() - started,
            "peak_mb": max(peak, peak_memory()),
        },
    }
    progress.finish()
    if store is not None:
        store.put(result)
    return result


def _points(points: Mapping[str, Any]) -> dict[str, list[float | None]]:
    """A series as lists of floats; a band that is absent has no keys."""
    kept = {key: plain(list(points[key])) for key in ("x", "y", "low", "high") if key in points and len(points[key]) > 0}
    return {key: [None if value is None else float(value) for value in values] for key, values in kept.items()}


def peak_memory() -> float:
    """Peak resident memory of this process in MB."""
    unit = 1024.0**2 if sys.platform == "darwin" else 1024.0
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / unit


def plain(value: Any, path: str = "") -> Any:
    """Plain Python values only, so that a result is JSON and equal results compare equal. Not-a-number becomes None."""
    if isinstance(value, Mapping):
        return {str(key): plain(item, f"{path}.{key}") for key, item in value.items()}
    if isinstance(value, np.ndarray):
        return plain(value.tolist(), path)
    if isinstance(value, list | tuple):
        return [plain(item, path) for item in value]
    if isinstance(value, np.generic):
        return plain(value.item(), path)
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if value is None or isinstance(value, bool | int | float | str):
        return value
    raise StoreError("a result holds something that is not plain data", path=path, given=type(value).__name__)
