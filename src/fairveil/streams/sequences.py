"""Sequences for the `stream` task: recorded data on their public clock, generated ones, or values in the spec.

A sequence is a vector with NaN where nothing was measured. Recorded counts are laid on the clock, because a season
follows the time of day and not the number of the row.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from datetime import date
from functools import lru_cache
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import Strict

from fairveil import registry
from fairveil.arrays import Floats
from fairveil.configuration import configuration
from fairveil.data.bikeshare import Bikeshare
from fairveil.data.drive_cycles import DriveCycles
from fairveil.data.schema import Synthesis
from fairveil.data.traffic import Traffic
from fairveil.errors import SpecError
from fairveil.fields import described
from fairveil.randomness import Generator
from fairveil.registry import register
from fairveil.streams.protocol import as_values


class Sequence(ABC):
    """Public configuration of one recorded sequence."""

    name: str = ""

    @abstractmethod
    def read(self) -> Floats:
        """The sequence, NaN where a step is missing."""


@register("sequence", "bikeshare")
@configuration
class BikeRentals(Sequence):
    """Bike rentals on their public clock: 17,544 hours of which 165 have no row, or 731 days."""

    every: Literal["hour", "day"] = described("one value an hour, or a day", default="hour")
    year: Literal[2011, 2012] | None = described("which year; both when left out", default=None)
    column: Literal["cnt", "casual", "registered"] = described("which riders are counted", default="cnt")

    def read(self) -> Floats:
        data = Bikeshare(every=self.every).load()
        days = np.array([date.fromisoformat(str(day)).toordinal() for day in data["dteday"]])
        hours = data["hr"].astype(int) if self.every == "hour" else np.zeros(len(days), int)
        chosen = np.ones(len(days), bool) if self.year is None else data["yr"].astype(int) == self.year - 2011
        width = 24 if self.every == "hour" else 1
        place = ((days - days[chosen].min()) * width + hours)[chosen]
        made = np.full((days[chosen].max() - days[chosen].min() + 1) * width, np.nan)
        made[place] = data[self.column].astype(float)[chosen]
        return made


@register("sequence", "traffic")
@configuration
class TrafficCounts(Sequence):
    """Vehicles in New York by date and hour over all segments, the counted days one after the other.

    Whole weeks are missing between counted days, so a period of 168 means seven counted days.
    """

    period: Literal["2011-2012", "2012-2013", "2014-2018"] = described("which years", default="2011-2012")
    measure: Literal["sum", "mean"] = described("how streets are put together", default="sum")

    def read(self) -> Floats:
        data = Traffic(period=self.period).load()
        days, place = np.unique(data["date"].astype(str), return_inverse=True)
        cell = place * 24 + data["hour"].astype(int)
        totals = np.bincount(cell, weights=data["count"].astype(float), minlength=24 * len(days))
        rows = np.bincount(cell, minlength=24 * len(days))
        return np.where(rows > 0, totals if self.measure == "sum" else totals / np.maximum(rows, 1), np.nan)


@register("sequence", "drive-cycles")
@configuration
class DriveCycle(Sequence):
    """Speed of a vehicle in miles an hour, each second."""

    cycle: Literal["ftp", "udds"] = described("which driving cycle", default="ftp")

    def read(self) -> Floats:
        return DriveCycles(cycle=self.cycle).load()["mph"].astype(float)


@register("sequence", "values")
@configuration
class GivenValues(Sequence):
    """Values in the spec itself; null where a step is missing.

    >>> GivenValues(values=(1.0, None, 3.0)).read().tolist()
    [1.0, nan, 3.0]
    """

    values: Annotated[tuple[float | None, ...], Strict(False)] = described(
        "the values themselves; none where a step is missing", example=(1.0, 2.0, 3.0)
    )

    def read(self) -> Floats:
        return as_values(self.values)


def build_sequence(table: Mapping[str, Any], path: str = "data") -> Sequence | Synthesis:
    """What a data table describes: a recorded sequence, or a generator of them."""
    kind = "sequence"
    if isinstance(table, Mapping) and table.get("name"):
        kind = registry.kind_of(table["name"], f"{path}.name", "sequence", "generator")
    try:
        made: Sequence | Synthesis = registry.build(kind, table, path)
    except SpecError as problem:
        if not str(problem.path).startswith(f"{path}.values"):
            raise
        # a value may be somebody's: it is not repeated
        raise SpecError(
            problem.problem, path=problem.path, allowed=problem.allowed or "numbers, null where a step is missing"
        ) from None
    return made


def draw_sequence(source: Sequence | Synthesis, rng: Generator) -> Floats:
    """The sequence of one run: the recorded one, or a fresh draw."""
    if isinstance(source, Sequence):
        return _recorded(source)
    data = source.generate(rng)
    if data.target != "value":
        raise SpecError("this generator makes no sequence", path="data.name", given=source.name)
    return data["value"].astype(float)


@lru_cache(maxsize=8)
def _recorded(source: Sequence) -> Floats:
    made = source.read()
    made.setflags(write=False)
    return made
