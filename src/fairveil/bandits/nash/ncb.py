"""The Nash confidence bound without privacy (Barman, Khan, Maiti and Sawarni 2023): as the published curves have it,
and with the factor that is printed in equation (3).
"""

from __future__ import annotations

import math
from typing import ClassVar, Literal, NamedTuple

from fairveil.bandits.nash.base import FORM_IN_WORDS
from fairveil.bandits.nash.index import explored_of, index_of
from fairveil.bandits.nash.rounds import NO_LIMIT, STILL, Habits
from fairveil.bandits.nash.sequential import SequentialPolicy
from fairveil.configuration import configuration
from fairveil.fields import Count, Positive, described
from fairveil.registry import register


class Numbers(NamedTuple):
    """``width``: factor of sqrt(mean / n); ``enough``: the sum of one arm that ends uniform exploration."""

    width: float
    enough: float


@index_of(Numbers)
def index(numbers, mean, n, log_now, draws):
    """mean + width sqrt(mean / n): relative to the mean, so small means are explored little."""
    return mean + numbers.width * math.sqrt(mean / n)


@explored_of(Numbers)
def explored(numbers, total, n):
    """n mean > phase_factor c^2 ln T."""
    return total > numbers.enough


@configuration
class NcbForm(SequentialPolicy):
    """What both forms share: uniform exploration until some arm has earned enough."""

    horizon_free: ClassVar[bool] = False

    arms: Count = described("number of treatments", example=3)
    horizon: Count = described("number of rounds it is built for", example=1000)
    c: Positive = described("weight of the confidence width", default=3.0)
    phase_factor: Positive = described("length of the uniform phase relative to the paper's", default=1.0)
    variant: str = described(FORM_IN_WORDS, default="")
    strict: bool = described("refuse a reward outside [0, 1] instead of clipping it", default=False)

    @property
    def enough(self) -> float:
        """The sum that ends uniform exploration."""
        return self.phase_factor * self.c**2 * math.log(self.horizon)

    def habits(self) -> Habits:
        return Habits(limit=NO_LIMIT, pace=STILL)


@register("policy", "ncb")
@configuration
class Ncb(NcbForm):
    """Uniform until some arm has earned enough, then the largest mean + 2 c sqrt(2 mean ln T / n).

    Guarantee: none; raw rewards decide. Cost: no privacy budget. Decide O(arms) in the step API, O(1) to O(log arms) in
    the simulator (same arms), memory O(arms). Needs its horizon T and refuses to run past it. The uniform phase ends
    when the rewards of one arm sum to more than ``phase_factor`` c^2 ln T. ``variant="printed"``: the factor of
    equation (3) instead.

    >>> Ncb(arms=2, horizon=100).horizon
    100

    Reference: Barman, Khan, Maiti and Sawarni 2023.
    """

    variant: Literal["figure"] = described(FORM_IN_WORDS, default="figure")

    def numbers(self) -> Numbers:
        return Numbers(2 * self.c * math.sqrt(2 * math.log(self.horizon)), self.enough)


@register("policy", "ncb", variant="printed")
@configuration
class PrintedNcb(NcbForm):
    """Uniform until some arm has earned enough, then the largest mean + 4 sqrt(mean ln T / n).

    Guarantee: none; raw rewards decide. Cost: no privacy budget. Time and memory as `ncb`.

    >>> round(PrintedNcb(arms=2, horizon=100).numbers().width, 3)
    8.584

    Reference: Barman, Khan, Maiti and Sawarni 2023, equation (3).
    """

    variant: Literal["printed"] = described(FORM_IN_WORDS, default="printed")

    def numbers(self) -> Numbers:
        return Numbers(4 * math.sqrt(math.log(self.horizon)), self.enough)
