"""The family of Nash-fair bandits: plain arms, fairness across rounds.

Beside regret a result says what a run has published (``estimates``), and lab numbers that nobody outside a lab has:
they are computed from what the simulator knows (true means, unreleased rounds), are marked ``evaluation`` and stay out
of reports on real data.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairveil.arrays import Floats, Ints
from fairveil.bandits.environments.arms import ArmEnvironment
from fairveil.bandits.estimates import CONFIDENCE, Answers
from fairveil.bandits.family import Family, Series, band
from fairveil.bandits.nash.base import NashPolicy, arm_estimates, world_of
from fairveil.bandits.nash.planning import plan
from fairveil.bandits.nash.tally import WORLD, NashTally, SideBySide, Snapshot, Stretch, Welfare, WholeRuns, merge
from fairveil.bandits.protocol import Policy
from fairveil.bandits.quotes import TrialPlan
from fairveil.bandits.simulate import Case, Step, Streams
from fairveil.fairness.welfare import check_power
from fairveil.registry import register
from fairveil.task import Part

COARSE_RUNS = 8
"""Runs a block of work holds where a run is a few long stretches; otherwise all runs advance side by side."""
DEFAULT_POWERS = [-1.0, 0.5]


@register("family", "nash")
class NashFamily(Family[Stretch]):
    """Nash, average and p-mean regret of policies over plain arms."""

    uniform = True

    def check(self, case: Case) -> dict[str, Any]:
        world_of(case).fits(case.rounds, bool(case.policy.strict))
        powers = DEFAULT_POWERS if case.spec.get("powers") is None else case.spec["powers"]
        return {"powers": [check_power(float(p)) for p in powers]}

    def plan(self, policy: Policy, guess: Any, runs: int, **asked: Any) -> TrialPlan:
        return plan(policy, guess, runs, **asked)

    def runs_at_once(self, case: Case) -> int:
        runs: int = case.spec["runs"]
        return COARSE_RUNS if _coarse(case) else runs

    def seen(self, world: Any, steps: Iterable[Step], before: Stretch | None) -> Stretch:
        codes = []
        pulls, uniform = (np.zeros(world.arms, np.int64), 0) if before is None else (before.pulls, before.uniform)
        for step in steps:
            arm, symmetric = step.decision.arm, step.decision.symmetric
            codes.append(world.arms if symmetric else arm)
            pulls[arm] += 1
            uniform += symmetric
        return Stretch(np.array(codes, np.int32), pulls, uniform)

    def releases(self, step: Step) -> int:
        """The end of a window draws a coin of its own and releases nothing, so the state counts."""
        return int(step.state["released"][0]) if "released" in step.state else 0

    def at_random(self, world: Any, now: int, stop: int, streams: Streams, before: Stretch | None) -> Stretch:
        pulls = streams.explore.multinomial(stop - now, np.full(world.arms, 1.0 / world.arms))
        pulls = pulls if before is None else pulls + before.pulls
        return Stretch(np.full(stop - now, world.arms, np.int32), pulls, stop)

    def tally(self, case: Case, runs: range) -> NashTally:
        return WholeRuns(case) if _coarse(case) else SideBySide(case, _welfare(case))

    def measure(self, case: Case, parts: list[Part]) -> tuple[dict[str, Any], Series]:
        world = world_of(case)
        if "ends" in parts[0]:
            ends = [run for part in parts for run in np.split(part["ends"], part["cuts"])]
            codes = [run for part in parts for run in np.split(part["codes"], part["cuts"])]
            snapshots = merge(ends, codes, _welfare(case), case.checkpoints)
            allocation = allocated(ends, codes, world.arms, case.checkpoints)
        else:
            snapshots, allocation = _snapshots(parts[0], case), parts[0]["allocation"]
        joined = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
        metrics, series = measured(case, float(world.true_means.max()), snapshots, joined)
        names = {} if world.arm_names is None else {"arms": list(world.arm_names)}
        counted = {name.removeprefix(WORLD): joined[name] for name in joined if name.startswith(WORLD)}
        known = what_is_known(case, world, spread_evenly(allocation), joined)
        return {**names, **metrics, **known, **(world.measured(counted) if counted else {})}, series


def _coarse(case: Case) -> bool:
    return isinstance(case.policy, NashPolicy) and case.environment.compiled and case.policy.coarse(case)


def _welfare(case: Case) -> Welfare:
    world = world_of(case)
    return Welfare(world.true_means, world.log_means, [1.0, 0.0, *case.spec["powers"]], case.spec["runs"])


def _snapshots(part: Part, case: Case) -> list[Snapshot]:
    rows = zip(case.checkpoints, part["welfare"], part["influence"], part["bias"], part["log_runs"])
    return [Snapshot(rounds, welfare, influence, float(bias), logs) for rounds, welfare, influence, bias, logs in rows]


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
    per_run = np.exp([snapshot.log_runs for snapshot in snapshots]).mean(axis=1)
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
    if case.policy.promise is not None:
        spent = float(facts["spent"].max())
        metrics["spent"] = {"epsilon": spent if np.isfinite(spent) else None}
    series = {
        name: band(case.checkpoints, metrics[name], metrics[f"{name}_std"], case.spec["runs"])
        for name in ("nash_regret", "average_regret")
    }
    return metrics, series


def what_is_known(case: Case, world: ArmEnvironment, allocation: Floats, known: dict[str, Floats]) -> dict[str, Any]:
    """``estimates`` of the first run, and ``lab``: allocation over time, outcomes unused, coverage and width."""
    total = np.maximum(allocation.sum(axis=1, keepdims=True), 1.0)
    lab: dict[str, Any] = {"evaluation": True, "allocation": (allocation / total).tolist()}
    found: dict[str, Any] = {"lab": lab}
    if "estimates" in known:
        rows = known["estimates"]
        called = {f"arm {arm}": name for arm, name in enumerate(world.arm_names or ())}
        silent = known.get("answers")
        first = (
            None if silent is None else [Answers(*(int(n) for n in row[:3]), *row[3:].tolist()) for row in silent[0]]
        )
        found["estimates"] = arm_estimates(rows[0], CONFIDENCE, answers=first).to_dict(called)
        lab["outcomes_unused"] = float((case.rounds - known["used"]).mean())
        lab["interval_width"] = (rows[:, :, 2] - rows[:, :, 1]).mean(axis=0).tolist()
        if case.lateness.treat != "default":  # else the mean of an arm is that of filled-in rewards
            means = world.true_means
            lab["interval_coverage"] = ((rows[:, :, 1] <= means) & (means <= rows[:, :, 2])).mean(axis=0).tolist()
            if silent is not None:
                lab["bounds_coverage"] = ((silent[:, :, 3] <= means) & (means <= silent[:, :, 4])).mean(axis=0).tolist()
    return found


def allocated(ends: list[Ints], codes: list[NDArray[np.int32]], arms: int, checkpoints: list[int]) -> Floats:
    """Rounds of every arm between checkpoints, over all runs; a draw among all arms counts for each of them."""
    stops, played = np.concatenate(ends), np.concatenate(codes)
    starts = np.concatenate([part for run in ends for part in ([0], run[:-1])])
    edges = np.array([0, *checkpoints])
    found = np.zeros((len(checkpoints), arms + 1))
    for place in range(len(checkpoints)):
        overlap = np.minimum(stops, edges[place + 1]) - np.maximum(starts, edges[place])
        found[place] = np.bincount(played, weights=np.maximum(overlap, 0), minlength=arms + 1)
    return found


def spread_evenly(counts: Floats) -> Floats:
    """The last column, draws among all arms, shared out."""
    return counts[:, :-1] + counts[:, -1:] / (counts.shape[1] - 1)
