"""Time as whole microseconds since 1970, from the system or from a test, and durations in words."""

from __future__ import annotations

import re
import time
from datetime import UTC, datetime
from functools import lru_cache
from typing import Protocol

from fairveil.errors import SpecError

SECOND = 1_000_000
_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400}
LONGEST = 100 * 365 * 86400
SLACK = 60 * SECOND
EARLIEST = 1_600_000_000 * SECOND


class Clock(Protocol):
    """``now``: the time of day, which somebody may set; ``boot``: time that has passed, which nobody can."""

    def now(self) -> int: ...

    def boot(self) -> int: ...


class SystemClock:
    """The machine's clock; a store goes by `Time`, which does not believe all of it."""

    _BOOT = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)  # goes on while the machine is suspended

    def now(self) -> int:
        return time.time_ns() // 1000

    def boot(self) -> int:
        return time.clock_gettime_ns(self._BOOT) // 1000


class ManualClock:
    """A clock that stands still until it is moved: tests and simulations.

    >>> clock = ManualClock()
    >>> clock.advance(2.5)
    >>> clock.now() - ManualClock().now()
    2500000
    """

    def __init__(self, start: int = 1_700_000_000 * SECOND) -> None:
        self._now, self._boot = start, 0

    def now(self) -> int:
        return self._now

    def boot(self) -> int:
        return self._boot

    def advance(self, seconds: float) -> None:
        """Time passes."""
        self._now += round(seconds * SECOND)
        self._boot += round(seconds * SECOND)

    def jump(self, seconds: float) -> None:
        """Somebody sets the clock; no time passes."""
        self._now += round(seconds * SECOND)


class Time:
    """The time that a store goes by: a clock, as far as it can be believed.

    While a process lives its clock may run ahead of the time that has passed by at most `SLACK`; beyond that it was
    set, and windows stand still until it agrees again or an operator confirms it. At a start it may be ahead of the
    last moment that is stored by ``gap``, the time that the service may have been down. Meanwhile time goes on as far
    as it is known to have passed, so what is decided has its true time.

    >>> clock = ManualClock(); time = Time(clock, None, gap=0)
    >>> clock.jump(3600); time.doubt, (time.now() - ManualClock().now()) // SECOND
    ('ahead', 60)
    >>> clock.jump(-3600); time.doubt, time.now() == ManualClock().now()
    (None, True)
    """

    def __init__(self, clock: Clock, latest: int | None, gap: int, server: int | None = None) -> None:
        """``latest``: the last moment that is stored; ``server``: the time of day of the database's own machine."""
        self.clock, self._boot = clock, clock.boot()
        wall = clock.now()
        self._base = wall if server is None or abs(wall - server) <= SLACK else server
        self.gap = 0 if latest is None else max(self._base - latest, 0)
        self._beyond = self.gap > gap
        if self._beyond and latest is not None:
            self._base = latest

    def now(self) -> int:
        passed = self._base + self.clock.boot() - self._boot
        return passed if self._beyond else min(self.clock.now(), passed + SLACK)

    def wall(self) -> int:
        """What the clock says, believed or not."""
        return self.clock.now()

    @property
    def doubt(self) -> str | None:
        """Why windows stand still: a ``gap`` at the start that nobody confirmed, or a clock that jumped ``ahead``."""
        if self._beyond:
            return "gap"
        return "ahead" if self._jumped() > SLACK else None

    def confirm(self) -> None:
        """An operator says that the clock is right."""
        self._base, self._boot, self._beyond = self.clock.now(), self.clock.boot(), False

    def state(self, latest: int | None) -> str:
        """In one word: ``sane``, or why not."""
        return "gap" if self._beyond else clock_state(self.clock.now(), latest, self._jumped())

    def _jumped(self) -> int:
        return self.clock.now() - self._base - (self.clock.boot() - self._boot)


def clock_state(now: int, latest: int | None, jumped: int) -> str:
    """What is to be said of a clock: ``sane``, ``unset``, ``behind`` what is stored, or ``ahead`` since the start.

    ``latest``: the last moment that is stored. ``jumped``: by how much the clock has run faster than time itself. A
    clock that is behind, or that jumped ahead, closes no window until it agrees.

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
    whole, rest = divmod(moment, SECOND)
    return f"{_second(whole)}.{rest // 1000:03}Z"


@lru_cache(maxsize=256)
def _second(whole: int) -> str:
    return datetime.fromtimestamp(whole, UTC).isoformat(timespec="seconds").removesuffix("+00:00")
