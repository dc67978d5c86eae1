"""What one run of this family hands to its tally: arms over stretches of rounds, and what was done on the way."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from fairveil.bandits.simulate import Case, Simulator, Streams
from fairveil.bandits.steps import Step, play
from fairveil.randomness import Generator
from fairveil.state import State


@dataclass
class Summary:
    """What one run did: pulls of every arm, rounds drawn at random, releases made, epsilon one person paid."""

    pulls: NDArray[np.int64]
    phase_rounds: int = 0
    releases: int = 0
    spent: float = 0.0
    world: dict[str, float] = field(default_factory=dict)
    """What the world counted."""


@dataclass(frozen=True)
class Stretch:
    """``codes[j]`` is the arm, or the number of arms for a round that counts at the mean over arms, until ``ends[j]``.

    ``ends`` is None where every entry is one round.
    """

    codes: NDArray[np.int32]
    ends: NDArray[np.int64] | None = None


class ArmSimulator(Simulator):
    """One run over plain arms. ``coarse`` ones hand over a whole run as few long stretches."""

    coarse: ClassVar[bool] = False

    @abstractmethod
    def advance(self, stop: int) -> Stretch:
        raise NotImplementedError

    @abstractmethod
    def summary(self) -> Summary:
        """What happened until now."""
        raise NotImplementedError

    def published(self) -> State | None:
        """The arrays of a state from which estimates are made, None where there are none."""
        return None


class UniformSimulator(ArmSimulator):
    """The policy that learns nothing: only its pulls are drawn."""

    def __init__(self, arms: int, explore: Generator) -> None:
        self.arms, self.explore, self.now = arms, explore, 0
        self.pulls = np.zeros(arms, np.int64)

    def advance(self, stop: int) -> Stretch:
        self.pulls += self.explore.multinomial(stop - self.now, np.full(self.arms, 1.0 / self.arms))
        codes = np.full(stop - self.now, self.arms, np.int32)
        self.now = stop
        return Stretch(codes)

    def summary(self) -> Summary:
        return Summary(self.pulls, self.now)


class StepSimulator(ArmSimulator):
    """Any policy through its step API: plug-ins, secure noise, and the reference for the compiled simulators."""

    def __init__(self, case: Case, streams: Streams) -> None:
        self.policy, self.arms = case.policy, case.environment.arms  # type: ignore[attr-defined]
        self.place = case.environment.prepare(streams.world)
        self.steps: Iterator[Step] = play(case.policy, self.place, case.rounds, streams, case.lateness)
        self.pulls, self.uniform, self.now = np.zeros(self.arms, np.int64), 0, 0
        self.state: State | None = None

    def advance(self, stop: int) -> Stretch:
        codes = np.empty(stop - self.now, np.int32)
        for place in range(len(codes)):
            step = next(self.steps)
            self.state = step.state
            codes[place] = self.arms if step.decision.symmetric else step.decision.arm
            self.pulls[step.decision.arm] += 1
            self.uniform += step.decision.symmetric
            self.releases = int(step.state["released"][0]) if "released" in step.state else 0
        self.now = stop
        return Stretch(codes)

    def summary(self) -> Summary:
        guarantee = self.policy.guarantee()
        spent = (guarantee.epsilon or 0.0) if guarantee is not None else 0.0
        return Summary(self.pulls, self.uniform, self.releases, spent, self.place.counted())

    def published(self) -> State | None:
        return self.state
