"""The releaser protocol: public configuration, a state of plain arrays, one private value a step.

    state = releaser.start()
    for z in values:                                    # None (or NaN) where nothing was measured
        state, shown = releaser.release(state, z, noise)
    rest = releaser.finish(state)                       # what a lag still holds

`release` is the only place where noise meets data; everything after the plain release reads released values and public
facts. Missing steps and their times are public; they spend nothing. Of a state, ``numbers`` and ``counts`` hold
released values and public facts, ``raw`` holds data (often none).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np

from fairveil.arrays import Floats, Ints
from fairveil.configuration import unless
from fairveil.errors import InputError
from fairveil.privacy.events import Event
from fairveil.privacy.guarantee import Guarantee
from fairveil.privacy.noise import Noise
from fairveil.state import State, copy_state

Status = Literal["released", "missing", "lost"]
MISSING, RELEASED, LOST = 0, 1, 2
STATUS: tuple[Status, Status, Status] = ("missing", "released", "lost")
TIME, SEEN, NEXT, USED, STARTS = 0, 1, 2, 3, 4
"""Counters every state begins with: clock steps, values seen, place in a ring, releases used, process starts used."""
COUNTERS = 5


class Released(NamedTuple):
    """What is shown for one step: NaN where nothing is known yet. ``plain`` is the release before any filter."""

    step: int
    value: float
    low: float
    high: float
    plain: float
    status: Status


class Track(NamedTuple):
    """Many steps side by side. ``units`` and ``drawn`` are what a ledger keeps of the steps just taken.

    ``units``: the plain release on the integer grid; ``drawn``: its status (with a lag, ``status`` is of earlier ones).
    """

    step: Ints
    value: Floats
    low: Floats
    high: Floats
    plain: Floats
    status: Ints
    units: Ints
    drawn: Ints

    def rows(self) -> list[Released]:
        """One `Released` a step that there is something to say about (a lag begins with nothing)."""
        return [self.row(place) for place in np.flatnonzero(self.step >= 0).tolist()]

    def part(self, first: int, last: int) -> Track:
        """Some of the steps."""
        whole: Any = (column[first:last] for column in self)
        return Track(*whole)

    def put(self, first: int, other: Track) -> None:
        """Write other steps over some of these."""
        columns = zip(self, other, strict=True)
        for column, new in list(columns)[:-1] if self.drawn is self.status else columns:
            column[first : first + len(new)] = new

    def row(self, place: int) -> Released:
        """One step of the track."""
        return Released(
            int(self.step[place]),
            float(self.value[place]),
            float(self.low[place]),
            float(self.high[place]),
            float(self.plain[place]),
            STATUS[int(self.status[place])],
        )


@dataclass(frozen=True)
class Quote:
    """What a stream will look like, before any data: noise, interval and error, in the data's own units.

    ``expected``: root mean squared error for AR(1) data, one row (std of the data, correlation, plain, best filter).
    """

    noise_std: float
    first_noise_std: float
    last_noise_std: float
    interval: float
    plain_interval_width: float
    expected: tuple[tuple[float, float, float, float], ...]
    guarantee: dict[str, Any] | None

    def to_dict(self) -> dict[str, Any]:
        return {**self.__dict__, "expected": [list(row) for row in self.expected]}

    def words(self) -> str:
        """How far a released number is from the truth, for people who read it in a newspaper."""
        reach = self.plain_interval_width / 2
        often = {0.9: "nine times in ten", 0.95: "nineteen times in twenty", 0.99: "99 times in 100"}
        size = f"{reach:,.0f}" if reach >= 10 else f"{reach:.2g}"
        share = often.get(self.interval, f"in {self.interval:.0%} of all steps")
        return f"each number is within {size} of the truth {share}"


class Releaser(ABC):
    """Base of all releasers."""

    name: str = ""
    horizon: Any = unless(None)
    """Releases for which it is made; None without end."""
    range: Any = unless(None)
    """Public range to which values are clipped; None where none is declared."""
    neighbours: Any = unless("replace")
    """What is hidden: a value, or that there is one (``add-remove``)."""
    round: Any = unless(False)
    """Whether whole numbers are shown."""
    memory: Any = unless(0.0)
    """How much of earlier values a leaky sum keeps."""
    real_time: ClassVar[bool] = True
    """Whether each value is released at its own step: the command `fairveil release` takes no other."""

    @property
    def adds_steps(self) -> bool:
        """Whether a unit's loss is a sum of public amounts over the steps it changes, and nothing else."""
        return False

    @property
    def behind(self) -> int:
        """How many steps later a value is shown."""
        return 0

    @abstractmethod
    def start(self) -> State:
        """The state before anything was released."""

    @abstractmethod
    def advance(self, state: State, values: Floats, noise: Noise) -> Track:
        """Release ``values`` (NaN: missing) and change the state in place."""

    @abstractmethod
    def check(self, state: State, values: Floats) -> None:
        """Refuse what `advance` would refuse, before anything is charged or drawn."""

    @abstractmethod
    def replay(self, state: State, units: Ints, status: Ints) -> Track:
        """Show stored releases again, in place: reads no data and draws nothing."""

    @abstractmethod
    def event(self) -> Event:
        """What the whole stream costs one unit, before any data."""

    @abstractmethod
    def guarantee(self) -> Guarantee:
        """The promise for the whole stream."""

    @abstractmethod
    def quote(self) -> Quote:
        """Noise and expected error, before any data."""

    def noise_std_at(self, release: int) -> float:
        """Std of the noise of a release, counted from 0, where it is known beforehand."""
        return self.quote().last_noise_std

    def run(self, state: State, values: Iterable[float | None], noise: Noise) -> tuple[State, Track]:
        """Release many steps; the state that was given stays as it is."""
        new = copy_state(state)
        return new, self.advance(new, as_values(values), noise)

    def release(self, state: State, z: float | None, noise: Noise) -> tuple[State, Released]:
        """Release one step. With a lag the answer is about an earlier one (NaN while there is none)."""
        new, track = self.run(state, [np.nan if z is None else z], noise)
        return new, track.row(0)

    def finish(self, state: State) -> list[Released]:
        """What a lag still holds, oldest first; the state is not changed."""
        return []

    def saved(self, state: State) -> State:
        """The part of a state that holds no raw data and may be stored."""
        return {name: array.copy() for name, array in state.items() if name != "raw"}

    def loaded(self, saved: State) -> State:
        """A state to go on from after a stop: what was raw begins anew."""
        return {**copy_state(saved), "raw": self.start()["raw"]}


