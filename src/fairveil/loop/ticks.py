"""What a store does by the clock: loops with something due, then a few whose ledger was not looked at since the start.

Every loop's row says when it needs its next tick (`fairveil.loop.settle.rest`), in an index: loops with nothing to do
cost nothing, whoever wrote to them last.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection
from time import monotonic
from typing import TYPE_CHECKING

from fairveil.loop import trail
from fairveil.loop.clock import SECOND, SLACK
from fairveil.loop.storage import noted

if TYPE_CHECKING:
    from fairveil.loop.store import Store

AT_LEAST, BACKGROUND = 50, 0.1
"""Loops that a tick looks at for the first time since the start: so many, and more for so many seconds."""
REST = 30.0
"""Seconds for which a loop that nobody uses stays in memory at least."""


class Ticks:
    """The ticks of one store in one process."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._unseen: deque[str] | None = None
        self._noted = False
        self.confirmed: str | None = None
        """Which confirmation of the clock was the last (`fairveil.loop.upkeep.believe_clock`)."""

    @property
    def unchecked(self) -> int:
        """Loops whose ledger was not looked at since the start."""
        return len(self._unseen or ())

    def run(self, only: Collection[str] | None) -> int:
        """One tick, of all loops or of some; gives the number of releases.

        A loop whose tick fails does not keep the others from theirs; the first error is raised at the end.
        """
        made, failed = 0, list[Exception]()
        self._look_at_clock()
        for name in self.due() if only is None else only:
            try:
                made += self._store.loop(name).tick()
            except Exception as problem:  # whatever it is, the other loops need their tick
                failed.append(problem)
        if only is None:
            failed += self._look_on()
            self._store.memory.rest(REST)
        if failed:
            raise failed[0]
        return made

    def due(self) -> list[str]:
        """Names of loops with something to do now."""
        with self._store.reading() as tx:
            rows = tx.execute("SELECT name FROM loops WHERE due <= ? ORDER BY due", (self._store.clock.now(),))
        return [name for (name,) in rows]

    def next(self) -> float:
        """Seconds until the next loop has something to do."""
        now = self._store.clock.now()
        with self._store.reading() as tx:
            [(due,)] = tx.execute("SELECT min(due) FROM loops WHERE due > ?", (now,))
        return float("inf") if due is None else (due - now) / SECOND

    def _look_on(self) -> list[Exception]:
        """Compare a few more ledgers with the store; loops that nobody uses leave memory again at once."""
        store, failed = self._store, list[Exception]()
        if self._unseen is None:
            self._unseen = deque(store.names())
        began = monotonic()
        for done in range(len(self._unseen)):
            if done >= AT_LEAST and monotonic() - began > BACKGROUND:
                break
            name = self._unseen.popleft()
            if name in store.memory.checked:
                continue
            fresh = store.memory.known(name) is None
            try:
                store.loop(name).verify()
            except Exception as problem:  # of whatever kind: the others need their look
                failed.append(problem)
                self._unseen.append(name)
            if fresh:
                store.memory.leave(name)
        return failed

    def _look_at_clock(self) -> None:
        """Note at a start by how much time has passed unseen; while the clock is in doubt, ask for a confirmation."""
        store, clock = self._store, self._store.clock
        if not self._noted:
            self._noted = True
            if clock.gap > SLACK:
                facts = {"seconds": clock.gap // SECOND, "believed": clock.doubt != "gap"}
                with store.writing() as tx:
                    trail.note(tx, clock.now(), "fairveil", "clock-gap", "store", facts)
        if clock.doubt is not None:
            with store.reading() as tx:
                confirmed = noted(tx, "clock")
            if confirmed != self.confirmed:
                self.confirmed = confirmed
                clock.confirm()
