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
from typing import Any, NamedTuple

import numpy as np

from fairveil.configuration import describe
from fairveil.errors import LedgerError, PrivacyError
from fairveil.privacy.ledger import Ledger
from fairveil.privacy.noise import Noise
from fairveil.state import copy_state
from fairveil.streams.protocol import LOST, MISSING, TIME, Floats, Ints, Releaser, State, Track

MOST = 256
"""Steps that may share a commit."""
_BLOCK = re.compile(r"/steps/(\d+)-(\d+)(?::([0-9a-f]+))?$")
_START = re.compile(r"/starts/(\d+)$")


class Stored(NamedTuple):
    """Steps that are in the ledger, in their order."""

    first: int
    units: Ints
    status: Ints


class Journal:
    """The durable side of one stream: `release` draws and stores, `stored` reads back."""

    def __init__(
        self,
        releaser: Releaser,
        ledger: Ledger,
        *,
        account: str = "stream",
        noise: Noise | None = None,
        facts: dict[str, Any] | None = None,
    ) -> None:
        self.releaser, self.ledger, self.account, self.noise = releaser, ledger, account, noise
        _check(releaser)
        self._lock = _hold(ledger, account)
        try:
            ledger.spend(account, releaser.event(), releases=None)
            self._check_keys(facts or {})
            self.blocks = list(self._read())
            self.state, self.tracks = self._replayed()
        except BaseException:
            self.close()
            raise
        self._broken = False

    def _check_keys(self, facts: dict[str, Any]) -> None:
        """The public keys are stored with the stream; another set of them is another stream."""
        keys = json.dumps({"releaser": describe(self.releaser), **facts}, sort_keys=True)
        stored = self.ledger.release(f"{self.account}/keys", lambda _: keys, account=self.account, noise=self.noise)
        if stored != keys:
            was, now = json.loads(stored), json.loads(keys)
            other = sorted(key for key in {*_flat(was), *_flat(now)} if _flat(was).get(key) != _flat(now).get(key))
            raise LedgerError(
                "this stream was begun with other options",
                path=other[0] if other else "account",
                given=other,
                allowed="the options it was begun with",
                fix="give the same options, or begin another stream with another ledger and output",
            )

    def _read(self) -> Iterator[Stored]:
        """Everything stored, in order; a step between two blocks cannot be missing from them."""
        found: dict[int, Stored] = {}
        self.starts: list[int] = []
        settled: dict[str, str] = {}
        for entry in self.ledger.entries():
            if str(entry["name"]).startswith(f"{self.account}/"):
                settled[str(entry["name"])] = str(entry["kind"])
        for name, kind in settled.items():
            if _START.search(name):
                self.starts.append(int(self.ledger.value(name)) if kind == "publish" else -1)
            if (match := _BLOCK.search(name)) is None:
                continue
            first, last = int(match[1]), int(match[2])
            status = np.full(last - first + 1, LOST)
            bits = int(match[3] or "0", 16)
            status[[bool(bits >> place & 1) for place in range(len(status))]] = MISSING
            units = np.zeros(len(status), np.int64)
            if kind == "publish":
                units, status = np.asarray(self.ledger.value(name), np.int64)
            found[first] = Stored(first, units, status)
        place = 0
        for first in sorted(found):
            if first != place:
                raise LedgerError("the stored steps do not follow each other", path=self.account, given=first)
            place = first + len(found[first].units)
            yield found[first]

    def _replayed(self) -> tuple[State, list[Track]]:
        """The state after all stored steps, and what was shown for them."""
        state, tracks = self.releaser.start(), []
        for block in self.blocks:
            for _ in range(self.starts.count(block.first)):
                self.releaser.begin(state)  # type: ignore[attr-defined]
            tracks.append(self.releaser.replay(state, block.units, block.status))
        unused = len(self.starts) - sum(self.starts.count(block.first) for block in self.blocks)
        if unused and getattr(self.releaser, "has_starts", False):
            state["counts"][4] += unused  # starts whose first block never came
        state["raw"] = self.releaser.start()["raw"]
        return state, tracks

    @property
    def step(self) -> int:
        """Steps that are stored."""
        return int(self.state["counts"][TIME])

    def release(self, values: Floats) -> Track:
        """Draw and store the next steps, then show them. At most `MOST` at once."""
        if self._broken:
            raise LedgerError("this stream stopped at an error", path=self.account, fix="open it again")
        if not 0 < len(values) <= MOST:
            raise LedgerError("too many steps at once", path=self.account, given=len(values), allowed=f"1 to {MOST}")
        trial = copy_state(self.state)
        self.releaser.check(trial, values)  # what can be refused is refused before anything is reserved
        self._broken = True
        self._take_start(values)
        made: list[Track] = []

        def draw(noise: Noise) -> Any:
            made.append(self.releaser.advance(trial, values, noise))
            return np.stack([made[0].units, made[0].drawn])

        self.ledger.release(self._name(values), draw, account=self.account, noise=self.noise)
        if not made:
            raise LedgerError("another process took these steps", path=self.account, fix="let it go on alone")
        self.state.update(trial)
        self._broken = False
        return made[0]

    def _name(self, values: Floats) -> str:
        first = self.step
        missing = sum(1 << place for place, value in enumerate(values.tolist()) if value != value)
        return f"{self.account}/steps/{first}-{first + len(values) - 1}" + (f":{missing:x}" if missing else "")

    def _take_start(self, values: Floats) -> None:
        """Where every start of the process has to be counted, count this one before it draws."""
        begins = getattr(self.releaser, "has_starts", False) and self.state["raw"][1] == 0
        if begins and not np.isnan(values).all():
            name, step = f"{self.account}/starts/{len(self.starts)}", self.step
            self.ledger.release(name, lambda _: step, account=self.account, noise=self.noise)
            self.starts.append(step)

    def close(self) -> None:
        """Let the next process in."""
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None


def _check(releaser: Releaser) -> None:
    if not releaser.guarantee().established:
        raise PrivacyError(
            "a ledger releases nothing without an established guarantee",
            path="releaser",
            given=releaser.name,
            fix="use a sound variant",
        )
    if not releaser.real_time:
        raise PrivacyError(
            "this releaser holds raw data between its releases, which no ledger keeps",
            path="releaser",
            given=releaser.name,
            fix="use a releaser that answers at every step",
        )


def _flat(table: dict[str, Any], path: str = "") -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in table.items():
        inner = _flat(value, f"{path}{key}.") if isinstance(value, dict) else {f"{path}{key}": value}
        found |= inner
    return found


def _hold(ledger: Ledger, account: str) -> int | None:
    """Keep every other process away from this stream until this one ends."""
    path = getattr(ledger.place, "path", None)
    if path is None:
        raise LedgerError("a stream needs a ledger file", path=str(ledger.place), allowed="a file")
    descriptor = os.open(f"{path}.{account}.stream", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        with contextlib.suppress(OSError):
            os.close(descriptor)
        raise LedgerError(
            "another process is releasing this stream",
            path=str(path),
            given=account,
            fix="wait until it has ended; one stream has one process",
        ) from None
    return descriptor
