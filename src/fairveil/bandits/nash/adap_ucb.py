"""Private UCB with doubling episodes that forget."""

from __future__ import annotations

import math
from typing import Literal

from fairveil.bandits.nash.base import global_guarantee
from fairveil.bandits.nash.blocks import ADAP, ADAP_FIGURE, Recipe
from fairveil.bandits.nash.episodes import ARRIVALS_IN_WORDS, EpisodePolicy
from fairveil.bandits.nash.indices import parameters
from fairveil.configuration import configuration
from fairveil.fields import Count, Epsilon, Positive
from fairveil.privacy.guarantee import Guarantee
from fairveil.registry import register


@register("policy", "adap-ucb")
@configuration
class AdapUcb(EpisodePolicy):
    """UCB on episode means that are released once, with Laplace noise, and replaced by the next episode's.

    Guarantee (``variant="sound"``): epsilon-DP (pure, global) for one user's reward; every reward, the first of each
    arm included, enters exactly one release with Laplace noise of scale 1/epsilon on the sum.
    Cost: one event for the whole run, parallel over episodes. Decide O(1), release O(arms), memory O(arms); a run of T
    rounds is simulated in O(arms^2 log T) steps at most. Needs no horizon.
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
    arrivals: Literal["public", "private"] = "public"

    def recipe(self) -> Recipe:
        figure = self.variant == "figure"
        return Recipe(
            rule=ADAP_FIGURE if figure else ADAP,
            par=parameters(self.alpha, self.release_epsilon),
            success=self.success,
            raw_first=figure,
            private_counts=self.arrivals == "private",
            keep=False,
            shuffle=False,
            first=1,
            growth=0.0,
        )

    def guarantee(self) -> Guarantee:
        if self.variant == "sound":
            return global_guarantee(self.epsilon, ARRIVALS_IN_WORDS[self.arrivals])
        return global_guarantee(
            self.epsilon,
            "not established: the first reward of every arm enters the index without noise",
            established=False,
        )

    def spent(self, releases: int) -> float:
        return super().spent(releases) if self.variant == "sound" else math.nan
