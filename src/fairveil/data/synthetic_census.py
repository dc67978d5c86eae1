"""A generated census: four groups of workers, twenty-four features, an income score. Needs no download.

The shape is that of encoded person records: seven numbers scaled to [-1, 1] and four categories as 0/1 columns. Groups
differ in schooling, hours and kind of work, so the best scores of one group lie above those of another: choosing the
highest expected score is then far from choosing the best relative rank.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from fairveil.arrays import Floats, Ints
from fairveil.configuration import configuration
from fairveil.data.schema import Column, Dataset, Synthesis
from fairveil.fields import Count, NonNegative, described
from fairveil.randomness import Generator
from fairveil.registry import register

GROUPS = 4
CONTINUOUS = ("age", "schooling", "hours", "experience", "commute", "household", "tenure")
CATEGORIES = {
    "work": ("private", "public", "own", "family", "none"),
    "marital": ("married", "widowed", "divorced", "separated", "single"),
    "region": ("north", "south", "east", "west"),
    "level": ("basic", "skilled", "senior"),
}
WIDTH = len(CONTINUOUS) + sum(map(len, CATEGORIES.values()))

# What a unit of each encoded column adds to the score; the intercept sits in the category columns.
_WEIGHTS = np.concatenate(
    [
        [0.06, 0.16, 0.14, 0.10, -0.03, 0.02, 0.05],
        [0.10, 0.08, 0.06, 0.00, -0.04],
        [0.13, 0.10, 0.09, 0.08, 0.07],
        [0.12, 0.08, 0.10, 0.11],
        [0.02, 0.10, 0.20],
    ]
)
# Direction in which the groups' feature means move, per continuous column, and how their category odds tilt.
_SHIFT = np.array([0.2, 0.6, 0.4, 0.3, -0.2, -0.1, 0.3])
_POSITIONS = np.array([1.0, 0.35, -0.35, -1.0])

SCHEMA = (
    *(Column(name, "continuous", low=-1, high=1) for name in CONTINUOUS),
    *(Column(name, "category", categories=values) for name, values in CATEGORIES.items()),
    Column("group", "category", categories=tuple(range(GROUPS))),
    Column("score", "continuous", low=-1, high=2),
)


@dataclass(frozen=True)
class Census:
    """Arrays for an environment: ``score`` is exactly ``features @ theta``; kinds and bounds are public."""

    groups: Ints
    features: Floats
    score: Floats
    theta: Floats
    kinds: tuple[Literal["continuous", "one-hot"], ...]
    names: tuple[str, ...]
    low: Floats
    high: Floats
    norm_bound: float


def synthetic_census(
    rows_per_group: int, rng: Generator, *, spread: float = 0.45, scatter: float = 0.35, tilt: float = 0.8
) -> Census:
    """Draw ``rows_per_group`` people of each of the four groups.

    ``spread`` moves the groups' means of the continuous columns apart, ``tilt`` their category odds, and ``scatter`` is
    the standard deviation inside a group before truncation to [-1, 1]. With spread = tilt = 0 all groups are alike.

    >>> people = synthetic_census(500, np.random.default_rng(0))
    >>> people.features.shape, people.kinds.count("continuous"), bool(np.abs(people.features).max() <= 1)
    ((2000, 24), 7, True)
    """
    blocks, labels = [], []
    for group, position in enumerate(_POSITIONS):
        centre = spread * position * _SHIFT
        common = rng.normal(size=(rows_per_group, 1))  # schooling, hours and tenure go together within a person
        numbers = centre + scatter * (0.8 * rng.normal(size=(rows_per_group, len(CONTINUOUS))) + 0.6 * common)
        columns = [np.clip(numbers, -1.0, 1.0)]
        for values in CATEGORIES.values():
            odds = np.exp(tilt * position * np.linspace(0.5, -0.5, len(values)))
            if values == CATEGORIES["level"]:
                odds = odds[::-1]  # the last level pays most: the advantaged group reaches it more often
            drawn = rng.choice(len(values), size=rows_per_group, p=odds / odds.sum())
            columns.append(np.eye(len(values))[drawn])
        blocks.append(np.concatenate(columns, axis=1))
        labels.append(np.full(rows_per_group, group))
    features = np.concatenate(blocks)
    kinds: list[Literal["continuous", "one-hot"]] = ["continuous"] * len(CONTINUOUS)
    kinds += ["one-hot"] * (WIDTH - len(CONTINUOUS))
    one_hot = WIDTH - len(CONTINUOUS)
    return Census(
        groups=np.concatenate(labels).astype(np.int64),
        features=features,
        score=features @ _WEIGHTS,
        theta=_WEIGHTS.copy(),
        kinds=tuple(kinds),
        names=CONTINUOUS + tuple(f"{name}={value}" for name, values in CATEGORIES.items() for value in values),
        low=np.array([-1.0] * len(CONTINUOUS) + [0.0] * one_hot),
        high=np.ones(WIDTH),
        norm_bound=math.sqrt(len(CONTINUOUS) + len(CATEGORIES)),
    )


@register("generator", "synthetic-census")
@configuration
class SyntheticCensus(Synthesis):
    """Generated census of four groups: seven continuous and four categorical columns, a linear income score."""

    rows_per_group: Count = described("people drawn for each group", default=5_000)
    spread: NonNegative = described("how far groups differ in their features", default=0.45)
    scatter: Annotated[float, Field(gt=0.0, le=10.0, allow_inf_nan=False)] = described(
        "how far people differ within a group", default=0.35
    )
    tilt: NonNegative = described("how far groups differ in what their features are worth", default=0.8)

    def generate(self, rng: Generator) -> Dataset:
        people = synthetic_census(self.rows_per_group, rng, spread=self.spread, scatter=self.scatter, tilt=self.tilt)
        rows: dict[str, NDArray] = {name: people.features[:, i] for i, name in enumerate(CONTINUOUS)}
        start = len(CONTINUOUS)
        for name, values in CATEGORIES.items():
            rows[name] = np.array(values, object)[people.features[:, start : start + len(values)].argmax(axis=1)]
            start += len(values)
        rows |= {"group": people.groups, "score": people.score}
        return Dataset("synthetic-census", rows, SCHEMA, "score", ("group",))
