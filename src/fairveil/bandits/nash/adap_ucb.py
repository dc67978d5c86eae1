"""AdaP-UCB: private UCB with doubling blocks that are released once and then forgotten (Azize and Basu 2022)."""

from __future__ import annotations

import math
from typing import Literal, NamedTuple

from fairveil.bandits.nash.base import COUNTED_IN_WORDS, FORM_IN_WORDS, global_guarantee
from fairveil.bandits.nash.blocks import Shape
from fairveil.bandits.nash.episodes import ARRIVALS_IN_WORDS
from fairveil.bandits.nash.index import index_of
from fairveil.bandits.nash.rounds import RISING
from fairveil.bandits.nash.waiting import RULE_IN_WORDS, Rule, WaitingPolicy
from fairveil.configuration import configuration
from fairveil.fields import Count, Epsilon, Positive, described
from fairveil.privacy.guarantee import Guarantee
from fairveil.registry import register


class Numbers(NamedTuple):
    """``alpha``: level of the bound; ``epsilon``: what one noisy sum costs."""

    alpha: float
    epsilon: float


@index_of(Numbers)
def index(numbers, mean, n, log_now, draws):
    """mean + sqrt(alpha ln t / (2 n)) + alpha ln t / (eps n): sampling width plus privacy width."""
    level = numbers.alpha * log_now
    return mean + math.sqrt(level / (2.0 * n)) + level / (numbers.epsilon * n)


@configuration
class AdapUcbForm(WaitingPolicy):
    """What both forms share: doubling blocks, each released once, in whose place the next one comes."""

    arms: Count = described("number of treatments", example=3)
    epsilon: Epsilon = described("budget of one reward", example=1.0)
    alpha: Positive = described("how cautious the index is; larger explores more", default=3.1)
    variant: str = described(FORM_IN_WORDS, default="")
    strict: bool = described("refuse a reward outside [0, 1] instead of clipping it", default=False)
    arrivals: Literal["public", "private"] = described(COUNTED_IN_WORDS, default="public")
    released_by: Rule = described(RULE_IN_WORDS, default="blocks", key="release", later=True)

    def shape(self) -> Shape:
        return Shape(
            success=self.success,
            raw_first=False,
            private_counts=self.hides_arrivals,
            keep=False,
            shuffle=False,
            first=1,
            growth=0.0,
            pace=RISING,
        )


@register("policy", "adap-ucb")
@configuration
class AdapUcb(AdapUcbForm):
    """UCB on block means that are released once, with Laplace noise, and replaced by the next block's.

    Guarantee: epsilon-DP (pure, global) for one user's reward; every reward, the first of each arm included, enters
    exactly one release with Laplace noise of scale 1/epsilon on the sum.
    Cost: one event for the whole run, parallel over blocks. Decide O(log blocks), open and release O(arms), memory
    O(arms + open blocks); a run of T rounds is simulated in O(arms^2 log T) steps at most. Needs no horizon.
    ``variant="figure"``: what the DP-NCB figures show.

    >>> AdapUcb(arms=2, epsilon=0.5).guarantee().epsilon
    0.5

    Reference: Azize and Basu 2022; errata: docs/errata/dp-ncb.md
    """

    variant: Literal["sound"] = described(FORM_IN_WORDS, default="sound")

    def numbers(self) -> Numbers:
        return Numbers(self.alpha, self.release_epsilon)

    def guarantee(self) -> Guarantee:
        return global_guarantee(self.epsilon, ARRIVALS_IN_WORDS[self.arrivals], *self.assumed, strict=self.strict)
