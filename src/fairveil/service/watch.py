"""What a process knows of its store without asking: is it there, can it be written, who has a token.

A thread of its own looks once a second. Requests read what it found and never wait for it. A store that hangs is
treated as one that is down: once a request has waited in vain, the next ones are refused at once until a look succeeds.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable
from typing import Any

from fairveil.errors import FairveilError
from fairveil.loop.problems import StorageFailed
from fairveil.storage.patience import at_most

EVERY, AGAIN = 1.0, 0.25
"""Seconds from one look to the next, and while the store does not answer."""
PATIENCE = 2.0
"""Seconds that a look waits for one answer."""
SILENT = 2.5
"""Seconds without a look that succeeded, after which a store that lets a request wait does not answer at all."""
STALE = 4.0
"""Seconds for which the last look is worth telling."""

Look = Callable[[], dict[str, Any]]


class Watch:
    """Looks at a store from beside the requests; a breaker that opens when nobody answers."""

    def __init__(self, look: Look, renew: Callable[[], None]) -> None:
        """``look``: a table with ``ready``, it raises where the store does not answer; ``renew``: reads the tokens."""
        self._look, self._renew = look, renew
        self._table: dict[str, Any] = {"ready": False, "store": "unknown"}
        self._seen = float("-inf")
        self._open = False
        self.doubtful = False
        """Somebody was told that the disk is full: the next look writes as much as they do."""
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    # For requests ----------------------------------------------------------------------------------------------------

    @property
    def running(self) -> bool:
        return self._thread is not None

    @property
    def table(self) -> dict[str, Any]:
        """What the last look found; where that is long ago, that nobody answers."""
        if time.monotonic() - self._seen <= STALE or not self.running:
            return self._table
        silent = "silent" if self._table["ready"] else self._table["store"]
        return {**self._table, "ready": False, "store": silent}

    def check(self) -> None:
        """Refuse at once while the store does not answer."""
        if self._open:
            raise no_answer()

    def missed(self) -> None:
        """A request waited in vain. Whether nobody answers, or one loop alone is busy, the looks tell."""
        if self.running and time.monotonic() - self._seen > SILENT:
            self._open = True

    # The thread ------------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """The first look is made here, so that whoever starts knows what it found."""
        self.once()
        self._thread = threading.Thread(target=self._run, name="watch", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._stop.set()
        if self._thread is not None:
            self._thread.join(0.2)

    def once(self) -> None:
        """One look, and one renewal of the tokens before it."""
        with at_most(PATIENCE):
            with contextlib.suppress(Exception):
                self._renew()
            began = time.monotonic()
            try:
                self._table = self._look()
            except Exception as problem:  # of whatever kind: the next look may succeed
                known = problem.kind if isinstance(problem, StorageFailed) else "storage"
                words = known if isinstance(problem, FairveilError) else type(problem).__name__
                self._table = {**self._table, "ready": False, "store": words}
            else:
                self._seen, self._open, self.doubtful = began, False, False

    def _run(self) -> None:
        while not self._stop.wait(EVERY if self._table["ready"] else AGAIN):
            self.once()


def no_answer(waited: float | None = None) -> StorageFailed:
    words = "the store does not answer"
    if waited is not None:
        words = f"no answer within {waited:g} s: the store is slow, or code is compiled for the first time"
    return StorageFailed(words, fix="repeat the same request with its id: what was begun is finished once")
