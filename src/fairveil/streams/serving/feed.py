"""Rows from a CSV file or a pipe, as steps of a stream. Nothing here repeats a value in an error.

Rows of people count in the step of their own time and in no other, whatever their order: a step closes by public facts
alone, which are the end of the input (then all steps up to ``until``, or to the horizon), or a watermark, a row without
a person that says that the steps before its time are over. A row whose step is over, or outside the stream, is dropped.
"""

from __future__ import annotations

import csv
import hashlib
import io
import math
import os
import re
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import NamedTuple

from fairveil.errors import HorizonError, InputError, SpecError
from fairveil.streams.serving.people import PersonCounts

CHUNK = 1 << 16
GROUP = 256
"""Steps of a file that are handed out together."""
NUMBER = "a finite number, or nothing if missing"
_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 604800}


class Step(NamedTuple):
    """One step: its number, its public label, and one value a column (NaN: missing)."""

    number: int
    label: str
    values: tuple[float, ...]


class Lines:
    """Lines of a file descriptor in the groups in which they wait: a line never waits for a later one.

    ``source``: the file's name, where it has one, for errors.
    """

    def __init__(self, descriptor: int, source: str = "") -> None:
        self.descriptor, self.source = descriptor, source
        self._rest = b""
        self._ended = False
        self.read = 0
        self._digest = hashlib.sha256()

    def waiting(self) -> list[str]:
        """At least one line, and all that are there already; none at the end."""
        while not self._ended:
            data = os.read(self.descriptor, CHUNK)
            self._ended = not data
            lines = (self._rest + data).split(b"\n")
            self._rest = lines.pop()
            if self._ended and self._rest:
                lines.append(self._rest)
                self._rest = b""
            if lines:
                self._hand_out(b"\n".join([*lines, b""] if not self._ended else lines))
                return [_text(line) for line in lines]
        return []

    def _hand_out(self, data: bytes) -> None:
        self.read += len(data)
        self._digest.update(data)

    def digest(self) -> bytes:
        """Of all bytes that were handed out as lines, ``read`` in number."""
        return self._digest.digest()

    def can_be_read_again(self) -> bool:
        return stat.S_ISREG(os.fstat(self.descriptor).st_mode)


def _text(line: bytes) -> str:
    try:
        return line.decode().rstrip("\r")
    except UnicodeDecodeError:
        raise InputError("the input is not text", path="in", allowed="UTF-8") from None


def step_length(text: str) -> timedelta:
    """``15m``, ``1h``, ``1d`` as a length of time.

    >>> step_length("15m")
    datetime.timedelta(seconds=900)
    """
    match = re.fullmatch(r"(\d+)([smhdw])", text)
    if match is None or int(match[1]) == 0:
        raise SpecError("this is not a length of time", path="step", given=text, allowed="like 30s, 15m, 1h, 1d, 1w")
    return timedelta(seconds=int(match[1]) * _UNITS[match[2]])


@dataclass(frozen=True)
class Clock:
    """Steps of one length from a public start. Times are ISO 8601; ``whole`` snaps a time to the step it falls into.

    >>> clock = Clock(datetime(2024, 1, 1), timedelta(hours=1))
    >>> clock.step("2024-01-01 05:00"), clock.label(6)
    (5, '2024-01-01T06:00:00')
    """

    start: datetime
    length: timedelta
    whole: bool = False

    def step(self, text: str) -> int:
        """The number of the step at a time; a time between two steps is refused (or belongs to the earlier one)."""
        try:
            gap = read_time(text) - self.start
        except TypeError:  # one has a zone, the other none
            raise InputError("times with and without a zone are mixed", path="time", allowed="one kind") from None
        number = gap // self.length
        if not self.whole and number * self.length != gap:
            raise InputError(
                "a time is not on the clock",
                path="time",
                allowed=f"{self.start.isoformat()} plus multiples of {self.length}",
                fix="give another step, or round the times first",
            )
        return number

    def label(self, step: int) -> str:
        return (self.start + step * self.length).isoformat()


