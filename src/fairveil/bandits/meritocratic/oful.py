"""Policies that choose by estimated reward: greedy, and OFUL with its confidence bonus. No privacy, no fairness."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from fairveil.arrays import Floats, Ints
from fairveil.bandits.feedback import AT_ONCE
from fairveil.bandits.meritocratic.candidates import answered, shown_in
from fairveil.bandits.meritocratic.runner import Runner
from fairveil.bandits.meritocratic.world import Chunk
from fairveil.bandits.protocol import Decision, Feedback, Policy, Report, Round
from fairveil.bandits.simulate import Case, Streams
from fairveil.compiling import njit
from fairveil.configuration import configuration
from fairveil.errors import SpecError
from fairveil.fields import Count, NonNegative, Positive, described
from fairveil.randomness import Generator
from fairveil.registry import register
from fairveil.state import State, copy_state


class Ridge(NamedTuple):
    """A ridge regression: the inverse of its Gram matrix, the moment with the rewards, and the weights."""

    inverse: Floats
    moment: Floats
    theta: Floats


@njit(cache=True, nogil=True)
def optimistic_slot(features, group, theta, inverse, width):
    """Slot of the largest <x, theta> + width * sqrt(x' V^-1 x) among the filled ones; the first on ties."""
    best, chosen = -np.inf, -1
    columns = theta.shape[0]
    for slot in range(group.shape[0]):
        if group[slot] < 0:
            continue
        value = 0.0
        for i in range(columns):
            value += features[slot, i] * theta[i]
        if width > 0.0:
            form = 0.0
            for i in range(columns):
                row = 0.0
                for j in range(columns):
                    row += inverse[i, j] * features[slot, j]
                form += features[slot, i] * row
            value += width * math.sqrt(max(form, 0.0))
        if value > best:
            best, chosen = value, slot
    return chosen


@njit(cache=True, nogil=True)
def learn_row(x, reward, inverse, moment, theta, log_det):
    """Add a row to a ridge regression kept as an inverse (Sherman and Morrison); returns ln det V/det lambda I."""
    columns = x.shape[0]
    step = np.empty(columns)
    for i in range(columns):
        total = 0.0
        for j in range(columns):
            total += inverse[i, j] * x[j]
        step[i] = total
    form = 0.0
    for i in range(columns):
        form += x[i] * step[i]
    for i in range(columns):
        moment[i] += reward * x[i]
        for j in range(columns):
            inverse[i, j] -= step[i] * step[j] / (1.0 + form)
    for i in range(columns):
        total = 0.0
        for j in range(columns):
            total += inverse[i, j] * moment[j]
        theta[i] = total
    return log_det + math.log1p(form)


@njit(cache=True, nogil=True)
def confidence_width(exploration, log_det, now):
    """Width of the confidence bonus: the self-normalised bound with the authors' constant and their ln t."""
    return exploration * math.sqrt(max(2.0 * log_det * math.log(now + 1.0), 0.0))


@njit(cache=True, nogil=True)
def play_at_once(features, group, reward, first, exploration, ridge, log_det, slots):
    """A chunk whose rewards (of every slot) arrive at once; the ridge regression is updated in place."""
    inverse, moment, theta = ridge
    for row in range(group.shape[0]):
        width = confidence_width(exploration, log_det, first + row + 1)
        slot = optimistic_slot(features[row], group[row], theta, inverse, width)
        slots[row] = max(slot, 0)
        if slot >= 0:
            log_det = learn_row(features[row, slot], reward[row, slot], inverse, moment, theta, log_det)
    return log_det


@configuration
class LinearPolicy(Policy):
    """Ridge regression on what was chosen, then the candidate of the highest (optimistic) estimated reward."""

    family = "meritocratic"

    features: Count | None = described("number of features of a candidate", default=None)
    ridge: Positive = described("ridge of the regression", default=0.01)

    @property
    def bonus(self) -> float:
        """Size of the confidence bonus."""
        return 0.0

    def start(self) -> State:
        if self.features is None:
            raise SpecError("the number of features is not known", path="policy.features", fix="give features")
        return {
            "inverse": np.eye(self.features) / self.ridge,
            "moment": np.zeros(self.features),
            "theta": np.zeros(self.features),
            "log_det": np.zeros(()),
        }

    def decide(self, state: State, round: Round, rng: Generator) -> Decision:
        shown = shown_in(round, self.features, None)
        width = confidence_width(self.bonus, float(state["log_det"]), round.index + 1)
        return Decision(int(optimistic_slot(shown.features, shown.group, state["theta"], state["inverse"], width)))

    def learn(self, state: State, feedback: Feedback | Report) -> State:
        shown, arm, reward = answered(feedback, self.features, None)
        if reward is None:
            return state
        after = copy_state(state)
        held = Ridge(after["inverse"], after["moment"], after["theta"])
        after["log_det"] = np.asarray(learn_row(shown.features[arm], reward, *held, float(after["log_det"])))
        return after

    def simulator(self, case: Case, streams: Streams) -> LinearRunner | None:
        return LinearRunner(self, case, streams) if case.lateness == AT_ONCE else None


@register("policy", "greedy")
@configuration
class Greedy(LinearPolicy):
    """Always the candidate of the highest estimated reward (ridge regression, no exploration).

    Guarantee: none. Cost: none. Decide O(candidates * features), learn O(features^2), memory O(features^2).

    >>> Greedy(features=2).guarantee() is None
    True
    """


@register("policy", "oful")
@configuration
class Oful(LinearPolicy):
    """Optimism in the face of uncertainty for linear rewards.

    The bonus is exploration * sqrt(2 ln(det V / det lambda I) ln t) * sqrt(x' V^-1 x), with the small constant that the
    published experiments use; ``exploration=1`` is close to the theoretical radius and explores far more.
    Guarantee: none. Cost: none. Decide O(candidates * features^2), learn O(features^2), memory O(features^2).

    >>> Oful(features=2).guarantee() is None
    True

    Reference: Abbasi-Yadkori, Pal and Szepesvari 2011.
    """

    exploration: NonNegative = described("size of the confidence bonus", default=0.01)

    @property
    def bonus(self) -> float:
        return self.exploration


class LinearRunner(Runner):
    """Compiled run of `greedy` and `oful` where rewards come at once."""

    def __init__(self, policy: LinearPolicy, case: Case, streams: Streams) -> None:
        super().__init__(case, streams)
        self.exploration = policy.bonus
        state = policy.start()
        self.ridge = Ridge(state["inverse"], state["moment"], state["theta"])
        self.log_det = 0.0

    def play(self, chunk: Chunk) -> tuple[Ints, Floats]:
        slots, reward = np.zeros(len(chunk), np.int64), chunk.reward
        self.log_det = play_at_once(
            chunk.features, chunk.group, reward, chunk.first, self.exploration, self.ridge, self.log_det, slots
        )
        return slots, np.full(len(chunk), np.nan)

    def belief(self) -> Floats | None:
        return self.ridge.theta.copy()
