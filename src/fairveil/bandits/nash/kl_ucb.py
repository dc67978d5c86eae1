"""KL-UCB without privacy: the yardstick for rewards in [0, 1] (Garivier and Cappe 2011)."""

from __future__ import annotations

import math
from typing import NamedTuple

from fairveil.bandits.nash.index import index_of
from fairveil.bandits.nash.optimism import optimistic_mean
from fairveil.bandits.nash.rounds import RISING, Habits
from fairveil.bandits.nash.sequential import SequentialPolicy
from fairveil.configuration import configuration
from fairveil.fields import Count, NonNegative, described
from fairveil.registry import register


class Numbers(NamedTuple):
    """``loglog``: c of the level ln t + c ln ln t."""

    loglog: float


@index_of(Numbers)
def index(numbers, mean, n, log_now, draws):
    """The largest q with n kl(mean, q) <= ln t + c ln ln t."""
    level = log_now
    if numbers.loglog > 0.0 and log_now > 1.0:
        level += numbers.loglog * math.log(log_now)
    return min(1.0, optimistic_mean(mean, n, 0, 1.0, level))


@register("policy", "kl-ucb")
@configuration
class KlUcb(SequentialPolicy):
    """The arm with the largest mean that its rewards do not rule out, by the Bernoulli divergence.

    Guarantee: none; raw rewards decide. Cost: no privacy budget. Decide O(arms) in the step API, O(log arms) amortised
    in the simulator (same arms), memory O(arms). Needs no horizon. ``loglog = 3`` is the proof's constant, 0 what the
    authors recommend.

    >>> import fairveil
    >>> spec = {"task": "bandit", "policy": {"name": "kl-ucb"}, "runs": 4, "rounds": 5000, "checkpoints": [5000],
    ...         "environment": {"name": "bernoulli", "means": [0.2, 0.5, 0.9]}}
    >>> fairveil.run(spec)["metrics"]["average_regret"][0] < 0.01
    True

    Reference: Garivier and Cappe 2011.
    """

    arms: Count = described("number of treatments", example=3)
    loglog: NonNegative = described("c of the level ln t + c ln ln t", default=0.0)
    strict: bool = described("refuse a reward outside [0, 1] instead of clipping it", default=False)

    def numbers(self) -> Numbers:
        return Numbers(self.loglog)

    def habits(self) -> Habits:
        return Habits(pace=RISING)
