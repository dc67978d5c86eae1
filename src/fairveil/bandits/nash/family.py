"""The family of Nash-fair bandits: plain arms, fairness across rounds."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairveil.bandits.environments.arms import ArmEnvironment
from fairveil.bandits.family import Family, Series
from fairveil.bandits.nash.known import KNOWN, allocated, published, spread_evenly, what_is_known
from fairveil.bandits.nash.results import measured
from fairveil.bandits.nash.runs import ArmSimulator, StepSimulator, Summary, UniformSimulator
from fairveil.bandits.nash.tally import Snapshot, Tally, merge
from fairveil.bandits.simulate import Case, Streams
from fairveil.errors import SpecError
from fairveil.fairness.welfare import check_power
from fairveil.registry import register
from fairveil.task import Part, threads

COARSE_RUNS = 8
"""Runs a block of work holds where a run is a few long stretches; otherwise all runs advance side by side."""
DEFAULT_POWERS = [-1.0, 0.5]
CHUNK_CELLS = 1 << 20
"""Runs times rounds that are held at a time; memory does not grow beyond it."""


@register("family", "nash")
class NashFamily(Family):
    """Nash, average and p-mean regret of policies over plain arms."""

    def check(self, case: Case) -> dict[str, Any]:
        environment = _world(case)
        environment.fits(case.rounds, bool(getattr(case.policy, "strict", False)))
        powers = DEFAULT_POWERS if case.spec.get("powers") is None else case.spec["powers"]
        return {"powers": [check_power(float(p)) for p in powers]}

    def runs_at_once(self, case: Case) -> int:
        runs: int = case.spec["runs"]
        return COARSE_RUNS if _simulator(case, 0).coarse else runs

    def uniform(self, case: Case, streams: Streams) -> ArmSimulator:
        return UniformSimulator(_world(case).arms, streams.explore)

    def simulate(self, case: Case, runs: range) -> Part:
        simulators = [_simulator(case, run) for run in runs]
        part = _stretches(case, simulators) if simulators[0].coarse else _side_by_side(case, simulators)
        known = published(case.policy, simulators)
        summaries = [simulator.summary() for simulator in simulators]
        return {**part, **known, **_facts(summaries), **_counted(summaries)}

    def measure(self, case: Case, parts: list[Part]) -> tuple[dict[str, Any], Series]:
        if "ends" in parts[0]:
            ends = [run for part in parts for run in np.split(part["ends"], part["cuts"])]
            codes = [run for part in parts for run in np.split(part["codes"], part["cuts"])]
            snapshots = merge(ends, codes, _tally(case), case.checkpoints)
            allocation = allocated(ends, codes, _world(case).arms, case.checkpoints)
        else:
            snapshots, allocation = _unpack(parts[0], case), parts[0]["allocation"]
        facts = {name: np.concatenate([part[name] for part in parts]) for name in _FACTS}
        world = _world(case)
        metrics, series = measured(case, float(world.true_means.max()), snapshots, facts)
        names = {} if world.arm_names is None else {"arms": list(world.arm_names)}
        own = [name for name in parts[0] if name.startswith(WORLD)]
        counted = {name.removeprefix(WORLD): np.concatenate([part[name] for part in parts]) for name in own}
        known = {name: np.concatenate([part[name] for part in parts]) for name in KNOWN if name in parts[0]}
        return {**names, **metrics, **what_is_known(case, world, allocation, known), **world.measured(counted)}, series


WORLD = "world."
"""Before the names of what a world counted itself."""
_FACTS = ("pulls", "phase_rounds", "releases", "spent")


def _world(case: Case) -> ArmEnvironment:
    environment = case.environment
    if not isinstance(environment, ArmEnvironment):
        raise SpecError("a nash environment has plain arms", path="environment.name", given=environment.name)
    return environment


def _simulator(case: Case, run: int) -> ArmSimulator:
    streams = case.streams(run)
    found: Any = case.policy.simulator(case, streams) if _world(case).compiled else None
    return StepSimulator(case, streams) if found is None else found


def _tally(case: Case) -> Tally:
    world = _world(case)
    return Tally(world.true_means, world.log_means, [1.0, 0.0, *case.spec["powers"]], case.spec["runs"])


def _facts(summaries: list[Summary]) -> Part:
    return {
        "pulls": np.array([summary.pulls for summary in summaries], np.int64),
        "phase_rounds": np.array([summary.phase_rounds for summary in summaries], np.int64),
        "releases": np.array([summary.releases for summary in summaries], np.int64),
        "spent": np.array([summary.spent for summary in summaries], np.float64),
    }


def _counted(summaries: list[Summary]) -> Part:
    """What the worlds of the runs counted, by name."""
    return {WORLD + name: np.array([summary.world[name] for summary in summaries]) for name in summaries[0].world}


def _stretches(case: Case, simulators: list[ArmSimulator]) -> Part:
    runs = [simulator.advance(case.rounds) for simulator in simulators]
    ends: list[NDArray[np.int64]] = [run.ends for run in runs if run.ends is not None]
    return {
        "ends": np.concatenate(ends),
        "codes": np.concatenate([run.codes for run in runs]),
        "cuts": np.cumsum([len(part) for part in ends])[:-1],
    }


def _side_by_side(case: Case, simulators: list[ArmSimulator]) -> Part:
    """All runs side by side in chunks of rounds; threads share the runs, each run has its own generators."""
    runs, tally = len(simulators), _tally(case)
    size = int(np.clip(CHUNK_CELLS // runs, 256, 1 << 16))
    codes = [np.zeros(runs * size, np.int32) for _ in range(2)]
    snapshots: list[Snapshot] = []
    allocation = np.zeros((len(case.checkpoints), _world(case).arms + 1))
    stepwise = any(isinstance(simulator, StepSimulator) for simulator in simulators)

    def play(simulator: ArmSimulator, stop: int, out: NDArray[np.int32]) -> None:
        out[:] = simulator.advance(stop).codes

    with ThreadPoolExecutor(1 if stepwise else min(runs, threads())) as pool:
        now, turn, counting = 0, 0, None
        for checkpoint in case.checkpoints:
            while now < checkpoint:
                stop = min(now + size, checkpoint)
                chunk = codes[turn][: runs * (stop - now)].reshape(runs, stop - now)
                done = [pool.submit(play, simulators[r], stop, chunk[r]) for r in range(runs)]
                for item in done:
                    item.result()
                if counting is not None:
                    counting.result()
                counting = pool.submit(tally.add, chunk, np.ones(stop - now, np.int64))
                allocation[len(snapshots)] += np.bincount(chunk.ravel(), minlength=allocation.shape[1])
                now, turn = stop, 1 - turn
            if counting is not None:
                counting.result()
            snapshots.append(tally.snapshot())
    return {**_pack(snapshots), "allocation": spread_evenly(allocation)}


def _pack(snapshots: list[Snapshot]) -> Part:
    return {
        "welfare": np.array([snapshot.welfare for snapshot in snapshots]),
        "influence": np.array([snapshot.influence for snapshot in snapshots]),
        "bias": np.array([snapshot.bias for snapshot in snapshots]),
        "log_runs": np.array([snapshot.log_runs for snapshot in snapshots]),
    }


def _unpack(part: Part, case: Case) -> list[Snapshot]:
    rows = zip(case.checkpoints, part["welfare"], part["influence"], part["bias"], part["log_runs"])
    return [Snapshot(rounds, welfare, influence, float(bias), logs) for rounds, welfare, influence, bias, logs in rows]
