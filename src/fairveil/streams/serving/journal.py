"""A stream on disk: charged before the first release, every plain release stored before it is shown, never redrawn.

The whole stream is one account of a ledger. Steps that wait together are one block, named by its first and last step;
what is stored is the plain release on the integer grid. Opened again, a stream shows the stored releases to its filter
(post-processing) and goes on; steps that were reserved and never stored are ``lost``: they count as used, the filter
shows a forecast, and they are never drawn again. A lock beside the ledger keeps a second process out.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import re
from collections.abc import Iterator
from typing import Any, NamedTuple, NoReturn

import numpy as np

from fairveil.arrays import Floats, Ints
from fairveil.errors import LedgerError, PrivacyError
from fairveil.ledger import Account, Ledger, RunCost, release_once
from fairveil.ledger.account import adopt, adopted, stop
from fairveil.ledger.sqlite import SqlitePlace
from fairveil.privacy.noise import Noise
from fairveil.state import copy_state
from fairveil.streams.columns import Columns
from fairveil.streams.protocol import LOST, MISSING, STARTS, TIME, State, Track
from fairveil.streams.releasers.plain_release import STARTED

MOST = 256
"""Values that may share a commit."""
BLOCK = re.compile(r"/steps/(\d+)-(\d+)(?::([0-9a-f]+))?$")
KEYS = re.compile(r"/keys(-\d+)?")
START = re.compile(r"/starts/(\d+)$")


class Stored(NamedTuple):
    """Steps that are in the ledger, one row a column."""

    first: int
    units: Ints
    status: Ints


class Journal:
    """The durable side of one stream: `release` draws and stores; ``states`` and ``tracks`` are what was stored."""

    def __init__(
        self,
        columns: Columns,
        ledger: Ledger,
        *,
        account: str = "stream",
        noise: Noise | None = None,
        facts: dict[str, Any] | None = None,
    ) -> None:
        self.columns, self.ledger, self.account, self.noise = columns, ledger, account, noise
        self.payer = Account(ledger, account, RunCost(columns.event()))
        check_real_time(columns)
        self._lock = _hold(ledger, account)
        try:
            keys = json.dumps({**columns.describe(), **(facts or {})}, sort_keys=True)
            self._compare(self._known_keys(), keys)  # other options are refused by their names, before any charge
            self._compare(self._stored_keys(keys), keys)
            self.starts: list[int] = []
            self.blocks = list(self._read())
            self.states, self.tracks = self._replayed()
        except BaseException:
            self.close()
            raise
        self._broken = False

    @property
    def most(self) -> int:
        """Steps that may share a commit."""
        return max(1, MOST // len(self.columns.names))

    def _compare(self, stored: str | None, keys: str) -> None:
        """The public keys are stored with the stream; another set of them is another stream."""
        if stored is None or stored == keys:
            return
        was, now = _flat(json.loads(stored)), _flat(json.loads(keys))
        other = sorted(key for key in {*was, *now} if was.get(key) != now.get(key))
        if not other:
            return  # an option that a newer version has, and that is not used
        raise LedgerError(
            "this stream was begun with other options",
            path=other[0],
            allowed=", ".join(f"{key.split('.')[-1]} = {was.get(key)}, not {now.get(key)}" for key in other),
            fix="give the same options, or begin another stream with another ledger and output",
        )

    def _known_keys(self) -> str | None:
        """The keys of a stream that was begun, None of a new one."""
        for entry in self.ledger.entries():
            if entry["kind"] == "publish" and KEYS.fullmatch(str(entry["name"]).removeprefix(self.account)):
                return str(self.ledger.value(str(entry["name"])))
        return None

    def _stored_keys(self, keys: str) -> str:
        """What was stored when the stream began; a process that died just then has lost a public note, no release."""
        stored, attempt = None, 0
        while stored is None:
            name = self.payer.block(f"keys-{attempt}" if attempt else "keys")
            found = release_once(self.payer, name, lambda _: keys, self.noise)
            stored, attempt = found.answer(drawn=adopt, stored=adopt, lost=lambda _: None), attempt + 1
        return str(stored)

    def _read(self) -> Iterator[Stored]:
        """Everything stored, in order."""
        settled: dict[str, str] = {}
        for entry in self.ledger.entries():
            if str(entry["name"]).startswith(f"{self.account}/"):
                settled[str(entry["name"])] = str(entry["kind"])
        found: dict[int, Stored] = {}
        for name, kind in settled.items():
            if START.search(name):
                self.starts.append(int(self.ledger.value(name)) if kind == "publish" else -1)
            elif (match := BLOCK.search(name)) is not None:
                found[int(match[1])] = self._block(name, kind, match)
        place = 0
        for first in sorted(found):
            if first != place:
                raise LedgerError("the stored steps do not follow each other", path=self.account, given=first)
            place = first + found[first].units.shape[1]
            yield found[first]

    def _block(self, name: str, kind: str, match: re.Match[str]) -> Stored:
        first, count = int(match[1]), int(match[2]) - int(match[1]) + 1
        if kind == "publish":
            units, status = np.asarray(self.ledger.value(name), np.int64)
            return Stored(first, units, status)
        size = len(self.columns.names)
        bits = int(match[3] or "0", 16)
        missing = np.array([bool(bits >> place & 1) for place in range(count * size)]).reshape(count, size).T
        return Stored(first, np.zeros((size, count), np.int64), np.where(missing, MISSING, LOST))

    def _replayed(self) -> tuple[list[State], list[list[Track]]]:
        """The states after all stored steps, and what was shown for them."""
        states, tracks = self.columns.start(), []
        for block in self.blocks:
            for _ in range(self.starts.count(block.first)):
                self.columns.begin(states)
            tracks.append(self.columns.replay(states, block.units, block.status))
        for state, fresh in zip(states, self.columns.start(), strict=True):
            state["raw"] = fresh["raw"]  # raw data were never stored
            state["counts"][STARTS] = len(self.starts)
        return states, tracks

    @property
    def step(self) -> int:
        """Steps that are stored."""
        return int(self.states[0]["counts"][TIME])

    def release(self, values: Floats) -> list[Track]:
        """Draw and store the next steps (rows; one column each), then show them."""
        if self._broken:
            raise LedgerError("this stream stopped at an error", path=self.account, fix="open it again")
        if not 0 < len(values) <= self.most:
            raise LedgerError("too many steps at once", path=self.account, given=len(values), allowed=f"to {self.most}")
        trial = [copy_state(state) for state in self.states]
        self.columns.check(trial, values)  # what can be refused is refused before anything is reserved
        self._broken = True
        self._take_start(values)
        made: list[list[Track]] = []

        def draw(noise: Noise) -> Any:
            made.append(self.columns.advance(trial, values, noise))
            return np.stack([np.stack([t.units for t in made[0]]), np.stack([t.drawn for t in made[0]])])

        release_once(self.payer, self._name(values), draw, self.noise).answer(drawn=adopt, stored=_taken, lost=stop)
        for state, after in zip(self.states, trial, strict=True):
            state.update(after)
        self._broken = False
        return made[0]

    def _name(self, values: Floats) -> str:
        first = self.step
        missing = sum(1 << place for place, value in enumerate(values.ravel().tolist()) if value != value)
        return f"{self.account}/steps/{first}-{first + len(values) - 1}" + (f":{missing:x}" if missing else "")

    def _take_start(self, values: Floats) -> None:
        """Where every start of the process has to be counted, count this one before it draws."""
        begins = self.columns.has_starts and all(state["raw"][STARTED] == 0 for state in self.states)
        if begins and not np.isnan(values).all():
            name, step = f"{self.account}/starts/{len(self.starts)}", self.step
            adopted(release_once(self.payer, name, lambda _: step, self.noise))
            self.starts.append(step)

    def close(self) -> None:
        """Let the next process in."""
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None


def _taken(value: Any) -> NoReturn:
    """Steps that this process did not draw: whose they are is not known here."""
    raise LedgerError("another process took these steps", path="stream", fix="let it go on alone")


def check_real_time(columns: Columns) -> None:
    """Refuse releasers that hold raw data between their releases."""
    for one in columns.releasers:
        if not one.real_time:
            raise PrivacyError(
                "this releaser holds raw data between its releases, which no ledger keeps",
                path="releaser",
                given=one.name,
                fix="use a releaser that answers at every step",
            )


def _flat(table: Any, path: str = "") -> dict[str, Any]:
    if isinstance(table, list):
        table = {str(place): item for place, item in enumerate(table)}
    if not isinstance(table, dict):
        return {path.rstrip("."): table}
    found: dict[str, Any] = {}
    for key, value in table.items():
        found |= _flat(value, f"{path}{key}.")
    return found


def _hold(ledger: Ledger, account: str) -> int | None:
    """Keep every other process away from this stream until this one ends."""
    if not isinstance(ledger.place, SqlitePlace):
        raise LedgerError("a stream needs a ledger file", path=str(ledger.place), allowed="a file")
    descriptor = os.open(f"{ledger.place.path}.stream-{account}", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        with contextlib.suppress(OSError):
            os.close(descriptor)
        raise LedgerError(
            "another process is releasing this stream",
            path=str(ledger.place),
            given=account,
            fix="wait until it has ended; one stream has one process",
        ) from None
    return descriptor
