"""A thread for each loop that is asked: it drains the loop's writer and wakes the requests that waited."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Sequence

from fairveil.loop.loop import Loop
from fairveil.loop.problems import StorageFailed
from fairveil.loop.writer import Item


class Pump:
    """Between the event loop of the server and the writer of one loop."""

    def __init__(self, loop: Loop, server: asyncio.AbstractEventLoop) -> None:
        self.writer, self.server = loop.writer, server
        self.writer.finished = self._finished
        self._wake = threading.Event()
        self._stopping = False
        self._thread = threading.Thread(target=self._run, name=f"writer-{loop.name}", daemon=True)
        self._thread.start()

    def put(self, items: Sequence[Item]) -> asyncio.Future[None]:
        """Let items wait for the writer; the future is done when the last of them is."""
        future: asyncio.Future[None] = self.server.create_future()
        items[-1].future = future
        self.writer.put(items)
        self._wake.set()
        return future

    def stop(self) -> None:
        """Finish what waits, then end."""
        self._stopping = True
        self._wake.set()
        self._thread.join(10)

    def _run(self) -> None:
        while True:
            self._wake.wait()
            self._wake.clear()
            while self.writer.waiting:
                with contextlib.suppress(Exception):  # errors stay with their items; only a server that is gone is left
                    self.writer.drain()
            if self._stopping:
                return

    def _finished(self, items: Sequence[Item]) -> None:
        """Called in whatever thread has committed."""
        futures = [item.future for item in items if item.future is not None]
        if futures:
            self.server.call_soon_threadsafe(_resolve, futures)


def _resolve(futures: Sequence[asyncio.Future[None]]) -> None:
    for future in futures:
        if not future.done():
            future.set_result(None)


class Pumps:
    """One pump for each loop, made when it is first asked."""

    def __init__(self) -> None:
        self._pumps: dict[str, Pump] = {}
        self._closed = False

    def of(self, loop: Loop) -> Pump:
        pump = self._pumps.get(loop.name)
        if pump is None:
            if self._closed:
                raise StorageFailed("the service is stopping", path="service", fix="repeat in a moment")
            pump = self._pumps[loop.name] = Pump(loop, asyncio.get_running_loop())
        return pump

    def stop(self) -> None:
        self._closed = True
        for pump in self._pumps.values():
            pump.stop()

    def waiting(self) -> int:
        return sum(len(pump.writer.waiting) for pump in self._pumps.values())

    def commits(self) -> int:
        return sum(pump.writer.commits for pump in self._pumps.values())
