"""How the family's simulator drives a policy: chunk by chunk, with the same kernels as the policy's step interface."""

from __future__ import annotations

import heapq

import numpy as np

from fairveil.bandits.feedback import AT_ONCE, LONGEST, NEVER, Lateness, Outstanding, hand_over
from fairveil.bandits.meritocratic.world import Chunk, Floats, Ints, round_of
from fairveil.bandits.protocol import Feedback, Policy, Report
from fairveil.bandits.simulate import Simulator, Streams
from fairveil.randomness import Generator

UNBOUNDED = Lateness(window=LONGEST)
"""Windows of worlds that delay rewards themselves: a reward is never too late."""


class Runner(Simulator):
    """One run of one policy. ``play`` returns the chosen slot and the estimated rank (NaN if none) of every round."""

    def play(self, chunk: Chunk) -> tuple[Ints, Floats]:
        raise NotImplementedError

    def theta(self) -> Floats | None:
        """Current estimate of the weights on raw features, up to scale; None if the policy has none."""
        return None

    def rank_uncertainty(self) -> Floats | None:
        """Standard deviation of the estimated ranks by group, from public numbers only; None if there are no ranks."""
        return None


class UniformRunner(Runner):
    """The policy `random` without its step interface."""

    def __init__(self, rng: Generator) -> None:
        self.rng = rng

    def play(self, chunk: Chunk) -> tuple[Ints, Floats]:
        keys = np.where(chunk.group >= 0, self.rng.random(chunk.group.shape), -1.0)
        return keys.argmax(axis=1), np.full(len(chunk), np.nan)


class StepRunner(Runner):
    """Any policy through its step interface: plug-ins, and the reference for the compiled runners.

    Rewards are as late as the spec's ``feedback`` says, or as the environment's own arrivals.
    """

    def __init__(self, policy: Policy, streams: Streams, lateness: Lateness) -> None:
        self.policy, self.streams, self.lateness = policy, streams, lateness
        self.outstanding = Outstanding(policy, lateness if lateness != AT_ONCE else UNBOUNDED)
        self.state = hand_over(policy, policy.start(), self.outstanding, streams.noise)
        self.under_way: list[tuple[int, int, Feedback | Report]] = []

    def play(self, chunk: Chunk) -> tuple[Ints, Floats]:
        slots, noise = np.empty(len(chunk), np.int64), self.streams.noise
        for row in range(len(chunk)):
            shown = round_of(chunk, row)
            self.state = self.policy.open(self.state, shown.index, self.streams.explore)
            arm = self.policy.decide(self.state, shown, self.streams.explore).arm
            slots[row] = np.flatnonzero(chunk.group[row] >= 0)[arm]
            reward = chunk.score[row, slots[row]] + chunk.reward_noise[row]
            self.outstanding.decided(arm, shown)
            wait = int(chunk.arrival[row]) - shown.index - 1 if chunk.arrival[row] >= 0 else NEVER
            if self.lateness != AT_ONCE:
                wait = self.lateness.wait(shown, arm, self.streams.arrivals)
            if wait != NEVER:
                feedback = self.policy.report(Feedback(shown.index, arm, float(reward), shown), noise)
                heapq.heappush(self.under_way, (shown.index + wait, shown.index, feedback))
            while self.under_way and self.under_way[0][0] <= shown.index:
                self.outstanding.arrive(heapq.heappop(self.under_way)[2])
            before = self.policy.due(self.state, shown.index + 1)
            self.state = hand_over(self.policy, self.state, self.outstanding, noise)
            self.releases += before is not None
        return slots, np.full(len(chunk), np.nan)


class Arrivals:
    """Rows waiting for their rewards: what is chosen goes in, what has arrived comes out once, in order of arrival."""

    def __init__(self) -> None:
        self.queue: list[tuple[int, int, tuple[Floats, int, float]]] = []

    def put(self, arrival: int, index: int, row: tuple[Floats, int, float]) -> None:
        if arrival >= 0:
            heapq.heappush(self.queue, (arrival, index, row))

    def take(self, now: int) -> list[tuple[Floats, int, float]]:
        """Rows whose reward is known after ``now`` decided rounds."""
        out = []
        while self.queue and self.queue[0][0] <= now:
            out.append(heapq.heappop(self.queue)[2])
        return out
