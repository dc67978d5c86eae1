"""How the family's simulator drives a policy: chunk by chunk, with the same kernels as the policy's step interface.

The compiled run of the exact policies: the same counts, rows and weights as their step interface, chunk by chunk.

The compiled run of Private-Fair-Greedy: the integers that its releases would draw, in their order, drawn at once.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fairveil.arrays import Floats, Ints
from fairveil.bandits.feedback import AT_ONCE
from fairveil.bandits.meritocratic.candidates import best_rank, uniform_slot
from fairveil.bandits.meritocratic.estimate import add_outer, unpack_symmetric, weights_of
from fairveil.bandits.meritocratic.halved_history import UNIFORM_ROUNDS, HalvedHistory, estimated_rank
from fairveil.bandits.meritocratic.noisy_history import UNIT, NoisyHistory
from fairveil.bandits.meritocratic.window import Store, add_member, count_at_most, dot, grown, new_store
from fairveil.bandits.meritocratic.world import Chunk, MeritocraticEnvironment
from fairveil.bandits.simulate import Case, Simulator, Streams
from fairveil.compiling import njit
from fairveil.errors import HorizonError, SpecError
from fairveil.privacy.noise import Noise


class Played(NamedTuple):
    """Rounds as they were shown, the chosen slot of each, and the estimated rank of who was chosen (NaN if none)."""

    chunk: Chunk
    slots: Ints
    estimates: Floats


class Runner(Simulator[Played]):
    """One compiled run of one policy in a meritocratic world."""

    def __init__(self, case: Case, streams: Streams) -> None:
        self.environment = self.world = world_of(case)
        self.streams, self.decided = streams, 0

    def advance(self, stop: int) -> Played:
        """Play on until ``stop`` rounds are decided; at most a chunk at a time keeps memory low."""
        chunk = self.environment.draw(self.decided, stop - self.decided, self.streams.world)
        self.decided = stop
        return Played(chunk, *self.play(chunk))

    @abstractmethod
    def play(self, chunk: Chunk) -> tuple[Ints, Floats]:
        """The chosen slots and estimated ranks of the next rounds."""


def world_of(case: Case) -> MeritocraticEnvironment:
    """The candidates of a case; another kind of world is refused."""
    environment = case.environment
    if not isinstance(environment, MeritocraticEnvironment):
        raise SpecError("a meritocratic environment shows candidates", path="environment.name", given=environment.name)
    return environment


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
        self.learned = Belief(np.zeros((features + 1, features + 1)), np.zeros(features), np.zeros(0), policy.ridge)

    def play(self, chunk: Chunk) -> tuple[Ints, Floats]:
        count = len(chunk)
        self._make_room(chunk.first + count)
        rows = self.policy.rows_of(chunk.features, chunk.reward)
        rounds = Rounds(chunk.first, chunk.features, chunk.group, rows)
        slots, estimates = np.zeros(count, np.int64), np.full(count, np.nan)
        drawn = self.drawn(chunk.first, chunk.group.shape)
        play_exact(rounds, drawn, self.store, self.history, self.learned, self.streams.explore, slots, estimates)
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
        self.learned = self.learned._replace(ridge=self.policy.ridges(size // 2 + 1))

    def belief(self) -> Floats | None:
        return self.learned.theta.copy()

    def uncertainty(self) -> Floats | None:
        """Sampling error of a middle rank, at most; groups nobody was seen of are left at one half."""
        seen = np.maximum(self.store.end - self.store.start, 1)
        return np.sqrt(0.25 / seen)


def _padded(array: NDArray[Any], length: int) -> NDArray[Any]:
    longer = np.zeros((length, *array.shape[1:]), array.dtype)
    longer[: len(array)] = array
    return longer


AT_A_TIME = 1024
"""Leaves whose noise is drawn in one call: bounds the memory of the levels."""


def noisy_runner(policy: NoisyHistory, case: Case, streams: Streams) -> NoisyRunner | None:
    """The compiled run where rewards come at once; late ones are played step by step."""
    return NoisyRunner(policy, case, streams) if case.lateness == AT_ONCE else None


class NoisyRunner(ExactRunner):
    """Any source of noise, secure too. Every draw of the horizon is made before the first round."""

    def __init__(self, policy: NoisyHistory, case: Case, streams: Streams) -> None:
        super().__init__(policy, case, streams)
        slots = self.environment.slots()
        policy.check_queries(slots, len(slots))
        self.noisy = policy
        self.counts = np.zeros((policy.last_round, policy.draws_a_count, len(slots)))
        self.moments = self._draw(streams.noise)

    def _draw(self, noise: Noise) -> Floats:
        """Noise of the moments by leaf; fills the noise of the counts. A leaf closes, then two rounds get counts."""
        policy, sums = self.noisy, self.noisy.sums
        rounds, leaf_levels = policy.last_round, sums.sigma * sums.grid.spread
        leaves = np.empty((policy.leaves, sums.grid.width), np.int64)
        levels = np.array([policy.count_std(now) for now in range(rounds)]) * UNIT
        width, each = sums.grid.width, self.counts[0].size
        for first in range(0, policy.leaves, AT_A_TIME):
            last = min(first + AT_A_TIME, policy.leaves)
            own = np.arange(first, last)
            # Leaf h closes before round 2h; rounds 2h and 2h + 1 follow, the last of them perhaps past the horizon.
            pair = np.minimum(2 * own[:, None] + UNIFORM_ROUNDS + np.arange(2), rounds - 1)
            wanted = np.concatenate(
                [np.broadcast_to(leaf_levels, (len(own), width)), np.repeat(levels[pair], each, axis=1)], axis=1
            )
            drawn = noise.gaussians(wanted)
            leaves[first:last] = drawn[:, :width]
            self._keep(drawn[:, width:], pair)
        return sums.noise_of(leaves)

    def _keep(self, drawn: Ints, pair: Ints) -> None:
        values = drawn.reshape(len(drawn), 2, *self.counts.shape[1:]) / UNIT
        for half in (1, 0):  # where both rounds are the last one, the first of them counts
            self.counts[pair[:, half]] = values[:, half]

    def play(self, chunk: Chunk) -> tuple[Ints, Floats]:
        if chunk.first + len(chunk) > self.noisy.last_round:
            raise HorizonError(
                "the run is longer than the policy's horizon",
                path="rounds",
                given=chunk.first + len(chunk),
                allowed=f"at most {self.noisy.last_round}",
            )
        self.releases = (chunk.first + len(chunk)) // 2
        return super().play(chunk)

    def drawn(self, first: int, shape: tuple[int, ...]) -> Drawn:
        own = self.counts[first : first + shape[0]]
        totals = own[:, 1] if own.shape[1] == 2 else np.zeros(shape)
        return Drawn(self.moments, np.ascontiguousarray(own[:, 0]), np.ascontiguousarray(totals))

    def uncertainty(self) -> Floats | None:
        seen = np.maximum(self.store.end - self.store.start, 1)
        now = min(int(self.store.end.max()), self.noisy.last_round)
        return np.sqrt(0.25 / seen + (self.noisy.count_std(now) / seen) ** 2)
