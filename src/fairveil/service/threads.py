"""A few threads for work that may wait for a database: made when they are needed, and never in the way of an exit."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable
from queue import Empty, SimpleQueue

Work = Callable[[], None]


class Threads:
    """At most so many threads. What is submitted must take care of its own errors."""

    def __init__(self, name: str, most: int) -> None:
        self.name, self.most = name, most
        self._queue: SimpleQueue[Work | None] = SimpleQueue()
        self._idle = threading.Semaphore(0)
        self._threads: list[threading.Thread] = []
        self._growing = threading.Lock()

    def submit(self, work: Work) -> None:
        self._queue.put(work)
        if self._idle.acquire(blocking=False) or len(self._threads) >= self.most:
            return
        with self._growing:
            if len(self._threads) < self.most:
                thread = threading.Thread(target=self._run, name=f"{self.name}-{len(self._threads)}", daemon=True)
                self._threads.append(thread)
                thread.start()

    def stop(self, seconds: float) -> None:
        """Finish what was submitted, for so long; what hangs then ends with the process."""
        deadline = time.monotonic() + seconds
        for _ in self._threads:
            self._queue.put(None)
        for thread in self._threads:
            thread.join(max(deadline - time.monotonic(), 0.0))

    def _run(self) -> None:
        while True:
            try:
                work = self._queue.get_nowait()
            except Empty:
                self._idle.release()
                work = self._queue.get()
            if work is None:
                return
            with contextlib.suppress(Exception):
                work()
