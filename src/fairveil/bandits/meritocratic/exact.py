"""What Fair-Greedy and Private-Fair-Greedy share: regression on the first half of the history, ranks on the second.

Before round t (counted from 1) let h = floor((t-1)/2). Rows 1..h feed the regression, rounds h+1..t-1 the ranks: a
round leaves the rank window when it enters the regression. The weights change every second round. Rounds 1 and 2 are
uniform.
"""

from __future__ import annotations

from dataclasses import KW_ONLY
from typing import Any, ClassVar

import numpy as np

from fairveil.bandits.meritocratic.regression import add_outer, clip_row, unpack_symmetric, weights_of
from fairveil.bandits.meritocratic.runner import Runner
from fairveil.bandits.meritocratic.window import Store, add_member, count_at_most, dot, grown, new_store
from fairveil.bandits.meritocratic.world import Chunk, Floats, Ints
from fairveil.bandits.protocol import Decision, Feedback, Policy, Report, Round, raw_feedback
from fairveil.compiling import njit
from fairveil.configuration import configuration
from fairveil.errors import InputError, SpecError
from fairveil.fields import Count, Positive
from fairveil.privacy.noise import Noise
from fairveil.randomness import Generator
from fairveil.state import State

NO_BOUND = np.inf


@njit(cache=True, nogil=True)
def best_rank(ranks, group, rng):
    """Slot of the largest estimated rank among the filled ones, ties broken uniformly; -1 when all are empty."""
    best, chosen, ties = -np.inf, -1, 0
    for slot in range(group.shape[0]):
        if group[slot] < 0:
            continue
        if ranks[slot] > best:
            best, chosen, ties = ranks[slot], slot, 1
        elif ranks[slot] == best:
            ties += 1
            if rng.random() * ties < 1.0:
                chosen = slot
    return chosen


@njit(cache=True, nogil=True)
def uniform_slot(group, rng):
    """A filled slot, uniformly; -1 when all are empty."""
    filled = 0
    chosen = -1
    for slot in range(group.shape[0]):
        if group[slot] >= 0:
            filled += 1
            if rng.random() * filled < 1.0:
                chosen = slot
    return chosen


@njit(cache=True, nogil=True)
def estimated_rank(count, total, count_noise, total_noise, rng):
    """Noisy count over (noisy) total. A window that looks empty knows nothing: its rank is a fair coin in [0, 1]."""
    size = total + total_noise
    if size < 0.5:
        return rng.random()
    return (count + count_noise) / max(size, 1.0)


@njit(cache=True, nogil=True)
def take_rows(rows, known, taken, oldest, half, now, moments):
    """Add the rows of rounds before ``half`` whose reward is known after ``now`` rounds, each once; returns the pointer
    below which every row is settled (taken, or lost for good)."""
    for at in range(oldest, half):
        if not taken[at] and 0 <= known[at] <= now:
            add_outer(moments, rows[at])
            taken[at] = True
    while oldest < half and (taken[oldest] or known[oldest] < 0):
        oldest += 1
    return oldest


@njit(cache=True, nogil=True)
def play_exact(
    features, group, score, reward_noise, arrival, first, bound, ridge, floor, path, count_noise, total_noise,
    store, before, rows, known, taken, oldest, moments, theta, rng, slots, estimates,
):  # fmt: skip
    """A chunk of rounds. ``path`` holds the noise of the moments at each leaf (no columns: no noise)."""
    columns = features.shape[2]
    groups = store.start.shape[0]
    noise = np.zeros((columns + 1, columns + 1))
    ranks = np.zeros(group.shape[1])
    for at in range(reward_noise.shape[0]):
        now = first + at  # rounds decided so far
        half = now // 2
        if now >= 2 and now % 2 == 0:
            oldest = take_rows(rows, known, taken, oldest, half, now, moments)
            if path.shape[1] > 0:
                unpack_symmetric(path[half - 1], columns + 1, noise)
            theta[:] = weights_of(moments + noise, ridge[half - 1], floor)
            for k in range(groups):
                store.start[k] = before[half, k]
        if now < 2:
            slot = uniform_slot(group[at], rng)
        else:
            for s in range(group.shape[1]):
                k = group[at, s]
                if k >= 0:
                    count = count_at_most(store, k, theta, dot(features[at, s], theta))
                    total = store.end[k] - store.start[k]
                    ranks[s] = estimated_rank(count, total, count_noise[at, s], total_noise[at, s], rng)
            slot = best_rank(ranks, group[at], rng)
            if slot >= 0:
                estimates[at] = ranks[slot]
        known[now] = arrival[at] if slot >= 0 else -1
        slots[at] = max(slot, 0)
        if slot >= 0:
            rows[now, :columns] = features[at, slot]
            rows[now, columns] = score[at, slot] + reward_noise[at]
            clip_row(rows[now], bound)
        for s in range(group.shape[1]):
            if group[at, s] >= 0:
                add_member(store, group[at, s], features[at, s])
        for k in range(groups):
            before[now + 1, k] = store.end[k]
    return oldest


