"""Our global policy: pure privacy, no horizon, and an index that charges privacy noise and sampling error once."""

from __future__ import annotations

import math
from typing import Literal, NamedTuple

from fairveil.bandits.nash.base import COUNTED_IN_WORDS, global_guarantee
from fairveil.bandits.nash.blocks import Shape
from fairveil.bandits.nash.episodes import ARRIVALS_IN_WORDS
from fairveil.bandits.nash.index import ceiling_of, index_of, rising_of
from fairveil.bandits.nash.optimism import optimistic_ceiling, optimistic_gain, optimistic_mean
from fairveil.bandits.nash.rounds import RISING
from fairveil.bandits.nash.waiting import RULE_IN_WORDS, Rule, WaitingPolicy
from fairveil.configuration import configuration
from fairveil.fields import Count, Epsilon, Positive, described
from fairveil.privacy.guarantee import Guarantee
from fairveil.registry import register

SHORTEST, LONGEST = 3, 128
"""Bounds on the first block of an arm; between them 2/epsilon rounds, where the noise has the size of one mean."""


class Numbers(NamedTuple):
    """``exploration``: factor of the level; ``epsilon``: what one noisy sum costs."""

    exploration: float
    epsilon: float
    arms: int


@index_of(Numbers)
def index(numbers, mean, n, log_now, draws):
    """The largest mean that explains the noisy sum at level exploration ln(t / (arms n)), at least 0."""
    level = numbers.exploration * max(0.0, log_now - math.log(numbers.arms * max(n, 1.0)))
    return optimistic_mean(mean, n, draws, numbers.epsilon, level)


@ceiling_of(Numbers)
def ceiling(numbers, mean, n, log_now, draws):
    """The index without its root."""
    level = numbers.exploration * max(0.0, log_now - math.log(numbers.arms * max(n, 1.0)))
    return optimistic_ceiling(mean, n, draws, numbers.epsilon, level)


@rising_of(Numbers)
def rising(numbers, mean, n, log_now, found):
    """`optimistic_gain` in the logarithm of the round, which the level is linear in."""
    return optimistic_gain(mean, found, log_now - math.log(numbers.arms * max(n, 1.0)))


@register("policy", "private-nash")
@configuration
class PrivateNash(WaitingPolicy):
    """Random first order, growing blocks that all count, and an optimistic mean under one level for both errors.

    Guarantee: epsilon-DP (pure, global) for one user's reward; every reward enters exactly one release, with Laplace
    noise of scale 1/epsilon on the block's sum, whatever the number of rounds and however late rewards come.
    Cost: one event for the whole run, parallel over blocks. Decide O(log blocks), open and release O(arms), memory
    O(arms + open blocks), at most arms log_(1+growth) T of them; a run of T rounds is simulated in O(arms log T)
    blocks. Needs no horizon.

    Why it is fair across rounds: arms come first in a uniformly random order, so no round of the start has an expected
    reward below the average of all arms, however small the worst mean is. Afterwards an arm's block lasts ``growth``
    times the rounds it has had; noisy sums of all its blocks add up, and the index is the largest mean that explains
    the noisy sum at level ``exploration`` ln(t / (arms n)): see `fairveil.bandits.nash.optimism`. ``exploration=1`` is
    the textbook level; the default explores less, which pays at every horizon that was measured. Rewards that are under
    way are credited at what they are expected to be, so a delay of D rounds costs about D uniform rounds.
    ``release="arrivals"``: a reward joins the release that is open for its arm when it comes, so one that never comes
    holds up nobody (`fairveil.bandits.nash.arrivals` has the rule, with its proof).

    >>> import fairveil
    >>> spec = {"task": "bandit", "policy": {"name": "private-nash", "epsilon": 0.5}, "runs": 4, "rounds": 20000,
    ...         "environment": {"name": "bernoulli", "means": [0.2, 0.5, 0.9]}, "checkpoints": [20000]}
    >>> fairveil.run(spec)["metrics"]["nash_regret"][0] < 0.05
    True

    Reference: episodes after Azize and Basu 2022, level after Garivier, Hadiji, Menard and Stoltz 2022.
    """

    arms: Count = described("number of treatments", example=3)
    epsilon: Epsilon = described("budget of one reward", example=1.0)
    exploration: Positive = described("level of the index: 1 is the textbook's, less explores less", default=0.7)
    growth: Positive = described("length of an episode relative to the rounds its arm has had", default=0.5)
    strict: bool = described("refuse a reward outside [0, 1] instead of clipping it", default=False)
    arrivals: Literal["public", "private"] = described(COUNTED_IN_WORDS, default="public")
    released_by: Rule = described(RULE_IN_WORDS, default="blocks", key="release", later=True)

    def numbers(self) -> Numbers:
        return Numbers(self.exploration, self.release_epsilon, self.arms)

    def shape(self) -> Shape:
        return Shape(
            success=self.success,
            raw_first=False,
            private_counts=self.hides_arrivals,
            keep=True,
            shuffle=True,
            first=int(min(LONGEST, max(SHORTEST, math.ceil(2.0 / self.release_epsilon)))),
            growth=self.growth,
            pace=RISING,
        )

    def guarantee(self) -> Guarantee:
        return global_guarantee(self.epsilon, ARRIVALS_IN_WORDS[self.arrivals], *self.assumed, strict=self.strict)
