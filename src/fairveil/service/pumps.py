"""Between the event loop of the server and the writers of the loops: queues in, futures out, a limit on every wait;
and threads for work that may wait for a database: made when they are needed, and never in the way of an exit."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from queue import SimpleQueue
from typing import Protocol

from fairveil.loop.loop import Loop
from fairveil.loop.problems import Overloaded, StorageFailed
from fairveil.loop.writer import Item, Writer
from fairveil.service.watch import Watch, no_answer
from fairveil.storage.patience import at_most

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


log = logging.getLogger("fairveil.service")
MOST = 8
"""Threads that write, whatever many loops there are."""
GATHER = 0.001
"""Seconds from one batch of several to the next: whoever was answered asks again meanwhile, and one commit serves all.
Nobody waits for it who is alone."""


class Waiter(Protocol):
    """Somebody who waits for an item: a future, or what stands in its place."""

    def done(self) -> bool: ...

    def set_result(self, result: None) -> None: ...

    def set_exception(self, error: Exception) -> None: ...


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
        self._late: deque[tuple[float, Waiter]] = deque()
        self._looking = False
        self._closed = False

    async def run(self, loop: Loop, items: Sequence[Item]) -> None:
        """Return when the last item is done. After the deadline: 503, and the items are done all the same."""
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.put(loop, items, future)
        await future

    def put(self, loop: Loop, items: Sequence[Item], waits: Waiter) -> None:
        """The same for whoever waits without a task: told in the event loop when the last item is done, or that nobody
        answers."""
        self.watch.check()
        if self._closed:
            raise StorageFailed("the service is stopping", path="service", fix="repeat in a moment")
        server = self._server
        if server is None:
            server = self._server = asyncio.get_running_loop()
        writer = loop.writer
        writer.finished = self.finished
        items[-1].future = waits
        writer.put(items)
        self._queue(writer)
        late = self._late
        while late and late[0][1].done():
            late.popleft()
        late.append((server.time() + self.deadline, waits))
        if len(late) == 1 and not self._looking:
            self._looking = True
            server.call_later(self.deadline, self._look)

    def _look(self) -> None:
        """Tell whoever waited in vain: all have the same deadline, so the first of the queue is the first. One timer,
        because every request would pay for its own."""
        server, late = self._server, self._late
        assert server is not None
        now = server.time()
        while late and (late[0][1].done() or late[0][0] <= now):
            _, waits = late.popleft()
            if not waits.done():
                self.watch.missed()
                _tell(waits, no_answer(self.deadline))
        self._looking = bool(late)
        if late:
            server.call_later(late[0][0] - now, self._look)

    def _queue(self, writer: Writer) -> None:
        if writer not in self._queued:
            self._queued.add(writer)
            try:
                self.threads.submit(partial(self._drain, writer))
            except Overloaded:
                self._queued.discard(writer)  # what waits there has its turn when the next one comes, or with a tick
                raise

    def _drain(self, writer: Writer) -> None:
        """One batch, then back to the end of the queue if more waits."""
        began, count = time.perf_counter(), len(writer.waiting)
        try:
            with at_most(self.patience), contextlib.suppress(Exception):  # errors stay with their items
                writer.drain()
        finally:
            self.timed(time.perf_counter() - began)
            server = self._server
            if server is None or self._closed or count == 1:
                self._again(writer)
            else:
                server.call_soon_threadsafe(server.call_later, GATHER, self._again, writer)

    def _again(self, writer: Writer) -> None:
        self._queued.discard(writer)
        if writer.waiting:
            self._queue(writer)

    def finished(self, items: Sequence[Item]) -> None:
        """Called in whatever thread has written a batch. An item lets go of whoever waits for it, who holds the item:
        so an answered request is gone at once, and does not stay in memory until the next collection of rings."""
        self.batches += 1
        told = [item for item in items if item.future is not None]
        futures = [item.future for item in told]
        for item in told:
            item.future = None
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


def _resolve(waiting: Sequence[Waiter]) -> None:
    for one in waiting:
        if not one.done():
            _tell(one)


def _tell(waits: Waiter, problem: Exception | None = None) -> None:
    """An answer that cannot be given keeps nobody else from theirs."""
    try:
        waits.set_result(None) if problem is None else waits.set_exception(problem)
    except Exception as error:  # of whatever kind: it is one connection's
        log.error("an answer was not given: %s", type(error).__name__)
