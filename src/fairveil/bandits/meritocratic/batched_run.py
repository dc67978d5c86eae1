"""The compiled run of a policy whose rule is frozen between releases, on the clock of settled rounds.

Rounds are decided in stretches under one rule. Settled rounds are handed over in their order (or in the order in which
they settle, where batches are of seats), a stretch at a time, and never beyond the open batch; the others wait. Memory:
the rounds of one window and one chunk.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import NamedTuple

import numpy as np

from fairveil.arrays import Floats, Ints
from fairveil.bandits.feedback import NEVER, Lateness
from fairveil.bandits.meritocratic.candidates import Rule, play_frozen, uniform_slots
from fairveil.bandits.meritocratic.runner import Runner
from fairveil.bandits.meritocratic.world import Chunk
from fairveil.bandits.protocol import Block, Policy
from fairveil.bandits.simulate import Case, Streams
from fairveil.randomness import Generator
from fairveil.state import State


class Taken(NamedTuple):
    """Candidates of consecutive rounds, one after the other: who was chosen and answered, and with which rewards."""

    features: Floats  # (people, columns)
    group: Ints  # (people,)
    rounds: Ints  # (people,)
    chosen: Ints  # (rewards,), positions among the people
    reward: Floats  # (rewards,)


class RulePolicy(Policy):
    """A policy of this family that decides by a rule that changes with releases only."""

    family = "meritocratic"

    @abstractmethod
    def rule(self, state: State, width: int) -> Rule | None:
        """The frozen rule on raw features of this width; None while there is none and choices are uniform."""

    @abstractmethod
    def take(self, state: State, taken: Taken, following: int) -> State:
        """What `learn_all` does with checked rounds; ``following`` is the round after the last of them."""

    @abstractmethod
    def block(self, state: State) -> Block:
        """The oldest open batch: there is always one."""


class Waiting(NamedTuple):
    """Decided rounds that are not handed over yet."""

    features: Floats  # (rounds, slots, columns)
    group: Ints  # (rounds, slots)
    slot: Ints  # (rounds,)
    reward: Floats  # (rounds,), not a number where no reward counts

    def part(self, first: int, last: int | None) -> Waiting:
        cut = slice(first, last)
        return Waiting(self.features[cut], self.group[cut], self.slot[cut], self.reward[cut])

    def at(self, rows: Ints) -> Waiting:
        return Waiting(self.features[rows], self.group[rows], self.slot[rows], self.reward[rows])

    def joined(self, later: Waiting) -> Waiting:
        features, group, slot, reward = (np.concatenate(pair) for pair in zip(self, later))
        return Waiting(features, group, slot, reward)

    def taken(self, first: int) -> Taken:
        """The people of these rounds, the first of which has this number."""
        filled = self.group >= 0
        position = np.cumsum(filled.ravel()).reshape(filled.shape) - 1
        rows = np.arange(len(self.slot))
        known = np.flatnonzero(filled[rows, self.slot] & ~np.isnan(self.reward))
        rounds = np.repeat(first + rows, filled.sum(axis=1))
        chosen = position[known, self.slot[known]]
        return Taken(self.features[filled], self.group[filled], rounds, chosen, self.reward[known])


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


def times_of(chunk: Chunk, lateness: Lateness, rng: Generator) -> Times:
    """The times of these rounds, drawn as the step interface draws them: once for every chunk, in order."""
    own = np.arange(chunk.first + 1, chunk.first + len(chunk) + 1)
    waits = lateness.each_wait(len(chunk), rng)
    answered = (waits != NEVER) & (chunk.group >= 0).any(axis=1)
    over = own + lateness.window
    settles = over if lateness.hidden else np.where(answered, own + waits, over)
    default = lateness.default if lateness.treat == "default" else np.nan
    return Times(np.where(answered, own + waits, -1), settles, default)


class BatchedRunner(Runner):
    """Blocks of rounds through the same rows, sums, histograms and decision kernel as the step interface."""

    def __init__(self, policy: RulePolicy, case: Case, streams: Streams) -> None:
        super().__init__(case, streams)
        self.policy = policy
        self.lateness = case.lateness
        self.state = policy.start()
        self.width = 0
        self.handed = 0
        self.waiting: Waiting | None = None
        self.settles = np.zeros(0, np.int64)

    def play(self, chunk: Chunk) -> tuple[Ints, Floats]:
        slots, estimates = np.zeros(len(chunk), np.int64), np.full(len(chunk), np.nan)
        self.width = chunk.features.shape[2]
        times = times_of(chunk, self.lateness, self.streams.arrivals)
        known = np.concatenate([self.settles, times.settles])
        self.settles = known if self.policy.by_seat else np.maximum.accumulate(known)
        now, stop = chunk.first, chunk.first + len(chunk)
        while now < stop:
            until = min(stop, self._next_release(stop))
            part = slice(now - chunk.first, until - chunk.first)
            self._decide(chunk, part, slots[part], estimates[part])
            self._keep(chunk, part, slots[part], times.answers(chunk, part, slots[part]))
            now = until
            self._hand_over(now)
        return slots, estimates

    def _next_release(self, known: int) -> int:
        """How many rounds are decided when the open batch is settled; ``known`` where that is not yet known."""
        end, left = self.policy.block(self.state).stop, self.settles
        if end > known:
            return known
        last = end - 1 - self.handed
        return int(np.partition(left, last)[last] if self.policy.by_seat else left[last])

    def _decide(self, chunk: Chunk, part: slice, slots: Ints, estimates: Floats) -> None:
        rule = self.policy.rule(self.state, self.width)
        if rule is None:
            uniform_slots(chunk.group[part], self.streams.explore, slots)
        else:
            play_frozen(chunk.features[part], chunk.group[part], rule, self.streams.explore, slots, estimates)

    def _keep(self, chunk: Chunk, part: slice, slots: Ints, reward: Floats) -> None:
        fresh = Waiting(chunk.features[part], chunk.group[part], slots, reward)
        self.waiting = fresh if self.waiting is None else self.waiting.joined(fresh)

    def _hand_over(self, now: int) -> None:
        """Hand over what is settled after ``now`` decided rounds, batch by batch, and make due releases."""
        while True:
            over = np.flatnonzero(self.settles[: now - self.handed] <= now)
            settled = self.handed + len(over)
            self._take(over, min(settled, self.policy.block(self.state).stop))
            if self.policy.due(self.state, settled) is None:
                return
            self.state = self.policy.release(self.state, self.streams.noise)
            self.releases += 1

    def _take(self, over: Ints, stop: int) -> None:
        """Hand over as many of the settled rounds as the open batch takes: by seat, ties by round."""
        count = stop - self.handed
        if count <= 0 or self.waiting is None:
            return
        next_ones = over[np.argsort(self.settles[over], kind="stable")[:count]]
        self.state = self.policy.take(self.state, self.waiting.at(next_ones).taken(self.handed), stop)
        left = np.delete(np.arange(len(self.waiting.slot)), next_ones)
        self.waiting, self.settles = self.waiting.at(left), np.delete(self.settles, next_ones)
        self.handed = stop

    def belief(self) -> Floats | None:
        rule = self.policy.rule(self.state, self.width)
        return np.zeros(self.width) if rule is None else rule.weights

    def published(self) -> State:
        return self.state

    def uncertainty(self) -> Floats | None:
        return self.state["rank_std"].copy()
