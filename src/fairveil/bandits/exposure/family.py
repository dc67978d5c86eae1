"""The family of exposure-fair bandits: many agents, contexts, fairness regret."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from fairveil.bandits.environments.exposure import ExposureEnvironment
from fairveil.bandits.exposure.kernel import Sums
from fairveil.bandits.exposure.private import PrivatePolicy
from fairveil.bandits.exposure.simulate import no_sums
from fairveil.bandits.family import Family, Series, Tally, curves, first_estimates, noted_estimates
from fairveil.bandits.protocol import Policy
from fairveil.bandits.simulate import Case, Simulator, Step
from fairveil.errors import SpecError
from fairveil.fairness.exposure import fair_law
from fairveil.registry import register
from fairveil.task import Part


@register("family", "exposure")
class ExposureFamily(Family[Sums]):
    """Fairness regret (average over agents, and sum), reward regret, exposure and merit, messages, privacy spent."""

    def check(self, case: Case) -> dict[str, Any]:
        policy, environment = case.policy, case.environment
        if not isinstance(environment, ExposureEnvironment):
            raise SpecError("an exposure environment shows contexts", path="environment.name", given=environment.name)
        environment.fits(case.rounds)
        if isinstance(policy, PrivatePolicy) and policy.strict and environment.longest_context() > policy.context_bound:
            raise SpecError(
                "this environment shows contexts above the bound, and strict refuses them",
                path="policy.context_bound",
                given=policy.context_bound,
                allowed=f"at least {environment.longest_context():.6g}",
                fix="raise context_bound, choose other contexts, or use strict=False",
            )
        return {}

    def seen(self, world: ExposureEnvironment, steps: Iterable[Step], before: Sums | None) -> Sums:
        sums, theta, merits = before or no_sums(world), np.array(world.theta), world.merits()
        for step in steps:
            agent, played = step.round.agent, step.decision.probabilities
            means = np.array([candidate.features for candidate in step.round.candidates]) @ theta
            fair = fair_law(means, merits[agent])
            if played is None:
                played = np.eye(world.actions)[step.decision.arm]
            sums.fairness[agent] += np.abs(fair - played).sum()
            sums.reward[agent] += float((fair - played) @ means)
            sums.pulls[step.decision.arm] += 1
            sums.exposure[:] += played
            sums.merit[:] += fair
        return sums

    def tally(self, case: Case, runs: range) -> ExposureTally:
        return ExposureTally(case, runs)

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
        environment = case.environment
        names = environment.feature_names if isinstance(environment, ExposureEnvironment) else ()
        called = {f"parameter {place}": name for place, name in enumerate(names)}
        return {**metrics, **first_estimates([part["estimates"] for part in parts], called)}, series


class ExposureTally(Tally[Sums]):
    """One run: sums over rounds as they stand at the checkpoints, and how far beliefs are from the parameter."""

    def __init__(self, case: Case, runs: range) -> None:
        self.checkpoints, self.rounds = case.checkpoints, case.checkpoints[-1]
        self.chunk = self.rounds
        self.policy, self.first = case.policy, runs[0] == 0
        self.sums: Sums
        self.rows: list[tuple[Any, ...]] = []

    def add(self, seen: list[Sums]) -> None:
        [self.sums] = seen

    def mark(self, played: list[Simulator[Sums]]) -> None:
        world: Any = played[0].world
        centre = played[0].belief()
        error = np.nan if centre is None else np.linalg.norm(centre - np.array(world.theta), axis=1).mean()
        self.rows.append((self.sums.fairness.copy(), self.sums.reward.copy(), float(error)))

    def part(self, played: list[Simulator[Sums]]) -> Part:
        [run] = played
        world: Any = run.world
        messages = run.releases * world.agents
        return {
            **dict(zip(("fairness", "reward", "theta_error"), (np.array(column) for column in zip(*self.rows)))),
            "pulls": self.sums.pulls,
            "exposure": self.sums.exposure,
            "merit": self.sums.merit,
            "syncs": run.releases,
            "messages": messages,
            "bytes": messages * message_bytes(self.policy, world.dimension),
            "estimates": noted_estimates(self.policy, run.published() if self.first else None),
        }


def message_bytes(policy: Policy, dimension: int) -> int:
    """Size of one message: a symmetric matrix over [x, y] without the y y entry, and a count where there is one."""
    return 8 * (dimension * dimension + dimension + int(policy.counts_rows))


def _spent(policy: Policy, agents: int, synchronised: bool) -> dict[str, list[float]]:
    """What every agent has spent: all of its event from the first release on, nothing before."""
    guarantee = policy.promise
    if guarantee is None or not synchronised:
        return {"epsilon": [0.0] * agents, "delta": [0.0] * agents}
    return {"epsilon": [float(guarantee.epsilon or 0.0)] * agents, "delta": [float(guarantee.delta or 0.0)] * agents}
