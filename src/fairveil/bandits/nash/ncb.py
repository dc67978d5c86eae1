"""The Nash confidence bound without privacy."""

from __future__ import annotations

import math
from typing import ClassVar, Literal

import numpy as np

from fairveil.bandits.nash.indices import NCB, parameters
from fairveil.bandits.nash.rounds import SUM_ABOVE, Rules
from fairveil.bandits.nash.sequential import SequentialPolicy
from fairveil.configuration import configuration
from fairveil.fields import Count, Positive
from fairveil.registry import register


@register("policy", "ncb")
@configuration
class Ncb(SequentialPolicy):
    """Uniform until some arm has earned enough, then the largest mean + factor sqrt(mean ln T / n).

    Guarantee: none; raw rewards decide. Cost: no privacy budget. Decide O(arms) in the step API, O(1) to O(log arms) in
    the simulator (same arms), memory O(arms). Needs its horizon T and refuses to run past it.
    ``variant="figure"``: factor 2 c sqrt 2, as in the published curves; ``"printed"``: factor 4, equation (3). The
    uniform phase ends when the rewards of one arm sum to more than ``phase_factor`` c^2 ln T.

    >>> Ncb(arms=2, horizon=100).horizon
    100

    Reference: Barman, Khan, Maiti and Sawarni 2023.
    """

    horizon_free: ClassVar[bool] = False

    arms: Count
    horizon: Count
    c: Positive = 3.0
    phase_factor: Positive = 1.0
    variant: Literal["figure", "printed"] = "figure"
    strict: bool = False

    def rules(self) -> Rules:
        log_horizon = math.log(self.horizon)
        factor = 2 * self.c * math.sqrt(2 * log_horizon) if self.variant == "figure" else 4 * math.sqrt(log_horizon)
        bar = np.array([self.phase_factor * self.c**2 * log_horizon, 0.0, 0.0])
        return Rules(NCB, parameters(factor), phase=SUM_ABOVE, bar=bar, limit=0)
