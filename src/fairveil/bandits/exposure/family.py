"""The family of exposure-fair bandits: many agents, contexts, fairness regret."""

from __future__ import annotations

from typing import Any

import numpy as np

from fairveil.bandits.environments.exposure import ExposureWorld
from fairveil.bandits.exposure.private import PrivatePolicy
from fairveil.bandits.exposure.simulate import simulate
from fairveil.bandits.family import Family, Series
from fairveil.bandits.protocol import Policy
from fairveil.bandits.simulate import Case, curves
from fairveil.errors import SpecError
from fairveil.registry import register
from fairveil.task import Part


@register("family", "exposure")
class ExposureFamily(Family):
    """Fairness regret (average over agents, and sum), reward regret, exposure and merit, messages, privacy spent."""

    def check(self, case: Case) -> dict[str, Any]:
        policy, environment = case.policy, case.environment
        if not isinstance(environment, ExposureWorld):
            raise SpecError("an exposure environment shows contexts", path="environment.name", given=environment.name)
        if isinstance(policy, PrivatePolicy) and policy.strict and environment.longest_context() > policy.context_bound:
            raise SpecError(
                "this environment shows contexts above the bound, and strict refuses them",
                path="policy.context_bound",
                given=policy.context_bound,
                allowed=f"at least {environment.longest_context():.6g}",
                fix="raise context_bound, choose other contexts, or use strict=False",
            )
        return {}

    def simulate(self, case: Case, runs: range) -> Part:
        return simulate(case, runs[0])

    def measure(self, case: Case, parts: list[Part]) -> tuple[dict[str, Any], Series]:
        policy = case.policy
        agents = parts[0]["fairness"].shape[1]
        values = {
            "fairness_regret": [part["fairness"].mean(axis=1) for part in parts],
            "fairness_regret_sum": [part["fairness"].sum(axis=1) for part in parts],
            "reward_regret": [part["reward"].mean(axis=1) for part in parts],
            "theta_error": [part["theta_error"] for part in parts],
        }
        metrics, series = curves(case.checkpoints, {name: np.array(runs) for name, runs in values.items()})
        # One last value per run, so that two specs with the same seed can be compared run by run.
        metrics["fairness_regret_runs"] = [float(run[-1]) for run in values["fairness_regret"]]
        metrics["fairness_regret_agents"] = np.mean([part["fairness"][-1] for part in parts], axis=0).tolist()
        for name, key in (("selection_share", "pulls"), ("exposure_share", "exposure"), ("merit_share", "merit")):
            shares = np.array([part[key] / part[key].sum() for part in parts])
            metrics[name] = shares.mean(axis=0).tolist()
        metrics["synchronisations"] = float(np.mean([part["syncs"] for part in parts]))
        metrics["messages"] = {
            "count": float(np.mean([part["messages"] for part in parts])),
            "bytes": float(np.mean([part["bytes"] for part in parts])),
        }
        metrics["releases"] = metrics["synchronisations"] if isinstance(policy, PrivatePolicy) else 0.0
        metrics["spent"] = _spent(policy, agents, any(part["syncs"] for part in parts))
        return metrics, series


def _spent(policy: Policy, agents: int, synchronised: bool) -> dict[str, list[float]]:
    """What every agent has spent: all of its event from the first release on, nothing before."""
    guarantee = policy.guarantee()
    if guarantee is None or not synchronised:
        return {"epsilon": [0.0] * agents, "delta": [0.0] * agents}
    return {"epsilon": [float(guarantee.epsilon or 0.0)] * agents, "delta": [float(guarantee.delta or 0.0)] * agents}
