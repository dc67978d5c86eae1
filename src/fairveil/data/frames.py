"""A user's own table: named columns, checked as they are asked for.

Errors name the file, the line, the column and the cause, never what a cell holds: cells are people's values.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairveil.arrays import Bools, Floats, Ints
from fairveil.errors import NOT_REPEATED, InputError, SpecError, did_you_mean

MANY = 12
"""So many names of a column are listed in an error."""
FILL = "fill or remove those rows; a declared column says what an empty cell counts as: missing = ..."
ANSWER = (
    "remove those rows, and what is found speaks of people with an outcome; a replay of a log may say that they never "
    'answered: missing = "never" in the environment'
)
"""What can be done about an empty cell of a column, and of a column of outcomes."""


@dataclass(frozen=True)
class Frame:
    """Named columns of text or numbers with the place they came from, for errors. Its repr shows no cell."""

    columns: dict[str, NDArray[Any]] = field(repr=False)
    source: str
    lines: Ints | None = field(default=None, repr=False)
    """The line of a text file on which each row begins; None where rows are counted from 1."""

    def __len__(self) -> int:
        return len(next(iter(self.columns.values()))) if self.columns else 0

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self.columns)

    def place(self, row: int) -> str:
        """Where row ``row`` stands in the file."""
        return f"row {row + 1}" if self.lines is None else f"line {self.lines[row]}"

    def raw(self, name: str, key: str = "") -> NDArray[Any]:
        """A column as it was read, blanks around its name aside; ``key`` is where a spec names it, for the error."""
        name = self._spelled(name)
        if name not in self.columns:
            raise SpecError(
                f"{self.source} has no such column",
                path=key or name,
                given=name,
                allowed=", ".join(self.names),
                fix=did_you_mean(name, self.names) or "name one of its columns",
            )
        return self.columns[name]

    def _spelled(self, name: str) -> str:
        """The name of a column as the table has it."""
        alike = [own for own in self.columns if own.strip() == name.strip()]
        return alike[0] if name not in self.columns and len(alike) == 1 else name

    def numbers(self, name: str, low: float = -np.inf, high: float = np.inf, fix: str = FILL) -> Floats:
        """A column of finite numbers in [low, high]; the first line that holds something else is named.

        ``fix``: what can be done about an empty cell.
        """
        found = _floats(self.raw(name))
        self.refuse(name, ~np.isfinite(found), "a finite number", fix)
        outside = (found < low) | (found > high)
        self.refuse(name, outside, f"a number from {low:g} to {high:g}")
        return found

    def outcomes(self, name: str, low: float = -np.inf, high: float = np.inf, silent: bool = False) -> Floats:
        """The same for a column of outcomes; ``silent``: an empty cell is somebody who never answered, NaN."""
        if not silent:
            return self.numbers(name, low, high, ANSWER)
        found = self.filled({name: max(low, min(high, 0.0))}).numbers(name, low, high)
        return np.where(self.empty(name), np.nan, found)

    def empty(self, name: str) -> Bools:
        """Which cells of a column are empty."""
        return _blank(self.raw(name))

    def filled(self, fills: Mapping[str, Any]) -> Frame:
        """The same table with these values where cells of these columns are empty; other cells stay as they are."""
        columns = dict(self.columns)
        for name, value in fills.items():
            columns[self._spelled(name)] = filled(self.raw(name), value)
        return Frame(columns, self.source, self.lines)

    def texts(self, name: str) -> NDArray[Any]:
        """A column of names in one spelling each; an empty cell is refused by its line."""
        texts = np.array([as_text(value) for value in self.raw(name)], dtype=object)
        self.refuse(name, texts == "", "a name")
        return texts

    def codes(self, name: str, values: Sequence[Any] | None = None) -> tuple[Ints, tuple[str, ...]]:
        """A column of names as positions in the declared list (without one: in the sorted list of what is there)."""
        texts = self.texts(name)
        known = tuple(map(as_text, values)) if values is not None else tuple(sorted(set(texts), key=_order))
        place = {text: code for code, text in enumerate(known)}
        found = np.array([place.get(text, -1) for text in texts], np.int64)
        self.refuse(name, found < 0, f"one of {', '.join(known[:MANY])}{', ...' if len(known) > MANY else ''}")
        return found, known

    def refuse(self, name: str, wrong: Bools, allowed: str, fix: str = FILL) -> None:
        """Raise where a row is wrong: the column, the first line, how many more, and what the column may hold."""
        if wrong.any():
            first, count = int(np.argmax(wrong)), int(wrong.sum())
            more = f" (and {count - 1} more)" if count > 1 else ""
            empty = as_text(self.raw(name)[first]) == ""
            what = "empty" if empty else f"not what the column holds ({NOT_REPEATED})"
            raise InputError(
                f"{self.source}, {self.place(first)}{more}: a cell is {what}",
                path=name,
                allowed=allowed,
                fix=fix if empty else "correct or remove those rows; leave the cell of a missing value empty",
            )


def _floats(values: NDArray[Any]) -> Floats:
    """Numbers as they stand; NaN where a cell is not a number."""
    try:
        return values.astype(np.float64)
    except (TypeError, ValueError):
        return np.array([as_number(value) for value in values])


def _blank(values: NDArray[Any]) -> Bools:
    return np.array([as_text(cell) == "" for cell in values.tolist()], bool)


def filled(values: NDArray[Any], value: Any) -> NDArray[Any]:
    """A column with ``value`` in its empty cells: no text, None, or not a number.

    >>> filled(np.array([1.0, np.nan]), 0.5).tolist()
    [1.0, 0.5]
    """
    empty = _blank(values)
    if not empty.any():
        return values
    made = values.astype(object)
    made[empty] = value
    return made


def as_number(value: Any) -> float:
    try:
        return float(value)
    except (TypeError, ValueError):
        return math.nan


def as_text(value: Any) -> str:
    """One spelling for one category: whole numbers without a decimal point, missing values as nothing."""
    if value is None or type(value).__name__ in ("NAType", "NaTType"):  # pandas, without importing it
        return ""
    if isinstance(value, float | np.floating) and np.isnan(value):
        return ""
    if isinstance(value, float | np.floating) and float(value).is_integer():
        return str(int(value))
    return str(value).strip()


def _order(text: str) -> tuple[int, float, str]:
    """Numbers by size, then words by alphabet."""
    try:
        return 0, float(text), text
    except ValueError:
        return 1, 0.0, text
