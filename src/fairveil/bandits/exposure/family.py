"""The family of exposure-fair bandits: many agents, contexts, fairness regret."""

from __future__ import annotations

from typing import Any

import numpy as np

from fairveil import registry
from fairveil.bandits.environments.base import Environment
from fairveil.bandits.environments.exposure import ExposureWorld
from fairveil.bandits.exposure.base import ExposurePolicy
from fairveil.bandits.exposure.private import PrivatePolicy
from fairveil.bandits.exposure.simulate import simulate
from fairveil.bandits.family import Family
from fairveil.bandits.protocol import Policy
from fairveil.errors import HorizonError, SpecError
from fairveil.registry import register
from fairveil.task import Outcome, Part, run_blocks


@register("family", "exposure")
class ExposureFamily(Family):
    """Fairness regret (average over agents, and sum), reward regret, exposure and merit, messages, privacy spent."""

    def complete(self, spec: dict[str, Any], policy: Policy, environment: Environment) -> dict[str, Any]:
        if not isinstance(environment, ExposureWorld):
            raise SpecError("an exposure environment shows contexts", path="environment.name", given=environment.name)
        if isinstance(policy, ExposurePolicy) and policy.horizon < spec["rounds"]:
            raise HorizonError(
                "the policy was sized for fewer rounds",
                path="policy.horizon",
                given=policy.horizon,
                allowed=f"at least {spec['rounds']}",
            )
        if isinstance(policy, PrivatePolicy) and policy.strict and environment.longest_context() > policy.context_bound:
            raise SpecError(
                "this environment shows contexts above the bound, and strict refuses them",
                path="policy.context_bound",
                given=policy.context_bound,
                allowed=f"at least {environment.longest_context():.6g}",
                fix="raise context_bound, choose other contexts, or use strict=False",
            )
        return spec

    def blocks(self, spec: dict[str, Any]) -> list[dict[str, Any]]:
        return run_blocks(spec["runs"], 1)

    def work(self, spec: dict[str, Any], block: dict[str, Any]) -> Part:
        policy = registry.build("policy", spec["policy"], "policy")
        environment = registry.build("environment", spec["environment"], "environment")
        return simulate(policy, environment, spec, block["first"])

    def finish(self, spec: dict[str, Any], parts: list[Part]) -> Outcome:
        policy = registry.build("policy", spec["policy"], "policy")
        agents = parts[0]["fairness"].shape[1]
        curves = {
            "fairness_regret": [part["fairness"].mean(axis=1) for part in parts],
            "fairness_regret_sum": [part["fairness"].sum(axis=1) for part in parts],
            "reward_regret": [part["reward"].mean(axis=1) for part in parts],
            "theta_error": [part["theta_error"] for part in parts],
        }
        metrics: dict[str, Any] = {}
        series: dict[str, dict[str, list[float]]] = {}
        for name, runs in curves.items():
            values = np.array(runs)
            if np.isnan(values).any():
                continue
            mean = values.mean(axis=0)
            std = values.std(axis=0, ddof=1) if len(parts) > 1 else np.zeros_like(mean)
            reach = 1.96 * std / np.sqrt(len(parts))
            metrics[name], metrics[f"{name}_std"] = mean.tolist(), std.tolist()
            series[name] = {
                "x": [float(point) for point in spec["checkpoints"]],
                "y": mean.tolist(),
                "low": (mean - reach).tolist(),
                "high": (mean + reach).tolist(),
            }
        # One last value per run, so that two specs with the same seed can be compared run by run.
        metrics["fairness_regret_runs"] = [float(run[-1]) for run in curves["fairness_regret"]]
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
        return Outcome(metrics, series, policy.guarantee(), spec["noise"] == "seeded")


def _spent(policy: Policy, agents: int, synchronised: bool) -> dict[str, list[float]]:
    """What every agent has spent: all of its event from the first release on, nothing before."""
    guarantee = policy.guarantee()
    if guarantee is None or not synchronised:
        return {"epsilon": [0.0] * agents, "delta": [0.0] * agents}
    return {"epsilon": [float(guarantee.epsilon or 0.0)] * agents, "delta": [float(guarantee.delta or 0.0)] * agents}
