"""The Nash confidence bound on one-bit reports: Algorithm 2 of DP-NCB, corrected."""

from __future__ import annotations

import math
from typing import ClassVar, Literal, NamedTuple

from fairveil.bandits.nash.base import FORM_IN_WORDS, REPORTS_ARE_PUBLIC, local_guarantee
from fairveil.bandits.nash.index import index_of
from fairveil.bandits.nash.rounds import ONE_BIT, STILL, Habits
from fairveil.bandits.nash.sequential import SequentialPolicy
from fairveil.configuration import configuration
from fairveil.fields import Count, Epsilon, Positive, described
from fairveil.privacy.guarantee import Guarantee
from fairveil.privacy.mechanisms.one_bit import OneBit
from fairveil.registry import register


class Numbers(NamedTuple):
    """``low`` and ``slope`` decode the mean of reports; the factors of sqrt(mean / n), 1 / sqrt n and n^(-3/4)."""

    low: float
    slope: float
    nash: float
    width: float
    cross: float


@index_of(Numbers)
def index(numbers, mean, n, log_now, draws):
    """mean + nash sqrt(mean / n) + width / sqrt n + cross / n^(3/4): the Nash bonus at the mean, the bonus of the
    reports, and what the second does inside the first.
    """
    decoded = min(1.0, max(0.0, (mean - numbers.low) / numbers.slope))
    root = math.sqrt(n)
    bonus = numbers.nash * math.sqrt(decoded) / root
    return decoded + bonus + numbers.width / root + numbers.cross / (root * math.sqrt(root))


@configuration
class LdpNcbForm(SequentialPolicy):
    """What all forms share."""

    horizon_free: ClassVar[bool] = False
    local: ClassVar[bool] = True

    arms: Count = described("number of treatments", example=3)
    horizon: Count = described("number of rounds it is built for", example=1000)
    epsilon: Epsilon = described("budget of one report", example=1.0)
    c: Positive = described("weight of the confidence width", default=3.0)
    alpha: Positive = described("how cautious the index is; larger explores more", default=3.1)
    variant: str = described(FORM_IN_WORDS, default="")
    strict: bool = described("refuse a reward outside [0, 1] instead of clipping it", default=False)


@register("policy", "ldp-ncb")
@configuration
class LdpNcb(LdpNcbForm):
    """Uniform exploration, then mean + Nash bonus + report bonus, on one random bit from every user.

    Guarantee: epsilon-DP (pure, local) for one user's reward: one random bit leaves the user.
    Cost: nothing is spent by the learner. Decide O(arms) in the step API, O(1) to O(log arms) in the simulator (same
    law), memory O(arms). Needs its horizon T and refuses to run past it.

    floor(sqrt T) + 1 uniform rounds, a Hoeffding bonus d for the mean of bits, cross term 2 c sqrt(2 d ln T / n).
    ``variant="printed"`` and ``"figure"`` are the algorithm as printed and as plotted.

    >>> LdpNcb(arms=2, horizon=100, epsilon=1.0).guarantee().established
    True

    Reference: DP-NCB, Algorithm 2 (2026); errata: docs/errata/dp-ncb.md
    """

    variant: Literal["sound"] = described(FORM_IN_WORDS, default="sound")

    def numbers(self) -> Numbers:
        mechanism, log_t = OneBit(epsilon=self.epsilon), math.log(self.horizon)
        nash = 2 * self.c * math.sqrt(2 * log_t)
        width = math.sqrt(self.alpha * log_t / 2) / mechanism.slope
        return Numbers(mechanism.low, mechanism.slope, nash, width, nash * math.sqrt(width))

    def habits(self) -> Habits:
        mechanism = OneBit(epsilon=self.epsilon)
        limit = math.isqrt(self.horizon) + 1
        return Habits(report=ONE_BIT, low=mechanism.low, slope=mechanism.slope, limit=limit, pace=STILL)

    def guarantee(self) -> Guarantee:
        return local_guarantee(self.epsilon, REPORTS_ARE_PUBLIC, strict=self.strict)
