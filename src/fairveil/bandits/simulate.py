"""The one engine of all families: a case built once, one scheme of seeds, runs side by side, one loop over checkpoints.

A family brings a tally and its metrics (`fairveil.bandits.family`); a policy may bring a compiled simulator. Everything
else (plug-ins, secure noise, worlds without compiled laws) is played one round after the other through the protocol,
with late or missing rewards: the compiled simulators of the families are fast twins of that loop.
"""

from __future__ import annotations

import heapq
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cached_property
from itertools import islice
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar

from fairveil import registry
from fairveil.arrays import Floats
from fairveil.bandits.environments.base import Environment
from fairveil.bandits.feedback import AT_ONCE, NEVER, NOBODY, Lateness, Outstanding, hand_over
from fairveil.bandits.protocol import Decision, Feedback, Policy, Report, Round
from fairveil.privacy.noise import Noise, make_noise
from fairveil.randomness import Generator, generator
from fairveil.state import State
from fairveil.task import Part, doing, threads

if TYPE_CHECKING:
    from fairveil.bandits.family import Family, Tally

Seen = TypeVar("Seen")
"""What a family's tally takes of a stretch of rounds."""
NOBODY_CHOSEN = Decision(NOBODY)


@dataclass(frozen=True)
class Streams:
    """The independent sources of one run: the policy's coins, the world, the privacy noise, arrivals of rewards.

    Arrivals come from ``coming()``, which is called when a reward can first be late.
    """

    explore: Generator
    world: Generator
    noise: Noise
    coming: Callable[[], Generator]

    @classmethod
    def of(cls, seed: int, run: int, noise: str | Noise = "seeded") -> Streams:
        """The streams of run number ``run``; ``noise`` is what the spec asks for, or a source of its own.

        >>> Streams.of(7, 0).world.integers(100) == Streams.of(7, 0).world.integers(100)
        np.True_
        """
        source = make_noise(noise, seed, "run", run) if isinstance(noise, str) else noise
        explore, world = (generator(seed, "run", run, name) for name in ("explore", "world"))
        return cls(explore, world, source, lambda: generator(seed, "run", run, "arrivals"))

    @cached_property
    def arrivals(self) -> Generator:
        """The stream of waits and missing rewards; a run without them does not pay for it."""
        return self.coming()


@dataclass(frozen=True)
class Case:
    """A complete bandit spec with what it describes, built once for all runs of a process."""

    spec: dict[str, Any]
    policy: Policy
    environment: Environment
    family: Family[Any]
    lateness: Lateness
    rounds: int = field(init=False)
    checkpoints: list[int] = field(init=False)

    def __post_init__(self) -> None:
        self.__dict__.update(rounds=self.spec["rounds"], checkpoints=self.spec["checkpoints"])

    @classmethod
    def of(
        cls, policy: Policy, environment: Environment, rounds: int, *, lateness: Lateness = AT_ONCE, seed: int = 0
    ) -> Case:
        """A case without a spec, for one run that is measured at its end."""
        spec = {"rounds": rounds, "checkpoints": [rounds], "runs": 1, "seed": seed, "noise": "seeded", "powers": []}
        return cls(spec, policy, environment, registry.get("family", environment.family)(), lateness)

    def streams(self, run: int) -> Streams:
        return Streams.of(self.spec["seed"], run, self.spec["noise"])


class Simulator(ABC, Generic[Seen]):
    """One run of one policy in one world of its family, played on a stretch of rounds at a time.

    A policy offers a compiled one (`Policy.simulator`); otherwise its steps are played. Both call the same kernels,
    draw from the same streams, and decide the same arms.
    """

    world: Environment
    """The world of this run."""
    releases: int = 0
    """Releases made so far."""
    compiled: ClassVar[bool] = True
    spent: float = 0.0
    """Epsilon that the person who paid most has paid so far."""

    @abstractmethod
    def advance(self, stop: int) -> Seen:
        """Play on until ``stop`` rounds are decided and hand back what the family's tally takes of them."""

    def published(self) -> State | None:
        """The arrays of a state from which estimates are made, None where there are none."""
        return None

    def belief(self) -> Floats | None:
        """What is believed of the parameter of the world now, None where the policy has no such belief."""
        return None

    def uncertainty(self) -> Floats | None:
        """Standard deviation of what decisions are based on, from public numbers only; None where there is none."""
        return None


# Steps ----------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Step:
    """What happened in one round; ``state`` is the policy's state after it."""

    round: Round
    decision: Decision
    reward: float
    state: State
    releases: int = 0
    """Releases made until then."""


