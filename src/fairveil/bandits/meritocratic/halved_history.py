"""What Fair-Greedy and Private-Fair-Greedy share: regression on the first half of the history, ranks on the second.

Before round t (counted from 1) let h = floor((t-1)/2). Rows 1..h feed the regression, rounds h+1..t-1 the ranks: a
round leaves the rank window when it enters the regression. The weights change every second round. Rounds 1 and 2 are
uniform.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import KW_ONLY
from typing import ClassVar

import numpy as np

from fairveil.arrays import Floats
from fairveil.bandits.meritocratic.candidates import answered, best_rank, shown_in, uniform_decision
from fairveil.bandits.meritocratic.window import dot
from fairveil.bandits.protocol import Decision, Feedback, Policy, Report, Round
from fairveil.compiling import njit
from fairveil.configuration import configuration
from fairveil.errors import SpecError
from fairveil.fields import Count, Positive, described
from fairveil.privacy.noise import Noise
from fairveil.randomness import Generator
from fairveil.state import State

UNIFORM_ROUNDS = 2
"""Rounds before the first weights."""


@njit(cache=True, nogil=True)
def estimated_rank(count, total, count_noise, total_noise, rng):
    """Noisy count over (noisy) total. A window that looks empty knows nothing: its rank is a fair coin in [0, 1]."""
    size = total + total_noise
    if size < 0.5:
        return rng.random()
    return (count + count_noise) / max(size, 1.0)


@njit(cache=True, nogil=True)
def plain_count(people, theta, threshold):
    """#{rows: <x, theta> <= threshold}: the definition that `fairveil.bandits.meritocratic.window` makes cheap."""
    count = 0
    for row in range(people.shape[0]):
        if dot(people[row], theta) <= threshold:
            count += 1
    return count


@configuration
class HalvedHistory(Policy):
    """Base of the exact policies: state, window and regression; subclasses say which noise there is.

    The whole history is the state, so the step interface suits short runs. People enter with their round's feedback.
    """

    family = "meritocratic"
    keeps_history: ClassVar[bool] = True

    _: KW_ONLY
    groups: Count | None = described("number of groups", default=None)
    features: Count | None = described("number of features of a candidate", default=None)
    ridge: Positive = described("ridge of the regression", default=0.01)

    # What a subclass says ---------------------------------------------------------------------------------------------

    def rows_of(self, features: Floats, reward: Floats) -> Floats:
        """Rows [x, y] as they enter the regression."""
        return np.concatenate([features, reward[..., None]], axis=-1)

    def ridges(self, leaves: int) -> Floats:
        """Added to the Gram matrix at leaves 1..leaves; public."""
        return np.full(leaves, self.ridge)

    @abstractmethod
    def close_leaf(self, state: State, fresh: Floats, leaf: int, noise: Noise) -> State:
        """Entries of the state that change when these rows enter: at least ``theta``."""

    def noise_of_ranks(self, state: State, slots: int) -> tuple[Floats, Floats]:
        """Noise of the counts and of the totals of the next round."""
        return np.zeros(slots), np.zeros(slots)

    # Step interface ---------------------------------------------------------------------------------------------------

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

    def decide(self, state: State, round: Round, rng: Generator) -> Decision:
        shown, now = shown_in(round, self.features, self.groups), round.index
        if now < UNIFORM_ROUNDS:
            return uniform_decision(len(shown.group), rng)
        ranks, theta = np.empty(len(shown.group)), state["theta"]
        noise, total_noise = self.noise_of_ranks(state, len(ranks))
        inside = state["people_round"] >= now // 2
        for slot, (features, group) in enumerate(zip(*shown)):
            own = state["people"][inside & (state["people_group"] == group)]
            count = plain_count(own, theta, dot(features, theta))
            ranks[slot] = estimated_rank(count, len(own), noise[slot], total_noise[slot], rng)
        slot, ties = best_rank(ranks, shown.group, rng)
        return Decision(int(slot), 1.0 / ties)

    def learn(self, state: State, feedback: Feedback | Report) -> State:
        shown, arm, reward = answered(feedback, self.features, self.groups)
        after = {
            **state,
            "people": np.concatenate([state["people"], shown.features]),
            "people_group": np.concatenate([state["people_group"], shown.group]),
            "people_round": np.concatenate([state["people_round"], np.full(len(shown.group), feedback.index)]),
        }
        if reward is None:
            return after
        row = self.rows_of(shown.features[arm : arm + 1], np.array([reward]))
        return after | {
            "rows": np.concatenate([state["rows"], row]),
            "rows_round": np.concatenate([state["rows_round"], [feedback.index]]),
            "entered": np.concatenate([state["entered"], [False]]),
        }

    def due(self, state: State, settled: int) -> str | None:
        return f"round-{int(state['ready_for']) + 1}" if state["ready_for"] < settled else None

    def release(self, state: State, noise: Noise) -> State:
        """Prepare the next round; in every second one a leaf of the regression closes and the weights change."""
        now = int(state["ready_for"]) + 1
        after = {**state, "ready_for": np.asarray(now)}
        if now >= UNIFORM_ROUNDS and now % 2 == 0:
            fresh = (state["rows_round"] < now // 2) & ~state["entered"]
            after["entered"] = state["entered"] | fresh
            after |= self.close_leaf(after, state["rows"][fresh], now // 2, noise)
        return after

    def lost(self, state: State, block: str) -> State:
        """Go on with the weights that stand."""
        return {**state, "ready_for": np.asarray(state["ready_for"] + 1)}