def read_time(text: str) -> datetime:
    """An ISO 8601 time; what was given is not repeated, because a time may be a person's."""
    try:
        return datetime.fromisoformat(text.strip())
    except ValueError:
        raise InputError("this is not a time", path="time", allowed="ISO 8601, like 2024-01-31 17:00") from None


def _public_time(text: str, option: str) -> datetime:
    """A time that an option gives: it is public and is repeated in the error."""
    try:
        return read_time(text)
    except InputError as problem:
        raise SpecError(problem.problem, path=option, given=text, allowed=problem.allowed) from None


@dataclass(frozen=True)
class Reading:
    """How rows become steps: public options of `fairveil release`."""

    columns: tuple[str, ...]
    time: str | None = None
    step: str | None = None
    start: str | None = None
    person: str | None = None
    until: str | None = None
    watermark: bool = False
    horizon: int | None = None

    def __post_init__(self) -> None:
        if self.time is not None and self.time in (*self.columns, self.person):
            raise SpecError(
                "times are printed as they are", path="time", given=self.time,
                allowed="a column that is neither released nor a person's id", fix="leave it out: steps are counted",
            )  # fmt: skip


def _check_in(header: list[str], name: str) -> None:
    found, fix = header.count(name), ""
    if found > 1:
        raise InputError(
            "a column is there twice", path="column", given=name, allowed="each name once", fix="rename one"
        )
    if not found:
        if len(header) == 1 and name in header[0].replace("\t", ";").split(";"):
            fix = "separate cells by commas"
        allowed = ", ".join(header)
        raise InputError("a column is not in the header", path="column", given=name, allowed=allowed, fix=fix)


