"""The Nash confidence bound on Laplace reports, as the curves of DP-NCB were made."""

from __future__ import annotations

import math
from typing import Literal, NamedTuple

from fairveil.bandits.nash.base import FORM_IN_WORDS, local_guarantee
from fairveil.bandits.nash.index import index_of
from fairveil.bandits.nash.ldp_ncb import LdpNcbForm
from fairveil.bandits.nash.ldp_ncb_printed import NOT_OFFERED
from fairveil.bandits.nash.rounds import LAPLACE, STILL, Habits
from fairveil.bandits.nash.sequential import laplace_success
from fairveil.configuration import configuration
from fairveil.fields import described
from fairveil.privacy.guarantee import Guarantee
from fairveil.registry import register


class Numbers(NamedTuple):
    """Factors of sqrt(mean / n), 1 / sqrt n and n^(-3/4)."""

    nash: float
    width: float
    cross: float


@index_of(Numbers)
def index(numbers, mean, n, log_now, draws):
    """mean + nash sqrt(mean / n) + width / sqrt n + cross / n^(3/4)."""
    mean, root = min(1.0, max(0.0, mean)), math.sqrt(n)
    return (
        mean + numbers.nash * math.sqrt(mean) / root + numbers.width / root + numbers.cross / (root * math.sqrt(root))
    )


@register("policy", "ldp-ncb", variant="figure")
@configuration
class FigureLdpNcb(LdpNcbForm):
    """Uniform exploration, then mean + Nash bonus + report bonus, on Laplace reports.

    Guarantee: not established; kept to reproduce the DP-NCB curves. Cost: nothing is spent by the learner. Time and
    memory as `ldp-ncb`. A uniform phase of floor(sqrt T) + 2 rounds, and ln of one less in the cross term; the public
    code's uniform phase draws its noise at location 1/epsilon with scale 1, which is not repeated here.

    >>> FigureLdpNcb(arms=2, horizon=100, epsilon=1.0).guarantee().established
    False

    Reference: DP-NCB, its experiments (2026); errata: docs/errata/dp-ncb.md
    """

    variant: Literal["figure"] = described(FORM_IN_WORDS, default="figure")

    @property
    def window(self) -> int:
        """The bound on the uniform phase whose logarithm stands in the cross term."""
        return math.isqrt(self.horizon) + 1

    def numbers(self) -> Numbers:
        log_t = math.log(self.horizon)
        cross = 4 * self.c * (2 * self.alpha) ** 0.25 * math.log(self.window) ** 0.75 / math.sqrt(self.epsilon)
        nash, width = 2 * self.c * math.sqrt(2 * log_t), math.sqrt(8 * self.alpha * log_t) / self.epsilon
        return Numbers(nash, width, cross)

    def habits(self) -> Habits:
        success = laplace_success(self.epsilon)
        return Habits(report=LAPLACE, success=success, limit=self.window + 1, pace=STILL)

    def guarantee(self) -> Guarantee:
        return local_guarantee(self.epsilon, NOT_OFFERED, established=False, strict=self.strict)
