"""A quote with a quick simulation on a declared guess: expected regret and half-widths, without a look at any data."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from fairveil.bandits.quotes import Quote
from fairveil.bandits.task import BanditTask, case_of

RUNS = 20
SPREAD = (0.4, 0.6)
"""Means of the arms that are guessed where nothing else is known."""
REGRETS = ("nash_regret", "average_regret", "fair_regret", "fairness_regret", "parity_gap")


def forecast(
    spec: dict[str, Any], *, people: int | None = None, guess: dict[str, Any] | None = None, runs: int = RUNS
) -> Quote:
    """The quote of a bandit spec; ``guess``: the environment to simulate, where the spec's own is people's data.

    >>> found = forecast({"task": "bandit", "rounds": 500, "policy": {"name": "private-nash", "epsilon": 1.0},
    ...                   "environment": {"name": "bernoulli", "means": [0.3, 0.6]}}, runs=4)
    >>> found.noise[0].rounds, sorted(found.expected)[:2]
    (8, ['average_regret', 'guess'])
    """
    full = BanditTask().complete(spec)
    case = case_of(full)
    found = case.policy.quote(case.rounds, people)
    warnings = list(found.warnings)
    late = case.lateness
    if late.window >= case.rounds > 0:
        warnings.append(
            f"rewards may take {late.window:,} decisions and the run has {case.rounds:,}: it may learn nothing"
        )
    world, words = _world(case, guess)
    expected = {} if world is None or runs == 0 else _simulated(full, world, runs) | {"guess": words}
    if world is None:
        warnings.append("no simulation: the environment holds people's data; declare a guess (--guess FILE)")
    return replace(found, warnings=tuple(warnings), expected=expected)


def _world(case: Any, guess: dict[str, Any] | None) -> tuple[dict[str, Any] | None, str]:
    if guess is not None:
        return guess, f"simulated on the declared guess {guess.get('name', '')}"
    if not case.environment.recorded:
        return case.spec["environment"], f"simulated on {case.environment.name}, as the spec declares it"
    if case.policy.family in ("", "nash"):
        arms = int(case.environment.arms)
        means = np.linspace(*SPREAD, arms).round(4).tolist()
        return {"name": "bernoulli", "means": means}, f"simulated on a guess: {arms} arms with means 0.4 to 0.6"
    return None, ""


def _simulated(full: dict[str, Any], world: dict[str, Any], runs: int) -> dict[str, Any]:
    from fairveil.running.runner import run

    spec = {**full, "environment": world, "runs": runs, "noise": "seeded", "checkpoints": [full["rounds"]]}
    metrics = run(spec)["metrics"]
    found: dict[str, Any] = {name: metrics[name][-1] for name in REGRETS if name in metrics}
    lab = metrics.get("lab", {})
    if "interval_width" in lab:
        found["half_widths"] = [width / 2 for width in lab["interval_width"]]
    elif "estimates" in metrics:
        items = [item for item in metrics["estimates"]["items"] if item["low"] is not None]
        if items:
            found["half_widths"] = [(item["high"] - item["low"]) / 2 for item in items]
    if "rank_uncertainty" in metrics:
        found["rank_uncertainty"] = metrics["rank_uncertainty"]
    return found
