"""A user's own table: CSV, parquet, pandas or polars in, checked columns out.

Errors name the file, the line, the column and the cause, never what a cell holds: cells are people's values.
"""

from __future__ import annotations

import csv
import gzip
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairveil.data.reading import pandas
from fairveil.errors import DataError, InputError, SpecError, did_you_mean


@dataclass(frozen=True)
class Frame:
    """Named columns of text or numbers with the place they came from, for errors. Its repr shows no cell."""

    columns: dict[str, NDArray[Any]] = field(repr=False)
    source: str
    lines: NDArray[np.int64] | None = field(default=None, repr=False)
    """The line of a text file on which each row begins; None where rows are counted from 1."""

    def __len__(self) -> int:
        return len(next(iter(self.columns.values()))) if self.columns else 0

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self.columns)

    def place(self, row: int) -> str:
        """Where row ``row`` stands in the file."""
        return f"row {row + 1}" if self.lines is None else f"line {self.lines[row]}"

    def raw(self, name: str) -> NDArray[Any]:
        """A column as it was read."""
        if name not in self.columns:
            raise SpecError(
                f"{self.source} has no such column",
                path=name,
                given=name,
                allowed=", ".join(self.names),
                fix=did_you_mean(name, self.names),
            )
        return self.columns[name]

    def numbers(self, name: str, low: float = -np.inf, high: float = np.inf) -> NDArray[np.float64]:
        """A column of finite numbers in [low, high]; the first line that holds something else is named."""
        found = _floats(self.raw(name))
        self._refuse(name, ~np.isfinite(found), "a finite number")
        outside = (found < low) | (found > high)
        self._refuse(name, outside, f"a number from {low:g} to {high:g}")
        return found

    def codes(self, name: str, values: Sequence[Any] | None = None) -> tuple[NDArray[np.int64], tuple[str, ...]]:
        """A column of names as positions in the declared list (without one: in the sorted list of what is there)."""
        texts = np.array([_text(value) for value in self.raw(name)], dtype=object)
        self._refuse(name, np.array([text == "" for text in texts]), "a name")
        known = tuple(map(_text, values)) if values is not None else tuple(sorted(set(texts), key=_order))
        place = {text: code for code, text in enumerate(known)}
        found = np.array([place.get(text, -1) for text in texts], np.int64)
        self._refuse(name, found < 0, f"one of {', '.join(known[:12])}{', ...' if len(known) > 12 else ''}")
        return found, known

    def _refuse(self, name: str, wrong: NDArray[np.bool_], allowed: str) -> None:
        if wrong.any():
            first, count = int(np.argmax(wrong)), int(wrong.sum())
            more = f" (and {count - 1} more)" if count > 1 else ""
            raise InputError(
                f"{self.source}, {self.place(first)}{more}: a cell is not what the column holds",
                path=name,
                allowed=allowed,
                fix="correct or remove those rows",
            )


def read_frame(table: Any, folder: str | Path | None = None) -> Frame:
    """A `Frame` from a file (CSV with a header, also gzipped, or parquet), or from a pandas or polars DataFrame.

    A relative path is looked for in ``folder`` (the folder of the spec), else in the working directory.
    """
    if isinstance(table, Frame):
        return table
    if isinstance(table, str | Path):
        return _read_file(Path(table), None if folder is None else Path(folder))
    if hasattr(table, "to_pandas"):
        table = table.to_pandas()
    if not hasattr(table, "columns") or not hasattr(table, "iloc"):
        raise SpecError(
            "this is not a table", path="file", given=type(table).__name__, allowed="a path, pandas or polars DataFrame"
        )
    return Frame(_columns(table), "the table")


def _read_file(name: Path, folder: Path | None) -> Frame:
    path = name if name.is_absolute() or folder is None else folder / name
    try:
        if path.suffix in (".parquet", ".pq"):
            return Frame(_columns(pandas().read_parquet(path)), name.name)
        return _read_csv(path, name.name)
    except FileNotFoundError:
        raise DataError(
            "there is no such file",
            path="file",
            given=str(name),
            fix=f"a relative path starts in {'the folder of the spec' if folder else 'the working directory'}",
        ) from None
    except (OSError, ValueError, csv.Error) as problem:
        cause = "it is not UTF-8" if isinstance(problem, UnicodeDecodeError) else type(problem).__name__
        raise DataError(
            f"the file cannot be read ({cause})",
            path="file",
            given=str(name),
            allowed="CSV with a header line and commas, in UTF-8, or parquet",
        ) from None


def _read_csv(path: Path, name: str) -> Frame:
    """Header and rows of a CSV file; a row of another length is refused by its line."""
    opened = gzip.open if path.suffix == ".gz" else open
    with opened(path, "rt", encoding="utf-8-sig", newline="") as file:
        reader = csv.reader(file)
        header = [column.strip() for column in next(reader, [])]
        rows: list[list[str]] = []
        lines: list[int] = []
        line = reader.line_num + 1
        for row in reader:
            if row and len(row) != len(header):
                raise DataError(
                    f"{name}, line {line}: a row has another number of cells than the header",
                    path="file",
                    given=len(row),
                    allowed=str(len(header)),
                )
            if row:
                rows.append(row)
                lines.append(line)
            line = reader.line_num + 1
    if not header or not rows:
        raise DataError("the file has no rows", path="file", given=name, allowed="a header line and rows below it")
    if len(set(header)) < len(header):
        repeated = next(column for column in header if header.count(column) > 1)
        raise DataError("two columns have one name", path="file", given=repeated, allowed="different names")
    cells = dict(zip(header, (np.array(column, dtype=object) for column in zip(*rows, strict=True)), strict=True))
    return Frame(cells, name, np.array(lines))


def _floats(values: NDArray[Any]) -> NDArray[np.float64]:
    """Numbers as they stand; NaN where a cell is not a number."""
    try:
        return values.astype(np.float64)
    except (TypeError, ValueError):
        return np.array([_float(value) for value in values])


def _float(value: Any) -> float:
    try:
        return float(value)
    except (TypeError, ValueError):
        return math.nan


def _columns(frame: Any) -> dict[str, NDArray[Any]]:
    return {str(name): frame[name].to_numpy() for name in frame.columns}


def _text(value: Any) -> str:
    """One spelling for one category: whole numbers without a decimal point, missing values as nothing."""
    if value is None or (isinstance(value, float) and np.isnan(value)):
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