def walk(
    policy: Policy, environment: Environment, rounds: int, streams: Streams, lateness: Lateness = AT_ONCE
) -> Iterator[Step]:
    """Yield every round of one run in the world that the environment prepares for it: see `play`."""
    return play(policy, environment.prepare(streams.world), rounds, streams, lateness)


def play(
    policy: Policy, place: Environment, rounds: int, streams: Streams, lateness: Lateness = AT_ONCE
) -> Iterator[Step]:
    """Yield every round of one run in a prepared world.

    Rewards pass through ``policy.report`` when they are drawn (on the user's side), arrive after their delay, and reach
    ``learn`` by the policy's clock; releases are made as soon as they are due.
    """
    world, noise = streams.world, streams.noise
    outstanding = Outstanding(policy, lateness)
    state = hand_over(policy, policy.start(), outstanding, noise)
    under_way: list[tuple[int, int, Feedback | Report]] = []
    for index in range(rounds):
        state = policy.open(state, index, streams.explore)
        shown = place.show(index, world)
        if place.nobody(shown):
            decision, reward = NOBODY_CHOSEN, 0.0
        else:
            decision = policy.decide(state, shown, streams.explore)
            reward = place.reward(shown, decision.arm, world)
        outstanding.decided(decision.arm, shown)
        wait = place.wait(shown, decision.arm, lateness.given(reward), streams.arrivals)
        if wait != NEVER and decision is not NOBODY_CHOSEN:
            feedback = policy.report(Feedback(index, decision.arm, reward, shown), noise)
            heapq.heappush(under_way, (index + wait, index, feedback))
        while under_way and under_way[0][0] <= index:
            outstanding.arrive(heapq.heappop(under_way)[2])
        state = hand_over(policy, state, outstanding, noise)
        yield Step(shown, decision, reward, state, outstanding.releases)


class StepSimulator(Simulator[Any]):
    """Any policy in any world through its step API: plug-ins, secure noise, the reference for compiled simulators."""

    compiled = False

    def __init__(self, case: Case, streams: Streams) -> None:
        self.family, self.streams = case.family, streams
        self.world = case.environment.stage(streams.world)
        rounds = self.world.decisions(case.rounds)
        self.steps: Iterator[Step] = play(case.policy, self.world, rounds, streams, case.lateness)
        self.decided, self.state, self.seen = 0, State(), None
        promise = case.policy.promise
        self.spent = 0.0 if promise is None else promise.epsilon or 0.0

    def advance(self, stop: int) -> Any:
        until = self.world.decisions(stop)
        self.world.draw_ahead(self.decided, until - self.decided, self.streams.world)
        self.seen = self.family.seen(self.world, self._noted(until - self.decided), self.seen)
        self.decided = until
        return self.seen

    def _noted(self, count: int) -> Iterator[Step]:
        for step in islice(self.steps, count):
            self.state, self.releases = step.state, self.family.releases(step)
            yield step

    def published(self) -> State:
        return self.state

    def belief(self) -> Floats | None:
        return self.state.get("centre")


# The loop -------------------------------------------------------------------------------------------------------------


def start_run(case: Case, streams: Streams) -> Simulator[Any]:
    """One run of a case: compiled where policy and world allow it, else step by step."""
    found = case.policy.simulator(case, streams) if case.environment.compiled else None
    return case.family.stepwise(case, streams) if found is None else found


def simulate(case: Case, block: dict[str, Any]) -> Part:
    """Play the runs of a block side by side, a stretch of rounds at a time; returns what the family's tally keeps."""
    runs = range(block["first"], block["last"])
    played = [start_run(case, case.streams(run)) for run in runs]
    tally = case.family.tally(case, runs)
    workers = min(len(played), threads()) if tally.threaded and all(one.compiled for one in played) else 1
    if workers > 1:
        _in_threads(tally, played, workers)
    else:
        for stop, marked in tally.stops():
            seen = []
            for place, one in enumerate(played, 1):
                if not one.compiled:  # steps take long, and say where they are
                    doing(f"to round {stop:,}, run {place} of {len(played)}")
                seen.append(one.advance(stop))
            tally.add(seen)
            if marked:
                tally.mark(played)
    return tally.part(played)


def _in_threads(tally: Tally[Any], played: list[Simulator[Any]], workers: int) -> None:
    """Threads share the runs, each with its own generators; a stretch is counted while the next one is played."""
    with ThreadPoolExecutor(workers) as pool:
        counting: Future[None] | None = None
        for stop, marked in tally.stops():
            playing = [pool.submit(one.advance, stop) for one in played]
            seen = [one.result() for one in playing]
            if counting is not None:
                counting.result()
            counting = pool.submit(tally.add, seen)
            if marked:
                counting.result()
                tally.mark(played)
