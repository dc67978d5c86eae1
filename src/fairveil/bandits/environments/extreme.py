"""The two-armed instance on which a fixed first round ruins the geometric mean."""

from __future__ import annotations

from functools import cached_property
from math import e, log
from typing import ClassVar

import numpy as np

from fairveil.arrays import Floats
from fairveil.bandits.environments.arms import BERNOULLI, ArmEnvironment, Laws, make_laws
from fairveil.configuration import configuration
from fairveil.fields import Count, described
from fairveil.registry import register


@register("environment", "extreme")
@configuration
class Extreme(ArmEnvironment):
    """Two Bernoulli arms with means (2e)^-T and 1 for horizon T; the small mean is kept as a logarithm.

    >>> world = Extreme(horizon=1000)
    >>> world.true_means.tolist(), round(float(world.log_means[0]), 1)      # the mean itself underflows
    ([0.0, 1.0], -1693.1)
    """

    generated: ClassVar[bool] = True

    horizon: Count = described("number of rounds, which fixes the hard means", example=1000)

    @property
    def arms(self) -> int:
        return 2

    @cached_property
    def log_means(self) -> Floats:
        return np.array([-self.horizon * log(2 * e), 0.0])

    @cached_property
    def true_means(self) -> Floats:
        return np.exp(self.log_means)

    @cached_property
    def laws(self) -> Laws:
        return make_laws([BERNOULLI] * 2, self.true_means.tolist(), [0.0] * 2, [1.0] * 2)
