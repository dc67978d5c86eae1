"""Private UCB with doubling episodes that forget."""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import NDArray

from fairveil.bandits.nash.base import global_guarantee
from fairveil.bandits.nash.episodes import ADAP, ADAP_FIGURE, EpisodePolicy
from fairveil.bandits.nash.indices import parameters
from fairveil.privacy.guarantee import Guarantee
from fairveil.registry import Count, Epsilon, Positive, configuration, register


@register("policy", "adap-ucb")
@configuration
class AdapUcb(EpisodePolicy):
    """UCB on episode means that are released once, with Laplace noise, and replaced by the next episode's.

    Guarantee (``variant="sound"``): epsilon-DP (pure, global) for one user's reward; every reward, the first of each arm
    included, enters exactly one release with Laplace noise of scale 1/epsilon on the sum.
    Cost: one event for the whole run, parallel over episodes. Decide O(1), release O(arms), memory O(arms); a run of T
    rounds is simulated in O(arms^2 log T). Needs no horizon.
    ``variant="figure"`` is what the DP-NCB figures show: a bonus without 1/epsilon, and the first reward of every arm
    used without noise; its guarantee is not established.

    >>> AdapUcb(arms=2, epsilon=0.5).guarantee().epsilon
    0.5

    Reference: Azize and Basu 2022; errata: docs/errata/dp-ncb.md
    """

    arms: Count
    epsilon: Epsilon
    alpha: Positive = 3.1
    variant: Literal["sound", "figure"] = "sound"
    strict: bool = False

    @property
    def rule(self) -> int:  # type: ignore[override]
        return ADAP if self.variant == "sound" else ADAP_FIGURE

    def numbers(self) -> NDArray[np.float64]:
        return parameters(self.alpha, self.epsilon)

    def guarantee(self) -> Guarantee:
        if self.variant == "sound":
            return global_guarantee(self.epsilon, "whether a reward arrived is public")
        return global_guarantee(
            self.epsilon,
            "not established: the first reward of every arm enters the index without noise",
            established=False,
        )
