"""The Nash confidence bound on reports that are randomised by the users."""

from __future__ import annotations

import math
from typing import ClassVar, Literal

import numpy as np

from fairveil.bandits.environments.laws import UNIT
from fairveil.bandits.nash.base import local_guarantee
from fairveil.bandits.nash.indices import LOCAL_NCB, parameters
from fairveil.bandits.nash.rounds import FIXED, LAPLACE, LAPLACE_MEAN_CLIPPED, LOCAL_RULE, ONE_BIT, Rules
from fairveil.bandits.nash.sequential import SequentialPolicy
from fairveil.configuration import configuration
from fairveil.fields import Count, Epsilon, Positive
from fairveil.privacy.guarantee import Guarantee
from fairveil.privacy.mechanisms.one_bit import OneBit
from fairveil.registry import register


@register("policy", "ldp-ncb")
@configuration
class LdpNcb(SequentialPolicy):
    """Uniform exploration, then mean + Nash bonus + report bonus, on locally randomised rewards.

    Guarantee (``variant="sound"``): epsilon-DP (pure, local) for one user's reward: one random bit leaves the user.
    Cost: nothing is spent by the learner. Decide O(arms) in the step API, O(1) to O(log arms) in the simulator (same
    law), memory O(arms). Needs its horizon T and refuses to run past it.

    ``sound``: floor(sqrt T) + 1 uniform rounds, a Hoeffding bonus d for the mean of bits and the cross term
    2 c sqrt(2 d ln T / n). ``printed``: Laplace reports, the printed stopping rule (which never fires at horizons a
    machine can run) and a running mean that is clipped in place, hence biased. ``figure``: Laplace reports, a uniform
    phase of floor(sqrt T) + 2 rounds and ln of that in the cross term, as the published curves were made; the
    public code's uniform phase draws its noise at location 1/epsilon with scale 1, which is not repeated here.

    >>> LdpNcb(arms=2, horizon=100, epsilon=1.0).guarantee().established
    True

    Reference: DP-NCB, Algorithm 2 (2026); errata: docs/errata/dp-ncb.md
    """

    horizon_free: ClassVar[bool] = False

    arms: Count
    horizon: Count
    epsilon: Epsilon
    c: Positive = 3.0
    alpha: Positive = 3.1
    variant: Literal["sound", "printed", "figure"] = "sound"
    strict: bool = False

    def rules(self) -> Rules:
        log_t, window = math.log(self.horizon), math.isqrt(self.horizon) + 1
        nash = 2 * self.c * math.sqrt(2 * log_t)
        if self.variant == "sound":
            mechanism = OneBit(epsilon=self.epsilon)
            width = math.sqrt(self.alpha * log_t / 2) / mechanism.slope
            cross = nash * math.sqrt(width)
            par = parameters(mechanism.low, mechanism.slope, nash, width, cross)
            return Rules(
                LOCAL_NCB,
                par,
                report=ONE_BIT,
                low=mechanism.low,
                slope=mechanism.slope,
                phase=FIXED,
                limit=window,
            )
        figure = self.variant == "figure"
        width = math.sqrt(8 * self.alpha * log_t) / self.epsilon
        log_cross = math.log(window) if figure else log_t
        cross = 4 * self.c * (2 * self.alpha) ** 0.25 * log_cross**0.75 / math.sqrt(self.epsilon)
        bar = np.array([width, 1600 * self.c**2 * log_t, 1600 * (log_t / self.epsilon) ** 2])
        return Rules(
            LOCAL_NCB,
            parameters(0.0, 1.0, nash, width, cross),
            report=LAPLACE if figure else LAPLACE_MEAN_CLIPPED,
            success=-math.expm1(-self.epsilon / UNIT),
            phase=FIXED if figure else LOCAL_RULE,
            bar=bar,
            limit=window + 1 if figure else 0,
        )

    def guarantee(self) -> Guarantee:
        if self.variant == "sound":
            return local_guarantee(self.epsilon, "whether and when a report was sent is public")
        return local_guarantee(
            self.epsilon,
            "kept to reproduce published results only: the printed claim holds for a device that clips first, but the "
            "claim is not offered for this variant",
            established=False,
        )
