"""The Nash confidence bound with the factor that is printed: equation (3) of Barman, Khan, Maiti and Sawarni 2023."""

from __future__ import annotations

import math
from typing import Literal

from fairveil.bandits.nash.ncb import Ncb, Numbers
from fairveil.configuration import configuration
from fairveil.fields import described
from fairveil.registry import register


@register("policy", "ncb", variant="printed")
@configuration
class PrintedNcb(Ncb):
    """Uniform until some arm has earned enough, then the largest mean + 4 sqrt(mean ln T / n).

    Guarantee: none; raw rewards decide. Cost: no privacy budget. Time and memory as `ncb`.

    >>> round(PrintedNcb(arms=2, horizon=100).numbers().width, 3)
    8.584

    Reference: Barman, Khan, Maiti and Sawarni 2023, equation (3).
    """

    variant: Literal["printed"] = described(  # type: ignore[assignment]
        "which form of the algorithm: this one", default="printed"
    )

    def numbers(self) -> Numbers:
        return Numbers(4 * math.sqrt(math.log(self.horizon)), self.enough)
