"""How the family's simulator drives a policy: chunk by chunk, with the same kernels as the policy's step interface."""

from __future__ import annotations

import heapq

import numpy as np

from fairveil.bandits.meritocratic.world import Chunk, Floats, Ints, round_of
from fairveil.bandits.protocol import Feedback, Policy, settle
from fairveil.privacy.noise import Noise
from fairveil.randomness import Generator


class Runner:
    """One run of one policy. ``play`` returns the chosen slot and the estimated rank (NaN if none) of every round."""

    releases: int = 0

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
    """Any policy through its step interface: plug-ins, and the reference for the compiled runners."""

    def __init__(self, policy: Policy, rng: Generator, noise: Noise) -> None:
        self.policy, self.rng, self.noise = policy, rng, noise
        self.state = settle(policy, policy.start(), 0, noise)
        self.waiting: list[tuple[int, int, Feedback]] = []

    def play(self, chunk: Chunk) -> tuple[Ints, Floats]:
        slots = np.empty(len(chunk), np.int64)
        for row in range(len(chunk)):
            shown = round_of(chunk, row)
            arm = self.policy.decide(self.state, shown, self.rng).arm
            slots[row] = np.flatnonzero(chunk.group[row] >= 0)[arm]
            reward = chunk.score[row, slots[row]] + chunk.reward_noise[row]
            if chunk.arrival[row] >= 0:
                feedback = self.policy.report(Feedback(shown.index, arm, float(reward), shown), self.noise)
                heapq.heappush(self.waiting, (int(chunk.arrival[row]), shown.index, feedback))
            while self.waiting and self.waiting[0][0] <= shown.index + 1:
                self.state = self.policy.learn(self.state, heapq.heappop(self.waiting)[2])
            before = self.policy.due(self.state, shown.index + 1)
            self.state = settle(self.policy, self.state, shown.index + 1, self.noise)
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
