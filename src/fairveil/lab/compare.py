"""Comparing runs: a table, a plot with bands, a Pareto front of regret against epsilon, a test of each difference.

A comparison can be written as a file to work with: its table as JSON or CSV, its pictures as SVG, PDF, PNG or HTML.
"""

from __future__ import annotations

import copy
import csv
import io
import itertools
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from scipy.stats import t as student

from fairveil.errors import SpecError
from fairveil.fairness.notions import Notion
from fairveil.lab.artefact import Chart, Line, Table, is_course, line, time_axis
from fairveil.lab.plain import leaves, no_such_metric
from fairveil.lab.plots import PICTURES, check_picture_file, one_page, write_picture
from fairveil.running.store import write_atomically, writing
from fairveil.task import task_of


@dataclass(frozen=True)
class Difference:
    """A metric of one run minus that of the reference, with Welch's two-sided test on the spreads over runs.

    The runs of the two are taken as independent, and each difference is tested alone. Band and test are None for the
    reference itself and where no spread over runs is known: a single run, or a metric without one, says nothing about
    chance.
    """

    name: str
    value: float
    difference: float
    low: float | None = None
    high: float | None = None
    p_value: float | None = None


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
    """Metrics that all results have: single numbers, and courses over time with a number at their end."""
    common = set.intersection(*[set(_paths(result["metrics"])) for result in results.values()])
    return sorted(
        name
        for name in common
        if not name.partition(".")[0].endswith("_std") and all(_number(r, name) is not None for r in results.values())
    )


def _paths(metrics: Mapping[str, Any]) -> list[str]:
    """Names of metrics; those inside a table by group are written share.a."""
    tables = {name: value for name, value in metrics.items() if isinstance(value, Mapping)}
    return [name for name in metrics if name not in tables] + [
        f"{name}.{key}" for name, value in tables.items() if name != "estimates" for key in value
    ]


def _value(metrics: Mapping[str, Any], name: str, metric: str) -> Any:
    """``metrics[name]``, or what ``metric`` (share.a) names inside that table."""
    found = metrics.get(name)
    return found.get(metric.partition(".")[2]) if isinstance(found, Mapping) else found


PREFERRED = ("nash_regret", "fair_regret", "fairness_regret", "error", "gap", "utility.total", "epsilon_lower")


def default_metric(results: Mapping[str, dict[str, Any]]) -> str:
    """What the task is about: its regret, gap or utility, else the share of the first group, else the first metric."""
    known = shared_metrics(results)
    if not known:
        raise SpecError("the runs share no metric that is a number", path="specs", given=list(results))
    others = [name for name in known if name.endswith("regret") or name.startswith("share.")]
    return next((name for name in (*PREFERRED, *others) if name in known), known[0])


def _number(result: dict[str, Any], metric: str) -> float | None:
    name = metric.partition(".")[0]
    value = _value(result["metrics"], name, metric)
    if value is None and (course := result["series"].get(_series_of(metric))):
        value = course["y"][-1]
    if isinstance(value, list):  # a list by arm has no last value to speak of
        value = value[-1] if value and is_course(result, name) else None
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def _series_of(metric: str) -> str:
    return metric.replace(".", "_")


def shared_series(results: Mapping[str, dict[str, Any]]) -> list[str]:
    """Courses over time that all results have: what can be drawn of them."""
    first, *others = [result["series"] for result in results.values()]
    return [name for name in first if all(name in series for series in others)]


def _error(result: dict[str, Any], metric: str) -> float | None:
    """Standard error of the mean over runs; None where one run, or no spread, is all there is."""
    spread = _value(result["metrics"], f"{metric.partition('.')[0]}_std", metric)
    spread = spread[-1] if isinstance(spread, list) and spread else spread
    runs = result["spec"]["runs"]
    return None if spread is None or runs < 2 else float(spread) / math.sqrt(runs)


def _reach(first: tuple[float, int], second: tuple[float, int]) -> tuple[float, float]:
    """Standard error of a difference of means and its degrees of freedom, from (error, runs) of both (Welch)."""
    parts = [(error**2, runs - 1) for error, runs in (first, second)]
    total = sum(part for part, _ in parts)
    freedom = total**2 / sum(part**2 / free for part, free in parts) if total > 0 else math.inf
    return math.sqrt(total), freedom


