"""One run of `fairveil release`: read a step, store its release, print its line, and only then read the next.

After a stop the same command goes on: stored releases are replayed through the filter, the output is cut back to its
last whole line and completed, rows that were released already are matched by their time, and nothing is drawn twice.

In how many steps somebody was counted is raw data and lives as long as a process; a stream that goes on counts again
from the beginning of its input. On another input, as the next file of a rotated log, everybody would be new. So a
salted digest of what was read lies beside the ledger, its owner's alone, on disk before the release of these rows.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import secrets
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from fairveil.arrays import Floats
from fairveil.errors import HorizonError, InputError, LedgerError
from fairveil.federated.journal import replace_file
from fairveil.ledger import Ledger
from fairveil.privacy.noise import Noise, SecureNoise, SeededNoise
from fairveil.streams.columns import Columns, exact_limit
from fairveil.streams.protocol import LOST, TIME, State, Track, join_tracks, single_track
from fairveil.streams.serving.feed import CHUNK, Feed, Lines, Step
from fairveil.streams.serving.journal import MOST, Journal, check_real_time
from fairveil.streams.serving.output import Layout, Output

UNKNOWN = (
    "not established: what was read before is not known any more, so somebody may have been counted in as many steps "
    "again"
)


class ReadAgain:
    """Rows of people that were read before, of one stream: the same when it goes on, or it does not go on.

    ``known`` is False where a part of the stream was released without this record.
    """

    def __init__(self, ledger: Path, lines: Lines) -> None:
        self.path, self.lines = Path(f"{ledger}.rows"), lines
        self._salt, self.known = secrets.token_hex(16), True

    def check(self) -> None:
        """Refuse an input that does not begin as the one that was read."""
        if not self.path.exists():
            self.known = False
            return
        table: dict[str, Any] = json.loads(self.path.read_text())
        self._salt, self.known = table["salt"], table["known"]
        if self._salted(_beginning(self.lines.descriptor, table["bytes"])) != table["digest"]:
            raise InputError(
                "these are not the rows that were read before", path="in",
                allowed="the same input, longer or as it was",
                fix="put the parts of a rotated log together: who was counted before is known from the rows alone",
            )  # fmt: skip

    def keep(self) -> None:
        """Put what was read so far on disk."""
        table = {"salt": self._salt, "bytes": self.lines.read, "digest": self._salted(self.lines.digest())}
        replace_file(self.path, json.dumps({**table, "known": self.known}).encode())

    def _salted(self, digest: bytes) -> str:
        return hashlib.blake2b(digest, key=bytes.fromhex(self._salt), digest_size=16).hexdigest()


def _beginning(descriptor: int, size: int) -> bytes:
    """The digest of so many bytes of a file; of all of it where it is shorter."""
    found, place = hashlib.sha256(), 0
    while place < size and (data := os.pread(descriptor, min(CHUNK, size - place), place)):
        found.update(data)
        place += len(data)
    return found.digest()


Hook = Callable[[str], None]


@dataclass
class ReleaseRun:
    """Everything a run needs; ``facts`` are the public options that a resumed run must repeat."""

    columns: Columns
    feed: Feed
    layout: Layout
    out: Path | None
    ledger: Path | None = None
    seed: int | None = None
    facts: dict[str, Any] = field(default_factory=dict)
    guard: tuple[float, float] | None = None
    """Values are clipped to it before all else. Clipping moves no two values further apart: a declared sensitivity
    stays what it is."""
    batch: int = MOST
    """Steps that share a commit, at most: so many are lost if the process is killed while they are drawn."""

    hook: Hook = lambda _: None
    """Called between the steps of a run with their names: tests stop the process there."""

    announce: Callable[[], None] = lambda: None
    """Called once, when nothing can be refused any more and before the first line."""

    def __post_init__(self) -> None:
        self._states: list[State] = self.columns.start()
        self._journal: Journal | None = None
        self._labels: list[str] = []
        self._output = Output(self.out, self.layout)
        limited = self.feed.people is not None and self.feed.people.participation is not None
        self._again = ReadAgain(self.ledger, self.feed.lines) if limited and self.ledger is not None else None
        self.lines = 0
        """Lines that stand in the output."""
        self.lost = 0
        self.clipped = 0
        self.opened = False
        self.busy = False
        self.stopping = False

    @property
    def known(self) -> bool:
        """Whether everybody who was counted before is counted still."""
        return self._again is None or self._again.known

    def interrupt(self) -> None:
        """Stop now, or, while steps are charged and not printed yet, as soon as they are."""
        self.stopping = True
        if not self.busy:
            raise KeyboardInterrupt

    @contextlib.contextmanager
    def _whole(self) -> Iterator[None]:
        """What is begun here is finished before an interruption is heard."""
        self.busy = True
        try:
            yield
        finally:
            self.busy = False
        if self.stopping:
            raise KeyboardInterrupt

    @property
    def noise(self) -> Noise:
        return SecureNoise() if self.seed is None else SeededNoise(self.seed, "release")

    def run(self) -> int:
        """Release everything there is; returns the number of steps."""
        check_real_time(self.columns)
        self.check_places()
        source = self._noise = self.noise
        with contextlib.ExitStack() as stack:
            opened = False
            for group in self.feed.steps():
                if not opened and group:
                    self._check_first(group)
                    stack.callback(self._output.close)
                    with self._whole():
                        self._open(stack, source)
                    opened = True
                self._take(group)
            if not opened:
                raise InputError("the input has no rows", path="in", allowed="a header and at least one row")
            self._finish()
        return self._step

    def _check_first(self, group: list[Step]) -> None:
        """Refuse what a new stream begins with before it is charged and written."""
        if self.ledger is None or not self.ledger.exists():
            with contextlib.suppress(HorizonError):  # the steps that fit are released first
                self.columns.check(self._states, self._guarded(_values(group)))

    def check_places(self) -> None:
        there = self.out is not None and self.out.exists()
        if there and (self.ledger is None or not self.ledger.exists()):
            raise LedgerError(
                "the output exists, but its ledger does not",
                path=str(self.out),
                given=str(self.ledger) if self.ledger is not None else "no ledger",
                fix="name the ledger it was written with, or another output; a new ledger would release steps again",
            )

    def _open(self, stack: contextlib.ExitStack, source: Noise) -> None:
        """Charge the stream (once in its life), replay what is stored, and repair the output."""
        written = self._output.resume()
        if self.ledger is not None:
            ledger = stack.enter_context(self._ledger(self.ledger))
            self.hook("ledger")
            facts = {**self.facts, "header": self.feed.header}
            self._journal = Journal(self.columns, ledger, noise=source if self.seed is not None else None, facts=facts)
            stack.callback(self._journal.close)
            self._states = self._journal.states
            if self._journal.step and self.feed.people is not None and not self.feed.lines.can_be_read_again():
                raise InputError(
                    "people's rows must be read again from their beginning to go on",
                    path="in",
                    allowed="a file",
                    fix="the counters of people are never stored; a pipe cannot be read again",
                )
            if self._journal.step and self._again is not None:
                self._again.check()
        self._old = self._stored_rows()
        self.lines = len(written)
        self.lost = _lost(self._old, [place for place in self._shown_places() if self._shown(place) < self.lines])
        if len(written) > self._step:
            raise LedgerError(
                "the output has more lines than the ledger has steps",
                path=str(self.out),
                given=len(written),
                allowed=f"at most {self._step}",
                fix="name the ledger this output was written with",
            )
        self.opened = True
        self.announce()
        self._output.open()
        self.hook("output")

    def _ledger(self, path: Path) -> Ledger:
        """The ledger that is there, or a new one with exactly this stream's budget."""
        simulated = self.seed is not None
        if path.exists():
            return Ledger.open(path, simulated=simulated)
        unit = self.columns.guarantee().unit
        return Ledger.create(path, limit=exact_limit(self.columns), simulated=simulated, unit=unit)

    def _stored_rows(self) -> list[Track]:
        if self._journal is None or not self._journal.tracks:
            return []
        return [join_tracks(list(parts)) for parts in zip(*self._journal.tracks, strict=True)]

    @property
    def _step(self) -> int:
        return int(self._states[0]["counts"][TIME])

    def _take(self, group: list[Step]) -> None:
        """Match what was released before, release the rest."""
        known = [step for step in group if step.number < self._known]
        fresh = [step for step in group if step.number >= self._known]
        self._labels += [step.label for step in known]
        if known and len(self._labels) == self._known:
            self._repair()
        size = min(self.batch, self._journal.most if self._journal is not None else MOST)
        for first in range(0, len(fresh), size):
            self._release(fresh[first : first + size])

    @property
    def _known(self) -> int:
        """Steps that were stored before this run."""
        return len(self._old[0].step) if self._old else 0

    def _shown_places(self) -> list[int]:
        """Places of stored steps that show a step (a lag begins with some that show none)."""
        return [place for place in range(self._known) if self._shown(place) >= 0]

    def _shown(self, place: int) -> int:
        return int(self._old[0].step[place])

    def _repair(self) -> None:
        """All rows of before were read: check the lines that are there, print those that are not."""
        places = self._shown_places()
        lines = [self._line(self._old, place) for place in places]
        exact = self.columns.behind == 0  # a lag may have been flushed at the end of an earlier input
        self._output.check(lines if exact else [], [self._labels[place] for place in range(len(places))])
        self._print(self._old)

    def _line(self, tracks: list[Track], place: int) -> str:
        return self.layout.line(self._labels[int(tracks[0].step[place])], tracks, place)

    def _print(self, tracks: list[Track]) -> None:
        """Print the steps that tracks are about, unless they are printed (a lag begins with none)."""
        steps = tracks[0].step.tolist()
        fresh = [place for place, step in enumerate(steps) if step >= self.lines]
        self._output.write([self._line(tracks, place) for place in fresh])
        self.lines += len(fresh)
        self.lost += _lost(tracks, fresh)

    def _release(self, chunk: list[Step]) -> None:
        raw = _values(chunk)
        values = self._guarded(raw)
        self._labels += [step.label for step in chunk]
        room = self._room(values)
        if room:
            with self._whole():
                self._store(raw[:room])
        if room < len(chunk):
            self.columns.check(self._states, values[room:])  # raises: the horizon is used up, or a value is refused

    def _room(self, values: Floats) -> int:
        """How many of these steps can be released: the horizon may end, and a later value may be refused."""
        for rows in range(len(values), 0, -1):
            with contextlib.suppress(HorizonError, InputError):
                self.columns.check(self._states, values[:rows])
                return rows
        return 0

    def _guarded(self, values: Floats) -> Floats:
        return values if self.guard is None else np.clip(values, *self.guard)

    def _store(self, raw: Floats) -> None:
        for one, column in zip(self.columns.releasers, raw.T, strict=True):
            low, high = self.guard or one.range or (-np.inf, np.inf)
            self.clipped += int(((column < low) | (column > high)).sum())
        values = self._guarded(raw)
        self.hook("before")
        if self._again is not None:
            self._again.keep()
        if self._journal is not None:
            tracks = self._journal.release(values)
        else:
            tracks = self.columns.advance(self._states, values, self._noise)
        self.hook("stored")
        self._print(tracks)
        self.hook("printed")

    def _finish(self) -> None:
        """The input has ended: print what a lag still holds."""
        if len(self._labels) < self._known:
            raise InputError(
                "the input is shorter than what was released from it",
                path="in",
                allowed=f"at least {self._known} steps",
                fix="give the same input again, longer or as it was",
            )
        late = [one.finish(state) for one, state in zip(self.columns.releasers, self._states, strict=True)]
        for rows in zip(*late, strict=True):
            self._print([single_track(row) for row in rows])


def _values(steps: list[Step]) -> Floats:
    return np.array([step.values for step in steps], np.float64)


def _lost(tracks: list[Track], places: list[int]) -> int:
    """How many of these steps were charged and never stored."""
    return sum(any(track.status[place] == LOST for track in tracks) for place in places)
