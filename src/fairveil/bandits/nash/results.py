"""From welfare snapshots to the metrics and series of an outcome; bands come from the jackknife over runs."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairveil.bandits.family import Series
from fairveil.bandits.nash.tally import Snapshot
from fairveil.bandits.simulate import Case, band


def measured(
    case: Case, best: float, snapshots: list[Snapshot], facts: dict[str, NDArray[Any]]
) -> tuple[dict[str, Any], Series]:
    """Regret of every power at every checkpoint, with its standard deviation over runs (jackknife pseudo-values).

    ``nash_regret`` puts the mean over runs inside the product (the definition); with few runs it is biased upward, and
    ``nash_regret_corrected`` adds the second-order term back. ``nash_regret_per_run`` is the mean over runs of each
    run's own Nash regret: a different, larger number.
    """
    welfare = np.array([snapshot.welfare for snapshot in snapshots])
    std = np.array([snapshot.std() for snapshot in snapshots])
    bias = np.array([snapshot.bias for snapshot in snapshots])
    per_run = np.array([np.exp(snapshot.log_runs).mean() for snapshot in snapshots])
    regret = best - welfare
    names = [f"{p:g}" for p in case.spec["powers"]]
    metrics: dict[str, Any] = {
        "checkpoints": list(case.checkpoints),
        "nash_regret": regret[:, 1].tolist(),
        "nash_regret_std": std[:, 1].tolist(),
        "nash_regret_corrected": (best - welfare[:, 1] * np.exp(bias)).tolist(),
        "nash_regret_per_run": (best - per_run).tolist(),
        "average_regret": regret[:, 0].tolist(),
        "average_regret_std": std[:, 0].tolist(),
        "p_mean_regret": {name: regret[:, 2 + j].tolist() for j, name in enumerate(names)},
        "p_mean_regret_std": {name: std[:, 2 + j].tolist() for j, name in enumerate(names)},
        "best_mean": best,
        "pull_share": (facts["pulls"].sum(axis=0) / facts["pulls"].sum()).tolist(),
        "phase_rounds": float(facts["phase_rounds"].mean()),
        "releases": float(facts["releases"].mean()),
        "spent": {},
    }
    if case.policy.guarantee() is not None:
        spent = float(facts["spent"].max())
        metrics["spent"] = {"epsilon": spent if np.isfinite(spent) else None}
    series = {
        name: band(case.checkpoints, metrics[name], metrics[f"{name}_std"], case.spec["runs"])
        for name in ("nash_regret", "average_regret")
    }
    return metrics, series
