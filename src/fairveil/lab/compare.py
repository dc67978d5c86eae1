"""Comparing runs: a table, a plot with bands, a Pareto front of regret against epsilon, a test of each difference."""

from __future__ import annotations

import copy
import itertools
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from scipy.stats import norm

from fairveil.errors import SpecError
from fairveil.lab.artefact import Chart, Line, Table, line


@dataclass(frozen=True)
class Difference:
    """A metric of one run minus that of the reference, with a two-sided test on the standard errors over runs."""

    name: str
    value: float
    difference: float
    low: float
    high: float
    p_value: float


def grid(spec: Mapping[str, Any], parameters: Mapping[str, list[Any]]) -> dict[str, dict[str, Any]]:
    """One spec per combination of values; keys are dotted paths into the spec.

    >>> sorted(grid({"policy": {"name": "p"}}, {"policy.epsilon": [1, 2]}))
    ['policy.epsilon=1', 'policy.epsilon=2']
    """
    specs: dict[str, dict[str, Any]] = {}
    for values in itertools.product(*parameters.values()):
        made = copy.deepcopy(dict(spec))
        for path, value in zip(parameters, values):
            _put(made, path, value)
        specs[", ".join(f"{path}={value}" for path, value in zip(parameters, values))] = made
    return specs


def _put(spec: dict[str, Any], path: str, value: Any) -> None:
    *parents, key = path.split(".")
    place = spec
    for parent in parents:
        place = place.setdefault(parent, {})
        if not isinstance(place, dict):
            raise SpecError("a grid path must lead through tables", path=path, given=parent)
    place[key] = value


def shared_metrics(results: Mapping[str, dict[str, Any]]) -> list[str]:
    """Metrics with a number at the end that all results have."""
    common = set.intersection(*[set(result["metrics"]) for result in results.values()])
    return sorted(
        name
        for name in common
        if not name.endswith("_std") and all(_number(r, name) is not None for r in results.values())
    )


def _number(result: dict[str, Any], metric: str) -> float | None:
    value = result["metrics"].get(metric)
    if isinstance(value, list):
        value = value[-1] if value else None
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def _error(result: dict[str, Any], metric: str) -> float:
    spread = result["metrics"].get(f"{metric}_std", 0.0)
    spread = spread[-1] if isinstance(spread, list) and spread else spread
    return float(spread or 0.0) / math.sqrt(result["spec"]["runs"])


def differences(results: Mapping[str, dict[str, Any]], metric: str) -> list[Difference]:
    """Each run against the first."""
    names = list(results)
    reference = results[names[0]]
    base, base_error = _number(reference, metric), _error(reference, metric)
    if base is None:
        known = ", ".join(shared_metrics(results))
        raise SpecError("the runs do not share this metric", path="metric", given=metric, allowed=known)
    found = []
    for name in names:
        value = _number(results[name], metric)
        if value is None:
            continue
        gap, error = value - base, math.hypot(_error(results[name], metric), base_error)
        if name == names[0]:
            found.append(Difference(name, value, 0.0, 0.0, 0.0, 1.0))
            continue
        p_value = 2 * float(norm.sf(abs(gap) / error)) if error > 0 else float(gap == 0)
        found.append(Difference(name, value, gap, gap - 1.96 * error, gap + 1.96 * error, p_value))
    return found


def difference_table(results: Mapping[str, dict[str, Any]], metric: str) -> Table:
    rows = tuple(
        (d.name, d.value, _epsilon(results[d.name]), d.difference, f"[{d.low:.4g}, {d.high:.4g}]", d.p_value)
        for d in differences(results, metric)
    )
    columns = ("run", metric, "epsilon", "minus the first", "95 % band", "p")
    return Table(f"{metric} at the last checkpoint", columns, rows)


def _epsilon(result: dict[str, Any]) -> float | None:
    promise = result["guarantee"]
    return promise["epsilon"] if promise is not None and promise["established"] else None


def pareto_front(results: Mapping[str, dict[str, Any]], metric: str) -> list[str]:
    """Runs that no other run beats in both epsilon and the metric (smaller is better in both)."""
    points = {
        name: (epsilon, value)
        for name, result in results.items()
        if (epsilon := _epsilon(result)) is not None and (value := _number(result, metric)) is not None
    }
    return [
        name
        for name, (eps, value) in points.items()
        if not any(e <= eps and v <= value and (e, v) != (eps, value) for e, v in points.values())
    ]


def charts(results: Mapping[str, dict[str, Any]], metric: str) -> list[Chart]:
    """The metric along the run with bands, and the Pareto front where runs carry guarantees."""
    drawn = []
    curves = [line(name, result, metric) for name, result in results.items() if metric in result["series"]]
    if curves:
        drawn.append(Chart(metric.replace("_", " "), "round", metric, tuple(curves), log_x=True))
    front = set(pareto_front(results, metric))
    points = [
        Line(f"{name}{' (front)' if name in front else ''}", (_epsilon(result),), (value,))
        for name, result in results.items()
        if _epsilon(result) is not None and (value := _number(result, metric)) is not None
    ]
    if points:
        drawn.append(Chart(f"{metric} against epsilon", "epsilon", metric, tuple(points), kind="points", log_x=True))
    return drawn
