"""UCB1 without privacy: the yardstick (Auer, Cesa-Bianchi and Fischer 2002)."""

from __future__ import annotations

import math
from typing import NamedTuple

from fairveil.bandits.nash.index import index_of
from fairveil.bandits.nash.rounds import RISING, Habits
from fairveil.bandits.nash.sequential import SequentialPolicy
from fairveil.configuration import configuration
from fairveil.fields import Count, Positive, described
from fairveil.registry import register


class Numbers(NamedTuple):
    """What the index reads."""

    bonus: float


@index_of(Numbers)
def index(numbers, mean, n, log_now, draws):
    """Mean plus sampling width, with bonus 2 in the paper."""
    return mean + math.sqrt(numbers.bonus * log_now / n)


@register("policy", "ucb")
@configuration
class Ucb(SequentialPolicy):
    """UCB1: the arm with the largest mean + sqrt(bonus ln t / n).

    Guarantee: none; raw rewards decide. Cost: no privacy budget. Decide O(arms) in the step API, O(log arms) amortised
    in the simulator (same arms); learn O(arms) to copy the state; memory O(arms). Needs no horizon.

    >>> import numpy as np
    >>> from fairveil.bandits.protocol import Feedback, Round
    >>> policy = Ucb(arms=3)
    >>> state = policy.learn(policy.start(), Feedback(0, 0, 1.0))
    >>> policy.decide(state, Round(1), np.random.default_rng(0)).arm        # an arm without rewards comes first
    1

    Reference: Auer, Cesa-Bianchi and Fischer 2002.
    """

    arms: Count = described("number of treatments", example=3)
    bonus: Positive = described("weight of the confidence width; 2 is the textbook's", default=2.0)
    strict: bool = described("refuse a reward outside [0, 1] instead of clipping it", default=False)

    def numbers(self) -> Numbers:
        return Numbers(self.bonus)

    def habits(self) -> Habits:
        return Habits(pace=RISING)
