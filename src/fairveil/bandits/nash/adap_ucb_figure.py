"""AdaP-UCB as the figures of DP-NCB show it: no 1/epsilon in the bonus, and first rewards without noise."""

from __future__ import annotations

import math
from dataclasses import field
from typing import Literal, NamedTuple

from fairveil.bandits.nash.adap_ucb import AdapUcbForm
from fairveil.bandits.nash.base import FORM_IN_WORDS, global_guarantee
from fairveil.bandits.nash.blocks import Shape
from fairveil.bandits.nash.index import index_of
from fairveil.configuration import configuration
from fairveil.fields import described
from fairveil.privacy.guarantee import Guarantee
from fairveil.registry import register


class Numbers(NamedTuple):
    """``alpha``: level of the bound."""

    alpha: float


@index_of(Numbers)
def index(numbers, mean, n, log_now, draws):
    """mean + sqrt(alpha ln t / n) + 2 alpha ln t / n: the privacy width lacks its 1/epsilon."""
    level = numbers.alpha * log_now
    return mean + math.sqrt(level / n) + 2.0 * level / n


@register("policy", "adap-ucb", variant="figure")
@configuration
class FigureAdapUcb(AdapUcbForm):
    """UCB on block means, with the bonus of the DP-NCB figures and the first reward of every arm used without noise.

    Guarantee: not established, because the first reward of every arm is published as it is. Cost, time and memory as
    `adap-ucb`.

    >>> FigureAdapUcb(arms=2, epsilon=0.5).guarantee().established
    False

    Reference: DP-NCB, its experiments (2026), after Azize and Basu 2022; errata: docs/errata/dp-ncb.md
    """

    variant: Literal["figure"] = described(FORM_IN_WORDS, default="figure")
    released_by: Literal["blocks"] = field(init=False, default="blocks")

    def numbers(self) -> Numbers:
        return Numbers(self.alpha)

    def shape(self) -> Shape:
        return super().shape()._replace(raw_first=True)

    def guarantee(self) -> Guarantee:
        return global_guarantee(
            self.epsilon,
            "not established: the first reward of every arm enters the index without noise",
            established=False,
            strict=self.strict,
        )

    def spent(self, releases: int) -> float:
        """No finite number is established."""
        return math.nan
