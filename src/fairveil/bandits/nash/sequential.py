"""Policies that decide every round: the step API over the same compiled index and intake as the simulator."""

from __future__ import annotations

import math
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from fairveil.bandits.environments.arms import UNIT
from fairveil.bandits.feedback import AT_ONCE
from fairveil.bandits.nash.base import (
    NashPolicy,
    bit_noise,
    check_arm,
    check_horizon,
    laplace_scale,
    one_bit_report,
    reported,
    unit_reward,
    world_of,
)
from fairveil.bandits.nash.optimism import Evidence, report_looks
from fairveil.bandits.nash.rounds import NO_LIMIT, ONE_BIT, RAW, Habits, RoundSimulator, best_arm, take_in
from fairveil.bandits.protocol import Decision, Feedback, Report, Round, drawn_evenly, raw_feedback
from fairveil.bandits.quotes import Noisy
from fairveil.bandits.simulate import Case, Streams
from fairveil.configuration import unless
from fairveil.privacy.grid import to_units
from fairveil.privacy.mechanisms.one_bit import OneBit
from fairveil.privacy.noise import Noise, laplace_parameter
from fairveil.randomness import Generator
from fairveil.state import State, copy_state


class SequentialPolicy(NashPolicy):
    """Uniform exploration while ``phase[0]`` is 0, then the arm with the largest index.

    Subclasses have fields ``arms`` and ``strict``; they give numbers, whose kind has the formulas, and habits.
    Local policies randomise in `report`: one bit, or the reward plus discrete Laplace noise of scale 1/epsilon.
    """

    simulated_by: ClassVar[type[RoundSimulator]] = RoundSimulator
    """What plays a run of it."""
    strict: Any
    horizon: Any
    epsilon: Any = unless(0.0)

    @property
    def released(self) -> tuple[str, ...]:
        """A local policy has nothing but reports; the others publish nothing."""
        return ("counts", "sums", "phase") if self.local else ()

    def habits(self) -> Habits:
        """How rewards reach the learner, how long it explores uniformly, and what time does to the index."""
        return Habits()

    @cached_property
    def _habits(self) -> Habits:
        return self.habits()

    def start(self) -> State:
        adaptive = self._habits.limit < 0
        return {
            "counts": np.zeros(self.arms, np.int64),
            "sums": np.zeros(self.arms),
            "phase": np.array([int(adaptive), 0], np.int64),
        }

    def decide(self, state: State, round: Round, rng: Generator) -> Decision:
        if not self.horizon_free:
            check_horizon(round, self.horizon)
        if state["phase"][0] == 0 and not self._limit_reached(round.index):
            return drawn_evenly(self.arms, rng)
        log_now = math.log(round.index + 1.0)
        return Decision(int(best_arm(self._numbers, state["sums"], state["counts"], log_now)))

    def noises(self) -> tuple[Noisy, ...]:
        return (bit_noise(OneBit(epsilon=self.epsilon)),) if self._habits.report == ONE_BIT else ()

    def evidence(self, state: State) -> Evidence:
        counts, habits = state["counts"].astype(np.float64), self._habits
        mean, none = state["sums"] / np.maximum(counts, 1.0), np.zeros(self.arms, np.int64)
        return Evidence(mean, counts, none, 1.0, report_looks(counts), habits.low, habits.slope)

    def _limit_reached(self, rounds: int) -> bool:
        return NO_LIMIT < self._habits.limit <= rounds

    def report(self, feedback: Feedback, noise: Noise) -> Feedback | Report:
        if self._habits.report == RAW:
            return feedback
        if self._habits.report == ONE_BIT:
            return one_bit_report(OneBit(epsilon=self.epsilon), feedback, self.strict, noise)
        if feedback.reward is None:
            return Report(feedback.index, feedback.arm, None)
        value = int(to_units(unit_reward(feedback.reward, self.strict)))
        drawn = int(noise.laplace(laplace_scale(1, self.epsilon))[0])
        return Report(feedback.index, feedback.arm, (value + drawn) / UNIT)

    def learn(self, state: State, feedback: Feedback | Report) -> State:
        check_arm(feedback, self.arms)
        how = self._habits.report
        value = raw_feedback(feedback).reward if how == RAW else reported(feedback, one_bit=how == ONE_BIT)
        if value is None:
            return state
        if how == RAW:
            value = unit_reward(value, self.strict)
        after, arm = copy_state(state), feedback.arm
        if self._limit_reached(feedback.index):
            after["phase"][0] = 1
        after["counts"][arm] += 1
        adaptive = bool(after["phase"][0])
        after["sums"][arm], over = take_in(
            self._numbers, after["sums"][arm], after["counts"][arm], adaptive, float(value)
        )
        if not adaptive:
            after["phase"][1] += 1
            after["phase"][0] = over or self._limit_reached(feedback.index + 1)
        return after

    def simulator(self, case: Case, streams: Streams) -> RoundSimulator | None:
        if streams.noise.stream is None or case.lateness != AT_ONCE:
            return None
        return self.simulated_by(self._numbers, self._habits, self.start(), world_of(case), streams, self.epsilon)


def laplace_success(epsilon: float) -> float:
    """The noise of a Laplace report as the parameter of compiled draws."""
    return laplace_parameter(laplace_scale(1, epsilon))
