"""Between the event loop of the server and the writers of the loops: queues in, futures out, a limit on every wait."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Sequence

from fairveil.loop.loop import Loop
from fairveil.loop.problems import StorageFailed
from fairveil.loop.writer import Item
from fairveil.service.threads import Threads
from fairveil.service.watch import Watch, no_answer
from fairveil.storage.patience import at_most

MOST = 8
"""Threads that write, whatever many loops there are."""


class Pump:
    """One loop's place in the queue of the writing threads: at most one of them is at it."""

    def __init__(self, loop: Loop, pumps: Pumps) -> None:
        self.writer, self._pumps = loop.writer, pumps
        self.writer.finished = pumps.finished
        self._scheduled = False

    def put(self, items: Sequence[Item]) -> None:
        self.writer.put(items)
        if not self._scheduled:
            self._scheduled = True
            self._pumps.threads.submit(self._drain)

    def _drain(self) -> None:
        """One batch, then back to the end of the queue if more waits: every loop has its turn."""
        try:
            with at_most(self._pumps.patience), contextlib.suppress(Exception):  # errors stay with their items
                self.writer.drain()
        finally:
            self._scheduled = False
            if self.writer.waiting and not self._scheduled:
                self._scheduled = True
                self._pumps.threads.submit(self._drain)


class Pumps:
    """All pumps of a process."""

    def __init__(self, watch: Watch, deadline: float) -> None:
        self.watch, self.deadline = watch, deadline
        self.patience = 2 * deadline
        """Seconds that a writer waits for one answer of the database: longer than anybody waits for it."""
        self.threads = Threads("writer", MOST)
        self._server: asyncio.AbstractEventLoop | None = None
        self._pumps: dict[str, Pump] = {}
        self._closed = False

    async def run(self, loop: Loop, items: Sequence[Item]) -> None:
        """Return when the last item is done. After the deadline: 503, and the items are done all the same."""
        self.watch.check()
        pump = self._pumps.get(loop.name)
        if pump is None or pump.writer is not loop.writer:
            if self._closed:
                raise StorageFailed("the service is stopping", path="service", fix="repeat in a moment")
            self._server = asyncio.get_running_loop()
            pump = self._pumps[loop.name] = Pump(loop, self)
        server = self._server
        assert server is not None
        future = items[-1].future = server.create_future()
        pump.put(items)
        late = server.call_later(self.deadline, self._give_up, future)
        try:
            await future
        finally:
            late.cancel()

    def _give_up(self, future: asyncio.Future[None]) -> None:
        self.watch.missed()
        if not future.done():
            future.set_exception(no_answer(self.deadline))

    def finished(self, items: Sequence[Item]) -> None:
        """Called in whatever thread has committed."""
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
        return sum(len(pump.writer.waiting) for pump in list(self._pumps.values()))

    def commits(self) -> int:
        return sum(pump.writer.commits for pump in list(self._pumps.values()))


def _resolve(futures: Sequence[asyncio.Future[None]]) -> None:
    for future in futures:
        if not future.done():
            future.set_result(None)
