"""Where a user's own table comes from: CSV, parquet, pandas, polars, or columns written out in a spec.

Tables that live in memory lie on a shelf under names that a spec can hold.
"""

from __future__ import annotations

import csv
import gzip
import hashlib
import math
import os
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray
from pydantic import BeforeValidator

from fairveil.data.files import pandas
from fairveil.data.frames import Frame, as_number
from fairveil.errors import DataError, SpecError

PREFIX = "table in memory "


class Shelf:
    """Tables that were handed over in memory, under names that a spec can hold.

    A name says nothing about the rows (it is a digest with a key of this process) and is the same for the same table.
    """

    LIMIT = 32

    def __init__(self) -> None:
        self._key, self._frames = os.urandom(16), dict[str, Frame]()

    def put(self, frame: Frame) -> str:
        digest = hashlib.blake2b(key=self._key, digest_size=8)
        for name, values in frame.columns.items():
            digest.update(repr((name, values.tolist())).encode())
        name = PREFIX + digest.hexdigest()
        self._frames.pop(name, None)
        self._frames[name] = frame
        for oldest in list(self._frames)[: -self.LIMIT]:
            del self._frames[oldest]
        return name

    def get(self, name: str) -> Frame | None:
        if not name.startswith(PREFIX):
            return None
        if name not in self._frames:
            raise DataError(
                "this table was in the memory of another process",
                path="file",
                given=name,
                allowed="a file, or a table with the engine serial",
                fix="write the table to a CSV or parquet file and name that",
            )
        return self._frames[name]


SHELF = Shelf()


SEPARATORS = ",;\t"


def _as_table(given: Any) -> Any:
    """What a spec holds for a table: a path, columns written out, or the name of a table in memory."""
    if given is None or isinstance(given, str):
        return given
    if isinstance(given, Path):
        return str(given)
    if isinstance(given, Mapping):
        return {str(name): list(values) for name, values in given.items()}
    return SHELF.put(read_frame(given))


TableField = Annotated[Any, BeforeValidator(_as_table)]
"""A field that takes a path, a pandas or polars DataFrame, or columns written out."""


def read_frame(table: Any, *, header: bool | None = True) -> Frame:
    """A `Frame` from a file (CSV, also gzipped, or parquet), a pandas or polars DataFrame, or columns of lists.

    ``header``: the first line of a CSV file names the columns; False: they are called 1, 2, ...; None: it does unless
    all its cells are numbers. A relative path starts in the working directory; the command line has put the folder of
    the spec before it.
    """
    if isinstance(table, Frame):
        return table
    if isinstance(table, str) and (kept := SHELF.get(table)) is not None:
        return kept
    if isinstance(table, str | Path):
        return _read_file(str(table), header)
    if isinstance(table, Mapping):
        return _written_out(table)
    if hasattr(table, "to_pandas"):
        table = table.to_pandas()
    if not hasattr(table, "columns") or not hasattr(table, "iloc"):
        raise SpecError(
            "this is not a table",
            path="file",
            given=type(table).__name__,
            allowed="a path, pandas or polars DataFrame",
            fix="name a CSV or parquet file",
        )
    return _filled(_columns(table), "the table")


def _written_out(table: Mapping[str, Any]) -> Frame:
    columns = {str(name): np.array(list(values), dtype=object) for name, values in table.items()}
    if len({len(values) for values in columns.values()}) != 1:
        raise SpecError(
            "the columns have different lengths",
            path="file",
            given=[len(values) for values in columns.values()],
            allowed="columns of one length",
            fix="write a value for every row",
        )
    return _filled(columns, "the table")


def _filled(columns: dict[str, NDArray[Any]], source: str) -> Frame:
    frame = Frame(columns, source)
    if not len(frame):
        raise DataError("the table has no rows", path="file", allowed="at least one row", fix="name another table")
    return frame


def _read_file(name: str, header: bool | None) -> Frame:
    path = Path(name)
    try:
        facts = path.stat()
        return _kept(name, header, facts.st_mtime_ns, facts.st_size)
    except FileNotFoundError:
        raise DataError(
            "there is no such file",
            path="file",
            given=name,
            allowed="a CSV or parquet file",
            fix="check the path: a relative one starts in the folder of the spec, without one in the working directory",
        ) from None
    except UnicodeDecodeError:
        raise DataError(
            f"{path.name}, line {_undecodable(path)}: the text is not UTF-8",
            path="file",
            given=name,
            allowed="CSV in UTF-8, or parquet",
            fix="save it again with the encoding UTF-8",
        ) from None
    except (OSError, ValueError, csv.Error) as problem:
        raise DataError(
            f"the file cannot be read ({'it is a folder' if path.is_dir() else type(problem).__name__})",
            path="file",
            given=name,
            allowed="CSV with a header line, in UTF-8, or parquet",
            fix="open it in a spreadsheet and save it as CSV in UTF-8",
        ) from None


@lru_cache(maxsize=4)
def _kept(name: str, header: bool | None, _changed: int, _size: int) -> Frame:
    """Read again only when the file has changed."""
    path = Path(name)
    if path.suffix in (".parquet", ".pq"):
        return _filled(_columns(pandas().read_parquet(path)), path.name)
    return _read_csv(path, header)


def _open(path: Path, **how: Any) -> Any:
    return (gzip.open if path.suffix == ".gz" else open)(path, **how)


def _undecodable(path: Path) -> int:
    """The first line that is not UTF-8."""
    with _open(path, mode="rb") as file:
        for number, line in enumerate(file, 1):
            try:
                line.decode("utf-8")
            except UnicodeDecodeError:
                return number
    return 1


def _read_csv(path: Path, header: bool | None) -> Frame:
    """Names and rows of a CSV file (commas, semicolons or tabs); a row of another length is refused by its line."""
    with _open(path, mode="rt", encoding="utf-8-sig", newline="") as file:
        first = file.readline()
        file.seek(0)
        separator = max(SEPARATORS, key=first.count)
        reader = csv.reader(file, delimiter=separator)
        rows, lines, line = [], [], 1
        for row in reader:
            if any(cell.strip() for cell in row):
                rows.append(row)
                lines.append(line)
            line = reader.line_num + 1
    named = header if header is not None else bool(rows) and not all(math.isfinite(as_number(cell)) for cell in rows[0])
    if len(rows) <= named:
        raise DataError(
            "the file has no rows",
            path="file",
            given=path.name,
            allowed="a header line and rows below it" if named else "at least one row",
            fix="check that it is the right file",
        )
    names = [cell.strip() for cell in rows.pop(0)] if named else [str(place + 1) for place in range(len(rows[0]))]
    lines = lines[1:] if named else lines
    _check_shape(path.name, names, rows, lines)
    cells = dict(zip(names, (np.array(column, dtype=object) for column in zip(*rows, strict=True)), strict=True))
    return Frame(cells, path.name, np.array(lines))


def _check_shape(source: str, names: list[str], rows: list[list[str]], lines: list[int]) -> None:
    for row, line in zip(rows, lines, strict=True):
        if len(row) != len(names):
            raise DataError(
                f"{source}, line {line}: a row has another number of cells than the first line",
                path="file",
                given=len(row),
                allowed=str(len(names)),
                fix="put cells that hold a separator in quotes",
            )
    repeated = [name for name in names if names.count(name) > 1]
    if repeated:
        raise DataError(
            f"{source}: two columns have one name",
            path="file",
            given=repeated[0],
            allowed="different names",
            fix="rename one of them",
        )


def _columns(frame: Any) -> dict[str, NDArray[Any]]:
    return {str(name): frame[name].to_numpy() for name in frame.columns}
