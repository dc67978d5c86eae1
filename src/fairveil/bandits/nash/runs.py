"""How the family simulates one run: as intervals of rounds (episodic policies) or round by round in chunks."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from fairveil.bandits.environments.arms import ArmEnvironment
from fairveil.bandits.protocol import Policy
from fairveil.bandits.steps import Step, walk
from fairveil.privacy.noise import Noise, make_noise
from fairveil.randomness import Generator, generator


@dataclass(frozen=True)
class Streams:
    """The independent sources of one run: the policy's coins, the world's rewards, the privacy noise."""

    explore: Generator
    world: Generator
    noise: Noise


def streams(seed: int, run: int, noise: str) -> Streams:
    return Streams(
        generator(seed, "run", run, "explore"),
        generator(seed, "run", run, "world"),
        make_noise(noise, seed, "run", run),
    )


@dataclass
class Summary:
    """What one run did: pulls of every arm, length of the uniform phase, releases made, epsilon one person paid."""

    pulls: NDArray[np.int64]
    phase_rounds: int = 0
    releases: int = 0
    spent: float = 0.0


@dataclass
class Intervals:
    """A whole run: ``codes[j]`` is the arm (or ``arms`` for a uniform draw) until round ``ends[j]``."""

    ends: NDArray[np.int64]
    codes: NDArray[np.int32]
    summary: Summary


class Walker:
    """A run that is advanced in chunks of rounds."""

    def advance(self, start: int, stop: int, out: NDArray[np.int32]) -> None:
        """Write the codes of rounds start .. stop - 1 into ``out``."""
        raise NotImplementedError

    def summary(self) -> Summary:
        raise NotImplementedError


@dataclass
class UniformWalker(Walker):
    """The policy that learns nothing: only its pulls are drawn."""

    arms: int
    explore: Generator
    pulls: NDArray[np.int64] = field(init=False)

    def __post_init__(self) -> None:
        self.pulls = np.zeros(self.arms, np.int64)

    def advance(self, start: int, stop: int, out: NDArray[np.int32]) -> None:
        out[:] = self.arms
        self.pulls += self.explore.multinomial(stop - start, np.full(self.arms, 1.0 / self.arms))

    def summary(self) -> Summary:
        return Summary(self.pulls, int(self.pulls.sum()))


@dataclass
class StepWalker(Walker):
    """Any policy through its step API: plug-ins, secure noise, and the reference for the compiled twins."""

    policy: Policy
    world: ArmEnvironment
    rounds: int
    streams: Streams
    steps: Iterator[Step] = field(init=False)
    pulls: NDArray[np.int64] = field(init=False)
    uniform: int = 0
    releases: int = 0

    def __post_init__(self) -> None:
        self.steps = walk(
            self.policy, self.world, self.rounds, self.streams.explore, self.streams.world, self.streams.noise
        )
        self.pulls = np.zeros(self.world.arms, np.int64)

    def advance(self, start: int, stop: int, out: NDArray[np.int32]) -> None:
        for index in range(stop - start):
            step = next(self.steps)
            law = step.decision.probabilities
            uniform = law is not None and len(law) == self.world.arms and np.ptp(law) == 0
            out[index] = self.world.arms if uniform else step.decision.arm
            self.pulls[step.decision.arm] += 1
            self.uniform += uniform
            self.releases = int(step.state["released"][0]) if "released" in step.state else 0

    def summary(self) -> Summary:
        guarantee = self.policy.guarantee()
        spent = (guarantee.epsilon or 0.0) if guarantee is not None else 0.0
        return Summary(self.pulls, self.uniform, self.releases, spent)
