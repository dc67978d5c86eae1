"""Metrics of task ``classify`` from counts of held-out people: shape (runs, groups, label, declined or accepted)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from fairveil.arrays import Floats
from fairveil.fairness.groups import wilson
from fairveil.fairness.metrics import (
    GAPS,
    RATES,
    SINGLE,
    GroupRates,
    gaps_of,
    rates_of,
    rates_only,
    unestimable,
    weighted_of,
)
from fairveil.fairness.subgroups import Subgroups

WEIGHTED = tuple(SINGLE)


def measures(
    counted: Floats, names: tuple[str, ...], subgroups: Subgroups, random: Floats, estimated: Floats
) -> dict[str, Any]:
    """Every metric, means over runs with their standard deviations; NaN stands for what nobody knows."""
    runs = [rates_of(run, names) for run in counted]
    error = [float((run[:, 0, 1] + run[:, 1, 0]).sum() / run.sum()) for run in counted]
    gaps = np.array([[_nan(gaps_of(run)[name]) for name in GAPS] for run in runs])
    weighted = np.array([[weighted_of(run)[name] for name in WEIGHTED] for run in counted])
    worst = [float(np.abs(subgroups.violations(run)).max()) for run in counted]
    metrics: dict[str, Any] = {"accuracy": 1 - _mean(np.array(error)), "accuracy_std": _std(np.array(error))}
    for name, values in (("error", error), ("subgroup_violation", worst), ("randomised", random)):
        metrics[name], metrics[f"{name}_std"] = _mean(np.asarray(values)), _std(np.asarray(values))
    for name, keys, table in (("discrimination", GAPS, gaps), ("weighted", WEIGHTED, weighted)):
        metrics[name] = {key: _mean(table[:, i]) for i, key in enumerate(keys)}
        metrics[f"{name}_std"] = {key: _std(table[:, i]) for i, key in enumerate(keys)}
    metrics["pooled"], metrics["pooled_std"] = _jackknife(counted, names)
    metrics["by_group"] = _by_group(runs, counted, names)
    metrics["unestimable"] = unestimable(rates_of(counted.sum(axis=0), names))
    metrics["estimated"], metrics["estimated_std"] = _estimated(estimated, _mean), _estimated(estimated, _std)
    return metrics


def pooled(counted: Floats, names: tuple[str, ...]) -> dict[str, float | None]:
    """Gaps between group rates after each rate was averaged over the runs: what is systematic."""
    runs = [rates_of(run, names) for run in counted]
    mean = {rate: _nan_mean(np.array([run.rate(rate) for run in runs])) for rate in RATES}
    return gaps_of(rates_only(names, mean))


def _jackknife(counted: Floats, names: tuple[str, ...]) -> tuple[dict[str, float | None], dict[str, float | None]]:
    """Pooled gaps, and the standard deviation of their jackknife pseudo-values over runs."""
    whole, count = pooled(counted, names), len(counted)
    if count == 1:
        return whole, dict.fromkeys(whole)
    left_out = [pooled(np.delete(counted, run, axis=0), names) for run in range(count)]
    spread = {}
    for name, value in whole.items():
        pseudo = np.array([count * _nan(value) - (count - 1) * _nan(part[name]) for part in left_out])
        spread[name] = _std(pseudo)
    return whole, spread


def _by_group(runs: list[GroupRates], counted: Floats, names: tuple[str, ...]) -> dict[str, dict[str, Any]]:
    together = rates_of(counted.sum(axis=0), names)
    table: dict[str, dict[str, Any]] = {
        name: {
            "count": float(np.mean([run.count[g] for run in runs])),
            "positives": float(np.mean([run.positives[g] for run in runs])),
        }
        for g, name in enumerate(names)
    }
    for rate in RATES:
        mean = _nan_mean(np.array([run.rate(rate) for run in runs]))
        low, high = wilson(together.rate(rate), together.behind(rate) / len(runs))
        for g, name in enumerate(names):
            table[name] |= {rate: float(mean[g]), f"{rate}_low": float(low[g]), f"{rate}_high": float(high[g])}
    return table


def _estimated(rows: Floats, of: Callable[[Floats], float | None]) -> dict[str, Any] | None:
    if np.isnan(rows).all():
        return None
    found = [of(rows[:, i]) for i in range(rows.shape[1])]
    table = {
        "error": found[0],
        "discrimination": dict(zip(GAPS, found[1:], strict=False)),
        "weighted": dict(zip(WEIGHTED, found[1 + len(GAPS) :], strict=False)),
    }
    return table if np.isnan(rows[:, -1]).all() else {**table, "subgroup_violation": found[-1]}


def _nan(value: float | None) -> float:
    return float("nan") if value is None else value


def _nan_mean(rows: Floats) -> Floats:
    """Mean over runs of the groups that were there; NaN for those that never were."""
    known = ~np.isnan(rows)
    return np.where(known.any(axis=0), np.where(known, rows, 0).sum(axis=0) / np.maximum(known.sum(axis=0), 1), np.nan)


def _mean(values: Floats) -> float:
    known = values[~np.isnan(values)]
    return float(known.mean()) if len(known) else float("nan")


def _std(values: Floats) -> float | None:
    known = values[~np.isnan(values)]
    return float(known.std(ddof=1)) if len(known) > 1 else None
