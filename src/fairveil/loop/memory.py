"""Which loops a process has in memory: those that were used lately. The others are read again when they are asked for.

Of a loop that left two things stay: that its ledger was compared with the store since the start, and the last entry of
that ledger that was checked; it is opened again from there. While somebody still holds a loop, it is the one that is
found: there are never two of a name.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from time import monotonic
from typing import TYPE_CHECKING
from weakref import WeakValueDictionary

if TYPE_CHECKING:
    from fairveil.ledger import Ledger
    from fairveil.ledger.chain import State
    from fairveil.loop.loop import Loop


MOST = 1000
"""Loops beyond which those that nobody uses leave memory at once."""


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
