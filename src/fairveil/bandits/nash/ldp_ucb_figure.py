"""UCB on Laplace reports that are clipped one by one: what the curves of DP-NCB show for LDP-UCB."""

from __future__ import annotations

import math
from typing import Literal, NamedTuple

import numpy as np

from fairveil.bandits.nash.base import FORM_IN_WORDS, local_guarantee
from fairveil.bandits.nash.index import index_of, taken_of
from fairveil.bandits.nash.ldp_ucb import LdpUcbForm
from fairveil.bandits.nash.rounds import LAPLACE, RISING, Habits
from fairveil.bandits.nash.sequential import laplace_success
from fairveil.configuration import configuration
from fairveil.fields import described
from fairveil.privacy.guarantee import Guarantee
from fairveil.registry import register

FORCED = 4.0
"""Arms are pulled in turn while n <= 4 ln t."""


class Numbers(NamedTuple):
    """What the index reads."""

    epsilon: float


@index_of(Numbers)
def index(numbers, mean, n, log_now, draws):
    """mean + sqrt(32 ln t / n) / eps, after 4 ln t forced pulls."""
    if n <= FORCED * log_now:
        return np.inf
    return mean + math.sqrt(32.0 * log_now / n) / numbers.epsilon


@taken_of(Numbers)
def taken(numbers, report):
    """Every report is clipped to [0, 1] by itself, which squeezes the gaps between arms."""
    return min(1.0, max(0.0, report))


@register("policy", "ldp-ucb", variant="figure")
@configuration
class FigureLdpUcb(LdpUcbForm):
    """UCB on Laplace reports clipped to [0, 1] one by one, bonus sqrt(32 ln t / n) / epsilon, forced pulls.

    Guarantee: not established; kept to reproduce the DP-NCB curves. Cost: nothing is spent by the learner. Time and
    memory as `ldp-ucb`.

    >>> FigureLdpUcb(arms=2, epsilon=1.0).guarantee().established
    False

    Reference: DP-NCB, its experiments (2026), after Ren, Zhou, Liu and Shroff 2020; errata: docs/errata/dp-ncb.md
    """

    variant: Literal["figure"] = described(FORM_IN_WORDS, default="figure")

    def numbers(self) -> Numbers:
        return Numbers(self.epsilon)

    def habits(self) -> Habits:
        return Habits(report=LAPLACE, success=laplace_success(self.epsilon), pace=RISING)

    def guarantee(self) -> Guarantee:
        return local_guarantee(
            self.epsilon,
            "kept to reproduce published results only; no claim is offered for this variant",
            established=False,
            strict=self.strict,
        )
