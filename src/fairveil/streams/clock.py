"""A public clock: which step a time belongs to, and the times of steps that have no row."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime, timedelta

from fairveil.errors import InputError, SpecError

_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 604800}


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
