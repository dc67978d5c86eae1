"""The Nash confidence bound on Laplace reports: Algorithm 2 of DP-NCB as printed."""

from __future__ import annotations

import math
from typing import Literal, NamedTuple

from fairveil.bandits.nash.base import FORM_IN_WORDS, local_guarantee
from fairveil.bandits.nash.index import explored_of, index_of, kept_of
from fairveil.bandits.nash.ldp_ncb import LdpNcbForm
from fairveil.bandits.nash.rounds import LAPLACE, NO_LIMIT, STILL, Habits
from fairveil.bandits.nash.sequential import laplace_success
from fairveil.configuration import configuration
from fairveil.fields import described
from fairveil.privacy.guarantee import Guarantee
from fairveil.registry import register

NOT_OFFERED = (
    "kept to reproduce published results only: the printed claim holds for a device that clips first, but the claim is "
    "not offered for this variant"
)
ENOUGH = 1600.0
"""The printed constant of the stopping rule."""


class Numbers(NamedTuple):
    """Constants of Algorithm 2."""

    c: float
    alpha: float
    epsilon: float
    log_horizon: float


@index_of(Numbers)
def index(numbers, mean, n, log_now, draws):
    """mean + 2 c sqrt(2 mean ln T / n) + sqrt(8 alpha ln T / n) / eps + 4 c (2 alpha)^(1/4) ln^(3/4) T / (sqrt(eps)
    n^(3/4)).
    """
    mean, root = min(1.0, max(0.0, mean)), math.sqrt(n)
    nash = 2.0 * numbers.c * math.sqrt(2.0 * numbers.log_horizon) * math.sqrt(mean) / root
    width = math.sqrt(8.0 * numbers.alpha * numbers.log_horizon) / numbers.epsilon / root
    cross = 4.0 * numbers.c * (2.0 * numbers.alpha) ** 0.25 * numbers.log_horizon**0.75 / math.sqrt(numbers.epsilon)
    return mean + nash + width + cross / (root * math.sqrt(root))


@explored_of(Numbers)
def explored(numbers, total, n):
    """The printed stopping rule; it never fires at horizons that a machine can run."""
    mean = total / n
    width = math.sqrt(8.0 * numbers.alpha * numbers.log_horizon) / numbers.epsilon / math.sqrt(n)
    excess = mean - width
    if excess <= 0:
        return False
    reward = ENOUGH * numbers.c**2 * numbers.log_horizon
    privacy = ENOUGH * (numbers.log_horizon / numbers.epsilon) ** 2 / excess
    return n * mean > reward + privacy + width * n


@kept_of(Numbers)
def kept(numbers, total, n, adaptive):
    """Once play is adaptive the running mean itself is clipped to [0, 1], hence biased."""
    return min(1.0, max(0.0, total / n)) * n if adaptive else total


@register("policy", "ldp-ncb", variant="printed")
@configuration
class PrintedLdpNcb(LdpNcbForm):
    """Uniform exploration until the printed rule fires, then mean + Nash bonus + report bonus, on Laplace reports.

    Guarantee: not established; kept to reproduce Algorithm 2 of DP-NCB. Cost: nothing is spent by the learner. Time and
    memory as `ldp-ncb`.

    >>> PrintedLdpNcb(arms=2, horizon=100, epsilon=1.0).guarantee().established
    False

    Reference: DP-NCB, Algorithm 2 (2026); errata: docs/errata/dp-ncb.md
    """

    variant: Literal["printed"] = described(FORM_IN_WORDS, default="printed")

    def numbers(self) -> Numbers:
        return Numbers(self.c, self.alpha, self.epsilon, math.log(self.horizon))

    def habits(self) -> Habits:
        return Habits(report=LAPLACE, success=laplace_success(self.epsilon), limit=NO_LIMIT, pace=STILL)

    def guarantee(self) -> Guarantee:
        return local_guarantee(self.epsilon, NOT_OFFERED, established=False, strict=self.strict)
