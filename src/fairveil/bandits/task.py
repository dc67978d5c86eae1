"""The `bandit` task: a policy in an environment for a number of rounds, measured at checkpoints."""

from __future__ import annotations

from typing import Any

import numpy as np

from fairveil import registry
from fairveil.bandits.environments.base import Environment
from fairveil.bandits.family import Family
from fairveil.bandits.protocol import Policy
from fairveil.configuration import describe
from fairveil.errors import SpecError
from fairveil.fields import Count
from fairveil.registry import register
from fairveil.task import Outcome, Part, Task, TaskSpec

DEFAULT_CHECKPOINTS = 20


class BanditSpec(TaskSpec):
    """Keys of a bandit spec."""

    policy: dict[str, Any]
    environment: dict[str, Any]
    rounds: Count
    checkpoints: list[Count] | None = None
    powers: list[float] | None = None


@register("task", "bandit")
class BanditTask(Task):
    """Run a bandit policy in an environment; regret, fairness and what was spent at the checkpoints."""

    Spec = BanditSpec

    def fill(self, model: BanditSpec) -> dict[str, Any]:
        horizon = {"horizon": model.rounds}
        environment: Environment = registry.build(
            "environment", _with_known("environment", model.environment, horizon), "environment"
        )
        policy: Policy = registry.build(
            "policy",
            _with_known("policy", _with_facts(model.policy, environment), horizon | environment.hints()),
            "policy",
        )
        if policy.family not in ("", environment.family):
            raise SpecError(
                f"a {policy.family} policy does not fit a {environment.family} environment",
                path="policy.name",
                given=policy.name,
                allowed=", ".join(fitting_policies(environment.family)),
            )
        spec = model.model_dump(mode="json")
        spec["environment"] = describe(environment)
        spec["policy"] = describe(policy)
        spec["checkpoints"] = _checkpoints(model)
        return family_of(environment).complete(spec, policy, environment)

    def blocks(self, spec: dict[str, Any]) -> list[dict[str, Any]]:
        return _family(spec).blocks(spec)

    def work(self, spec: dict[str, Any], block: dict[str, Any]) -> Part:
        return _family(spec).work(spec, block)

    def finish(self, spec: dict[str, Any], parts: list[Part]) -> Outcome:
        return _family(spec).finish(spec, parts)


def family_of(environment: Environment) -> Family:
    return registry.get("family", environment.family)()


def fitting_policies(family: str) -> list[str]:
    return [entry.name for entry in registry.entries("policy") if entry.target.family in ("", family)]


def _family(spec: dict[str, Any]) -> Family:
    return registry.get("family", registry.get("environment", spec["environment"]["name"]).family)()


def _with_facts(policy: dict[str, Any], environment: Environment) -> dict[str, Any]:
    """Policies may leave out of a spec what the environment fixes (the number of arms, of agents, ...)."""
    target = registry.get("policy", policy.get("name", ""), "policy.name")
    fields = getattr(target, "__dataclass_fields__", {})
    known = {name: value for name, value in environment.facts().items() if name in fields}
    for name, value in known.items():
        if policy.get(name, value) != value:
            raise SpecError(
                f"the policy has other {name} than the environment",
                path=f"policy.{name}",
                given=policy[name],
                allowed=str(value),
            )
    return {**known, **policy}


def _with_known(kind: str, table: dict[str, Any], known: dict[str, Any]) -> dict[str, Any]:
    """Fill what the spec knows already (the horizon) into a table that has such a field and leaves it out."""
    target = registry.get(kind, table.get("name", ""), f"{kind}.name")
    fields = getattr(target, "__dataclass_fields__", {})
    return {**{name: value for name, value in known.items() if name in fields}, **table}


def _checkpoints(model: BanditSpec) -> list[int]:
    if model.checkpoints is None:
        grid = np.geomspace(1, model.rounds, DEFAULT_CHECKPOINTS)
        return sorted({round(float(point)) for point in grid} | {model.rounds})
    points = model.checkpoints
    if not points or sorted(set(points)) != points or points[-1] > model.rounds:
        raise SpecError(
            "checkpoints must rise strictly and not exceed rounds",
            path="checkpoints",
            given=points,
            allowed=f"rising integers in [1, {model.rounds}]",
        )
    return list(points)
