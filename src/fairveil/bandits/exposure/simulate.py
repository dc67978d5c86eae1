"""One run of an exposure policy, compiled.

Where the times of all synchronisations are known and noise is seeded, whole runs are compiled: the noise of all
releases is drawn in one go (`RunningSum.noise_path`, the law of the streaming sum). Otherwise the stretches between
synchronisations are; with secure noise every release is made by the policy itself, as a deployment would.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairveil.bandits.environments.exposure import ExposureWorld, decisions_until
from fairveil.bandits.exposure.base import ExposurePolicy
from fairveil.bandits.exposure.kernel import EXACT, PUBLISHED, WEIGHTED, Releases, Tally, World, advance, play
from fairveil.bandits.exposure.priv import PrivFairx
from fairveil.bandits.exposure.private import PrivatePolicy
from fairveil.bandits.feedback import AT_ONCE
from fairveil.bandits.simulate import Case
from fairveil.bandits.steps import walk
from fairveil.fairness.exposure import fair_law, merit_codes
from fairveil.federated.schedules import NEVER
from fairveil.privacy.noise import SeededNoise, make_noise
from fairveil.state import State
from fairveil.task import Part

Floats = NDArray[np.float64]


def simulate(case: Case, run: int) -> Part:
    """One run, measured at the checkpoints."""
    policy, environment, spec, streams = case.policy, case.environment, case.spec, case.streams(run)
    assert isinstance(environment, ExposureWorld)
    if not isinstance(policy, ExposurePolicy) or case.lateness != AT_ONCE:
        return _walked(case, run)
    seed, world_rng, choice_rng = spec["seed"], streams.world, streams.explore
    world = environment.prepare(world_rng)
    truth = compiled_world(world, spec["rounds"])
    tally = empty_tally(world)
    state, record = policy.start(), Record(world)
    releases = _planned(policy, spec, run)
    channel = _channel(policy, spec["noise"], seed, run) if releases is None else None
    now = 0
    for checkpoint in spec["checkpoints"]:
        if releases is not None:
            state["syncs"][...] = play(
                now, checkpoint, int(state["syncs"]), releases, world_rng, choice_rng, truth, policy.rules(state),
                state["prior"], state["target"], state["centre"], state["root"], state["leaf"], state["local"],
                state["start_det"], tally,
            )  # fmt: skip
            now = checkpoint
        while now < checkpoint:
            assert channel is not None
            planned = int(state["next"])
            stop = min(checkpoint, planned) if planned > now else checkpoint
            reached = advance(
                now, stop, world_rng, choice_rng, truth, policy.rules(state), state["prior"], state["target"],
                state["centre"], state["root"], state["leaf"], state["local"], state["start_det"], tally,
            )  # fmt: skip
            state["acted"] = np.minimum(reached, policy.lasts)
            fired = reached < stop or (np.isfinite(state["trigger"][0]) and policy.triggered(state, reached))
            now = reached
            if fired or (planned != NEVER and now >= planned):
                state = channel.synchronise(state)
        record.add(tally, state["centre"])
    return record.part(tally, int(state["syncs"]), policy.agents * int(state["syncs"]), message_bytes(policy))


def compiled_world(world: ExposureWorld, rounds: int) -> World:
    codes = merit_codes(world.merits())
    return World(np.array(world.theta), float(world.noise), world.context_codes(), world.last_rounds(rounds), *codes)


def empty_tally(world: ExposureWorld) -> Tally:
    m, k = world.agents, world.actions
    return Tally(np.zeros(m), np.zeros(m), np.zeros(k, np.int64), np.zeros(k), np.zeros(k))


def message_bytes(policy: ExposurePolicy) -> int:
    """Size of one message: a symmetric matrix over [x, y] without the y y entry, in float64."""
    d = policy.dimension
    return 8 * (d * d + d)


class Record:
    """What is kept at the checkpoints."""

    def __init__(self, world: ExposureWorld) -> None:
        self.theta = np.array(world.theta)
        self.rows: list[tuple[Floats, Floats, float]] = []

    def add(self, tally: Tally, centre: Floats) -> None:
        error = float(np.linalg.norm(centre - self.theta, axis=1).mean()) if centre.size else float("nan")
        self.rows.append((tally.fairness.copy(), tally.reward.copy(), error))

    def part(self, tally: Tally, syncs: int, messages: int, size: int) -> Part:
        return {
            "fairness": np.array([row[0] for row in self.rows]),
            "reward": np.array([row[1] for row in self.rows]),
            "theta_error": np.array([row[2] for row in self.rows]),
            "pulls": tally.pulls,
            "exposure": tally.exposure,
            "merit": tally.merit,
            "syncs": syncs,
            "messages": messages,
            "bytes": messages * size,
        }


class _Exact:
    """Synchronisation without privacy."""

    def __init__(self, policy: ExposurePolicy) -> None:
        self.policy = policy

    def synchronise(self, state: State) -> State:
        self.policy.publish(state, state["leaf"].sum(axis=0), None)
        return state


class _Secure:
    """Synchronisation by the policy itself, with noise from the operating system."""

    def __init__(self, policy: PrivatePolicy, seed: int, run: int) -> None:
        self.policy, self.noise = policy, make_noise("secure", seed, "run", run)

    def synchronise(self, state: State) -> State:
        return self.policy.release(state, self.noise)


def drawn_noise(policy: PrivatePolicy, seed: int, run: int, releases: int) -> Iterator[Floats]:
    """The noise of every agent's first releases, flat, drawn in one go."""
    for i in range(policy.agents if releases else 0):
        yield policy.sums.noise_path(SeededNoise(seed, "run", run, "agent", i), releases)


