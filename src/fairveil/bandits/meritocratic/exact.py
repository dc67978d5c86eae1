"""The compiled run of the exact policies: the same counts, rows and weights as their step interface, chunk by chunk."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fairveil.bandits.meritocratic.choice import best_rank, uniform_slot
from fairveil.bandits.meritocratic.halved_history import UNIFORM_ROUNDS, HalvedHistory, estimated_rank
from fairveil.bandits.meritocratic.regression import add_outer, unpack_symmetric, weights_of
from fairveil.bandits.meritocratic.runner import Runner
from fairveil.bandits.meritocratic.schema import Floats, Ints
from fairveil.bandits.meritocratic.window import Store, add_member, count_at_most, dot, grown, new_store
from fairveil.bandits.meritocratic.world import Chunk
from fairveil.bandits.simulate import Case, Streams
from fairveil.compiling import njit


class Rounds(NamedTuple):
    """A chunk of rounds as the kernel sees it."""

    first: int
    features: Floats  # (rounds, slots, columns)
    group: Ints  # (rounds, slots), -1 where a slot is empty
    rows: Floats  # (rounds, slots, columns + 1): what would enter the regression if that slot were chosen


class Drawn(NamedTuple):
    """Noise of a chunk: of the moments by leaf (no columns: none), of counts and totals by round and slot."""

    moments: Floats
    counts: Floats
    totals: Floats


class History(NamedTuple):
    """What the run has seen, by round: members of each group's store before it, and its row (zero: nobody chosen)."""

    before: Ints
    rows: Floats


class Belief(NamedTuple):
    """Moments of the rows that have entered, the weights of the present leaf, the ridge of every leaf and its floor."""

    moments: Floats
    theta: Floats
    ridge: Floats
    floor: float


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
            add_outer(belief.moments, history.rows[half - 1])
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
        slots[at] = max(slot, 0)
        if slot >= 0:
            history.rows[now] = rounds.rows[at, slot]
        for s in range(group.shape[0]):
            if group[s] >= 0:
                add_member(store, group[s], rounds.features[at, s])
        for k in range(groups):
            history.before[now + 1, k] = store.end[k]


class ExactRunner(Runner):
    """Compiled run with rewards at once; memory grows with the history, as the policy's definition asks."""

    def __init__(self, policy: HalvedHistory, case: Case, streams: Streams) -> None:
        super().__init__(case, streams)
        policy.start()  # refuses a policy whose numbers of groups and features are not known
        groups, features = policy.groups or 0, policy.features or 0
        self.policy = policy
        self.per_group = int(np.bincount(self.environment.slots(), minlength=groups).max())
        self.store: Store = new_store(groups, 0, features)
        self.history = History(np.zeros((1, groups), np.int64), np.zeros((0, features + 1)))
        self.belief = Belief(np.zeros((features + 1, features + 1)), np.zeros(features), np.zeros(0), policy.ridge)

    def play(self, chunk: Chunk) -> tuple[Ints, Floats]:
        count = len(chunk)
        self._make_room(chunk.first + count)
        rows = self.policy.rows_of(chunk.features, chunk.reward)
        rounds = Rounds(chunk.first, chunk.features, chunk.group, rows)
        slots, estimates = np.zeros(count, np.int64), np.full(count, np.nan)
        drawn = self.drawn(chunk.first, chunk.group.shape)
        play_exact(rounds, drawn, self.store, self.history, self.belief, self.streams.explore, slots, estimates)
        return slots, estimates

    def drawn(self, first: int, shape: tuple[int, ...]) -> Drawn:
        """The noise of rounds from ``first`` on."""
        return Drawn(np.zeros((0, 0)), np.zeros(shape), np.zeros(shape))

    def _make_room(self, rounds: int) -> None:
        held = len(self.history.rows)
        if rounds <= held:
            return
        size = max(2 * held, rounds)
        self.store = grown(self.store, size * self.per_group)
        self.history = History(_padded(self.history.before, size + 1), _padded(self.history.rows, size))
        self.belief = self.belief._replace(ridge=self.policy.ridges(size // 2 + 1))

    def theta(self) -> Floats | None:
        return self.belief.theta.copy()

    def rank_uncertainty(self) -> Floats | None:
        """Sampling error of a middle rank, at most; groups nobody was seen of are left at one half."""
        seen = np.maximum(self.store.end - self.store.start, 1)
        return np.sqrt(0.25 / seen)


def _padded(array: NDArray[Any], length: int) -> NDArray[Any]:
    longer = np.zeros((length, *array.shape[1:]), array.dtype)
    longer[: len(array)] = array
    return longer
