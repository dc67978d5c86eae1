"""The Nash confidence bound with a trusted curator, as the curves of DP-NCB were made."""

from __future__ import annotations

import math
from typing import Literal, NamedTuple

from fairveil.bandits.nash.base import COUNTED_IN_WORDS, FORM_IN_WORDS, global_guarantee
from fairveil.bandits.nash.gdp_ncb_printed import PublishedGdpNcb
from fairveil.bandits.nash.index import index_of
from fairveil.bandits.nash.two_phases import PHASE_IN_WORDS, TIMED, Exploration, Finish
from fairveil.configuration import configuration
from fairveil.fields import Count, described
from fairveil.privacy.guarantee import Guarantee
from fairveil.registry import register


class Numbers(NamedTuple):
    """Constants; ``log_window``: ln of floor(sqrt T) + 1, which stands where ln T is printed."""

    c: float
    alpha: float
    epsilon: float
    log_window: float


@index_of(Numbers)
def index(numbers, mean, n, log_now, draws):
    """mean + 2 c sqrt(2 mean ln W / n) + (alpha ln^2 W / eps + 4 sqrt(2 alpha / eps) ln^(3/2) W) / n."""
    mean, log_w = min(1.0, max(0.0, mean)), numbers.log_window
    nash = 2.0 * numbers.c * math.sqrt(2.0 * log_w) * math.sqrt(mean / n)
    privacy = numbers.alpha * log_w * log_w / numbers.epsilon
    cross = 4.0 * math.sqrt(2.0 * numbers.alpha / numbers.epsilon) * log_w**1.5
    return mean + nash + (privacy + cross) / n


@register("policy", "gdp-ncb", variant="figure")
@configuration
class FigureGdpNcb(PublishedGdpNcb):
    """Floor(sqrt T) + 1 uniform rounds, ln of that in the index, means that start at 0, raw uniform rewards in all
    later releases.

    Guarantee: not established; its true cost is (releases of one arm) epsilon / ln T.
    Cost: one event is claimed. Time and memory as `gdp-ncb`.

    >>> FigureGdpNcb(arms=5, horizon=10_000, epsilon=1.0).guarantee().established
    False

    Reference: DP-NCB, its experiments (2026); errata: docs/errata/dp-ncb.md
    """

    variant: Literal["figure"] = described(FORM_IN_WORDS, default="figure")
    phase_rounds: Count | None = described(PHASE_IN_WORDS, default=None)
    strict: bool = described("refuse a reward outside [0, 1] instead of clipping it", default=False)
    arrivals: Literal["public"] = described(COUNTED_IN_WORDS, default="public")

    def numbers(self) -> Numbers:
        return Numbers(self.c, self.alpha, self.epsilon, math.log(math.isqrt(self.horizon) + 1))

    def exploration(self) -> Exploration:
        return Exploration(TIMED, self.phase_rounds or math.isqrt(self.horizon) + 1)

    def finish(self) -> Finish:
        return Finish(0.0, False, False)

    def guarantee(self) -> Guarantee:
        return global_guarantee(
            self.epsilon,
            "not established: a reward of the uniform phase enters every later release of its arm, up to log2 T of "
            "them, while each costs epsilon / ln T: up to 1.44 epsilon from this alone",
            established=False,
            strict=self.strict,
        )

    def cost(self, closed: int, uniform_pulls: int, releases: int) -> float:
        """Every release that a reward of the uniform phase entered."""
        return closed * self.epsilon / self.log_horizon
