"""The family of Nash-fair bandits: plain arms, fairness across rounds."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

from fairveil import registry
from fairveil.bandits.environments.arms import ArmEnvironment
from fairveil.bandits.environments.base import Environment
from fairveil.bandits.family import Family
from fairveil.bandits.nash.base import NashPolicy
from fairveil.bandits.nash.results import outcome
from fairveil.bandits.nash.runs import StepWalker, Summary, UniformWalker, Walker, streams
from fairveil.bandits.nash.tally import Snapshot, Tally, merge
from fairveil.bandits.protocol import Policy
from fairveil.bandits.random import Random
from fairveil.errors import HorizonError, SpecError
from fairveil.fairness.welfare import check_power
from fairveil.registry import register
from fairveil.task import Outcome, Part, run_blocks, threads

RUNS_PER_BLOCK = 8
DEFAULT_POWERS = [-1.0, 0.5]
CHUNK_CELLS = 1 << 20
"""Runs times rounds that are held at a time; memory does not grow beyond it."""


@register("family", "nash")
class NashFamily(Family):
    """Nash, average and p-mean regret of policies over plain arms."""

    def complete(self, spec: dict[str, Any], policy: Policy, environment: Environment) -> dict[str, Any]:
        if not isinstance(environment, ArmEnvironment):
            raise SpecError("a nash environment has plain arms", path="environment.name", given=environment.name)
        horizon = getattr(policy, "horizon", None)
        if horizon is not None and spec["rounds"] > horizon:
            raise HorizonError(
                "the policy was built for fewer rounds",
                path="policy.horizon",
                given=horizon,
                allowed=f"at least {spec['rounds']}",
                fix="raise horizon, or wrap the policy in anytime",
            )
        environment.fits(spec["rounds"], bool(getattr(policy, "strict", False)))
        powers = DEFAULT_POWERS if spec.get("powers") is None else spec["powers"]
        return {**spec, "powers": [check_power(float(p)) for p in powers]}

    def blocks(self, spec: dict[str, Any]) -> list[dict[str, Any]]:
        policy, _ = _pair(spec)
        return run_blocks(spec["runs"], RUNS_PER_BLOCK) if _episodic(policy, spec) else [{}]

    def work(self, spec: dict[str, Any], block: dict[str, Any]) -> Part:
        policy, world = _pair(spec)
        if isinstance(policy, NashPolicy) and _episodic(policy, spec):
            return _intervals(spec, policy, world, block["first"], block["last"])
        return _rounds(spec, policy, world)

    def finish(self, spec: dict[str, Any], parts: list[Part]) -> Outcome:
        policy, world = _pair(spec)
        if _episodic(policy, spec):
            ends = [run for part in parts for run in np.split(part["ends"], part["cuts"])]
            codes = [run for part in parts for run in np.split(part["codes"], part["cuts"])]
            snapshots = merge(ends, codes, _tally(spec, world), spec["checkpoints"])
        else:
            snapshots = _unpack(parts[0], spec)
        facts = {name: np.concatenate([part[name] for part in parts]) for name in _FACTS}
        return outcome(spec, policy, float(world.true_means.max()), snapshots, facts)


_FACTS = ("pulls", "phase_rounds", "releases", "spent")


def _pair(spec: dict[str, Any]) -> tuple[Policy, ArmEnvironment]:
    policy = registry.build("policy", spec["policy"], "policy")
    return policy, registry.build("environment", spec["environment"], "environment")


def _episodic(policy: Policy, spec: dict[str, Any]) -> bool:
    return isinstance(policy, NashPolicy) and policy.episodic and spec["noise"] == "seeded"


def _tally(spec: dict[str, Any], world: ArmEnvironment) -> Tally:
    return Tally(world.true_means, world.log_means, [1.0, 0.0, *spec["powers"]], spec["runs"])


def _facts(summaries: list[Summary]) -> Part:
    return {
        "pulls": np.array([summary.pulls for summary in summaries], np.int64),
        "phase_rounds": np.array([summary.phase_rounds for summary in summaries], np.int64),
        "releases": np.array([summary.releases for summary in summaries], np.int64),
        "spent": np.array([summary.spent for summary in summaries], np.float64),
    }


def _intervals(spec: dict[str, Any], policy: NashPolicy, world: ArmEnvironment, first: int, last: int) -> Part:
    runs = [policy.intervals(world, spec["rounds"], streams(spec["seed"], r, "seeded")) for r in range(first, last)]
    return {
        "ends": np.concatenate([run.ends for run in runs]),
        "codes": np.concatenate([run.codes for run in runs]),
        "cuts": np.cumsum([len(run.ends) for run in runs])[:-1],
        **_facts([run.summary for run in runs]),
    }


def _rounds(spec: dict[str, Any], policy: Policy, world: ArmEnvironment) -> Part:
    """All runs side by side in chunks of rounds; threads share the runs, each run has its own generators."""
    runs, tally = spec["runs"], _tally(spec, world)
    walkers = [_walker(spec, policy, world, run) for run in range(runs)]
    size = int(np.clip(CHUNK_CELLS // runs, 256, 1 << 16))
    codes = [np.zeros(runs * size, np.int32) for _ in range(2)]
    snapshots: list[Snapshot] = []
    workers = min(runs, threads())
    compiled = not any(isinstance(walker, StepWalker) for walker in walkers)
    with ThreadPoolExecutor(workers if compiled else 1) as pool:
        now, turn, counting = 0, 0, None
        for checkpoint in spec["checkpoints"]:
            while now < checkpoint:
                stop = min(now + size, checkpoint)
                chunk = codes[turn][: runs * (stop - now)].reshape(runs, stop - now)
                done = [pool.submit(walkers[r].advance, now, stop, chunk[r]) for r in range(runs)]
                for item in done:
                    item.result()
                if counting is not None:
                    counting.result()
                counting = pool.submit(tally.add, chunk, np.ones(stop - now, np.int64))
                now, turn = stop, 1 - turn
            if counting is not None:
                counting.result()
            snapshots.append(tally.snapshot())
    return {**_pack(snapshots), **_facts([walker.summary() for walker in walkers])}


def _walker(spec: dict[str, Any], policy: Policy, world: ArmEnvironment, run: int) -> Walker:
    own = streams(spec["seed"], run, spec["noise"])
    if isinstance(policy, NashPolicy) and spec["noise"] == "seeded":
        return policy.walker(world, spec["rounds"], own)
    if isinstance(policy, Random):
        return UniformWalker(world.arms, own.explore)
    return StepWalker(policy, world, spec["rounds"], own)


def _pack(snapshots: list[Snapshot]) -> Part:
    return {
        "welfare": np.array([snapshot.welfare for snapshot in snapshots]),
        "influence": np.array([snapshot.influence for snapshot in snapshots]),
        "bias": np.array([snapshot.bias for snapshot in snapshots]),
        "log_runs": np.array([snapshot.log_runs for snapshot in snapshots]),
    }


def _unpack(part: Part, spec: dict[str, Any]) -> list[Snapshot]:
    rows = zip(spec["checkpoints"], part["welfare"], part["influence"], part["bias"], part["log_runs"])
    return [Snapshot(rounds, welfare, influence, float(bias), logs) for rounds, welfare, influence, bias, logs in rows]
