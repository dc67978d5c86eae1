"""Logged decisions: which arm was chosen, with what probability, and what came of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from fairveil.arrays import Floats, Ints
from fairveil.configuration import configuration
from fairveil.data.frames import Frame
from fairveil.data.public_columns import check_outcome_range
from fairveil.data.schema import load
from fairveil.data.tables import TableField, read_frame
from fairveil.errors import InputError, SpecError, at
from fairveil.fields import described


@dataclass(frozen=True)
class Log:
    """Decisions that were made and what came of them; rows in the order of the file (or of ``time``).

    ``outcomes`` are mapped from the declared [low, high] to [0, 1]. Its repr shows no row.
    """

    arms: tuple[str, ...]
    chosen: Ints = field(repr=False)
    outcomes: Floats = field(repr=False)
    propensities: Floats | None = field(default=None, repr=False)
    contexts: Floats | None = field(default=None, repr=False)
    extra: Mapping[str, Floats] = field(default_factory=dict, repr=False)
    low: float = 0.0
    high: float = 1.0
    source: str = "the log"

    @property
    def features(self) -> Floats:
        """Contexts as a matrix; without any it has no columns."""
        return np.zeros((len(self), 0)) if self.contexts is None else self.contexts

    def __len__(self) -> int:
        return len(self.chosen)


@configuration
class LogTable:
    """Where a log is and which column is which. Exactly one of ``file`` and ``dataset``.

    >>> LogTable(file="trial.csv", arm="drug", outcome="recovered").low
    0.0
    """

    file: TableField = described(
        "CSV or parquet file, pandas or polars DataFrame, or a table of columns",
        default=None,
        example={"arm": ["a", "b", "a", "b"] * 8, "outcome": [0, 1, 1, 1] * 8},
    )
    dataset: dict[str, Any] | None = described("a data set of `fairveil list`, with its options", default=None)
    arm: str = described("column that names the arm that was chosen", default="arm")
    outcome: str = described("column of outcomes, numbers in [low, high]", default="outcome")
    propensity: str | float | None = described(
        "column of the probability with which the arm was chosen, or one number for all rows", default=None
    )
    time: str | None = described("column by which rows are ordered (the order of the file without it)", default=None)
    delay: str | None = described("column of rounds until the outcome was known", default=None)
    features: list[str] = described("columns of numbers a rule may read", default_factory=list)
    arms: list[Any] | None = described("names of all arms (those in the file without it)", default=None)
    low: float = described("smallest possible outcome, public", default=0.0)
    high: float = described("largest possible outcome, public", default=1.0)
    strict: bool = described("refuse outcomes outside [low, high] instead of clipping them", default=False)

    def __post_init__(self) -> None:
        if (self.file is None) == (self.dataset is None):
            raise SpecError(
                "give a file or a data set",
                path="file",
                allowed="exactly one of file and dataset",
                fix='file = "log.csv"',
            )
        check_outcome_range(self.low, self.high)

    def read(self, columns: tuple[str, ...] = (), silent: bool = False) -> Log:
        """The log, checked; ``columns`` are further columns of numbers (probabilities of a rule, say).

        ``silent``: people without an outcome never answered. Theirs is NaN, and they need no delay.
        """
        frame = self._frame()
        for key in ("arm", "outcome", "propensity", "time", "delay"):
            if isinstance(getattr(self, key), str):
                frame.raw(getattr(self, key), key)
        chosen, names = frame.codes(self.arm, self.arms)
        low, high = (self.low, self.high) if self.strict else (-np.inf, np.inf)
        outcomes = frame.outcomes(self.outcome, low, high, silent)
        outcomes = (np.clip(outcomes, self.low, self.high) - self.low) / (self.high - self.low)
        propensities = self._propensities(frame, len(chosen))
        features = [frame.numbers(name) for name in self.features]
        contexts = np.stack(features, axis=1) if features else np.zeros((len(chosen), 0))
        wanted = (*columns, *([self.delay] if self.delay is not None else []))
        if silent and self.delay is not None:
            frame.refuse(self.delay, frame.empty(self.delay) & ~np.isnan(outcomes), "a finite number")
            frame = frame.filled({self.delay: 0.0})
        extra = {name: frame.numbers(name, 0.0) for name in wanted}
        order = slice(None) if self.time is None else _by_time(frame, self.time)
        return Log(
            names,
            chosen[order],
            outcomes[order],
            None if propensities is None else propensities[order],
            contexts[order],
            {name: values[order] for name, values in extra.items()},
            self.low,
            self.high,
            frame.source,
        )

    def _frame(self) -> Frame:
        if self.dataset is None:
            return read_frame(self.file)
        table = dict(self.dataset)
        name = table.pop("name", None)
        if not isinstance(name, str):
            raise SpecError("a data set has a name", path="dataset.name", given=name, allowed="a name of fairveil list")
        return Frame(dict(load(name, **table).columns), name)

    def _propensities(self, frame: Frame, rows: int) -> Floats | None:
        if self.propensity is None:
            return None
        if isinstance(self.propensity, str):
            found = frame.numbers(self.propensity, 0.0, 1.0)
        else:
            found = np.full(rows, float(self.propensity))
        if not (found > 0).all():
            first = int(np.argmax(found <= 0))
            raise InputError(
                f"{frame.source}, {frame.place(first)}: an arm was chosen with probability 0",
                path=str(self.propensity),
                allowed="above 0, at most 1",
                fix="log the probability of the arm that was chosen",
            )
        return found


def read_log(table: LogTable, columns: tuple[str, ...] = (), silent: bool = False) -> Log:
    """The log of a spec, whose mistakes are those of its key ``log``."""
    try:
        return table.read(columns, silent)
    except SpecError as problem:
        raise at(problem, "log") from None


def _by_time(frame: Frame, name: str) -> Ints:
    """Row numbers in the order of a column of numbers or of times that sort as text (ISO 8601)."""
    values = frame.raw(name)
    if values.dtype.kind in "biufM":
        return np.argsort(values, kind="stable")
    try:
        return np.argsort(frame.numbers(name), kind="stable")
    except InputError:
        return np.argsort(np.array([str(value) for value in values]), kind="stable")
