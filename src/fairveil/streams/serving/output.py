"""What `fairveil release` prints: one line a step, written after its release is on disk, never changed afterwards."""

from __future__ import annotations

import csv
import json
import math
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from fairveil.errors import InputError, LedgerError, StoreError
from fairveil.streams.protocol import LOST, STATUS, Track
from fairveil.streams.serving.feed import csv_line

DIGITS = 1e-6
"""Share of a printed number by which a line that is replayed elsewhere may differ."""


class Layout:
    """How a step becomes a line, as CSV or JSON."""

    def __init__(
        self,
        label: str,
        columns: Sequence[str],
        *,
        plain: bool = False,
        as_json: bool = False,
        simulated: bool = False,
        whole: bool = False,
    ) -> None:
        parts = ["", "_low", "_high"] + (["_plain"] if plain else [])
        self.plain, self.as_json, self.simulated, self.whole = plain, as_json, simulated, whole
        self.names = [label, *(f"{column}{part}" for column in columns for part in parts), "status"]
        self.names += ["simulated"] if simulated else []

    def header(self) -> str:
        return "" if self.as_json else csv_line(self.names)

    def label_of(self, line: str) -> str:
        """The step or time that a printed line is about."""
        cells = self._cells(line)
        return str(cells[0]) if cells else ""

    def same(self, was: str, now: str) -> bool:
        """Whether two lines show the same step, up to the last digits, in which processors and compilers differ."""
        if was == now:
            return True
        before, after = self._cells(was), self._cells(now)
        size = max((abs(number) for number in map(_number, after) if number is not None), default=0.0)
        return len(before) == len(after) and all(_near(*pair, size) for pair in zip(before, after, strict=True))

    def _cells(self, line: str) -> list[Any]:
        try:
            return list(json.loads(line).values()) if self.as_json else next(csv.reader([line]))
        except (ValueError, AttributeError, StopIteration):
            return []

    def _shown(self, number: float) -> float | int | None:
        if math.isnan(number):
            return None
        return int(number) if self.whole and number.is_integer() else number

    def line(self, label: str, tracks: Sequence[Track], place: int) -> str:
        """The line of one step: numbers as short as they can be read back exactly, nothing where nothing is known."""
        cells: list[Any] = [label]
        for track in tracks:
            numbers = [track.value[place], track.low[place], track.high[place]]
            numbers += [track.plain[place]] if self.plain else []
            cells += [self._shown(float(number)) for number in numbers]
        kinds = [int(track.status[place]) for track in tracks]
        cells.append(STATUS[LOST if LOST in kinds else max(kinds)])
        cells += [True] if self.simulated else []
        if self.as_json:
            return json.dumps(dict(zip(self.names, cells, strict=True))) + "\n"
        return csv_line(["" if cell is None else str(cell) for cell in cells])


class Output:
    """The file (or standard output) that lines go to. An existing file is cut back to its last whole line."""

    def __init__(self, path: Path | None, layout: Layout) -> None:
        self.path, self.layout = path, layout
        self._file: Any = None
        self._kept = b""
        self._lines: list[str] = []

    def resume(self) -> list[str]:
        """The whole lines that are there (without header); what follows the last one will be cut off."""
        if self.path is None or not self.path.exists():
            return []
        data = self.path.read_bytes()
        self._kept = data[: data.rfind(b"\n") + 1]
        whole = self._kept.decode("utf-8", "replace").splitlines(keepends=True)
        header = self.layout.header()
        if header and whole and whole[0] != header:
            raise InputError(
                "the output has other columns", path="out", given=str(self.path), fix="name another output file"
            )
        self._lines = whole[1:] if header else whole
        return self._lines

    def open(self) -> None:
        """Begin to write; the header goes first."""
        if self.path is None:
            self._file = sys.stdout
        else:
            if self._kept or self.path.exists():
                os.truncate(self.path, len(self._kept))
            self._file = open(self.path, "a", encoding="utf-8", newline="")  # noqa: SIM115  (closed by `close`)
        if not self._kept:
            self.write([self.layout.header()])

    def check(self, lines: Sequence[str], labels: Sequence[str]) -> None:
        """Lines that were printed must be the ones that the ledger's releases give; their labels always are."""
        for place, was in enumerate(self._lines):
            same = place >= len(lines) or self.layout.same(was, lines[place])
            if not same or (place < len(labels) and self.layout.label_of(was) != labels[place]):
                raise LedgerError(
                    "the output was not written by this stream, or the times of the input have changed",
                    path=str(self.path),
                    given=f"line {place + (1 if self.layout.as_json else 2)}",
                    fix="give the same input and output again, or begin another stream",
                )

    def write(self, lines: Sequence[str]) -> None:
        try:
            self._file.write("".join(lines))
            self._file.flush()
        except OSError as problem:
            reason = problem.strerror or type(problem).__name__
            raise StoreError(
                f"the output cannot be written: {reason}",
                path=str(self.path or "standard output"),
                fix="what was released is in the ledger; the same command goes on from there",
            ) from None

    def close(self) -> None:
        if self._file is not None and self.path is not None:
            self._file.close()


def _near(was: Any, now: Any, size: float) -> bool:
    """Equal cells, or numbers that differ by rounding only (whole ones by 1); ``size``: of the numbers in the line."""
    if was == now:
        return True
    before, after = _number(was), _number(now)
    if before is None or after is None:
        return False
    slack = 1.0 if before.is_integer() and after.is_integer() else 0.0
    return abs(before - after) <= slack + DIGITS * size


def _number(cell: Any) -> float | None:
    try:
        return float(cell)
    except (TypeError, ValueError):
        return None
