"""Arms with four kinds of reward law, chosen by a label."""

from __future__ import annotations

from functools import cached_property
from typing import ClassVar

import numpy as np

from fairveil.arrays import Floats
from fairveil.bandits.environments.arms import (
    BERNOULLI,
    BETA,
    TWO_POINT,
    UNIFORM,
    ArmEnvironment,
    Laws,
    drawn_means,
    make_laws,
    settle_arms,
)
from fairveil.configuration import configuration
from fairveil.fields import Count, Natural, Probability, Vector, described
from fairveil.registry import register


@register("environment", "mixed")
@configuration
class Mixed(ArmEnvironment):
    """Bernoulli, Beta(4, 1), two-point {0.4, 1} and uniform arms, by label: at least .75, .5, .25 or below.

    The label is the mean of the Bernoulli arms only; the other laws have means .8, .7 and .5 whatever their label is.
    Regret is measured with the true mean of each law.

    >>> Mixed(means=(0.9, 0.6, 0.3, 0.1)).true_means.round(3).tolist()
    [0.9, 0.8, 0.7, 0.5]
    """

    generated: ClassVar[bool] = True

    means: Vector | None = described("mean of each arm; drawn when left out", default=None)
    arms: Count | None = described("number of arms, when means are drawn", default=None, example=3)
    low: Probability = described("lower end of drawn means", default=0.005)
    high: Probability = described("upper end of drawn means", default=1.0)
    means_seed: Natural = described("seed of drawn means", default=42)

    def __post_init__(self) -> None:
        settle_arms(self)

    @cached_property
    def labels(self) -> Floats:
        if self.means is not None:
            return np.array(self.means, np.float64)
        return drawn_means(self.arms or 1, self.low, self.high, self.means_seed)

    @cached_property
    def true_means(self) -> Floats:
        labels = self.labels
        return np.select([labels >= 0.75, labels >= 0.5, labels >= 0.25], [labels, 0.8, 0.7], 0.5)

    @cached_property
    def laws(self) -> Laws:
        table = [
            (BERNOULLI, label, 0.0, 1.0)
            if label >= 0.75
            else (BETA, 0.0, 4.0, 1.0)
            if label >= 0.5
            else (TWO_POINT, 0.5, 0.4, 1.0)
            if label >= 0.25
            else (UNIFORM, 0.0, 0.0, 1.0)
            for label in self.labels.tolist()
        ]
        kind, chance, low, high = (list(column) for column in zip(*table))
        return make_laws(kind, chance, low, high)
