"""American Community Survey workers as candidates: income is the reward, race (or race and sex, ...) the group."""

from __future__ import annotations

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

Attribute = Literal["RAC1P", "SEX", "MAR", "ST"]

# Code ranges of the data dictionary, then a declared typical value and spread: round figures for American workers,
# not fitted to the records. (CAVEATS names what was settled after runs on these records.)
CONTINUOUS = {
    "AGEP": (17.0, 99.0, 43.0, 15.0),
    "COW": (1.0, 8.0, 2.0, 2.0),
    "SCHL": (1.0, 24.0, 18.5, 3.5),
    "OCCP": (10.0, 9830.0, 4000.0, 2700.0),
    "POBP": (1.0, 554.0, 60.0, 90.0),
    "RELP": (0.0, 17.0, 3.0, 5.0),
    "WKHP": (1.0, 99.0, 38.0, 13.0),
}
RARE = 0.3
"""Least spread of an indicator: a rare one must not outweigh everything else for the few who have it."""
CAVEATS = (
    ("reward_bound", "the range of the reward was settled after runs on these records"),
    ("spread", f"the least spread of a rare indicator, {RARE}, was settled after runs on these records"),
)
# Declared share of each code, round figures; the first code of a category is the redundant one.
CATEGORIES = {
    "MAR": {1: 0.51, 2: 0.02, 3: 0.1, 4: 0.02, 5: 0.35},
    "SEX": {1: 0.5, 2: 0.5},
    "RAC1P": {1: 0.72, 2: 0.13, 3: 0.01, 4: 0.01, 5: 0.01, 6: 0.06, 7: 0.01, 8: 0.05, 9: 0.03},
}


@register("environment", "census")
@configuration
class Census(RecordsEnvironment):
    """Workers of the American Community Survey 2018 (14 states); reward is standardised income, linear in 24 features.

    Encoding: AGEP COW SCHL OCCP POBP RELP WKHP scaled by their code ranges to [-1, 1]; MAR (5), SEX (2) and RAC1P
    (9) as -1/+1 indicators; a constant 1. Target: PINCP, standardised over the hold-out. theta* is the least-squares
    fit on a hold-out fifth of the records that is never played; the others are drawn with replacement within their
    group. Groups: every value (or intersection of values) of ``attributes`` with at least ``minimum`` records.
    Reward noise has standard deviation 0.2. Needs the data set ``acs``.
    """

    attributes: Annotated[tuple[Attribute, ...], Strict(False)] = described(
        "columns whose combinations are the groups", default=("RAC1P",)
    )
    minimum: Count = described("groups with fewer people are left out", default=1_500)

    def __post_init__(self) -> None:
        self.check_groups(self.attributes, "RAC1P, SEX, MAR, ST")

    @property
    def people_of_groups(self) -> PooledPeople:
        return people(self.attributes, self.minimum, self.holdout, self.split_seed)

    @property
    def schema(self) -> Schema:
        return census_schema(self.attributes)


def census_schema(attributes: tuple[str, ...]) -> Schema:
    """Public facts about the encoded columns; those of a group attribute are constant within a group."""
    names, centre, spread, informative = [], [], [], []
    for name, (low, high, typical, deviation) in CONTINUOUS.items():
        names.append(name)
        centre.append(2 * (typical - low) / (high - low) - 1)
        spread.append(2 * deviation / (high - low))
        informative.append(True)
    for name, shares in CATEGORIES.items():
        for position, (code, share) in enumerate(shares.items()):
            names.append(f"{name}={code}")
            centre.append(2 * share - 1)
            spread.append(2 * max(float(np.sqrt(share * (1 - share))), RARE))
            informative.append(position > 0 and name not in attributes)
    names.append("constant")
    width = len(names)
    return Schema(
        names=tuple(names),
        low=np.array([-1.0] * (width - 1) + [1.0]),
        high=np.ones(width),
        centre=np.array([*centre, 1.0]),
        spread=np.array([*spread, 1.0]),
        informative=np.array([*informative, False]),
        reward_centre=0.0,
        reward_spread=0.5,
        caveats=CAVEATS,
    )


@lru_cache(maxsize=4)
def people(attributes: tuple[str, ...], minimum: int, holdout: float, split_seed: int) -> PooledPeople:
    """Load, encode, split and group the records; the same for every run of a process."""
    from fairveil import data

    table = data.load("acs")
    columns = [scale_to_range(table[name], low, high) for name, (low, high, _, _) in CONTINUOUS.items()]
    for name, shares in CATEGORIES.items():
        columns += [np.where(table[name] == code, 1.0, -1.0) for code in shares]
    features = np.stack([*columns, np.ones(len(table))], axis=1)
    chosen = {name: table[name].astype(np.int64) for name in attributes}
    rng = generator(split_seed, "census", "holdout")
    return split_people(features, table["PINCP"].astype(np.float64), chosen, minimum, holdout, rng, standardise=True)
