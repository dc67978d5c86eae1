"""The loops of a store in one process: which are in memory, and which need a tick.

Those that were used lately are in memory; the others are read again when they are asked for. Of a loop that left two
things stay: that its ledger was compared with the store since the start, and the last entry of that ledger that was
checked; it is opened again from there. While somebody still holds a loop, it is the one that is found: there are never
two of a name.

Every loop's row says when it needs its next tick (`fairveil.loop.settle.rest`), in an index: loops with nothing to do
cost nothing, whoever wrote to them last. A tick then looks at a few whose ledger was not looked at since the start.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Collection
from time import monotonic
from typing import TYPE_CHECKING
from weakref import WeakValueDictionary

from fairveil.loop import trail
from fairveil.loop.clock import SECOND, SLACK
from fairveil.loop.storage import noted

if TYPE_CHECKING:
    from fairveil.ledger import Ledger
    from fairveil.ledger.chain import State
    from fairveil.loop.loop import Loop
    from fairveil.loop.store import Store

MOST = 1000
"""Loops beyond which those that nobody uses leave memory at once."""
AT_LEAST, BACKGROUND = 50, 0.1
"""Loops that a tick looks at for the first time since the start: so many, and more for so many seconds."""
REST = 30.0
"""Seconds for which a loop that nobody uses stays in memory at least."""


class LoopMemory:
    """Loops and ledgers of one store. Who changes ledgers or entries holds ``guard``; `known` and `loops` need none."""

    def __init__(self) -> None:
        self.guard = threading.RLock()
        self._loops: dict[str, Loop] = {}
        self._left: WeakValueDictionary[str, Loop] = WeakValueDictionary()
        self.ledgers: WeakValueDictionary[str, Ledger] = WeakValueDictionary()
        self._rested = monotonic()
        self.entries: dict[str, State] = {}
        """What was checked last of ledgers that are closed."""
        self.checked: set[str] = set()
        """Names of loops whose ledger was compared with the store since the start."""

    def known(self, name: str) -> Loop | None:
        """A loop that is here; asks nobody."""
        found = self._loops.get(name)
        if found is not None:
            found.used = True
        return found

    def find(self, name: str, load: Callable[[str], Loop]) -> Loop:
        """A loop that is here, or that left and somebody still holds; any other is loaded."""
        with self.guard:
            return self.keep(self._loops.get(name) or self._left.get(name) or load(name))

    def keep(self, loop: Loop) -> Loop:
        loop.used = True
        self._loops[loop.name] = loop
        return loop

    def loops(self) -> list[Loop]:
        """Loops that were used lately."""
        return list(self._loops.values())

    def leave(self, name: str) -> None:
        """Let one go, unless something of it is under way; who asks for it again gets it."""
        with self.guard:
            loop = self._loops.get(name)
            if loop is None or not loop.idle:
                return
            ledger = self.ledgers.get(loop.ledger_name)
            if ledger is not None:
                self.entries[loop.ledger_name] = ledger.known
            self._left[name] = self._loops.pop(name)

    def rest(self, after: float = 0.0) -> None:
        """Let go of all that were not used since the last time, where that is so long ago or there are too many."""
        if monotonic() - self._rested < after and len(self._loops) <= MOST:
            return
        self._rested = monotonic()
        with self.guard:
            for name, loop in list(self._loops.items()):
                if not loop.used:
                    self.leave(name)
                loop.used = False

    def close(self) -> None:
        for loop in [*self._loops.values(), *self._left.values()]:
            if loop.pages is not None:
                loop.pages.close()
        for ledger in list(self.ledgers.values()):
            ledger.close()
        self._loops.clear()
        self.ledgers.clear()


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
        rows = self._store.read("SELECT name FROM loops WHERE due <= ? ORDER BY due", (self._store.clock.now(),))
        return [name for (name,) in rows]

    def next(self) -> float:
        """Seconds until the next loop has something to do."""
        now = self._store.clock.now()
        [(due,)] = self._store.read("SELECT min(due) FROM loops WHERE due > ?", (now,))
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
