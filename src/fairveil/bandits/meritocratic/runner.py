"""How the family's simulator drives a policy: chunk by chunk, with the same kernels as the policy's step interface."""

from __future__ import annotations

import heapq
from abc import abstractmethod
from typing import NamedTuple

import numpy as np

from fairveil.bandits.feedback import NEVER, Lateness, Outstanding, hand_over
from fairveil.bandits.meritocratic.candidates import NOBODY
from fairveil.bandits.meritocratic.schema import Floats, Ints
from fairveil.bandits.meritocratic.world import Chunk, MeritocraticEnvironment, round_of
from fairveil.bandits.protocol import Feedback, Policy, Report
from fairveil.bandits.simulate import Case, Simulator, Streams
from fairveil.errors import SpecError
from fairveil.randomness import Generator
from fairveil.state import State


class Played(NamedTuple):
    """Rounds as they were shown, the chosen slot of each, and the estimated rank of who was chosen (NaN if none)."""

    chunk: Chunk
    slots: Ints
    estimates: Floats


class Runner(Simulator):
    """One run of one policy in a meritocratic world."""

    def __init__(self, case: Case, streams: Streams) -> None:
        if not isinstance(case.environment, MeritocraticEnvironment):
            raise SpecError("the environment is of another family", path="environment", given=case.environment.name)
        self.environment, self.streams, self.decided = case.environment, streams, 0

    def advance(self, stop: int) -> Played:
        """Play on until ``stop`` rounds are decided; at most a chunk at a time keeps memory low."""
        chunk = self.environment.draw(self.decided, stop - self.decided, self.streams.world)
        self.decided = stop
        return Played(chunk, *self.play(chunk))

    @abstractmethod
    def play(self, chunk: Chunk) -> tuple[Ints, Floats]:
        """The chosen slots and estimated ranks of the next rounds."""
        raise NotImplementedError

    def theta(self) -> Floats | None:
        """Current estimate of the weights on raw features, up to scale; None if the policy has none."""
        return None

    def published(self) -> State | None:
        """The state from which estimates are made, None where there is none."""
        return None

    def rank_uncertainty(self) -> Floats | None:
        """Standard deviation of the estimated ranks by group, from public numbers only; None if there are no ranks."""
        return None


class UniformRunner(Runner):
    """The policy `random` without its step interface."""

    def play(self, chunk: Chunk) -> tuple[Ints, Floats]:
        keys = np.where(chunk.group >= 0, self.streams.explore.random(chunk.group.shape), -1.0)
        return keys.argmax(axis=1), np.full(len(chunk), np.nan)


class StepRunner(Runner):
    """Any policy through its step interface: plug-ins, and the reference for the compiled runners."""

    def __init__(self, policy: Policy, case: Case, streams: Streams) -> None:
        super().__init__(case, streams)
        self.policy, self.lateness = policy, case.lateness
        self.outstanding = Outstanding(policy, case.lateness)
        self.state = hand_over(policy, policy.start(), self.outstanding, streams.noise)
        self.under_way: list[tuple[int, int, Feedback | Report]] = []

    def play(self, chunk: Chunk) -> tuple[Ints, Floats]:
        slots = np.zeros(len(chunk), np.int64)
        for row in range(len(chunk)):
            slots[row] = self._step(chunk, row)
        return slots, np.full(len(chunk), np.nan)

    def _step(self, chunk: Chunk, row: int) -> int:
        shown, noise = round_of(chunk, row), self.streams.noise
        self.state = self.policy.open(self.state, shown.index, self.streams.explore)
        arm, slot = NOBODY, 0
        if shown.candidates:
            arm = self.policy.decide(self.state, shown, self.streams.explore).arm
            slot = int(np.flatnonzero(chunk.group[row] >= 0)[arm])
        self.outstanding.decided(arm, shown)
        wait = self.lateness.wait(shown, arm, self.streams.arrivals)
        if wait != NEVER and arm != NOBODY:
            reward = float(chunk.reward[row, slot])
            feedback = self.policy.report(Feedback(shown.index, arm, reward, shown), noise)
            heapq.heappush(self.under_way, (shown.index + wait, shown.index, feedback))
        while self.under_way and self.under_way[0][0] <= shown.index:
            self.outstanding.arrive(heapq.heappop(self.under_way)[2])
        before = self.policy.due(self.state, shown.index + 1)
        self.state = hand_over(self.policy, self.state, self.outstanding, noise)
        self.releases += before is not None
        return slot

    def published(self) -> State:
        return self.state


class Times(NamedTuple):
    """When the rounds of a chunk are answered and settled, counted in decided rounds."""

    arrival: Ints
    """-1 where no reward arrives inside the window."""
    settles: Ints
    default: float
    """What a missing reward counts as; not a number where it is left out."""

    def answers(self, chunk: Chunk, part: slice, slots: Ints) -> Floats:
        """Rewards of the chosen slots as they will be handed over, not a number where there is none."""
        reward = chunk.reward[part][np.arange(len(slots)), slots]
        return np.where(self.arrival[part] >= 0, reward, self.default)


class Timetable:
    """Arrivals of a run's rewards by a law of lateness, drawn as the step interface draws them."""

    def __init__(self, lateness: Lateness, rng: Generator) -> None:
        self.lateness, self.rng = lateness, rng

    def of(self, chunk: Chunk) -> Times:
        """The times of these rounds; call it once for every chunk, in order."""
        own = np.arange(chunk.first + 1, chunk.first + len(chunk) + 1)
        waits = self._waits(len(chunk))
        answered = (waits != NEVER) & (chunk.group >= 0).any(axis=1)
        over = own + self.lateness.window
        settles = over if self.lateness.hidden else np.where(answered, own + waits, over)
        default = self.lateness.default if self.lateness.treat == "default" else np.nan
        return Times(np.where(answered, own + waits, -1), settles, default)

    def _waits(self, count: int) -> Ints:
        if self.lateness.law == "fixed" or (self.lateness.law == "geometric" and self.lateness.missing == 0):
            return self.lateness.waits(count, self.rng)
        return np.concatenate([self.lateness.waits(1, self.rng) for _ in range(count)])
