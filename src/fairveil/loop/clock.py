"""Time as whole microseconds since 1970, from the system or from a test, and durations in words."""

from __future__ import annotations

import re
import time
from datetime import UTC, datetime
from typing import Protocol

from fairveil.errors import SpecError

SECOND = 1_000_000
_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400}
LONGEST = 100 * 365 * 86400
SLACK = 60 * SECOND
EARLIEST = 1_600_000_000 * SECOND


class Clock(Protocol):
    def now(self) -> int: ...


class SystemClock:
    """The machine's clock. A store never lets it run backwards: see the high-water mark in each loop's row."""

    def now(self) -> int:
        return time.time_ns() // 1000


class ManualClock:
    """A clock that stands still until it is moved: tests and simulations.

    >>> clock = ManualClock()
    >>> clock.advance(2.5)
    >>> clock.now() - ManualClock().now()
    2500000
    """

    def __init__(self, start: int = 1_700_000_000 * SECOND) -> None:
        self._now = start

    def now(self) -> int:
        return self._now

    def advance(self, seconds: float) -> None:
        self._now += round(seconds * SECOND)


def clock_state(now: int, latest: int | None, jumped: int) -> str:
    """What is to be said of a clock: ``sane``, ``unset``, ``behind`` what is stored, or ``ahead`` since the start.

    ``latest``: the last moment that is stored. ``jumped``: by how much the clock has run faster than time itself. A
    clock that is behind closes no window until it has caught up; one that jumped ahead may have closed some too early.

    >>> clock_state(1_800_000_000 * SECOND, 1_800_000_300 * SECOND, 0)
    'behind'
    """
    if now < EARLIEST:
        return "unset"
    if latest is not None and now < latest - SLACK:
        return "behind"
    return "ahead" if jumped > SLACK else "sane"


def seconds_of(words: str, path: str) -> int:
    """A duration such as ``90s``, ``10m``, ``2h`` or ``7d`` in seconds.

    >>> seconds_of("2h", "wait")
    7200
    """
    found = re.fullmatch(r"([0-9]{1,10})([smhd])", words) if isinstance(words, str) else None
    if found is None or not 0 < (length := int(found[1]) * _UNITS[found[2]]) <= LONGEST:
        raise SpecError("this is not a duration", path=path, given=words, allowed="a number and s, m, h or d: 90s, 7d")
    return length


def in_words(moment: int) -> str:
    """RFC 3339 in UTC.

    >>> in_words(1_700_000_000_250_000)
    '2023-11-14T22:13:20.250Z'
    """
    return datetime.fromtimestamp(moment / SECOND, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
