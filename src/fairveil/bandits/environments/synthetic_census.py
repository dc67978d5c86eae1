"""A generated census as a world of candidates: needs no download."""

from __future__ import annotations

from functools import cached_property, lru_cache
from typing import ClassVar

import numpy as np

from fairveil.arrays import Floats
from fairveil.bandits.meritocratic.scaling import Schema
from fairveil.bandits.meritocratic.world import Pool, PoolEnvironment
from fairveil.configuration import configuration
from fairveil.data.synthetic_census import CATEGORIES, CONTINUOUS, GROUPS, synthetic_census
from fairveil.data.synthetic_census import Census as Generated
from fairveil.fields import Count, Natural, described
from fairveil.randomness import generator
from fairveil.registry import register


@register("environment", "synthetic-census")
@configuration
class SyntheticCensus(PoolEnvironment):
    """Generated workers of four groups: seven continuous and seventeen one-hot columns (24), reward noise 0.2.

    The pool of ``people_per_group`` is generated once from ``people_seed`` and sampled with replacement in every run.
    The most rewarding candidate often comes from one group: OFUL's fair regret is about a quarter of random choice's.

    >>> SyntheticCensus().features, SyntheticCensus().groups
    (24, 4)
    """

    generated: ClassVar[bool] = True

    people_per_group: Count = described("people drawn for each group", default=20_000)
    people_seed: Natural = described("seed of the people", default=0)

    def __post_init__(self) -> None:
        if self.joins:
            self.check_joins()

    @property
    def pool(self) -> Pool:
        return _pool(self.people_per_group, self.people_seed)

    @cached_property
    def theta(self) -> Floats:
        return _generate(self.people_per_group, self.people_seed).theta

    @cached_property
    def group_names(self) -> tuple[str, ...]:
        return tuple(f"g{number + 1}" for number in range(GROUPS))

    @cached_property
    def schema(self) -> Schema:
        shares = np.concatenate([np.full(len(values), 1.0 / len(values)) for values in CATEGORIES.values()])
        first = np.concatenate([np.arange(len(values)) == 0 for values in CATEGORIES.values()])
        numbers = len(CONTINUOUS)
        made = _generate(self.people_per_group, self.people_seed)
        return Schema(
            names=made.names,
            low=made.low,
            high=made.high,
            centre=np.concatenate([np.zeros(numbers), shares]),
            spread=np.concatenate([np.full(numbers, 0.35), np.sqrt(shares * (1 - shares))]),
            informative=np.concatenate([np.ones(numbers, bool), ~first]),
            reward_centre=0.4,
            reward_spread=0.2,
            norm=made.norm_bound,
            caveats=(("reward_bound", "the range of the reward follows the generator of these people"),),
        )


@lru_cache(maxsize=4)
def _generate(people: int, seed: int) -> Generated:
    return synthetic_census(people, generator(seed, "synthetic-census"))


@lru_cache(maxsize=4)
def _pool(people: int, seed: int) -> Pool:
    made = _generate(people, seed)
    return Pool.of(made.features, made.groups, made.theta)
