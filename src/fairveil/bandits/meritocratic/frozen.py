"""Rounds under a frozen rule: the decision kernel, and the run of the batched policy in blocks of rounds."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from fairveil.bandits.meritocratic.exact import uniform_slot
from fairveil.bandits.meritocratic.runner import Runner
from fairveil.bandits.meritocratic.world import Chunk, Floats, Ints
from fairveil.compiling import njit
from fairveil.privacy.noise import Noise
from fairveil.randomness import Generator

if TYPE_CHECKING:
    from fairveil.bandits.meritocratic.batched import BatchedPrivateFairGreedy


@njit(cache=True, nogil=True)
def normal_cdf(x):
    return 0.5 * math.erfc(-x * 0.7071067811865476)


@njit(cache=True, nogil=True)
def table_rank(position, table):
    """Linear interpolation in a table over [0, 1]; a position that is not a number ranks lowest."""
    place = position * (table.shape[0] - 1) if position >= 0.0 else 0.0
    left = min(int(place), table.shape[0] - 2)
    part = place - left
    return table[left] * (1.0 - part) + table[left + 1] * part


@njit(cache=True, nogil=True)
def best_by_table(features, group, weights, offset, deviation, tables, rng):
    """Slot of the highest estimated rank, ties broken uniformly, and that rank; -1 when every slot is empty."""
    best, chosen, ties = -1.0, -1, 0
    for slot in range(group.shape[0]):
        if group[slot] < 0:
            continue
        score = -offset
        for i in range(weights.shape[0]):
            score += features[slot, i] * weights[i]
        rank = table_rank(normal_cdf(score / deviation), tables[group[slot]])
        if rank > best:
            best, chosen, ties = rank, slot, 1
        elif rank == best:
            ties += 1
            if rng.random() * ties < 1.0:
                chosen = slot
    return chosen, best


@njit(cache=True, nogil=True)
def play_frozen(features, group, weights, offset, deviation, tables, rng, slots, estimates):
    """Decide a block of rounds with one frozen rule."""
    for row in range(group.shape[0]):
        slot, rank = best_by_table(features[row], group[row], weights, offset, deviation, tables, rng)
        slots[row], estimates[row] = max(slot, 0), rank


Played = tuple[Floats, Ints, Ints, Floats, Ints]
"""Rounds that were decided: features and groups of all slots, chosen slots, rewards, arrivals."""


class BatchedRunner(Runner):
    """Blocks of rounds through the same rows, sums, histograms and decision kernel as the step interface."""

    def __init__(self, policy: BatchedPrivateFairGreedy, rng: Generator, noise: Noise) -> None:
        self.policy, self.rng, self.noise = policy, rng, noise
        self.state = policy.start()
        self.width = 0
        self.late: list[Played] = []

    def play(self, chunk: Chunk) -> tuple[Ints, Floats]:
        slots, estimates = np.zeros(len(chunk), np.int64), np.full(len(chunk), np.nan)
        self.width = chunk.features.shape[2]
        first = 0
        while first < len(chunk):
            last = min(len(chunk), int(self.state["end"]) - chunk.first)
            self._play_part(chunk, slice(first, last), slots[first:last], estimates[first:last])
            first = last
            while self.policy.due(self.state, chunk.first + first) is not None:
                self.state = self.policy.release(self.state, self.noise)
                self.releases += 1
        return slots, estimates

    def _play_part(self, chunk: Chunk, part: slice, slots: Ints, estimates: Floats) -> None:
        features, group = chunk.features[part], chunk.group[part]
        if self.state["batch"] == 0:
            slots[:] = [max(0, uniform_slot(row, self.rng)) for row in group]
        else:
            play_frozen(features, group, *self.policy.rule(self.state, self.width), self.rng, slots, estimates)
        reward = chunk.score[part][np.arange(len(slots)), slots] + chunk.reward_noise[part]
        self._learn((features, group, slots.copy(), reward, chunk.arrival[part]), chunk.first + part.stop)

    def _learn(self, played: Played, now: int) -> None:
        """Hand over the rounds whose reward has arrived, in the order of the rounds; the others wait or are dropped."""
        features, group, slots, reward, arrival = (np.concatenate(pieces) for pieces in zip(*self.late, played))
        filled = group[np.arange(len(slots)), slots] >= 0
        here, later = filled & (arrival >= 0) & (arrival <= now), filled & (arrival > now)
        rows = np.flatnonzero(here)
        if len(rows):
            chosen = slots[rows]
            self.state = self.policy.add_rows(self.state, features[rows, chosen], group[rows, chosen], reward[rows])
            self.state = self.policy.add_people(self.state, features[rows], group[rows])
        self.late = [(features[later], group[later], slots[later], reward[later], arrival[later])]

    def theta(self) -> Floats | None:
        return self.policy.ready.pull_back(self.state["direction"], self.width)[0]

    def rank_uncertainty(self) -> Floats | None:
        return self.state["rank_std"].copy()
