"""Generated sequences (Gaussian, counts, seasons) and one-dimensional features of groups.

No file, no person, repeatable from a seed.
"""

from __future__ import annotations

import math
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, Strict

from fairveil.configuration import configuration
from fairveil.data.schema import Column, Dataset, Synthesis
from fairveil.errors import SpecError
from fairveil.fields import Count, NonNegative, OpenUnit, Positive, described
from fairveil.randomness import Generator
from fairveil.registry import register

Correlation = Annotated[float, Field(gt=-1.0, lt=1.0, allow_inf_nan=False)]
Finite = Annotated[float, Field(allow_inf_nan=False)]
Period = Annotated[int, Field(ge=2, le=10**6)]


def _sequence(name: str, values: np.ndarray, low: float, high: float) -> Dataset:
    rows = {"time": np.arange(len(values), dtype=float), "value": values}
    schema = (
        Column("time", "continuous", low=0, high=float(len(values))),
        Column("value", "continuous", low=low, high=high),
    )
    return Dataset(name, rows, schema, "value")


@register("generator", "ar1")
@configuration
class Ar1(Synthesis):
    """A stationary Gaussian AR(1) sequence: given mean, standard deviation and lag-one correlation.

    >>> from fairveil.randomness import generator
    >>> values = Ar1(rows=20000, correlation=0.9).generate(generator(0))["value"]
    >>> bool(abs(np.corrcoef(values[1:], values[:-1])[0, 1] - 0.9) < 0.02)
    True
    """

    rows: Count = described("length of the series", default=1_000)
    mean: Finite = described("mean of the series", default=0.0)
    std: Positive = described("standard deviation of the series", default=1.0)
    correlation: Correlation = described("correlation of neighbours in time", default=0.8)

    def generate(self, rng: Generator) -> Dataset:
        from scipy.signal import lfilter

        innovations = rng.normal(0.0, self.std * math.sqrt(1 - self.correlation**2), self.rows)
        innovations[0] = rng.normal(0.0, self.std)  # start in the stationary law
        values = self.mean + lfilter([1.0], [1.0, -self.correlation], innovations)
        bound = 8 * self.std
        return _sequence("ar1", values, self.mean - bound, self.mean + bound)


@register("generator", "truncated-normals")
@configuration
class TruncatedNormals(Synthesis):
    """Two groups with one feature, a truncated normal for each group and label.

    The lists are in the order a0, a1, b0, b1 (group, label); the defaults are a well-separated textbook setting.

    >>> from fairveil.randomness import generator
    >>> sample = TruncatedNormals(rows=1000).generate(generator(0))
    >>> sorted(set(sample["group"]))
    ['a', 'b']
    """

    rows: Count = described("number of people", default=10_000)
    share_a: Annotated[float, Field(gt=0.0, lt=1.0)] = described("share of group a", default=0.5)
    qualified: tuple[float, float] = described("label rates of groups a and b", default=(0.6, 0.4))
    means: tuple[float, float, float, float] = described(
        "means of the feature: a unqualified, a qualified, b unqualified, b qualified", default=(4.0, 20.0, 8.0, 27.0)
    )
    stds: tuple[float, float, float, float] = described(
        "standard deviations, in the same order", default=(5.0, 6.0, 3.0, 6.0)
    )
    lows: tuple[float, float, float, float] = described("lower ends, in the same order", default=(-8.0, 5.0, -6.0, 9.0))
    highs: tuple[float, float, float, float] = described(
        "upper ends, in the same order", default=(19.0, 35.0, 25.0, 43.0)
    )

    def __post_init__(self) -> None:
        if not all(0 < rate < 1 for rate in self.qualified):
            raise SpecError("rates lie in (0, 1)", path="qualified", given=self.qualified, allowed="above 0, below 1")
        for i in range(4):
            if not (self.stds[i] > 0 and self.lows[i] < self.highs[i]):
                raise SpecError("a truncated normal needs std > 0 and low < high", path=f"stds.{i}", given=self.stds[i])

    def generate(self, rng: Generator) -> Dataset:
        from scipy.stats import truncnorm

        in_b = (rng.random(self.rows) >= self.share_a).astype(int)
        label = (rng.random(self.rows) < np.array(self.qualified)[in_b]).astype(np.int64)
        cell = 2 * in_b + label
        mean, std = np.array(self.means)[cell], np.array(self.stds)[cell]
        low, high = np.array(self.lows)[cell], np.array(self.highs)[cell]
        feature = truncnorm.ppf(rng.random(self.rows), (low - mean) / std, (high - mean) / std, loc=mean, scale=std)
        schema = (
            Column("group", "category", categories=("a", "b")),
            Column("feature", "continuous", low=min(self.lows), high=max(self.highs)),
            Column("label", "category", categories=(0, 1)),
        )
        rows: dict[str, NDArray[Any]] = {
            "group": np.where(in_b == 1, "b", "a").astype(object),
            "feature": feature,
            "label": label,
        }
        return Dataset("truncated-normals", rows, schema, "label", ("group",))


