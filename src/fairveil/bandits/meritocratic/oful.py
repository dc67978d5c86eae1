"""Policies that choose by estimated reward: greedy, and OFUL with its confidence bonus. No privacy, no fairness."""

from __future__ import annotations

import math

import numpy as np

from fairveil.bandits.feedback import AT_ONCE
from fairveil.bandits.meritocratic.runner import Arrivals, Runner
from fairveil.bandits.meritocratic.world import Chunk, Floats, Ints
from fairveil.bandits.protocol import Decision, Feedback, Policy, Report, Round, raw_feedback
from fairveil.bandits.simulate import Case, Streams
from fairveil.compiling import njit
from fairveil.configuration import configuration
from fairveil.errors import SpecError
from fairveil.fields import Count, NonNegative, Positive
from fairveil.randomness import Generator
from fairveil.registry import register
from fairveil.state import State


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
def play_at_once(features, group, score, reward_noise, first, exploration, inverse, moment, theta, log_det, slots):
    """A chunk whose rewards arrive at once."""
    for row in range(reward_noise.shape[0]):
        width = confidence_width(exploration, log_det, first + row + 1)
        slot = optimistic_slot(features[row], group[row], theta, inverse, width)
        slots[row] = max(slot, 0)
        if slot >= 0:
            reward = score[row, slot] + reward_noise[row]
            log_det = learn_row(features[row, slot], reward, inverse, moment, theta, log_det)
    return log_det


@configuration
class LinearPolicy(Policy):
    """Ridge regression on what was chosen, then the candidate of the highest (optimistic) estimated reward."""

    family = "meritocratic"

    features: Count | None = None
    ridge: Positive = 0.01

    @property
    def _exploration(self) -> float:
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
        features = np.stack([candidate.features for candidate in round.candidates])
        width = confidence_width(self._exploration, float(state["log_det"]), round.index + 1)
        group = np.zeros(len(features), np.int64)
        return Decision(int(optimistic_slot(features, group, state["theta"], state["inverse"], width)))

    def learn(self, state: State, feedback: Feedback | Report) -> State:
        feedback = raw_feedback(feedback)
        assert feedback.round is not None
        after = {name: array.copy() for name, array in state.items()}
        x = np.ascontiguousarray(feedback.round.candidates[feedback.arm].features)
        done = learn_row(x, feedback.reward, after["inverse"], after["moment"], after["theta"], float(after["log_det"]))
        after["log_det"] = np.asarray(done)
        return after

    def simulator(self, case: Case, streams: Streams) -> Runner | None:
        if case.lateness != AT_ONCE:
            return None
        return LinearRunner(self)


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

    exploration: NonNegative = 0.01

    @property
    def _exploration(self) -> float:
        return self.exploration


class LinearRunner(Runner):
    """Compiled run of `greedy` and `oful`; rewards that arrive late enter when they arrive."""

    def __init__(self, policy: LinearPolicy) -> None:
        self.policy = policy
        self.state = policy.start()
        self.waiting = Arrivals()
        self.log_det = 0.0

    def play(self, chunk: Chunk) -> tuple[Ints, Floats]:
        slots = np.zeros(len(chunk), np.int64)
        held = self.state["inverse"], self.state["moment"], self.state["theta"]
        exploration = self.policy._exploration
        own = np.arange(chunk.first + 1, chunk.first + len(chunk) + 1)
        if not self.waiting.queue and (chunk.arrival == own).all():
            self.log_det = play_at_once(
                chunk.features,
                chunk.group,
                chunk.score,
                chunk.reward_noise,
                chunk.first,
                exploration,
                *held,
                self.log_det,
                slots,
            )
            return slots, np.full(len(chunk), np.nan)
        inverse, moment, theta = held
        for row in range(len(chunk)):
            now = chunk.first + row
            for x, _, reward in self.waiting.take(now):
                self.log_det = learn_row(x, reward, inverse, moment, theta, self.log_det)
            width = confidence_width(exploration, self.log_det, now + 1)
            slot = int(optimistic_slot(chunk.features[row], chunk.group[row], theta, inverse, width))
            slots[row] = max(slot, 0)
            if slot >= 0:
                reward = float(chunk.score[row, slot] + chunk.reward_noise[row])
                self.waiting.put(int(chunk.arrival[row]), now, (chunk.features[row, slot], 0, reward))
        return slots, np.full(len(chunk), np.nan)

    def theta(self) -> Floats | None:
        return self.state["theta"].copy()
