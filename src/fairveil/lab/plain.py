"""Names of specs and metrics: in the words of a reader who has not written the spec, and which metrics there are."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from fairveil import registry
from fairveil.errors import FairveilError, SpecError, did_you_mean
from fairveil.fairness.notions import EVERYWHERE, by_rule

ABOUT = {
    "participation": "Who stays",
    "qualification": "Who becomes qualified",
    "strategic": "Who manipulates",
}
"""What the models of the dynamics are about."""
COUNTED = {"numbers": "people"}
"""Metrics by group whose name does not say what is counted."""
MEASURED = {
    task: tuple(names)
    for task, *names in map(str.split, Path(__file__).with_suffix(".txt").read_text(encoding="utf-8").splitlines())
    if task != "#"
}
"""What can be compared of runs of a task (``bandit/nash``: of a family), where that is known before they run."""


def task_in_words(task: str) -> str:
    """What a task is about, with its name."""
    return f"{ABOUT[task]} ({task})" if task in ABOUT else f"Task {task}"


def rule_in_words(spec: Mapping[str, Any]) -> str:
    """``fairness`` of a spec in the words of its notion, with its name; empty where the spec has none."""
    rule = spec.get("fairness")
    if not isinstance(rule, str):
        return ""
    return f"{by_rule(rule, spec.get('rate', 'tpr')).words} ({rule})" if spec["task"] in EVERYWHERE else rule


def stem_in_words(stem: str) -> str:
    """What a metric or series counts, whatever the group."""
    return COUNTED.get(stem, stem.replace("_", " "))


def words_of(results: Mapping[str, Mapping[str, Any]], metric: str) -> dict[str, str]:
    """What `fairveil.lab.artefact.say` puts for the names of a comparison: its rules, and its metric."""
    specs = [result["spec"] for result in results.values()]
    words = {f"fairness={spec['fairness']}": said for spec in specs if (said := rule_in_words(spec))}
    stem, _, group = metric.partition(".")
    if group and all(group in spec.get("groups", ()) for spec in specs):
        words[metric] = f"{stem_in_words(stem)} of group {group}"
    elif "_" in metric:
        words[metric] = stem_in_words(metric)
    return words


def no_such_metric(metric: str, known: Iterable[str]) -> SpecError:
    """What a comparison says to a metric that its runs do not share."""
    names, near = ", ".join(known), did_you_mean(metric, list(known))
    return SpecError("the runs do not share this metric", path="metric", given=metric, allowed=names, fix=near)


def check_metric(specs: Iterable[Mapping[str, Any]], metric: str) -> None:
    """Refuse a metric that no run of one of these specs can have; ask before the work, not after it."""
    for names in map(_measured, specs):
        if names and metric not in names and not metric.startswith(tuple(name + end for name in names for end in "._")):
            raise no_such_metric(metric, names)


def _measured(spec: Mapping[str, Any]) -> tuple[str, ...]:
    """Metrics and series by name; none where a task or a world of one's own may measure anything."""
    task, table = spec.get("task"), spec.get("environment")
    if task != "bandit" or not isinstance(table, Mapping):
        return MEASURED.get(str(task), ())
    try:
        world = registry.target_of("environment", table, "environment")
    except FairveilError:  # whoever completes the spec says what is wrong
        return ()
    return MEASURED[f"bandit/{world.family}"] if world.__module__.startswith("fairveil.") else ()


def leaves(table: Mapping[str, Any], joint: str = ".") -> Iterator[tuple[str, Any]]:
    """The values of nested tables by their paths; a list is one value.

    >>> list(leaves({"a": 1, "b": {"c": [2, 3]}}))
    [('a', 1), ('b.c', [2, 3])]
    """
    for key, value in table.items():
        if isinstance(value, Mapping):
            yield from ((f"{key}{joint}{rest}", found) for rest, found in leaves(value, joint))
        else:
            yield key, value
