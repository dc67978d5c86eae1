"""The `bandit` task: a policy in an environment for a number of rounds, measured at checkpoints."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from pydantic import Field

from fairveil import registry
from fairveil.bandits.environments.base import Environment
from fairveil.bandits.facts import Assumed, settled_table
from fairveil.bandits.family import Family
from fairveil.bandits.feedback import AT_ONCE, Lateness
from fairveil.bandits.ledgered import with_ledger
from fairveil.bandits.protocol import Policy
from fairveil.bandits.simulate import Case
from fairveil.configuration import describe
from fairveil.errors import SpecError
from fairveil.fields import Count
from fairveil.registry import register
from fairveil.task import Outcome, Part, Task, TaskSpec, run_blocks

DEFAULT_CHECKPOINTS = 20
EVALUATION = (
    "the metrics of this result are computed on the recorded rows themselves and are not protected; the promise covers "
    "what the policy publishes"
)


class BanditSpec(TaskSpec):
    """Keys of a bandit spec."""

    policy: dict[str, Any] = Field(description="the policy: its name and parameters")
    environment: dict[str, Any] = Field(description="the world it plays in: its name and parameters")
    rounds: Count = Field(description="number of decisions")
    checkpoints: list[Count] | None = Field(
        None, description="rounds at which metrics are taken; evenly on a log scale when left out"
    )
    powers: list[float] | None = Field(None, description="p of the p-mean regrets that are reported too")
    feedback: dict[str, Any] | None = Field(
        None, description="late and missing rewards: delay, window, missing, treat, default"
    )


@register("task", "bandit")
class BanditTask(Task):
    """Run a bandit policy in an environment; regret, fairness and what was spent at the checkpoints."""

    Spec = BanditSpec

    def fill(self, model: BanditSpec) -> dict[str, Any]:
        spec = model.model_dump(mode="json", exclude={"environment", "policy"})
        environment: Environment = registry.build(
            "environment",
            settled_table("environment", model.environment, {"horizon": Assumed(model.rounds)}),
            "environment",
        )
        spec["environment"] = describe(environment)
        lateness = environment.lateness if model.feedback is None else Lateness.of(model.feedback)
        facts = environment.facts(model.rounds) | lateness.facts()
        policy: Policy = registry.build("policy", settled_table("policy", model.policy, facts), "policy")
        if policy.family not in ("", environment.family):
            raise SpecError(
                f"a {policy.family} policy does not fit a {environment.family} environment",
                path="policy.name",
                given=policy.name,
                allowed=", ".join(fitting_policies(environment.family)),
                fix=f"choose one of these policies, or an environment for {policy.family} policies",
            )
        spec["policy"] = describe(policy)
        spec["checkpoints"] = _checkpoints(model)
        if model.feedback is None:
            del spec["feedback"]
        else:
            if environment.lateness != AT_ONCE:
                raise SpecError(
                    "rewards would be delayed twice: by the environment and by feedback",
                    path="feedback",
                    fix="leave delay and missing of the environment out",
                )
            lateness.check(policy)
            spec["feedback"] = lateness.table()
        if environment.recorded and model.noise == "secure" and model.runs > 1:
            raise SpecError(
                "runs on the same recorded people add up their budgets",
                path="runs",
                given=model.runs,
                allowed="1 with secure noise",
                fix="run once, or study many runs with noise = seeded",
            )
        if environment.drafted and model.noise == "secure":
            raise SpecError(
                "the ranges and names of this spec are a draft that was read off the data",
                path="environment.declared",
                given="drafted",
                allowed="public",
                fix="replace them by what is known without the data, then declared = public",
            )
        case = Case(spec, policy, environment, family_of(environment), lateness)
        return {**spec, **case.family.check(case)}

    def blocks(self, spec: dict[str, Any]) -> list[dict[str, Any]]:
        case = case_of(spec)
        return run_blocks(spec["runs"], case.family.runs_at_once(case))

    def work(self, spec: dict[str, Any], block: dict[str, Any]) -> Part:
        case = case_of(spec)
        return case.family.simulate(case, range(block["first"], block["last"]))

    def finish(self, spec: dict[str, Any], parts: list[Part]) -> Outcome:
        case = case_of(spec)
        metrics, series = case.family.measure(case, parts)
        guarantee = case.policy.guarantee()
        if case.lateness != AT_ONCE:
            guarantee = case.lateness.promised(guarantee)
        if case.environment.recorded:
            # Regret, means and shares are read off people's rows: only what the policy itself publishes is protected.
            metrics = {"evaluation": True, **metrics}
            if guarantee is not None:
                guarantee = replace(guarantee, notes=(*guarantee.notes, *case.environment.caveats, EVALUATION))
        return Outcome(metrics, series, guarantee, simulated=case.streams(0).noise.simulated)


def case_of(spec: dict[str, Any]) -> Case:
    """What a complete spec describes."""
    environment: Environment = registry.build("environment", spec["environment"], "environment")
    policy: Policy = registry.build("policy", spec["policy"], "policy")
    given = spec.get("feedback")
    lateness = environment.lateness if given is None else Lateness.of(given)
    driven = with_ledger(policy, spec, environment.recorded)
    return Case(spec, driven, environment, family_of(environment), lateness)


def family_of(environment: Environment) -> Family:
    found: Family = registry.get("family", environment.family)()
    return found


def fitting_policies(family: str) -> list[str]:
    return [entry.name for entry in registry.entries("policy") if entry.target.family in ("", family)]


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
            fix="leave checkpoints out for a grid that fits",
        )
    return list(points)
