"""Policies that decide every round: the step API over the same compiled index and intake as the simulator."""

from __future__ import annotations

import math
from functools import cached_property
from typing import Any

import numpy as np

from fairveil.bandits.environments.arms import ArmEnvironment
from fairveil.bandits.environments.laws import UNIT
from fairveil.bandits.nash.base import (
    NashPolicy,
    check_arm,
    check_horizon,
    laplace_scale,
    one_bit_report,
    reported,
    unit_reward,
)
from fairveil.bandits.nash.indices import best_arm
from fairveil.bandits.nash.rounds import (
    LAPLACE_CLIPPED,
    ONE_BIT,
    RAW,
    RoundWalker,
    Rules,
    clipped_sum,
    phase_over,
)
from fairveil.bandits.nash.runs import Walker
from fairveil.bandits.protocol import Decision, Feedback, Report, Round
from fairveil.bandits.simulate import Streams
from fairveil.privacy.grid import to_units
from fairveil.privacy.mechanisms.one_bit import OneBit
from fairveil.privacy.noise import Noise
from fairveil.randomness import Generator
from fairveil.state import State, copy_state


class SequentialPolicy(NashPolicy):
    """Uniform exploration while ``phase[0]`` is 0, then the arm with the largest index; subclasses give the rules.

    Local policies randomise in `report`: one bit, or the reward plus discrete Laplace noise of scale 1/epsilon.
    """

    strict: Any
    horizon: Any

    def rules(self) -> Rules:
        """Public numbers for compiled code."""
        raise NotImplementedError

    @cached_property
    def plan(self) -> Rules:
        """The rules, made once."""
        return self.rules()

    def start(self) -> State:
        adaptive = self.plan.limit < 0
        return {
            "counts": np.zeros(self.arms, np.int64),
            "sums": np.zeros(self.arms),
            "phase": np.array([int(adaptive), 0], np.int64),
        }

    def decide(self, state: State, round: Round, rng: Generator) -> Decision:
        if not self.horizon_free:
            check_horizon(round, self.horizon)
        rules = self.plan
        over = rules.limit > 0 and round.index >= rules.limit
        if state["phase"][0] == 0 and not over:
            law = np.full(self.arms, 1.0 / self.arms)
            return Decision(int(rng.integers(0, self.arms)), 1.0 / self.arms, law, symmetric=True)
        log_now = math.log(round.index + 1.0)
        return Decision(int(best_arm(rules.rule, state["sums"], state["counts"], log_now, rules.par)))

    def report(self, feedback: Feedback, noise: Noise) -> Feedback | Report:
        rules = self.plan
        if rules.report == RAW:
            return feedback
        if rules.report == ONE_BIT:
            return one_bit_report(OneBit(epsilon=self.epsilon), feedback, self.strict, noise)  # type: ignore[attr-defined]
        if feedback.reward is None:
            return Report(feedback.index, feedback.arm, None)
        value = int(to_units(unit_reward(feedback.reward, self.strict)))
        drawn = int(noise.laplace(laplace_scale(1, self.epsilon))[0])  # type: ignore[attr-defined]
        return Report(feedback.index, feedback.arm, (value + drawn) / UNIT)

    def learn(self, state: State, feedback: Feedback | Report) -> State:
        check_arm(feedback, self.arms)
        rules = self.plan
        given = feedback.reward if rules.report == RAW else reported(feedback, one_bit=rules.report == ONE_BIT)  # type: ignore[union-attr]
        if given is None:
            return state
        value = unit_reward(given, self.strict) if rules.report == RAW else float(given)
        if rules.report == LAPLACE_CLIPPED:
            value = min(1.0, max(0.0, value))
        after = copy_state(state)
        if after["phase"][0] == 0 and 0 < rules.limit <= feedback.index:
            after["phase"][0] = 1
        arm = feedback.arm
        after["counts"][arm] += 1
        after["sums"][arm] = clipped_sum(
            rules.report, after["phase"][0], after["sums"][arm] + value, after["counts"][arm]
        )
        if after["phase"][0] == 0:
            after["phase"][1] += 1
            done = feedback.index + 1
            if phase_over(rules.phase, rules.limit, rules.bar, done, after["sums"][arm], after["counts"][arm]):
                after["phase"][0] = 1
        return after

    def walker(self, world: ArmEnvironment, rounds: int, streams: Streams) -> Walker:
        spent = getattr(self, "epsilon", 0.0)
        return RoundWalker(self.start(), self.plan, world, streams, spent)
