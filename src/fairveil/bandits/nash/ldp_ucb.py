"""UCB on reports that are randomised by the users (after Ren, Zhou, Liu and Shroff 2020), with one-bit reports."""

from __future__ import annotations

import math
from typing import ClassVar, Literal, NamedTuple

from fairveil.bandits.nash.base import FORM_IN_WORDS, REPORTS_ARE_PUBLIC, local_guarantee
from fairveil.bandits.nash.index import index_of
from fairveil.bandits.nash.rounds import ONE_BIT, RISING, Habits
from fairveil.bandits.nash.sequential import SequentialPolicy
from fairveil.configuration import configuration
from fairveil.fields import Count, Epsilon, Positive, described
from fairveil.privacy.guarantee import Guarantee
from fairveil.privacy.mechanisms.one_bit import OneBit
from fairveil.registry import register


class Numbers(NamedTuple):
    """``low`` and ``slope`` decode the mean of bits; ``alpha``: level of the bound."""

    alpha: float
    low: float
    slope: float


@index_of(Numbers)
def index(numbers, mean, n, log_now, draws):
    """Decoded mean + sqrt(alpha ln t / (2 n)) / slope, slope = (e^eps - 1)/(e^eps + 1): Hoeffding for bits."""
    decoded = (mean - numbers.low) / numbers.slope
    return decoded + math.sqrt(numbers.alpha * log_now / (2.0 * n)) / numbers.slope


@configuration
class LdpUcbForm(SequentialPolicy):
    """What both forms share."""

    local: ClassVar[bool] = True

    arms: Count = described("number of treatments", example=3)
    epsilon: Epsilon = described("budget of one report", example=1.0)
    alpha: Positive = described("how cautious the index is; larger explores more", default=3.1)
    variant: str = described(FORM_IN_WORDS, default="")
    strict: bool = described("refuse a reward outside [0, 1] instead of clipping it", default=False)


@register("policy", "ldp-ucb")
@configuration
class LdpUcb(LdpUcbForm):
    """UCB on locally randomised rewards: decoded mean + sqrt(alpha ln t / (2 n)) (e^eps + 1)/(e^eps - 1).

    Guarantee: epsilon-DP (pure, local) for one user's reward: one random bit leaves the user.
    Cost: nothing is spent by the learner. Decide O(arms) in the step API, O(log arms) amortised in the simulator (same
    law), memory O(arms). Needs no horizon. ``variant="figure"``: as the DP-NCB curves were made.

    >>> LdpUcb(arms=2, epsilon=1.0).guarantee().model.value
    'local'

    Reference: Ren, Zhou, Liu and Shroff 2020; errata: docs/errata/dp-ncb.md
    """

    variant: Literal["sound"] = described(FORM_IN_WORDS, default="sound")

    def numbers(self) -> Numbers:
        mechanism = OneBit(epsilon=self.epsilon)
        return Numbers(self.alpha, mechanism.low, mechanism.slope)

    def habits(self) -> Habits:
        mechanism = OneBit(epsilon=self.epsilon)
        return Habits(report=ONE_BIT, low=mechanism.low, slope=mechanism.slope, pace=RISING)

    def guarantee(self) -> Guarantee:
        return local_guarantee(self.epsilon, REPORTS_ARE_PUBLIC, strict=self.strict)
