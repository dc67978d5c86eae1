"""Arms that pay 0 or 1."""

from __future__ import annotations

from functools import cached_property
from typing import ClassVar

import numpy as np

from fairveil.arrays import Floats
from fairveil.bandits.environments.arms import BERNOULLI, ArmEnvironment, Laws, drawn_means, make_laws, settle_arms
from fairveil.configuration import configuration
from fairveil.fields import Count, Natural, Probability, Vector, described
from fairveil.registry import register

ARM_LIMIT = 2**20


@register("environment", "bernoulli")
@configuration
class Bernoulli(ArmEnvironment):
    """Bernoulli arms with given means, or means drawn uniformly from an interval with a seed.

    >>> Bernoulli(means=(0.2, 0.9)).arms
    2
    >>> round(float(Bernoulli(arms=50).true_means.max()), 6)        # the published instance: seed 42 on (0.005, 1)
    0.97006
    """

    generated: ClassVar[bool] = True

    means: Vector | None = described("success probability of each arm; drawn when left out", default=None)
    arms: Count | None = described("number of arms, when means are drawn", default=None, example=3)
    low: Probability = described("lower end of drawn means", default=0.005)
    high: Probability = described("upper end of drawn means", default=1.0)
    means_seed: Natural = described("seed of drawn means", default=42)

    def __post_init__(self) -> None:
        settle_arms(self)

    @cached_property
    def true_means(self) -> Floats:
        if self.means is not None:
            return np.array(self.means, np.float64)
        return drawn_means(self.arms or 1, self.low, self.high, self.means_seed)

    @cached_property
    def laws(self) -> Laws:
        means = self.true_means.tolist()
        blank = [0.0] * len(means)
        return make_laws([BERNOULLI] * len(means), means, blank, [1.0] * len(means))
