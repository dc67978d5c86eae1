"""What is public about the columns of a user's own table: a range or a list of values, with typical figures.

Written in a spec by somebody who knows the columns without looking at the rows; cells are clipped to the range.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
from pydantic import BeforeValidator

from fairveil.arrays import Bools, Floats
from fairveil.configuration import configuration
from fairveil.data.frames import Frame, as_text
from fairveil.data.tables import read_frame
from fairveil.errors import SpecError, at
from fairveil.fields import Positive, Vector, described

DRAFTED = "ranges and names of the columns were read off the table, so they are not covered by the promise"
OFTEN = (
    "rows are drawn with replacement: the promise is for one appearance in one round, and a person of the table may "
    "appear in many rounds"
)
RARE = 0.3
"""Least spread of an indicator: a rare one must not outweigh everything else for the few who have it."""


@configuration
class PublicColumn:
    """One column: numbers in [low, high], or one of ``values``. Exactly one of the two.

    ``typical`` and ``spread`` say where most numbers are (the middle of the range and a uniform law without them),
    ``shares`` how frequent the values are (equally without them). They make a private policy sharper, not more private.
    ``missing`` says what an empty cell counts as, in public: a number of the range, or one of the values.

    >>> PublicColumn(low=18, high=67).encoded("age")
    ['age']
    >>> PublicColumn(values=["yes", "no"]).encoded("licence")
    ['licence=yes', 'licence=no']
    """

    low: float | None = described("smallest value, public", default=None, example=0.0)
    high: float | None = described("largest value, public", default=None, example=1.0)
    typical: float | None = described("a typical value", default=None)
    spread: Positive | None = described("how far values usually are from it", default=None)
    values: list[Any] | None = described("names of all values, public", default=None)
    shares: Vector | None = described("how frequent each of them is", default=None)
    missing: Any = described("what an empty cell counts as, public", default=None, later=True)

    def __post_init__(self) -> None:
        if (self.values is None) == (self.low is None or self.high is None):
            raise SpecError(
                "a column has a range or a list of values",
                allowed="low and high, or values",
                fix="low = 0, high = 100; or values = [...]",
            )
        if self.low is not None and self.high is not None and not self.low < self.high:
            raise SpecError(
                "the range is not a range", path="low", given=self.low, allowed=f"below high = {self.high:g}"
            )
        if self.values is not None and len(set(map(as_text, self.values))) < max(2, len(self.values)):
            raise SpecError(
                "the values of a column are at least two, each once",
                path="values",
                given=len(self.values),
                allowed="different names",
                fix="leave a column out that has one value only",
            )
        if self.shares is not None and (self.values is None or len(self.shares) != len(self.values)):
            raise SpecError("there is not one share per value", path="shares", given=len(self.shares))
        check_missing(self.missing, (self.low, self.high), self.values)

    def encoded(self, name: str) -> list[str]:
        """Names of the encoded columns: the column itself, or one indicator a value."""
        return [name] if self.values is None else [f"{name}={as_text(value)}" for value in self.values]

    def encode(self, frame: Frame, name: str) -> Floats:
        """Numbers clipped to their range and moved to [-1, 1]; values as indicators 0 or 1."""
        if self.values is not None:
            codes, known = frame.codes(name, self.values)
            return (codes[:, None] == np.arange(len(known))).astype(np.float64)
        return self.on_scale(frame.numbers(name))[:, None]

    def on_scale(self, numbers: Floats) -> Floats:
        """Numbers clipped to the range and moved to [-1, 1]."""
        assert self.low is not None
        assert self.high is not None
        return 2 * (np.clip(numbers, self.low, self.high) - self.low) / (self.high - self.low) - 1

    def facts(self) -> tuple[list[float], list[float], list[float], list[float]]:
        """Public low, high, centre and spread of each encoded column."""
        if self.values is not None:
            count = len(self.values)
            shares = list(self.shares) if self.shares is not None else [1.0 / count] * count
            spread = [max(math.sqrt(max(share * (1 - share), 0.0)), RARE) for share in shares]
            return [0.0] * count, [1.0] * count, shares, spread
        assert self.low is not None
        assert self.high is not None
        width = self.high - self.low
        centre = 0.0 if self.typical is None else 2 * (self.typical - self.low) / width - 1
        return [-1.0], [1.0], [centre], [2 / math.sqrt(12) if self.spread is None else 2 * self.spread / width]


def check_missing(missing: Any, limits: tuple[Any, Any], values: Sequence[Any] | None) -> None:
    """Refuse a fill that the column itself could not hold."""
    if missing is None:
        return
    if values is None:
        number = isinstance(missing, int | float) and not isinstance(missing, bool)
        inside, allowed = number and limits[0] <= missing <= limits[1], f"a number from {limits[0]:g} to {limits[1]:g}"
    else:
        inside, allowed = as_text(missing) in set(map(as_text, values)), ", ".join(map(as_text, values))
    if not inside:
        raise SpecError(
            "an empty cell counts as something that the column can hold", path="missing", given=missing,
            allowed=allowed, fix='a number of the range; or a value of the list, to which "missing" can be added',
        )  # fmt: skip


def _from_tables(given: Any) -> Any:
    """A spec writes columns as tables of tables."""
    if not isinstance(given, Mapping):
        return given
    made = {}
    for name, table in given.items():
        try:
            made[str(name)] = PublicColumn(**table) if isinstance(table, Mapping) else table
        except SpecError as problem:
            raise at(problem, f"columns.{name}") from None
    return made


PublicColumns = Annotated[dict[str, PublicColumn], BeforeValidator(_from_tables)]
"""A field that takes `PublicColumn` objects or their tables, by the name of the column."""


@dataclass(frozen=True)
class ColumnFacts:
    """Public facts about encoded columns, with a constant at the end."""

    names: tuple[str, ...]
    owner: tuple[str, ...]
    low: Floats
    high: Floats
    centre: Floats
    spread: Floats
    norm: float
    redundant: Bools
    """The first value of each list, which follows from the others, and the constant."""


def facts_of(columns: Mapping[str, PublicColumn]) -> ColumnFacts:
    """Facts about all columns side by side; a row's norm is at most the root of their number and one."""
    names, owner, redundant = [], [], []
    parts: tuple[list[float], ...] = ([], [], [], [])
    for name, column in columns.items():
        made = column.encoded(name)
        names += made
        owner += [name] * len(made)
        redundant += [place == 0 and column.values is not None for place in range(len(made))]
        for part, values in zip(parts, column.facts(), strict=True):
            part += values
    low, high, centre, spread = (np.array([*part, 1.0]) for part in parts)
    return ColumnFacts(
        (*names, "constant"),
        (*owner, ""),
        low,
        high,
        centre,
        spread,
        math.sqrt(len(columns) + 1),
        np.array([*redundant, True]),
    )


