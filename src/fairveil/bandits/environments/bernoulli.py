"""Arms that pay 0 or 1."""

from __future__ import annotations

from functools import cached_property

from fairveil.arrays import Floats
from fairveil.bandits.environments.arms import BERNOULLI, DrawnArms, Laws, make_laws
from fairveil.configuration import configuration
from fairveil.registry import register


@register("environment", "bernoulli")
@configuration
class Bernoulli(DrawnArms):
    """Bernoulli arms with given means, or means drawn uniformly from an interval with a seed.

    >>> Bernoulli(means=(0.2, 0.9)).arms
    2
    >>> round(float(Bernoulli(arms=50).true_means.max()), 6)        # the published instance: seed 42 on (0.005, 1)
    0.97006
    """

    @cached_property
    def true_means(self) -> Floats:
        return self.labels

    @cached_property
    def laws(self) -> Laws:
        means = self.true_means.tolist()
        blank = [0.0] * len(means)
        return make_laws([BERNOULLI] * len(means), means, blank, [1.0] * len(means))
