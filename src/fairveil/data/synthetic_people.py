"""Generated stand-ins for Adult and COMPAS: the same kind of columns, groups and base rates, and nobody in them."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairveil.arrays import Floats, Ints
from fairveil.configuration import configuration
from fairveil.data.schema import Column, Dataset, Synthesis
from fairveil.fields import Count, described
from fairveil.randomness import Generator
from fairveil.registry import register


def _bernoulli(rng: Generator, log_odds: Floats) -> Ints:
    return (rng.random(len(log_odds)) < 1 / (1 + np.exp(-log_odds))).astype(np.int64)


ADULT_SCHEMA = (
    Column("age", "continuous", low=17, high=90),
    Column("education_years", "continuous", low=1, high=16),
    Column("hours", "continuous", low=1, high=99),
    Column("capital_gain", "continuous", low=0, high=99_999, scale="log"),
    Column("married", "category", categories=(0, 1)),
    Column("sex", "category", categories=("Female", "Male")),
    Column("race", "category", categories=("White", "Black", "Other")),
    Column("income", "category", categories=(0, 1), about="1: more than 50,000 a year"),
)


@register("generator", "synthetic-adult")
@configuration
class SyntheticAdult(Synthesis):
    """Generated people with an income label: about a quarter positive, about a third women, unequal base rates.

    >>> from fairveil.randomness import generator
    >>> people = SyntheticAdult(rows=2000).generate(generator(0))
    >>> bool(0.15 < people["income"].mean() < 0.35)
    True
    """

    rows: Count = described("number of people", default=10_000)

    def generate(self, rng: Generator) -> Dataset:
        size = self.rows
        male = rng.random(size) < 0.675
        race = rng.choice(3, size=size, p=[0.855, 0.095, 0.05])
        age = np.clip(17 + rng.gamma(2.6, 8.6, size), 17, 90).round()
        schooling = np.clip(rng.normal(10.1 + 0.2 * male - 0.5 * (race == 1), 2.5, size), 1, 16).round()
        hours = np.clip(rng.normal(36.5 + 6.0 * male, 11.5, size), 1, 99).round()
        married = _bernoulli(rng, -1.3 + 1.45 * male + 0.02 * (age - 38))
        gains = np.where(rng.random(size) < 0.083, np.minimum(rng.lognormal(8.6, 1.1, size), 99_999), 0.0).round()
        odds = (
            -2.85 + 0.37 * (schooling - 10) + 0.045 * (age - 38) - 0.0016 * (age - 38) ** 2 / 2
            + 0.035 * (hours - 40) + 2.1 * married + 0.15 * male + 0.0003 * gains
        )  # fmt: skip
        rows: dict[str, NDArray[Any]] = {
            "age": age,
            "education_years": schooling,
            "hours": hours,
            "capital_gain": gains,
            "married": married,
            "sex": np.where(male, "Male", "Female").astype(object),
            "race": np.array(["White", "Black", "Other"], object)[race],
            "income": _bernoulli(rng, odds),
        }
        return Dataset("synthetic-adult", rows, ADULT_SCHEMA, "income", ("sex", "race"))


COMPAS_SCHEMA = (
    Column("age", "continuous", low=18, high=100),
    Column("priors_count", "continuous", low=0, high=40, scale="log"),
    Column("charge_degree", "category", categories=("F", "M")),
    Column("sex", "category", categories=("Female", "Male")),
    Column("race", "category", categories=("African-American", "Caucasian")),
    Column("recidivism", "category", categories=(0, 1)),
)


@register("generator", "synthetic-compas")
@configuration
class SyntheticCompas(Synthesis):
    """Generated defendants of two groups with prior counts, age, charge degree and a re-arrest label.

    >>> from fairveil.randomness import generator
    >>> SyntheticCompas(rows=50).generate(generator(0)).target
    'recidivism'
    """

    rows: Count = described("number of people", default=6_000)

    def generate(self, rng: Generator) -> Dataset:
        size = self.rows
        first = rng.random(size) < 0.6
        male = rng.random(size) < 0.81
        age = np.clip(18 + rng.gamma(np.where(first, 1.3, 1.75), 11.0, size), 18, 100).round()
        priors = np.minimum(rng.negative_binomial(0.55, np.where(first, 0.55 / (0.55 + 4.2), 0.55 / (0.55 + 2.3))), 40)
        felony = rng.random(size) < np.where(first, 0.69, 0.59)
        odds = -0.35 - 0.045 * (age - 34) + 0.16 * np.minimum(priors, 12) + 0.3 * male + 0.15 * felony - 0.55
        rows: dict[str, NDArray[Any]] = {
            "age": age,
            "priors_count": priors.astype(float),
            "charge_degree": np.where(felony, "F", "M").astype(object),
            "sex": np.where(male, "Male", "Female").astype(object),
            "race": np.where(first, "African-American", "Caucasian").astype(object),
            "recidivism": _bernoulli(rng, odds),
        }
        return Dataset("synthetic-compas", rows, COMPAS_SCHEMA, "recidivism", ("race", "sex"))
