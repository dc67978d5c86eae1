"""One writer per loop: whoever comes first takes everything that waits, commits it once, and answers everybody.

Callers put items into a queue. A thread of the service, or the first caller who gets the turn, takes at most `MOST` of
them, and in one transaction locks the loop's row, reloads what other processes changed, decides in memory, writes and
commits. State is a value: a failed batch is undone by keeping the old reference.
"""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from fairveil.errors import FairveilError
from fairveil.loop.ask import Ask
from fairveil.loop.batch import Batch, Status
from fairveil.loop.clock import Clock
from fairveil.loop.due import Due
from fairveil.loop.facts import Facts
from fairveil.loop.problems import Overloaded, UnknownLoop
from fairveil.loop.storage import Driver, Transaction
from fairveil.privacy.ledger.faults import point
from fairveil.randomness import Generator

MOST, WAITING = 1024, 4096


class Item:
    """Something to be done in a batch, and what came of it: a result or an error."""

    __slots__ = ("done", "error", "future", "keys", "result", "subjects", "work")

    def __init__(
        self, work: Callable[[Batch], Any], keys: Sequence[bytes] = (), subjects: Sequence[bytes] = ()
    ) -> None:
        self.work, self.keys, self.subjects = work, keys, subjects
        self.done = False
        self.result: Any = None
        self.error: Exception | None = None
        self.future: Any = None  # of a server that waits for the last of its items

    def outcome(self) -> Any:
        if self.error is not None:
            raise self.error
        return self.result


def decision(ask: Ask, looks_at_persons: bool) -> Item:
    return Item(lambda batch: batch.decide(ask), (ask.key,), ask.subjects if looks_at_persons else ())


class Writer:
    """The queue of one loop in this process."""

    def __init__(
        self, facts: Facts, driver: Driver, clock: Clock, started: int, due: Due, rng: Generator | None = None
    ) -> None:
        self.facts, self.driver, self.clock, self.due = facts, driver, clock, due
        self.started = started
        self.status: Status | None = None
        self.waiting: deque[Item] = deque()
        self.commits = 0
        self.finished: Callable[[Sequence[Item]], None] | None = None
        self._turn = threading.Lock()
        self._seeded = rng
        self._rng, self._owner = rng or coins(), os.getpid()

    @property
    def grace(self) -> int:
        return self.started + self.facts.grace

    def put(self, items: Sequence[Item]) -> None:
        """Let items wait; refuses when too many do."""
        if len(self.waiting) + len(items) > WAITING:
            raise Overloaded("too many requests wait", path="loop", fix="repeat with the same event ids in a moment")
        self.waiting.extend(items)

    def run(self, items: Sequence[Item]) -> None:
        """Put items in and return when they are done; their errors stay with them."""
        self.put(items)
        while not items[-1].done:
            self.drain()

    def drain(self) -> None:
        """Do one batch of what waits."""
        items: list[Item] = []
        try:
            with self._turn:
                while self.waiting and len(items) < MOST:
                    items.append(self.waiting.popleft())
                self._do(items)
        finally:
            if items and self.finished is not None:
                self.finished(items)

    def act(self, work: Callable[[Batch], Any]) -> Any:
        """One piece of work in a batch of the writer; gives its result or raises its error."""
        item = Item(work)
        self.run([item])
        return item.outcome()

    def _do(self, items: list[Item]) -> None:
        """All items in one transaction; after an error that nobody foresaw each by itself, so that one fails alone."""
        if not items:
            return
        try:
            self._commit(items)
        except Exception as problem:
            if len(items) == 1:
                self._fail(items, problem)
                return
            self.status = None
            for item in items:
                self._do([item])
        except BaseException:
            self._fail(items, RuntimeError("the writer was stopped"))
            raise

    def _commit(self, items: list[Item]) -> None:
        if self._owner != os.getpid():  # a forked child must not throw its parent's coins again
            self._rng, self._owner = self._seeded or coins(), os.getpid()
        try:
            with self.driver.writing() as tx:
                batch = self._batch(tx)
                batch.look_up(
                    [key for item in items for key in item.keys], [s for item in items for s in item.subjects]
                )
                for item in items:
                    try:
                        item.result, item.error = item.work(batch), None
                    except FairveilError as problem:
                        item.result, item.error = None, problem
                point("batch-decided")
                after = batch.write()
                point("batch-written")
            self.status = after
            self.commits += 1
            point("batch-answers")
        except FairveilError as problem:
            self._fail(items, problem)
        except self.driver.failures as problem:
            failed = self.driver.explain(problem)
            failed.__cause__ = problem
            self._fail(items, failed)
        else:
            for item in items:
                item.done = True
            if batch.may_be_due(after):
                self.due.add(self.facts.spec.name)

    def _fail(self, items: list[Item], problem: Exception) -> None:
        self.status = None  # what is stored now is read again by the next batch
        for item in items:
            item.result, item.error, item.done = None, problem, True

    def _batch(self, tx: Transaction) -> Batch:
        found = tx.lock_loop(self.facts.id)
        if found is None:
            raise UnknownLoop("this loop is gone", path="loop", given=self.facts.spec.name)
        known = self.status
        state = known.state if known is not None and known.revision == found[4] else self.facts.load(tx)
        status = Status(state, *found)
        return Batch(self.facts, status, tx, self.clock.now(), self.grace, self._rng)


def coins() -> Generator:
    """A generator for exploration and ties, from the entropy of the operating system."""
    return np.random.Generator(np.random.PCG64DXSM())
