"""UCB1 without privacy: the yardstick."""

from __future__ import annotations

import math

import numpy as np

from fairveil.bandits.environments.arms import ArmEnvironment
from fairveil.bandits.nash.base import NashPolicy, check_arm, unit_reward
from fairveil.bandits.nash.indices import UCB, best_arm, parameters
from fairveil.bandits.nash.rounds import RAW, RoundWalker, Rules, absorb
from fairveil.bandits.nash.runs import Streams, Walker
from fairveil.bandits.protocol import Decision, Feedback, Round, State, copy_state
from fairveil.randomness import Generator
from fairveil.registry import Count, Positive, configuration, register


@register("policy", "ucb")
@configuration
class Ucb(NashPolicy):
    """UCB1: the arm with the largest mean + sqrt(bonus ln t / n).

    Guarantee: none; raw rewards decide. Cost: no privacy budget. Decide O(arms) in the step API, O(log arms) amortised
    in the simulator (same arms); learn O(arms) to copy the state; memory O(arms). Needs no horizon.

    >>> policy = Ucb(arms=3)
    >>> state = policy.learn(policy.start(), Feedback(0, 0, 1.0))
    >>> policy.decide(state, Round(1), np.random.default_rng(0)).arm        # an arm without rewards comes first
    1

    Reference: Auer, Cesa-Bianchi and Fischer 2002.
    """

    arms: Count
    bonus: Positive = 2.0
    strict: bool = False

    def start(self) -> State:
        return {"counts": np.zeros(self.arms, np.int64), "sums": np.zeros(self.arms), "phase": np.array([1, 0])}

    def decide(self, state: State, round: Round, rng: Generator) -> Decision:
        log_now = math.log(round.index + 1.0)
        return Decision(int(best_arm(UCB, state["sums"], state["counts"], log_now, parameters(self.bonus))))

    def learn(self, state: State, feedback: Feedback) -> State:
        check_arm(feedback, self.arms)
        after = copy_state(state)
        value = unit_reward(feedback.reward, self.strict)
        absorb(RAW, after["counts"], after["sums"], after["phase"], feedback.arm, value)
        return after

    def walker(self, world: ArmEnvironment, rounds: int, streams: Streams) -> Walker:
        return RoundWalker(self.start(), Rules(UCB, parameters(self.bonus)), world, streams, 0.0)