def uniform_decision(group: Ints, rng: Generator) -> Decision:
    """Any of the candidates with the same probability."""
    count = len(group)
    return Decision(int(uniform_slot(group, rng)), 1.0 / count, np.full(count, 1.0 / count))


def check_finite(feedback: Feedback) -> None:
    """Refuse numbers that no bound can tame before they enter a state; the message does not repeat them."""
    assert feedback.round is not None
    if feedback.reward is None or not np.isfinite(feedback.reward):
        raise InputError("the reward is not finite", path="feedback.reward", allowed="a finite number")
    if not all(np.isfinite(candidate.features).all() for candidate in feedback.round.candidates):
        raise InputError("the features of a candidate are not finite", path="feedback.round", allowed="finite numbers")


@configuration
class HalvedHistory(Policy):
    """Base of the exact policies: state, window and regression; subclasses say which noise there is."""

    family = "meritocratic"
    keeps_history: ClassVar[bool] = True

    _: KW_ONLY
    groups: Count | None = None
    features: Count | None = None
    ridge: Positive = 0.01

    # What a subclass says ---------------------------------------------------------------------------------------------

    @property
    def _bound(self) -> float:
        return NO_BOUND

    def _ridges(self, leaves: int) -> Floats:
        """Added to the Gram matrix at leaves 1..leaves; public."""
        return np.full(leaves, self.ridge)

    @property
    def _floor(self) -> float:
        return self.ridge

    # Step interface: the whole history is the state, so it suits short runs; people enter with their round's feedback
    # --

    def start(self) -> State:
        if self.features is None or self.groups is None:
            raise SpecError("the numbers of groups and features are not known", path="policy", fix="give both")
        return {
            "people": np.zeros((0, self.features)),
            "people_group": np.zeros(0, np.int64),
            "people_round": np.zeros(0, np.int64),
            "rows": np.zeros((0, self.features + 1)),
            "rows_round": np.zeros(0, np.int64),
            "entered": np.zeros(0, np.bool_),
            "theta": np.zeros(self.features),
            "ready_for": np.zeros((), np.int64),
        }

    def learn(self, state: State, feedback: Feedback | Report) -> State:
        feedback = raw_feedback(feedback)
        assert feedback.round is not None
        shown = feedback.round.candidates
        check_finite(feedback)
        row = np.concatenate([shown[feedback.arm].features, [feedback.reward]])
        clip_row(row, self._bound)
        people = np.stack([candidate.features for candidate in shown])
        return {
            **state,
            "people": np.concatenate([state["people"], people]),
            "people_group": np.concatenate([state["people_group"], [candidate.group for candidate in shown]]),
            "people_round": np.concatenate([state["people_round"], np.full(len(shown), feedback.index)]),
            "rows": np.concatenate([state["rows"], row[None]]),
            "rows_round": np.concatenate([state["rows_round"], [feedback.index]]),
            "entered": np.concatenate([state["entered"], [False]]),
        }

    def due(self, state: State, now: int) -> str | None:
        return f"round-{int(state['ready_for']) + 1}" if state["ready_for"] < now else None

    def release(self, state: State, noise: Noise) -> State:
        """Prepare the next round; in every second one a leaf of the regression closes and the weights change."""
        now = int(state["ready_for"]) + 1
        after = {**state, "ready_for": np.asarray(now)}
        if now >= 2 and now % 2 == 0:
            fresh = (state["rows_round"] < now // 2) & ~state["entered"]
            after["entered"] = state["entered"] | fresh
            after |= self._close_leaf(after, state["rows"][fresh], now // 2, noise)
        return after

    def lost(self, state: State, block: str) -> State:
        """Go on with the weights that stand."""
        return {**state, "ready_for": np.asarray(state["ready_for"] + 1)}

    def _close_leaf(self, state: State, fresh: Floats, leaf: int, noise: Noise) -> State:
        """Entries of the state that change when these rows enter: at least ``theta``."""
        raise NotImplementedError

    def _noise_of_ranks(self, state: State, slots: int) -> tuple[Floats, Floats]:
        return np.zeros(slots), np.zeros(slots)

    def decide(self, state: State, round: Round, rng: Generator) -> Decision:
        count, now = len(round.candidates), round.index
        group = np.array([candidate.group for candidate in round.candidates])
        if now < 2:
            return uniform_decision(group, rng)
        theta = state["theta"]
        ranks = np.empty(count)
        noise, total_noise = self._noise_of_ranks(state, count)
        inside = state["people_round"] >= now // 2
        for slot, candidate in enumerate(round.candidates):
            own = state["people"][inside & (state["people_group"] == candidate.group)]
            threshold = dot(np.ascontiguousarray(candidate.features), theta)
            below = sum(dot(person, theta) <= threshold for person in own)
            ranks[slot] = estimated_rank(below, len(own), noise[slot], total_noise[slot], rng)
        return Decision(int(best_rank(ranks, group, rng)))


class ExactRunner(Runner):
    """Compiled run; memory grows with the history, as the policy's definition asks."""

    def __init__(self, policy: HalvedHistory, slots: Ints, rng: Generator) -> None:
        assert policy.features is not None
        assert policy.groups is not None
        self.policy, self.rng = policy, rng
        self.per_group = int(np.bincount(slots, minlength=policy.groups).max())
        self.store: Store = new_store(policy.groups, 0, policy.features)
        self.history: dict[str, Any] = {
            "before": np.zeros((1, policy.groups), np.int64),
            "rows": np.zeros((0, policy.features + 1)),
            "known": np.zeros(0, np.int64),
            "taken": np.zeros(0, np.bool_),
        }
        self.moments = np.zeros((policy.features + 1, policy.features + 1))
        self.weights = np.zeros(policy.features)
        self.oldest = 0
        self.ridges = np.zeros(0)
        self.uncertainty: Floats | None = None

    def play(self, chunk: Chunk) -> tuple[Ints, Floats]:
        count = len(chunk)
        self._make_room(chunk.first + count)
        slots, estimates = np.zeros(count, np.int64), np.full(count, np.nan)
        path = self.moment_noise((chunk.first + count) // 2)
        noise, total_noise = self.rank_noise(chunk.first, chunk.group.shape)
        held = self.history
        self.oldest = play_exact(
            chunk.features, chunk.group, chunk.score, chunk.reward_noise, chunk.arrival, chunk.first,
            self.policy._bound, self.ridges, self.policy._floor, path, noise, total_noise,
            self.store, held["before"], held["rows"], held["known"], held["taken"], self.oldest,
            self.moments, self.weights, self.rng, slots, estimates,
        )  # fmt: skip
        return slots, estimates

    def moment_noise(self, leaves: int) -> Floats:
        """Noise of the moments at leaves 1..leaves, or no columns."""
        return np.zeros((0, 0))

    def rank_noise(self, first: int, shape: tuple[int, ...]) -> tuple[Floats, Floats]:
        """Noise of the counts and of the totals of these rounds."""
        return np.zeros(shape), np.zeros(shape)

    def _make_room(self, rounds: int) -> None:
        held = len(self.history["known"])
        if rounds <= held:
            return
        size = max(2 * held, rounds)
        self.store = grown(self.store, size * self.per_group)
        for name, extra in (("before", 1), ("rows", 0), ("known", 0), ("taken", 0)):
            old = self.history[name]
            new = np.zeros((size + extra, *old.shape[1:]), old.dtype)
            new[: len(old)] = old
            self.history[name] = new
        self.ridges = self.policy._ridges(size // 2 + 1)

    def theta(self) -> Floats | None:
        return self.weights.copy()

    def rank_uncertainty(self) -> Floats | None:
        """Sampling error of a middle rank, at most; groups nobody was seen of are left at one half."""
        seen = np.maximum(self.store.end - self.store.start, 1)
        return np.sqrt(0.25 / seen)