def differences(results: Mapping[str, dict[str, Any]], metric: str) -> list[Difference]:
    """Each run against the first."""
    names = list(results)
    reference = results[names[0]]
    base, base_error = _number(reference, metric), _error(reference, metric)
    if base is None:
        metrics = shared_metrics(results)
        named = {_series_of(name) for name in metrics}
        known = [*metrics, *(name for name in shared_series(results) if name not in named)]
        raise no_such_metric(metric, known)
    found = []
    for name in names:
        value = _number(results[name], metric)
        if value is None:
            continue
        gap, own = value - base, _error(results[name], metric)
        error, freedom = 0.0, math.inf
        if own is not None and base_error is not None:
            error, freedom = _reach((own, results[name]["spec"]["runs"]), (base_error, reference["spec"]["runs"]))
        if name == names[0] or error == 0:
            found.append(Difference(name, value, gap))
        else:
            p_value, reach = (
                2 * float(student.sf(abs(gap) / error, freedom)),
                error * float(student.isf(0.025, freedom)),
            )
            found.append(Difference(name, value, gap, gap - reach, gap + reach, p_value))
    return found


def difference_table(results: Mapping[str, dict[str, Any]], metric: str) -> Table:
    found = differences(results, metric)
    rows = tuple((d.name, d.value, _epsilon(results[d.name]), d.difference, _band(d), d.p_value) for d in found)
    columns = ("run", metric, "epsilon", "minus the first", "95 % band", "p")
    tests = sum(d.p_value is not None for d in found)
    many = f"; each p alone: all {tests} together at 5 % need p below {0.05 / tests:.2g}" if tests > 1 else ""
    mean = ", mean over runs" if any(result["spec"]["runs"] > 1 for result in results.values()) else ""
    return Table(f"{metric} {_when(results, metric)}{mean}{many}", columns, rows)


def _when(results: Mapping[str, dict[str, Any]], metric: str) -> str:
    """Whether a metric says where runs ended, or where they would go."""
    name = metric.partition(".")[0]
    far = all(name in task_of(result["spec"]).long_run for result in results.values())
    return "in the long run" if far else "at the end"


def _band(found: Difference) -> str | None:
    return None if found.low is None else f"[{found.low:.4g}, {found.high:.4g}]"


def _epsilon(result: dict[str, Any]) -> float | None:
    promise = result["guarantee"]
    return promise["epsilon"] if promise is not None and promise["established"] else None


SMALLER_IS_BETTER = ("regret", "gap", "loss", "error")


def pareto_front(results: Mapping[str, dict[str, Any]], metric: str) -> list[str]:
    """Runs that no other run beats in both epsilon and the metric; none for a metric where less is not better."""
    if not any(word in metric for word in SMALLER_IS_BETTER):
        return []
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


def frontier(results: Mapping[str, dict[str, Any]], notion: str) -> Chart:
    """Accuracy against the gap of one fairness notion, with 95 % bands over runs; epsilon stands in the names."""
    lines = []
    for name, result in results.items():
        metrics, epsilon = result["metrics"], _epsilon(result)
        gap = metrics["discrimination"][notion]
        reach = 1.96 * (_error(result, "accuracy") or 0.0)
        value = metrics["accuracy"]
        label = name if epsilon is None or f"{epsilon:g}" in name else f"{name} (eps {epsilon:g})"
        if gap is not None:
            lines.append(Line(label, (gap,), (value,), (value - reach,), (value + reach,)))
    axis = f"gap in {Notion.of(notion).words}"
    return Chart(f"frontier: accuracy against the {axis}", axis, "accuracy", tuple(lines), kind="points")


def _notions(results: Mapping[str, dict[str, Any]]) -> list[str]:
    """The fairness notions that the learners of classify specs are about; equal opportunity when none says."""
    if any(result["spec"]["task"] != "classify" for result in results.values()):
        return []
    named = [result["spec"]["learner"].get("fairness", "none") for result in results.values()]
    return sorted({name for name in named if name != "none"}) or ["equal-opportunity"]


def charts(results: Mapping[str, dict[str, Any]], metric: str) -> list[Chart]:
    """The metric along the run with bands, and the Pareto front where runs carry guarantees of different epsilon.

    A metric that has no course of its own (a rate in the long run) is drawn by the course that its task names.
    """
    words = metric.replace("_", " ")
    drawn = _courses(results, _series_of(metric), words) or [
        chart for name in _course_of_task(results, metric) for chart in _courses(results, name, name.replace("_", " "))
    ]
    drawn += [frontier(results, notion) for notion in _notions(results)]
    front = set(pareto_front(results, metric))
    points = [
        Line(f"{name}{' (front)' if name in front else ''}", (_epsilon(result),), (value,))
        for name, result in results.items()
        if _epsilon(result) is not None and (value := _number(result, metric)) is not None
    ]
    if len({point.x for point in points}) > 1:
        drawn.append(Chart(f"{words} against epsilon", "epsilon", words, tuple(points), kind="points", log_x=True))
    return drawn + against(results, metric)


