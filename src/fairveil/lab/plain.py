"""Names of specs and metrics in the words of somebody who reads a page and has not written its spec."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fairveil.fairness.notions import EVERYWHERE, by_rule

ABOUT = {
    "participation": "Who stays",
    "qualification": "Who becomes qualified",
    "strategic": "Who manipulates",
}
"""What the models of the dynamics are about."""
COUNTED = {"numbers": "people"}
"""Metrics by group whose name does not say what is counted."""


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