class _Drawn:
    """Synchronisation with noise drawn in advance, where times or weights are not known before."""

    def __init__(self, policy: PrivatePolicy, seed: int, run: int) -> None:
        self.policy = policy
        self.prefix = isinstance(policy, PrivFairx)
        self.each = policy.keeps_local
        self.exact = np.zeros((policy.dimension + 1, policy.dimension + 1))
        paths = drawn_noise(policy, seed, run, policy.syncs)
        self.paths: Any = list(paths) if self.each else [sum(paths)]

    def synchronise(self, state: State) -> State:
        k, grid = int(state["syncs"]), self.policy.sums.grid
        if self.prefix:
            self.exact += state["leaf"].sum(axis=0)
            self.policy.publish(state, self.exact + grid.unpack(self.paths[0][k]), None)
            return state
        fresh = [grid.unpack(path[k] - path[k - 1] if k else path[k]) for path in self.paths]
        if self.each:
            own = state["leaf"] + np.array(fresh)
            self.policy.publish(state, own.sum(axis=0), own)
        else:
            self.policy.publish(state, state["leaf"].sum(axis=0) + fresh[0], None)
        return state


def _planned(policy: ExposurePolicy, spec: dict[str, Any], run: int) -> Releases | None:
    """All synchronisations of a run in advance; None where they depend on statistics, or the policy makes them."""
    if policy.times is None or (isinstance(policy, PrivatePolicy) and spec["noise"] == "secure"):
        return None
    times = np.array([time for time in policy.times if time <= spec["rounds"]], np.int64)
    total = np.zeros((policy.dimension + 1, policy.dimension + 1))
    nobody, nothing = np.empty(0, np.int64), np.empty(0)
    if isinstance(policy, PrivFairx):
        kind = WEIGHTED if policy.confidence == "weighted" else PUBLISHED
        noise = np.zeros((len(times), policy.sums.grid.width))
        for path in drawn_noise(policy, spec["seed"], run, len(times)):
            noise += path
        plan = policy.planned(len(times))
        return Releases(kind, times, total, noise, *policy.sums.grid.upper, plan, policy.facts, *policy.quantiles)
    if isinstance(policy, PrivatePolicy):
        return None
    noise, plan = np.empty((0, 0)), np.empty((1, 0))
    return Releases(EXACT, times, total, noise, nobody, nobody, plan, policy.facts, nothing, nothing)


def _channel(policy: ExposurePolicy, noise: str, seed: int, run: int) -> _Exact | _Secure | _Drawn:
    if not isinstance(policy, PrivatePolicy):
        return _Exact(policy)
    return _Secure(policy, seed, run) if noise == "secure" else _Drawn(policy, seed, run)


def _walked(case: Case, run: int) -> Part:
    """Policies without a kernel, one decision at a time."""
    environment, spec = case.environment, case.spec
    assert isinstance(environment, ExposureWorld)
    # The same stream twice: once to know the parameter that `walk` will draw from it.
    world = environment.prepare(case.streams(run).world)
    tally, record, merits = empty_tally(world), Record(world), world.merits()
    lasts = world.last_rounds(spec["rounds"])
    stops = [decisions_until(checkpoint, lasts) for checkpoint in spec["checkpoints"]]
    steps = walk(case.policy, environment, stops[-1], case.streams(run), case.lateness)
    for count, step in enumerate(steps, start=1):
        means = np.array([candidate.features for candidate in step.round.candidates]) @ np.array(world.theta)
        fair = fair_law(means, merits[step.round.agent])
        played = step.decision.probabilities
        if played is None:
            played = np.eye(world.actions)[step.decision.arm]
        tally.fairness[step.round.agent] += np.abs(fair - played).sum()
        tally.reward[step.round.agent] += float((fair - played) @ means)
        tally.pulls[step.decision.arm] += 1
        tally.exposure[:] += played
        tally.merit[:] += fair
        for _ in range(stops.count(count)):
            record.add(tally, np.zeros((0, world.dimension)))
    return record.part(tally, 0, 0, 0)