@register("generator", "binomial-ar1")
@configuration
class BinomialAr1(Synthesis):
    """How many of ``people`` are in state 1: each stays or changes with fixed probabilities, independently.

    Stationary law Binomial(people, share), lag-one correlation as given. A negative correlation is possible only as
    far as the transition probabilities stay in [0, 1].

    >>> from fairveil.randomness import generator
    >>> values = BinomialAr1(rows=20000, people=400, share=0.3, correlation=0.8).generate(generator(0))["value"]
    >>> bool(abs(values.mean() - 120) < 1.5), bool(abs(np.corrcoef(values[1:], values[:-1])[0, 1] - 0.8) < 0.02)
    (True, True)
    """

    rows: Count = described("length of the sequence", default=1_000)
    people: Count = described("number of people counted", default=400)
    share: OpenUnit = described("chance of a person to be counted", default=0.3)
    correlation: Correlation = described("correlation of neighbours in time", default=0.8)

    def __post_init__(self) -> None:
        lowest = max(-self.share / (1 - self.share), -(1 - self.share) / self.share)
        if self.correlation < lowest:
            raise SpecError(
                "no binomial AR(1) sequence has this correlation",
                path="correlation",
                given=self.correlation,
                allowed=f"at least {lowest:.6g} at this share",
            )

    def generate(self, rng: Generator) -> Dataset:
        enter = self.share * (1 - self.correlation)
        stay = enter + self.correlation
        values = np.empty(self.rows)
        now = rng.binomial(self.people, self.share)
        for t in range(self.rows):
            values[t] = now
            now = rng.binomial(now, stay) + rng.binomial(self.people - now, enter)
        return _sequence("binomial-ar1", values, 0.0, float(self.people))


@register("generator", "seasonal")
@configuration
class Seasonal(Synthesis):
    """Counts with one or two seasons, an AR(1) part that grows with the season, and a trend.

    The shape of a season is drawn once a sequence: a wave and a few harmonics, the same at every visit.

    >>> from fairveil.randomness import generator
    >>> values = Seasonal(rows=1000).generate(generator(0))["value"]
    >>> len(values), bool(values.min() >= 0)
    (1000, True)
    """

    rows: Count = described("length of the sequence", default=2_000)
    periods: Annotated[tuple[Period, ...], Strict(False)] = described("lengths of the seasons", default=(24, 168))
    level: NonNegative = described("level of the sequence", default=200.0)
    amplitude: NonNegative = described("height of the seasons", default=150.0)
    std: NonNegative = described("standard deviation around them", default=40.0)
    correlation: Correlation = described("correlation of neighbours in time", default=0.8)
    trend: Finite = described("change of the level a step", default=0.0)

    def generate(self, rng: Generator) -> Dataset:
        time = np.arange(self.rows)
        season = np.zeros(self.rows)
        for place, period in enumerate(self.periods):
            phases = 2 * np.pi * np.arange(period) / period
            table = np.zeros(period)
            for harmonic in range(1, min(3, period // 2) + 1):
                table += np.cos(harmonic * phases - rng.uniform(0, 2 * np.pi)) / harmonic**1.5
            season += self.amplitude * 0.5**place * table[time % period]
        part = np.zeros(self.rows)
        pushed = rng.normal(0.0, self.std * np.sqrt(1 - self.correlation**2), self.rows)
        last = rng.normal(0.0, self.std)
        for t in range(self.rows):
            last = self.correlation * last + pushed[t]
            part[t] = last
        base = np.maximum(self.level + season + self.trend * time, 0.0)
        grown = part * np.clip(base / max(self.level, 1e-9), 0.2, 3.0)
        values = np.rint(np.maximum(base + grown, 0.0))
        return _sequence("seasonal", values, 0.0, 100 * (self.level + self.amplitude + 10 * self.std) + 1e6)