def check_outcome_range(low: float, high: float) -> None:
    """Refuse a declared range of outcomes that is none."""
    if not low < high:
        raise SpecError(
            "the range of outcomes is not a range",
            path="low",
            given=low,
            allowed=f"below high = {high:g}",
            fix="declare the smallest and the largest outcome there can be",
        )


def people_frame(columns: Mapping[str, PublicColumn], table: Any) -> Frame:
    """A table whose empty cells count as what its columns declare."""
    fills = {name: column.missing for name, column in columns.items() if column.missing is not None}
    return read_frame(table).filled(fills)


def encode_rows(columns: Mapping[str, PublicColumn], frame: Frame) -> Floats:
    """All columns of a table encoded side by side, with a constant 1 at the end."""
    for name in columns:
        frame.raw(name, f"columns.{name}")
    return np.concatenate(
        [*(column.encode(frame, name) for name, column in columns.items()), np.ones((len(frame), 1))], axis=1
    )


def fitted_weights(rows: Floats, outcomes: Floats) -> Floats:
    """Least-squares weights, the shortest where the rows do not tell (indicators sum to the constant).

    Directions with a singular value below 1e-4 of the largest count as not told: what rounding makes of them differs
    between CPUs.
    """
    weights, *_ = np.linalg.lstsq(rows, outcomes, rcond=1e-4)
    return weights.astype(np.float64)
