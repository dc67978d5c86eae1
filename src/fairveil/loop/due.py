"""Loops with a block that may be due: a word from the writers to whoever ticks."""

from __future__ import annotations

import threading


class Due:
    """Names of loops, waited for.

    >>> due = Due()
    >>> due.add("trial"); due.wait(0.0), due.wait(0.0)
    (frozenset({'trial'}), frozenset())
    """

    def __init__(self) -> None:
        self._names: set[str] = set()
        self._changed = threading.Condition()

    def add(self, *names: str) -> None:
        """Say that these loops need a tick; with no name whoever waits wakes up all the same."""
        with self._changed:
            self._names.update(names)
            self._changed.notify_all()

    def wait(self, seconds: float) -> frozenset[str]:
        """Take what was said, waiting for it at most so long."""
        with self._changed:
            if not self._names:
                self._changed.wait(seconds)
            found, self._names = frozenset(self._names), set()
            return found
