"""The `bandit` task: a policy in an environment for a number of rounds, measured at checkpoints."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from pydantic import Field

from fairveil import registry
from fairveil.bandits.environments.base import Environment
from fairveil.bandits.facts import Assumed, settled_table
from fairveil.bandits.family import Family
from fairveil.bandits.feedback import AT_ONCE, Lateness
from fairveil.bandits.ledgered import with_ledger
from fairveil.bandits.protocol import Policy
from fairveil.bandits.simulate import Case, simulate
from fairveil.configuration import describe
from fairveil.errors import SpecError
from fairveil.fields import Count
from fairveil.registry import register
from fairveil.task import Outcome, Part, Prepared, Task, TaskSpec, run_blocks

DEFAULT_CHECKPOINTS = 20
SHARED = 32
"""Policies and generated worlds that a process keeps, and as many prepared specs."""
PUBLISHED = ("arms", "checkpoints", "estimates", "evaluation", "pull_share", "releases", "spent")
"""Metrics of a private run that were decided, released or charged, all of which its promise covers: arms are chosen by
published numbers and coins. Of the others most are exact."""
EVALUATION = (
    "the metrics of this result are computed on the recorded rows themselves and are not protected; the promise covers "
    "what the policy publishes"
)
APART = "numbers under lab are computed on the recorded rows and are not protected; the promise covers all others"


_shared: dict[tuple[Any, str], Any] = {}


class _Ready(NamedTuple):
    """A case, its complete spec as JSON, and the classes that its names stood for."""

    targets: tuple[Any, Any]
    spec: str
    case: Case


_ready: dict[str, _Ready] = {}


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

    def build(self, model: BanditSpec) -> Prepared:
        """Seeded runs in a generated world are prepared once in a process, whatever their seed."""
        if model.noise != "seeded":
            return self.made(model)
        try:
            key = json.dumps(model.model_dump(exclude={"seed"}), sort_keys=True, default=describe)
        except (TypeError, ValueError):  # not plain data: it says itself what is wrong
            return self.made(model)
        known = _ready.get(key)
        if known is None or known.targets != _targets(model):
            made = self.made(model)
            if not made.case.environment.generated:
                return made
            known = _kept(_ready, key, _Ready(_targets(model), json.dumps(made.spec), made.case))
        spec = json.loads(known.spec) | {"seed": model.seed}
        return Prepared(spec, replace(known.case, spec=spec))

    def made(self, model: BanditSpec) -> Prepared:
        """Check a spec against its world and build what it describes."""
        spec = model.model_dump(mode="json", exclude={"environment", "policy"})
        table = settled_table("environment", model.environment, {"horizon": Assumed(model.rounds)})
        environment: Environment = shared("environment", table)
        spec["environment"] = describe(environment)
        lateness = environment.lateness if model.feedback is None else Lateness.of(model.feedback)
        facts = environment.facts(model.rounds) | lateness.facts(model.policy.get("release") or "arrivals")
        policy: Policy = shared("policy", settled_table("policy", model.policy, facts))
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
            lateness.check_arms(environment.arms)
            spec["feedback"] = lateness.table()
        if model.noise == "secure":
            _check_secure(model, environment)
        family: Family[Any] = registry.get("family", environment.family)()
        case = Case(spec, with_ledger(policy, spec, environment.recorded), environment, family, lateness)
        spec |= family.check(case)
        return Prepared(spec, case)

    def blocks(self, case: Case) -> list[dict[str, Any]]:
        return run_blocks(case.spec["runs"], case.family.runs_at_once(case))

    work = staticmethod(simulate)

    def finish(self, case: Case, parts: list[Part]) -> Outcome:
        metrics, series = case.family.measure(case, parts)
        guarantee = case.policy.promise
        if case.lateness != AT_ONCE or case.environment.silent:
            guarantee = case.lateness.promised(guarantee)
        if case.environment.recorded:
            # Regret, means and shares are read off people's rows: only what the policy itself publishes is protected.
            metrics = {"evaluation": True, **metrics}
            said = EVALUATION
            if guarantee is not None and case.spec["noise"] == "secure":
                metrics, series, said = apart(metrics), {}, APART
            if guarantee is not None:
                guarantee = replace(guarantee, notes=(*guarantee.notes, *case.environment.caveats, said))
        return Outcome(metrics, series, guarantee, simulated=case.spec["noise"] == "seeded")


def _check_secure(model: BanditSpec, environment: Environment) -> None:
    """Refuse what secure noise cannot stand for: runs that reuse people, and public numbers that are a draft."""
    if environment.recorded and model.runs > 1:
        raise SpecError(
            "runs on the same recorded people add up their budgets",
            path="runs",
            given=model.runs,
            allowed="1 with secure noise",
            fix="run once, or study many runs with noise = seeded",
        )
    if environment.drafted:
        raise SpecError(
            "the ranges and names of this spec are a draft that was read off the data",
            path="environment.declared",
            given="drafted",
            allowed="public",
            fix="replace them by what is known without the data, then declared = public",
        )


def apart(metrics: dict[str, Any]) -> dict[str, Any]:
    """What the policy has published or decided, and under ``lab`` everything that was read off people's rows."""
    kept = {name: value for name, value in metrics.items() if name in PUBLISHED}
    exact = {name: value for name, value in metrics.items() if name not in PUBLISHED}
    return {**kept, "lab": {**exact.pop("lab", {}), **exact}}


def case_of(spec: dict[str, Any]) -> Case:
    """What a spec describes."""
    case: Case = BanditTask().prepare(spec).case
    return case


def shared(kind: str, table: dict[str, Any]) -> Any:
    """What a table describes. Equal tables share one in a process where it is a value that follows from its fields
    alone: a policy, or a generated world. Noise levels, schedules and populations are then computed once.
    """
    target = registry.target_of(kind, table, kind)
    if not issubclass(target, Policy) and not target.generated:
        return registry.build(kind, table, kind)
    try:
        key = target, json.dumps(table, sort_keys=True, default=describe)
    except (TypeError, ValueError):  # not plain data: it says itself what is wrong
        return registry.build(kind, table, kind)
    found = _shared.get(key)
    if found is None:
        found = _kept(_shared, key, registry.build(kind, table, kind))
    return found


def _kept(held: dict[Any, Any], key: Any, value: Any) -> Any:
    """Keep a value; the oldest one goes where there are too many."""
    while len(held) >= SHARED:
        held.pop(next(iter(held)), None)
    held[key] = value
    return value


def _targets(model: BanditSpec) -> tuple[Any, Any]:
    """What the names of a spec stand for now: a plug-in may have been loaded again meanwhile."""
    return registry.target_of("environment", model.environment, "environment"), registry.target_of(
        "policy", model.policy, "policy"
    )


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