def single_track(row: Released, units: int = 0) -> Track:
    """One step as a track."""
    shown = np.array([[row.value], [row.low], [row.high], [row.plain]])
    whole = np.array([[row.step], [STATUS.index(row.status)], [units]], np.int64)
    return Track(whole[0], shown[0], shown[1], shown[2], shown[3], whole[1], whole[2], whole[1])


def blank_track(steps: int, late: bool) -> Track:
    """Room for so many steps, in one piece of memory: it comes in large pages, which are several times faster.

    ``late``: values are shown at a later step than the one just taken, so ``status`` and ``drawn`` differ.
    """
    room = np.empty((8 if late else 7, steps))
    whole = room[4:].view(np.int64)
    status = whole[1]
    return Track(whole[0], room[0], room[1], room[2], room[3], status, whole[2], whole[3] if late else status)


def join_tracks(tracks: list[Track]) -> Track:
    """Steps one after the other; no track at all is an empty one."""
    floats, whole = np.zeros(0), np.zeros(0, np.int64)
    empty = Track(whole, floats, floats, floats, floats, whole, whole, whole)
    return Track(*(np.concatenate(parts) for parts in zip(empty, *tracks, strict=True)))


def as_values(values: Iterable[float | None]) -> Floats:
    """A vector of numbers with NaN for missing ones; infinities and other things are refused without showing them."""
    given = values if isinstance(values, np.ndarray) and values.dtype.kind in "fiu" else list(values)
    try:
        if isinstance(given, list) and any(isinstance(value, str | bytes | bool) for value in given):
            raise TypeError("text and truth values are no measurements")
        made = np.array([np.nan if value is None else value for value in given], np.float64)
    except (TypeError, ValueError, OverflowError):
        raise InputError("a value is not a number", path="value", allowed="finite numbers, None if missing") from None
    if made.ndim != 1 or np.isinf(made).any():
        raise InputError("a value is not finite", path="value", allowed="finite numbers, None if missing")
    return made
