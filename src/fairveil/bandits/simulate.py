"""The one engine of all families: a case built once, one scheme of seeds, runs side by side, one loop over checkpoints.

A family brings a tally and its metrics (`fairveil.bandits.family`); a policy may bring a compiled simulator. Everything
else (plug-ins, secure noise, worlds without compiled laws) is played through `fairveil.bandits.steps`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar

from fairveil import registry
from fairveil.arrays import Floats
from fairveil.bandits.feedback import AT_ONCE, Lateness
from fairveil.privacy.noise import Noise, make_noise
from fairveil.randomness import Generator, generator
from fairveil.state import State
from fairveil.task import Part, doing, threads

if TYPE_CHECKING:
    from fairveil.bandits.environments.base import Environment
    from fairveil.bandits.family import Family, Tally
    from fairveil.bandits.protocol import Policy

Seen = TypeVar("Seen")
"""What a family's tally takes of a stretch of rounds."""


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
