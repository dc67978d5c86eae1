"""UCI Adult workers as candidates: expected income label is the reward, race or sex (or both) the group."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Annotated, Literal

import numpy as np
from pydantic import Strict

from fairveil.bandits.meritocratic.scaling import Schema
from fairveil.bandits.meritocratic.world import PooledPeople, RecordsEnvironment, scale_to_range, split_people
from fairveil.configuration import configuration
from fairveil.fields import Count, described
from fairveil.randomness import generator
from fairveil.registry import register

# Documented range, then declared typical value and spread.
CONTINUOUS = {
    "age": (17.0, 90.0, 39.0, 13.0),
    "education_years": (1.0, 16.0, 10.0, 2.5),
    "hours": (1.0, 99.0, 40.0, 12.0),
}
CATEGORIES = {
    "marital": ("Married-civ-spouse", "Never-married", "Divorced", "Separated", "Widowed", "Married-spouse-absent"),
    "workclass": ("Private", "Self-emp-not-inc", "Self-emp-inc", "Federal-gov", "Local-gov", "State-gov"),
    "sex": ("Male", "Female"),
    "race": ("White", "Black", "Asian-Pac-Islander", "Amer-Indian-Eskimo", "Other"),
}
RARE = 0.3
"""Least spread of an indicator: a rare one must not outweigh everything else for the few who have it."""
CAVEATS = (
    ("spread", f"the least spread of a rare indicator, {RARE}, was settled after runs on records of another census"),
)
SHARES = {
    "marital": (0.47, 0.32, 0.14, 0.03, 0.03, 0.01),
    "workclass": (0.74, 0.08, 0.04, 0.03, 0.07, 0.04),
    "sex": (0.67, 0.33),
    "race": (0.85, 0.1, 0.03, 0.01, 0.01),
}


@register("environment", "adult")
@configuration
class Adult(RecordsEnvironment):
    """UCI Adult records; reward is the linear score of "income above 50,000", noise 0.2. Needs the data set ``adult``.

    Encoding: age, education_years and hours scaled by their documented ranges to [-1, 1]; marital status, work class,
    sex and race as 0/1 indicators; a constant 1. theta* is the least-squares fit of the label on a hold-out fifth that
    is never played. Groups: every value of ``attributes`` (race, sex, or both) with at least ``minimum`` records.
    """

    attributes: Annotated[tuple[Literal["race", "sex"], ...], Strict(False)] = described(
        "columns whose combinations are the groups", default=("race",)
    )
    minimum: Count = described("groups with fewer people are left out", default=300)

    def __post_init__(self) -> None:
        self.check_groups(self.attributes, "race, sex")

    @property
    def people_of_groups(self) -> PooledPeople:
        return people(self.attributes, self.minimum, self.holdout, self.split_seed)

    @property
    def schema(self) -> Schema:
        numbers = len(CONTINUOUS)
        names, informative = list(CONTINUOUS), [True] * numbers
        for name, values in CATEGORIES.items():
            names += [f"{name}={value}" for value in values]
            informative += [position > 0 and name not in self.attributes for position in range(len(values))]
        shares = np.concatenate([SHARES[name] for name in CATEGORIES])
        middle = [2 * (typical - low) / (high - low) - 1 for low, high, typical, _ in CONTINUOUS.values()]
        width = [2 * deviation / (high - low) for low, high, _, deviation in CONTINUOUS.values()]
        return Schema(
            names=(*names, "constant"),
            low=np.array([-1.0] * numbers + [0.0] * len(shares) + [1.0]),
            high=np.ones(len(names) + 1),
            centre=np.concatenate([middle, shares, [1.0]]),
            spread=np.concatenate([width, np.maximum(np.sqrt(shares * (1 - shares)), RARE), [1.0]]),
            informative=np.array([*informative, False]),
            reward_centre=0.25,
            reward_spread=0.3,
            norm=math.sqrt(numbers + len(CATEGORIES) + 1),
            caveats=CAVEATS,
        )


@lru_cache(maxsize=4)
def people(attributes: tuple[str, ...], minimum: int, holdout: float, split_seed: int) -> PooledPeople:
    """Load, encode, split and group the records; the same for every run of a process."""
    from fairveil import data

    table = data.load("adult")
    columns = [scale_to_range(table[name], low, high) for name, (low, high, _, _) in CONTINUOUS.items()]
    for name, values in CATEGORIES.items():
        columns += [(table[name] == value).astype(np.float64) for value in values]
    features = np.stack([*columns, np.ones(len(table))], axis=1)
    chosen = {name: table[name] for name in attributes}
    rng = generator(split_seed, "adult", "holdout")
    return split_people(features, table["income"].astype(np.float64), chosen, minimum, holdout, rng, standardise=False)
