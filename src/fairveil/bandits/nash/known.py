"""What a result says beside regret: the estimates a run has published, and lab numbers that nobody outside a lab has.

Lab numbers are computed from what the simulator knows (true means, unreleased rounds), are marked ``evaluation`` and
stay out of reports on real data.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairveil.bandits.environments.arms import ArmEnvironment
from fairveil.bandits.estimates import CONFIDENCE
from fairveil.bandits.nash.base import NashPolicy, arm_estimates, unknown_arms
from fairveil.bandits.nash.runs import ArmSimulator
from fairveil.bandits.protocol import Policy
from fairveil.bandits.simulate import Case
from fairveil.task import Part

Floats = NDArray[np.float64]
KNOWN = ("estimates", "used")


def published(policy: Policy, simulators: list[ArmSimulator]) -> Part:
    """Estimates (runs, arms, 3) and the number of rewards behind them; nothing for policies without estimates."""
    promise = policy.guarantee()
    if not isinstance(policy, NashPolicy) or (promise is not None and not promise.established):
        return {}
    states = [simulator.published() for simulator in simulators]
    rows, used = [], []
    for state in states:
        if state is None:  # nothing is open: a window of its own coins
            rows.append(unknown_arms(policy.arms))
            used.append(0.0)
        else:
            rows.append(policy.arm_intervals(state))
            used.append(float(sum(array.sum() for name, array in state.items() if name.split("/")[-1] == "counts")))
    return {"estimates": np.array(rows), "used": np.array(used)}


def what_is_known(case: Case, world: ArmEnvironment, allocation: Floats, known: dict[str, Floats]) -> dict[str, Any]:
    """``estimates`` of the first run, and ``lab``: allocation over time, outcomes unused, coverage and width."""
    total = np.maximum(allocation.sum(axis=1, keepdims=True), 1.0)
    lab: dict[str, Any] = {"evaluation": True, "allocation": (allocation / total).tolist()}
    found: dict[str, Any] = {"lab": lab}
    if "estimates" in known:
        rows = known["estimates"]
        called = {f"arm {arm}": name for arm, name in enumerate(world.arm_names or ())}
        found["estimates"] = arm_estimates(rows[0], CONFIDENCE).to_dict(called)
        lab["outcomes_unused"] = float((case.rounds - known["used"]).mean())
        lab["interval_width"] = (rows[:, :, 2] - rows[:, :, 1]).mean(axis=0).tolist()
        if case.lateness.treat != "default":  # else the mean of an arm is that of filled-in rewards
            means = world.true_means
            lab["interval_coverage"] = ((rows[:, :, 1] <= means) & (means <= rows[:, :, 2])).mean(axis=0).tolist()
    return found


def allocated(
    ends: list[NDArray[np.int64]], codes: list[NDArray[np.int32]], arms: int, checkpoints: list[int]
) -> Floats:
    """Rounds of every arm between checkpoints, over all runs; a draw among all arms counts for each of them."""
    stops, played = np.concatenate(ends), np.concatenate(codes)
    starts = np.concatenate([part for run in ends for part in ([0], run[:-1])])
    edges = np.array([0, *checkpoints])
    found = np.zeros((len(checkpoints), arms + 1))
    for place in range(len(checkpoints)):
        overlap = np.minimum(stops, edges[place + 1]) - np.maximum(starts, edges[place])
        found[place] = np.bincount(played, weights=np.maximum(overlap, 0), minlength=arms + 1)
    return spread_evenly(found)


def spread_evenly(counts: Floats) -> Floats:
    """The last column, draws among all arms, shared out."""
    return counts[:, :-1] + counts[:, -1:] / (counts.shape[1] - 1)
