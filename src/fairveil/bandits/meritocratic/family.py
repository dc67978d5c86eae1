"""The family `meritocratic`: runs a policy on rounds of candidates and measures fairness by relative ranks.

Fair pseudo-regret adds, in every round, the best relative rank shown minus the relative rank chosen (Grazzi et al.
2022), both under the true score distribution of each group.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from fairveil import registry
from fairveil.bandits.environments.base import Environment
from fairveil.bandits.family import Family
from fairveil.bandits.meritocratic.runner import Runner, StepRunner, UniformRunner
from fairveil.bandits.meritocratic.scaling import Scaling
from fairveil.bandits.meritocratic.world import Chunk, Floats, MeritocraticEnvironment
from fairveil.bandits.protocol import Policy
from fairveil.configuration import describe
from fairveil.errors import SpecError
from fairveil.fairness.ranks import fair_regret, parity_gap, within_group_correlation
from fairveil.privacy.noise import make_noise
from fairveil.randomness import generator
from fairveil.registry import register
from fairveil.task import Outcome, Part, run_blocks

CHUNK = 1024
"""Rounds drawn at a time. Part of the random stream: another value gives other (equally valid) runs."""
REFERENCE = 2000
"""Candidates of each group on which estimated scores are compared with true ones."""
CURVES = ("fair_regret", "reward_regret", "parity_gap", "theta_error")


@register("family", "meritocratic")
class Meritocratic(Family):
    """Choose the candidate of the highest relative rank within its own group."""

    def complete(self, spec: dict[str, Any], policy: Policy, environment: Environment) -> dict[str, Any]:
        assert isinstance(environment, MeritocraticEnvironment)
        return {**spec, "policy": describe(fitted(policy, environment, spec["rounds"]))}

    def blocks(self, spec: dict[str, Any]) -> list[dict[str, Any]]:
        return [dict(block) for block in run_blocks(spec["runs"], 1)]

    def work(self, spec: dict[str, Any], block: dict[str, Any]) -> Part:
        environment = registry.build("environment", spec["environment"], "environment")
        policy = registry.build("policy", spec["policy"], "policy")
        parts = [_one_run(spec, policy, environment, run) for run in range(block["first"], block["last"])]
        return {name: np.stack([part[name] for part in parts]) for name in parts[0]}

    def finish(self, spec: dict[str, Any], parts: list[Part]) -> Outcome:
        environment = registry.build("environment", spec["environment"], "environment")
        policy: Policy = registry.build("policy", spec["policy"], "policy")
        joined = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
        guarantee = policy.guarantee()
        metrics: dict[str, Any] = {}
        series: dict[str, dict[str, list[float]]] = {}
        for name in CURVES:
            values = joined[name]
            if np.isnan(values).all():
                continue
            mean, std = values.mean(axis=0), values.std(axis=0, ddof=1) if len(values) > 1 else 0 * values[0]
            reach = 1.96 * std / np.sqrt(len(values))
            metrics[name], metrics[f"{name}_std"] = mean.tolist(), std.tolist()
            series[name] = {
                "x": [float(point) for point in spec["checkpoints"]],
                "y": mean.tolist(),
                "low": (mean - reach).tolist(),
                "high": (mean + reach).tolist(),
            }
        names = environment.group_names
        metrics["selection_share"] = _by_group(names, joined["selections"].mean(axis=0) / spec["rounds"])
        if not np.isnan(joined["rank_error"]).any():
            metrics["rank_calibration"] = float(joined["rank_error"].mean())
            metrics["rank_calibration_std"] = float(joined["rank_error"].std())
        if not np.isnan(joined["rank_uncertainty"]).any():
            metrics["rank_uncertainty"] = _by_group(names, joined["rank_uncertainty"].mean(axis=0))
        metrics["releases"] = float(joined["releases"].mean())
        metrics["spent"] = (
            {}
            if guarantee is None
            else {
                key: value
                for key in ("epsilon", "delta", "mu", "rho")
                if (value := getattr(guarantee, key)) is not None
            }
        )
        return Outcome(metrics, series, guarantee, simulated=spec["noise"] == "seeded")


def fitted(policy: Policy, environment: MeritocraticEnvironment, rounds: int) -> Policy:
    """The policy with public facts filled in: numbers of groups and features, horizon, totals and scaling."""
    facts: dict[str, Any] = {
        "groups": environment.groups,
        "features": environment.features,
        "rounds": rounds,
        "candidates": len(environment.slots()),
        "per_group": int(np.bincount(environment.slots()).max()),
        "totals": "public" if environment.steady else "noisy",
    }
    known = set(getattr(policy, "__dataclass_fields__", {}))
    changes: dict[str, Any] = {}
    for name, value in facts.items():
        if name not in known:
            continue
        given = getattr(policy, name)
        if given is None:
            changes[name] = value
        elif name in ("groups", "features") and given != value:
            raise SpecError(
                f"the environment has another number of {name}", path=f"policy.{name}", given=given, allowed=str(value)
            )
        elif name == "rounds" and given < value:
            raise SpecError(
                "the policy's horizon is shorter than the run",
                path="policy.rounds",
                given=given,
                allowed=f"at least {value}",
            )
        elif name in ("candidates", "per_group") and given < value:
            raise SpecError(
                "the environment shows more candidates than the policy has noise for",
                path=f"policy.{name}",
                given=given,
                allowed=f"at least {value}",
            )
        elif name == "totals" and given == "public" and value == "noisy":
            raise SpecError(
                "totals are not public where a group may be absent", path="policy.totals", given=given, allowed="noisy"
            )
    if isinstance(getattr(policy, "scaling", None), Scaling):
        changes["scaling"] = policy.scaling.resolved(environment.schema)  # type: ignore[attr-defined]
    return replace(policy, **changes) if changes else policy  # type: ignore[type-var]


def make_runner(policy: Policy, environment: MeritocraticEnvironment, spec: dict[str, Any], run: int) -> Runner:
    """The compiled runner of a policy, or its step interface where it has none."""
    rng = generator(spec["seed"], "run", run, "policy")
    noise = make_noise(spec["noise"], spec["seed"], "run", run)
    if policy.name == "random":
        return UniformRunner(rng)
    if hasattr(policy, "runner"):
        return policy.runner(environment.slots(), rng, noise)
    return StepRunner(policy, rng, noise)


def _one_run(spec: dict[str, Any], policy: Policy, environment: MeritocraticEnvironment, run: int) -> Part:
    world = generator(spec["seed"], "run", run, "world")
    runner = make_runner(policy, environment, spec, run)
    reference = _Reference(environment, generator(spec["seed"], "reference"))
    count, groups = len(spec["checkpoints"]), environment.groups
    curves: dict[str, Floats] = {name: np.full(count, np.nan) for name in CURVES}
    tally = _Tally(groups)
    at = 0
    first = 0
    while first < spec["rounds"]:
        # A chunk never crosses a checkpoint, so theta is read at the checkpoint itself.
        size = min(CHUNK, spec["rounds"] - first, (spec["checkpoints"][at] if at < count else spec["rounds"]) - first)
        chunk = environment.draw(first, size, world)
        slots, estimates = runner.play(chunk)
        tally.add(chunk, slots, estimates)
        first += size
        while at < count and spec["checkpoints"][at] <= first:
            curves["fair_regret"][at] = tally.fair
            curves["reward_regret"][at] = tally.reward
            curves["parity_gap"][at] = parity_gap(tally.chosen, tally.shown)
            theta = runner.theta()
            if theta is not None:
                curves["theta_error"][at] = reference.error(theta)
            at += 1
    uncertainty = runner.rank_uncertainty()
    return {
        **curves,
        "selections": tally.chosen.astype(np.float64),
        "rank_error": np.float64(tally.rank_error / tally.ranked if tally.ranked else np.nan),
        "rank_uncertainty": np.full(groups, np.nan) if uncertainty is None else uncertainty,
        "releases": np.float64(runner.releases),
    }


class _Tally:
    """Running totals of one run."""

    def __init__(self, groups: int) -> None:
        self.fair = self.reward = self.rank_error = 0.0
        self.ranked = 0
        self.chosen = np.zeros(groups, np.int64)
        self.shown = np.zeros(groups, np.int64)

    def add(self, chunk: Chunk, slots: Any, estimates: Floats) -> None:
        rows = np.arange(len(chunk))
        filled = chunk.group >= 0
        some = filled.any(axis=1)
        rank = chunk.rank[rows, slots]
        self.fair += float(fair_regret(chunk.rank, slots).sum())
        best = np.where(filled, chunk.score, -np.inf).max(axis=1)
        self.reward += float((best - chunk.score[rows, slots])[some].sum())
        self.chosen += np.bincount(chunk.group[rows, slots][some], minlength=len(self.chosen))
        self.shown += np.bincount(chunk.group[filled], minlength=len(self.shown))
        known = ~np.isnan(estimates) & some
        self.rank_error += float(np.abs(estimates - rank)[known].sum())
        self.ranked += int(known.sum())


class _Reference:
    """A fixed sample of candidates on which an estimate of theta is judged by what matters: scores within a group."""

    def __init__(self, environment: MeritocraticEnvironment, rng: Any) -> None:
        groups = np.repeat(np.arange(environment.groups), REFERENCE)
        features, scores, _ = environment.people(groups, rng)
        self.features = features.reshape(environment.groups, REFERENCE, -1)
        self.scores = scores.reshape(environment.groups, REFERENCE)

    def error(self, theta: Floats) -> float:
        """One minus the mean correlation of estimated and true scores within groups (0: same order)."""
        return 1.0 - within_group_correlation(self.features @ theta, self.scores)


def _by_group(names: tuple[str, ...], values: Floats) -> dict[str, float]:
    return {name: float(value) for name, value in zip(names, values)}