def against(results: Mapping[str, dict[str, Any]], metric: str) -> list[Chart]:
    """The metric along each number that a grid varies, with 95 % bands; a line for every choice of the rest.

    What becomes of a longer window, more people or fewer arms is seen here; epsilon has its Pareto front.
    """
    words, drawn = metric.replace("_", " "), []
    choices = {name: dict(part.split("=", 1) for part in name.split(", ") if "=" in part) for name in results}
    for path in next(iter(choices.values()), {}):
        axis = path.rpartition(".")[2].replace("_", " ")
        places = {name: _place(chosen.get(path)) for name, chosen in choices.items()}
        if axis == "epsilon" or None in places.values() or len(set(places.values())) < 2:
            continue
        lines: dict[str, list[tuple[float, ...]]] = {}
        for name, place in places.items():
            rest = ", ".join(part for part in name.split(", ") if not part.startswith(f"{path}="))
            value, reach = _number(results[name], metric), 1.96 * (_error(results[name], metric) or 0.0)
            if value is not None and place is not None:
                lines.setdefault(rest or words, []).append((place, value, value - reach, value + reach))
        curves = []
        for name, points in lines.items():
            x, y, low, high = zip(*sorted(points))
            curves.append(Line(name, x, y, low, high))
        drawn.append(Chart(f"{words} against {axis}", axis, words, tuple(curves)))
    return drawn


def _place(value: str | None) -> float | None:
    try:
        found = float(value or "")
    except ValueError:
        return None
    return found if math.isfinite(found) else None


def _courses(results: Mapping[str, dict[str, Any]], series: str, words: str) -> list[Chart]:
    """One chart of a series, a line for every run that has it."""
    having = {name: result for name, result in results.items() if series in result["series"]}
    if not having:
        return []
    curves = tuple(line(name, result, series) for name, result in having.items())
    axes = [time_axis(result) for result in having.values()]
    return [Chart(words, axes[0][0], words, curves, log_x=all(wide for _, wide in axes))]


def _course_of_task(results: Mapping[str, dict[str, Any]], metric: str) -> list[str]:
    """The series that the task of these runs is about: of the group that the metric names, else of every group."""
    (stem, *others) = {task_of(result["spec"]).course for result in results.values()}
    found = [name for name in shared_series(results) if stem and not others and name.startswith(f"{stem}_")]
    group = metric.partition(".")[2]
    return [name for name in found if name == f"{stem}_{group}"] or found


def what_was_run(results: Mapping[str, dict[str, Any]]) -> list[Table]:
    """What the specs say differently, a row a run, and what all of them say, a row a key; defaults count."""
    specs = {
        name: {key: json.dumps(value) if isinstance(value, list) else value for key, value in leaves(result["spec"])}
        for name, result in results.items()
    }
    keys = list(dict.fromkeys(key for spec in specs.values() for key in spec))
    other = [key for key in keys if len({json.dumps(spec.get(key)) for spec in specs.values()}) > 1]
    rows = tuple((name, *(spec.get(key) for key in other)) for name, spec in specs.items())
    first = next(iter(specs.values()))
    common = tuple((key, first[key]) for key in keys if key not in other and first[key] is not None)
    differing = [Table("what was run: the specs differ in", ("run", *other), rows)] if other else []
    return [*differing, Table("what was run: all specs have", ("key", "value"), common)]


TABLES = (".json", ".csv")


def check_export(file: Path) -> None:
    """Refuse a file that cannot be written; ask before the work, not after it."""
    if file.suffix in PICTURES:
        check_picture_file(file)
    elif file.suffix not in TABLES or file.is_dir():
        allowed = ", ".join((*TABLES, *PICTURES))
        raise SpecError("a comparison cannot be written like this", path="export", given=file.name, allowed=allowed)


def export(file: Path, table: Table, charts: Sequence[Chart], results: Mapping[str, dict[str, Any]]) -> None:
    """Write one file; its name says which kind."""
    check_export(file)
    if file.suffix in PICTURES:
        if not charts:
            known = ", ".join(shared_series(results))
            allowed = f"a metric that has a course ({known})" if known else f"a table: {', '.join(TABLES)}"
            raise SpecError("this comparison has nothing to draw", path="export", given=file.name, allowed=allowed)
        write_picture(one_page(charts), file)
        return
    with writing(file):
        file.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(file, (_csv(table) if file.suffix == ".csv" else _json(table, results)).encode())


def _csv(table: Table) -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(table.columns)
    writer.writerows([["" if cell is None else cell for cell in row] for row in table.rows])
    return text.getvalue()


def _json(table: Table, results: Mapping[str, dict[str, Any]]) -> str:
    rows = [dict(zip(table.columns, row)) for row in table.rows]
    kept = {name: {key: value for key, value in result.items() if key != "meta"} for name, result in results.items()}
    return json.dumps({"title": table.title, "rows": rows, "results": kept}, indent=1, allow_nan=False) + "\n"
