"""Arms with four kinds of reward law, chosen by a label."""

from __future__ import annotations

from functools import cached_property

import numpy as np

from fairveil.arrays import Floats
from fairveil.bandits.environments.arms import (
    BERNOULLI,
    BETA,
    TWO_POINT,
    UNIFORM,
    DrawnArms,
    Laws,
    make_laws,
)
from fairveil.configuration import configuration
from fairveil.registry import register


@register("environment", "mixed")
@configuration
class Mixed(DrawnArms):
    """Bernoulli, Beta(4, 1), two-point {0.4, 1} and uniform arms, by label: at least .75, .5, .25 or below.

    The label is the mean of the Bernoulli arms only; the other laws have means .8, .7 and .5 whatever their label is.
    Regret is measured with the true mean of each law.

    >>> Mixed(means=(0.9, 0.6, 0.3, 0.1)).true_means.round(3).tolist()
    [0.9, 0.8, 0.7, 0.5]
    """

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
