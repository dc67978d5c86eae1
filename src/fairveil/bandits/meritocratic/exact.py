"""The compiled run of the exact policies: the same counts, rows and weights as their step interface, chunk by chunk."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

from fairveil.bandits.meritocratic.choice import best_rank, uniform_slot
from fairveil.bandits.meritocratic.halved_history import UNIFORM_ROUNDS, HalvedHistory, estimated_rank
from fairveil.bandits.meritocratic.regression import add_outer, unpack_symmetric, weights_of
from fairveil.bandits.meritocratic.runner import Runner
from fairveil.bandits.meritocratic.schema import Floats, Ints
from fairveil.bandits.meritocratic.window import Store, add_member, count_at_most, dot, grown, new_store
from fairveil.bandits.meritocratic.world import Chunk
from fairveil.randomness import Generator


class Rounds(NamedTuple):
    """A chunk of rounds as the kernel sees it."""

    first: int
    features: Floats  # (rounds, slots, columns)
    group: Ints  # (rounds, slots), -1 where a slot is empty
    rows: Floats  # (rounds, slots, columns + 1): what would enter the regression if that slot were chosen
    arrival: Ints  # (rounds,), the number of decided rounds at which the reward is known, -1: never


class Drawn(NamedTuple):
    """Noise of a chunk: of the moments by leaf (no columns: none), of counts and totals by round and slot."""

    moments: Floats
    counts: Floats
    totals: Floats


class History(NamedTuple):
    """What the run has seen, by round; ``oldest`` holds the first round whose row may still enter the regression."""

    before: Ints  # members of each group's store before a round
    rows: Floats
    known: Ints
    taken: Ints
    oldest: Ints


class Belief(NamedTuple):
    """Moments of the rows that have entered, the weights of the present leaf, the ridge of every leaf and its floor."""

    moments: Floats
    theta: Floats
    ridge: Floats
    floor: float


@njit(cache=True, nogil=True)
def take_rows(history, half, now, moments):
    """Add the rows of rounds before ``half`` whose reward is known after ``now`` rounds, each once.

    ``oldest`` moves to where every earlier row is settled (taken, or lost for good).
    """
    oldest = history.oldest[0]
    for at in range(oldest, half):
        if not history.taken[at] and 0 <= history.known[at] <= now:
            add_outer(moments, history.rows[at])
            history.taken[at] = 1
    while oldest < half and (history.taken[oldest] or history.known[oldest] < 0):
        oldest += 1
    history.oldest[0] = oldest


@njit(cache=True, nogil=True)
def play_exact(rounds, drawn, store, history, belief, rng, slots, estimates):
    """Decide a chunk of rounds; chosen slots and their estimated ranks are written into the last two arrays."""
    columns = rounds.features.shape[2]
    groups = store.start.shape[0]
    noise = np.zeros((columns + 1, columns + 1))
    ranks = np.zeros(rounds.group.shape[1])
    for at in range(rounds.group.shape[0]):
        now = rounds.first + at  # rounds decided so far
        half = now // 2
        group = rounds.group[at]
        if now >= UNIFORM_ROUNDS and now % 2 == 0:
            take_rows(history, half, now, belief.moments)
            if drawn.moments.shape[1] > 0:
                unpack_symmetric(drawn.moments[half - 1], columns + 1, noise)
            belief.theta[:] = weights_of(belief.moments + noise, belief.ridge[half - 1], belief.floor)
            for k in range(groups):
                store.start[k] = history.before[half, k]
        if now < UNIFORM_ROUNDS:
            slot = uniform_slot(group, rng)
        else:
            for s in range(group.shape[0]):
                k = group[s]
                if k >= 0:
                    count = count_at_most(store, k, belief.theta, dot(rounds.features[at, s], belief.theta))
                    total = store.end[k] - store.start[k]
                    ranks[s] = estimated_rank(count, total, drawn.counts[at, s], drawn.totals[at, s], rng)
            slot, _ = best_rank(ranks, group, rng)
            if slot >= 0:
                estimates[at] = ranks[slot]
        history.known[now] = rounds.arrival[at] if slot >= 0 else -1
        slots[at] = max(slot, 0)
        if slot >= 0:
            history.rows[now] = rounds.rows[at, slot]
        for s in range(group.shape[0]):
            if group[s] >= 0:
                add_member(store, group[s], rounds.features[at, s])
        for k in range(groups):
            history.before[now + 1, k] = store.end[k]


class ExactRunner(Runner):
    """Compiled run; memory grows with the history, as the policy's definition asks."""

    def __init__(self, policy: HalvedHistory, slots: Ints, rng: Generator) -> None:
        policy.start()  # refuses a policy whose numbers of groups and features are not known
        groups, features = policy.groups or 0, policy.features or 0
        self.policy, self.rng = policy, rng
        self.per_group = int(np.bincount(slots, minlength=groups).max())
        self.store: Store = new_store(groups, 0, features)
        self.history = History(
            np.zeros((1, groups), np.int64),
            np.zeros((0, features + 1)),
            np.zeros(0, np.int64),
            np.zeros(0, np.int64),
            np.zeros(1, np.int64),
        )
        self.belief = Belief(
            np.zeros((features + 1, features + 1)), np.zeros(features), np.zeros(0), policy.ridge
        )

    def play(self, chunk: Chunk) -> tuple[Ints, Floats]:
        count = len(chunk)
        self._make_room(chunk.first + count)
        rows = self.policy.rows_of(chunk.features, chunk.score + chunk.reward_noise[:, None])
        rounds = Rounds(chunk.first, chunk.features, chunk.group, rows, chunk.arrival)
        slots, estimates = np.zeros(count, np.int64), np.full(count, np.nan)
        drawn = self.drawn(chunk.first, chunk.group.shape)
        play_exact(rounds, drawn, self.store, self.history, self.belief, self.rng, slots, estimates)
        return slots, estimates

    def drawn(self, first: int, shape: tuple[int, ...]) -> Drawn:
        """The noise of rounds from ``first`` on."""
        return Drawn(np.zeros((0, 0)), np.zeros(shape), np.zeros(shape))

    def _make_room(self, rounds: int) -> None:
        held = len(self.history.known)
        if rounds <= held:
            return
        size = max(2 * held, rounds)
        self.store = grown(self.store, size * self.per_group)
        longer = {"before": size + 1, "rows": size, "known": size, "taken": size}
        self.history = self.history._replace(
            **{name: _padded(getattr(self.history, name), length) for name, length in longer.items()}
        )
        self.belief = self.belief._replace(ridge=self.policy.ridges(size // 2 + 1))

    def theta(self) -> Floats | None:
        return self.belief.theta.copy()

    def rank_uncertainty(self) -> Floats | None:
        """Sampling error of a middle rank, at most; groups nobody was seen of are left at one half."""
        seen = np.maximum(self.store.end - self.store.start, 1)
        return np.sqrt(0.25 / seen)


def _padded(array: Floats | Ints, length: int) -> Floats | Ints:
    longer = np.zeros((length, *array.shape[1:]), array.dtype)
    longer[: len(array)] = array
    return longer