class Feed:
    """Steps of a CSV, in groups that wait together. The header is read at once."""

    def __init__(self, lines: Lines, reading: Reading, people: PersonCounts | None = None) -> None:
        self.lines, self.reading, self.people = lines, reading, people
        self._waiting = lines.waiting()
        if not self._waiting or not self._waiting[0].strip():
            raise InputError("the input is empty", path="in", allowed="a CSV with a header")
        self.header = next(csv.reader([self._waiting.pop(0).removeprefix("\ufeff")]))
        needed = [*(() if reading.person else reading.columns), *filter(None, (reading.time, reading.person))]
        for name in needed:
            _check_in(self.header, name)
        self._places = [self.header.index(name) for name in needed]
        self._clock = self._fixed_clock()
        self._next = 0
        self._row = 1
        self._open: dict[int, list[str]] = {}
        self._last = self._end()

    def _fixed_clock(self) -> Clock | None:
        if self.reading.time is None or self.reading.start is None:
            return None
        length = step_length(self.reading.step or "1h")
        return Clock(_public_time(self.reading.start, "start"), length, whole=self.reading.person is not None)

    def steps(self) -> Iterator[list[Step]]:
        """Groups of steps, in order. A mistake in a row is raised after the steps before it were handed out."""
        group: list[Step] = []
        most = self._at_once()
        while lines := self._waiting or self.lines.waiting():
            self._waiting = []
            for line in lines:
                self._row += 1
                if not line.strip() and len(self.header) > 1:
                    continue  # of a single column an empty line is a missing value
                try:
                    group += self._steps_of(line)
                except (InputError, HorizonError) as found:
                    if group:
                        yield group
                    raise type(found)(
                        found.problem,
                        path=self._where(found.path) if self.reading.person is None else found.path,
                        given=found.given,
                        allowed=found.allowed,
                        fix=found.fix,
                    ) from None
                if most is not None and len(group) >= most:
                    yield group
                    group = []
            if most is None and group:
                yield group
                group = []
        if group:
            yield group
        if self.reading.person is not None:
            yield from self._remaining()

    def _at_once(self) -> int | None:
        """Steps of a group, which a ledger names together: of a file so many, of people's rows in a pipe what one
        watermark closes, so that it shows nowhere how long a cell is. None: of a pipe what waits."""
        if self.lines.can_be_read_again():
            return GROUP
        return None if self.reading.person is None else 1

    def _where(self, path: str) -> str:
        """File, line and column of a mistake in a row that is nobody's."""
        column = f"column {self.reading.time}" if path == "time" else path
        return ", ".join(filter(None, (self.lines.source, f"line {self._row}", column)))

    def _steps_of(self, line: str) -> list[Step]:
        try:
            cells = next(csv.reader([line])) or [""]
            picked = [cells[place] for place in self._places]
        except (csv.Error, IndexError, StopIteration):
            raise InputError("a row has too few cells", allowed=f"{len(self.header)} cells") from None
        if len(cells) > len(self.header):
            raise InputError(
                "a row has too many cells", allowed=f"{len(self.header)} cells", fix="quote cells that hold a comma"
            )
        if self.reading.person is not None:
            return self._person(picked)
        values = tuple(_number(*pair) for pair in zip(picked, self.reading.columns))
        if self.reading.time is None:
            self._next += 1
            return [Step(self._next - 1, str(self._next - 1), values)]
        return self._timed(picked[-1], values)

    def _timed(self, text: str, values: tuple[float, ...]) -> list[Step]:
        if self._clock is None:
            if self.reading.step is None:
                self._next += 1  # labels only: every row is the next step
                return [Step(self._next - 1, text, values)]
            self._clock = Clock(read_time(text), step_length(self.reading.step))
        number = self._clock.step(text)
        if number < 0 and self.reading.start is not None:
            raise InputError("a time is before --start", allowed=f"from {self.reading.start} on", fix="leave it out")
        if number < self._next:
            raise InputError(
                "a time comes again or goes back",
                allowed="rows in the order of their times, one a step",
                fix="sort the rows; sum rows of one time first",
            )
        nothing = (math.nan,) * len(values)
        gap = [Step(place, self._clock.label(place), nothing) for place in range(self._next, number)]
        self._next = number + 1
        return [*gap, Step(number, self._clock.label(number), values)]

    def _end(self) -> float:
        """The step at which people's rows end: the horizon, or the public time until which they are counted."""
        ends = [math.inf if self.reading.horizon is None else self.reading.horizon]
        if self._clock is not None and self.reading.until is not None:
            _public_time(self.reading.until, "until")
            ends.append(self._clock.step(self.reading.until))
        return min(ends)

    def _person(self, picked: list[str]) -> list[Step]:
        """Keep a row for its own step; a watermark closes the steps before it."""
        assert self._clock is not None
        number, who = self._clock.step(picked[0]), picked[1]
        if not who.strip():
            over = min(number, self._last) if self.reading.watermark else 0
            return [self._count() for _ in range(self._next, int(over))]
        if self._next <= number < self._last:
            self._open.setdefault(number, []).append(who)
        return []

    def _count(self) -> Step:
        """Close the next step: nobody there is a count of 0, never a missing step."""
        assert self._clock is not None
        assert self.people is not None
        there = self._open.pop(self._next, [])
        step = Step(self._next, self._clock.label(self._next), (float(self.people.step(there)),))
        self._next += 1
        return step

    def _remaining(self) -> Iterator[list[Step]]:
        """All steps that are left when the input ends; watermarks alone leave them open unless there is a time."""
        last = self._next if self.reading.watermark and self.reading.until is None else int(self._last)
        while self._next < last:
            yield [self._count() for _ in range(min(GROUP, last - self._next))]


def _number(cell: str, column: str) -> float:
    """A finite number, NaN for an empty cell."""
    if not cell.strip():
        return math.nan
    try:
        value = float(cell)
    except ValueError:
        raise InputError("a cell is not a number", allowed=NUMBER, path=f"column {column}") from None
    if not math.isfinite(value):
        raise InputError("a cell is not a finite number", allowed=NUMBER, path=f"column {column}")
    return value


def csv_line(cells: list[str]) -> str:
    """One line of a CSV, with its end."""
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerow(cells)
    return text.getvalue()
