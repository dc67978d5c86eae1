"""Between the event loop of the server and the writers of the loops: queues in, futures out, a limit on every wait."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable, Sequence
from functools import partial

from fairveil.loop.loop import Loop
from fairveil.loop.problems import StorageFailed
from fairveil.loop.writer import Item, Writer
from fairveil.service.threads import Threads
from fairveil.service.watch import Watch, no_answer
from fairveil.storage.patience import at_most

MOST = 8
"""Threads that write, whatever many loops there are."""


class Pumps:
    """The writing threads of a process: at most one of them is at a loop, and every loop has its turn."""

    def __init__(self, watch: Watch, deadline: float) -> None:
        self.watch, self.deadline = watch, deadline
        self.patience = 2 * deadline
        """Seconds that a writer waits for one answer of the database: longer than anybody waits for it."""
        self.threads = Threads("writer", MOST)
        self.batches = 0
        self.timed: Callable[[float], None] = lambda seconds: None
        """Told how long each batch took, from the lock to the commit."""
        self._server: asyncio.AbstractEventLoop | None = None
        self._queued: set[Writer] = set()
        self._closed = False

    async def run(self, loop: Loop, items: Sequence[Item]) -> None:
        """Return when the last item is done. After the deadline: 503, and the items are done all the same."""
        self.watch.check()
        if self._closed:
            raise StorageFailed("the service is stopping", path="service", fix="repeat in a moment")
        server = self._server
        if server is None:
            server = self._server = asyncio.get_running_loop()
        writer = loop.writer
        writer.finished = self.finished
        future = items[-1].future = server.create_future()
        writer.put(items)
        self._queue(writer)
        late = server.call_later(self.deadline, self._give_up, future)
        try:
            await future
        finally:
            late.cancel()

    def _queue(self, writer: Writer) -> None:
        if writer not in self._queued:
            self._queued.add(writer)
            self.threads.submit(partial(self._drain, writer))

    def _drain(self, writer: Writer) -> None:
        """One batch, then back to the end of the queue if more waits."""
        began = time.perf_counter()
        try:
            with at_most(self.patience), contextlib.suppress(Exception):  # errors stay with their items
                writer.drain()
        finally:
            self.timed(time.perf_counter() - began)
            self._queued.discard(writer)
            if writer.waiting:
                self._queue(writer)

    def _give_up(self, future: asyncio.Future[None]) -> None:
        self.watch.missed()
        if not future.done():
            future.set_exception(no_answer(self.deadline))

    def finished(self, items: Sequence[Item]) -> None:
        """Called in whatever thread has written a batch."""
        self.batches += 1
        futures = [item.future for item in items if item.future is not None]
        if futures and self._server is not None:
            self._server.call_soon_threadsafe(_resolve, futures)

    def stop(self, seconds: float = 1.0) -> None:
        """Finish what waits."""
        self._closed = True
        deadline = time.monotonic() + seconds
        while self.waiting() and time.monotonic() < deadline:
            time.sleep(0.005)
        self.threads.stop(max(deadline - time.monotonic(), 0.05))

    def waiting(self) -> int:
        return sum(len(writer.waiting) for writer in self._queued.copy())


def _resolve(futures: Sequence[asyncio.Future[None]]) -> None:
    for future in futures:
        if not future.done():
            future.set_result(None)
