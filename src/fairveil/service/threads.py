"""A few threads for work that may wait for a database: made when they are needed, and never in the way of an exit."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable
from queue import SimpleQueue

from fairveil.loop.problems import Overloaded

Work = Callable[[], None]


class Threads:
    """At most so many threads, and no more than had something to do at once: each keeps memory of its own for as long
    as it lives. What is submitted must take care of its own errors."""

    def __init__(self, name: str, most: int) -> None:
        self.name, self.most = name, most
        self._queue: SimpleQueue[Work | None] = SimpleQueue()
        self._threads: list[threading.Thread] = []
        self._undone = 0
        self._counting = threading.Lock()

    def submit(self, work: Work) -> None:
        """Where the system gives no further thread those that are there do it; without any, nobody would."""
        with self._counting:
            if len(self._threads) < min(self._undone + 1, self.most):
                thread = threading.Thread(target=self._run, name=f"{self.name}-{len(self._threads)}", daemon=True)
                try:
                    thread.start()
                except RuntimeError:
                    if not self._threads:
                        raise Overloaded("the system gives no thread", fix="repeat in a moment") from None
                else:
                    self._threads.append(thread)
            self._undone += 1
        self._queue.put(work)

    def stop(self, seconds: float) -> None:
        """Finish what was submitted, for so long; what hangs then ends with the process."""
        deadline = time.monotonic() + seconds
        for _ in self._threads:
            self._queue.put(None)
        for thread in self._threads:
            thread.join(max(deadline - time.monotonic(), 0.0))

    def _run(self) -> None:
        while (work := self._queue.get()) is not None:
            with contextlib.suppress(Exception):
                work()
            with self._counting:
                self._undone -= 1
