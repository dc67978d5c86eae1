"""UCB on reports that are randomised by the users."""

from __future__ import annotations

import math
from typing import Literal

from fairveil.bandits.environments.laws import UNIT
from fairveil.bandits.nash.base import local_guarantee
from fairveil.bandits.nash.indices import LOCAL_UCB, parameters
from fairveil.bandits.nash.rounds import LAPLACE_CLIPPED, ONE_BIT, Rules
from fairveil.bandits.nash.sequential import SequentialPolicy
from fairveil.configuration import configuration
from fairveil.fields import Count, Epsilon, Positive
from fairveil.privacy.guarantee import Guarantee
from fairveil.privacy.mechanisms.one_bit import OneBit
from fairveil.registry import register


@register("policy", "ldp-ucb")
@configuration
class LdpUcb(SequentialPolicy):
    """UCB on locally randomised rewards.

    Guarantee (``variant="sound"``): epsilon-DP (pure, local) for one user's reward: one random bit leaves the user.
    Cost: nothing is spent by the learner. Decide O(arms) in the step API, O(log arms) amortised in the simulator (same
    law), memory O(arms). Needs no horizon.
    ``sound``: decoded mean of the bits + sqrt(alpha ln t / (2 n)) (e^eps + 1)/(e^eps - 1). ``figure``: Laplace reports
    clipped to [0, 1] one by one (which squeezes the gaps between arms), bonus sqrt(32 ln t / n) / epsilon and forced
    pulls while n <= 4 ln t, as the DP-NCB curves were made.

    >>> LdpUcb(arms=2, epsilon=1.0).guarantee().model.value
    'local'

    Reference: Ren, Zhou, Liu and Shroff 2020; errata: docs/errata/dp-ncb.md
    """

    arms: Count
    epsilon: Epsilon
    alpha: Positive = 3.1
    variant: Literal["sound", "figure"] = "sound"
    strict: bool = False

    def rules(self) -> Rules:
        if self.variant == "figure":
            par = parameters(0.0, 1.0, 32.0 / self.epsilon**2, 4.0)
            return Rules(LOCAL_UCB, par, report=LAPLACE_CLIPPED, success=-math.expm1(-self.epsilon / UNIT))
        mechanism = OneBit(epsilon=self.epsilon)
        low, slope = mechanism.low, mechanism.slope
        par = parameters(low, slope, self.alpha / (2 * slope**2), 0.0)
        return Rules(LOCAL_UCB, par, report=ONE_BIT, low=low, slope=slope)

    def guarantee(self) -> Guarantee:
        if self.variant == "sound":
            return local_guarantee(self.epsilon, "whether and when a report was sent is public")
        return local_guarantee(
            self.epsilon,
            "kept to reproduce published results only; no claim is offered for this variant",
            established=False,
        )
