"""The family of exposure-fair bandits: many agents, contexts, fairness regret."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairveil.bandits.environments.agents import ExposureEnvironment, decisions_until
from fairveil.bandits.exposure.private import PrivatePolicy
from fairveil.bandits.exposure.simulate import empty_tally
from fairveil.bandits.family import Family, Series, first_estimates, noted_estimates
from fairveil.bandits.protocol import Policy
from fairveil.bandits.simulate import Case, Simulator, Streams, curves
from fairveil.bandits.steps import walk
from fairveil.errors import SpecError
from fairveil.fairness.exposure import fair_law
from fairveil.registry import register
from fairveil.state import State
from fairveil.task import Part

UNKNOWN = np.empty((0, 0))


class StepRun(Simulator):
    """One run decision by decision: plug-ins, and feedback that no compiled simulator takes."""

    def __init__(self, case: Case, streams: Streams, twin: Streams) -> None:
        assert isinstance(case.environment, ExposureEnvironment)
        self.world = case.environment.prepare(twin.world)  # a twin of the world that `walk` will draw
        self.tally, self.merits = empty_tally(self.world), self.world.merits()
        self.lasts = self.world.last_rounds(case.rounds)
        decisions = decisions_until(case.rounds, self.lasts)
        self.steps = walk(case.policy, case.environment, decisions, streams, case.lateness)
        self.decided, self.syncs = 0, 0
        self.centre: NDArray[np.float64] = UNKNOWN
        self.state: State = {}

    def published(self) -> State:
        return self.state

    def advance(self, stop: int) -> None:
        tally, theta = self.tally, np.array(self.world.theta)
        while self.decided < decisions_until(stop, self.lasts):
            step = next(self.steps)
            agent, played = step.round.agent, step.decision.probabilities
            means = np.array([candidate.features for candidate in step.round.candidates]) @ theta
            fair = fair_law(means, self.merits[agent])
            if played is None:
                played = np.eye(self.world.actions)[step.decision.arm]
            tally.fairness[agent] += np.abs(fair - played).sum()
            tally.reward[agent] += float((fair - played) @ means)
            tally.pulls[step.decision.arm] += 1
            tally.exposure[:] += played
            tally.merit[:] += fair
            self.decided += 1
            self.centre = step.state.get("centre", UNKNOWN)
            self.state = step.state
            self.syncs = self.releases = int(step.state.get("syncs", 0))


@register("family", "exposure")
class ExposureFamily(Family):
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

    def simulate(self, case: Case, runs: range) -> Part:
        [run] = runs
        found: Any = case.policy.simulator(case, case.streams(run))
        played = found if found is not None else StepRun(case, case.streams(run), case.streams(run))
        theta = np.array(played.world.theta)
        rows = []
        for checkpoint in case.checkpoints:
            played.advance(checkpoint)
            error = np.linalg.norm(played.centre - theta, axis=1).mean() if played.centre.size else np.nan
            rows.append((played.tally.fairness.copy(), played.tally.reward.copy(), float(error)))
        fairness, reward, errors = (np.array(column) for column in zip(*rows))
        tally, syncs = played.tally, played.syncs
        messages = syncs * played.world.agents
        return {
            "fairness": fairness,
            "reward": reward,
            "theta_error": errors,
            "pulls": tally.pulls,
            "exposure": tally.exposure,
            "merit": tally.merit,
            "syncs": syncs,
            "messages": messages,
            "bytes": messages * message_bytes(case.policy, played.world.dimension),
            "estimates": noted_estimates(case.policy, played.published() if run == 0 else None),
        }

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


def message_bytes(policy: Policy, dimension: int) -> int:
    """Size of one message: a symmetric matrix over [x, y] without the y y entry, and a count where there is one."""
    return 8 * (dimension * dimension + dimension + int(getattr(policy, "counts_rows", False)))


def _spent(policy: Policy, agents: int, synchronised: bool) -> dict[str, list[float]]:
    """What every agent has spent: all of its event from the first release on, nothing before."""
    guarantee = policy.guarantee()
    if guarantee is None or not synchronised:
        return {"epsilon": [0.0] * agents, "delta": [0.0] * agents}
    return {"epsilon": [float(guarantee.epsilon or 0.0)] * agents, "delta": [float(guarantee.delta or 0.0)] * agents}
