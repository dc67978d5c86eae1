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
from fairveil.loop.batch import FOREVER, Batch
from fairveil.loop.clock import SECOND, Time
from fairveil.loop.facts import Facts, Status
from fairveil.loop.keys import NO_ALIASES, Aliases, released, renamed
from fairveil.loop.pages import Pages
from fairveil.loop.problems import Overloaded, UnknownEvent, UnknownLoop
from fairveil.loop.storage import Driver, Transaction
from fairveil.randomness import Generator
from fairveil.storage.faults import point

MOST, WAITING = 1024, 4096
PATIENT = 1000
"""Rewards that may wait for a decision which is behind them in the queue; more are told that there is no such event."""
GRACE = 60 * SECOND
"""After a start no window closes for so long, or for a whole window: rewards that waited for it are in time."""


class Item:
    """Something to be done in a batch, and what came of it: a result or an error.

    ``alone``: it asks the tables themselves, so nothing that is not yet written stands beside it in its batch.
    ``aliases``: what its keys were before a change of keys; ``decides``: it makes the event of its key; ``last``: of
    what one caller put in together; ``overtook``: it came before its own decision and has waited for that.
    """

    __slots__ = ("aliases", "alone", "decides", "done", "error", "future", "keys", "last", "overtook", "result",
                 "subjects", "work")  # fmt: skip

    def __init__(
        self,
        work: Callable[[Batch], Any],
        keys: Sequence[bytes] = (),
        subjects: Sequence[bytes] = (),
        alone: bool = False,
        aliases: Aliases = NO_ALIASES,
        decides: bool = False,
    ) -> None:
        self.aliases, self.decides = aliases, decides
        self.last = self.overtook = False
        self.work, self.keys, self.subjects = work, keys, subjects
        self.alone, self.done = alone, False
        self.result: Any = None
        self.error: Exception | None = None
        self.future: Any = None  # of a server that waits for the last of its items

    def outcome(self) -> Any:
        if self.error is not None:
            raise self.error
        return self.result


class Due:
    """Names of loops with a block that may be due: a word from the writers to whoever ticks.

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


class Writer:
    """The queue of one loop in this process."""

    def __init__(
        self, facts: Facts, driver: Driver, clock: Time, started: int, due: Due, rng: Generator | None = None
    ) -> None:
        self.facts, self.driver, self.clock, self.due = facts, driver, clock, due
        self.grace = started + min(facts.wait, GRACE)
        self.status: Status | None = None
        self.waiting: deque[Item] = deque()
        self.finished: Callable[[Sequence[Item]], None] | None = None
        self.pages: Pages | None = None
        self._turn = threading.Lock()
        self._seeded = rng
        self._rng, self._owner = rng or coins(), os.getpid()

    def put(self, items: Sequence[Item]) -> None:
        """Let items wait; refuses when too many do."""
        if len(self.waiting) + len(items) > WAITING:
            raise Overloaded("too many requests wait", path="loop", fix="repeat with the same event ids in a moment")
        items[-1].last = True
        self.waiting.extend(items)

    @property
    def busy(self) -> bool:
        """Whether something waits or is being written."""
        return bool(self.waiting) or self._turn.locked()

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
                while self.waiting and len(items) < MOST and not (items and self.waiting[0].alone):
                    items.append(self.waiting.popleft())
                    if items[0].alone:
                        break
                self._do(items)
        finally:
            if items and self.finished is not None:
                self.finished([item for item in items if item.done])

    def act(self, work: Callable[[Batch], Any]) -> Any:
        """One piece of work in a batch of its own; gives its result or raises its error."""
        item = Item(work, alone=True)
        self.run([item])
        return item.outcome()

    def _do(self, items: list[Item]) -> None:
        """All items in one transaction; after an error that nobody foresaw each by itself, so that one fails alone."""
        if not items:
            return
        try:
            self._commit(items)
        except Exception as problem:  # of whatever kind: each by itself, so that one fails alone
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
                keys = [key for item in items for key in item.keys]
                if keys:
                    aliases = renamed(tx, self.facts.id, [item.aliases for item in items])
                    batch.look_up(keys, [subject for item in items for subject in item.subjects])
                    if batch.before.epoch and self.pages is not None:
                        fresh = [key for key in keys if key not in batch.known]
                        batch.released = self.pages.among(tx, fresh) | released(self.pages, tx, fresh, aliases)
                unknown = [item for item in items if self._try(item, batch)]
                later = self._later(unknown, batch) if unknown else set()
                point("batch-decided")
                after = batch.write()
                point("batch-written")
            self.status = after
            point("batch-answers")
        except FairveilError as problem:
            self._fail(items, problem)
        else:
            for item in items:
                item.done = item not in later
            self.waiting.extend(later)
            if batch.may_be_due(after):
                self.due.add(self.facts.spec.name)

    def _try(self, item: Item, batch: Batch) -> bool:
        """Whether it speaks of an event that is unknown so far."""
        try:
            item.result, item.error = item.work(batch), None
        except FairveilError as problem:
            item.result, item.error = None, problem
            return isinstance(problem, UnknownEvent) and bool(item.keys)
        return False

    def _later(self, unknown: list[Item], batch: Batch) -> set[Item]:
        """Those whose decision waits in the queue: they have their turn behind it, once. Where it came in this batch
        they are done here."""
        queued = list(self.waiting)
        coming = {key for item in queued if item.decides for key in item.keys}
        room, later = PATIENT - sum(item.overtook for item in queued), set[Item]()
        for item in unknown:
            if not self._try(item, batch) or item.overtook or not item.last:
                continue
            if len(later) < room and not coming.isdisjoint(item.keys):
                item.overtook, item.error = True, None
                later.add(item)
        return later

    def _fail(self, items: list[Item], problem: Exception) -> None:
        self.status = None  # what is stored now is read again by the next batch
        for item in items:
            item.result, item.error, item.done = None, problem, True

    def _batch(self, tx: Transaction) -> Batch:
        found = tx.lock_loop(self.facts.id)
        if found is None:
            raise UnknownLoop("this loop is gone", path="loop", given=self.facts.spec.name)
        known, stored = self.status, Status({}, *found)
        state = known.state if known is not None and known.revision == stored.revision else self.facts.load(tx)
        status = self.facts.present(stored._replace(state=state))
        grace = self.grace if self.clock.doubt is None else FOREVER
        return Batch(self.facts, status, tx, self.clock.now(), grace, self._rng)


def coins() -> Generator:
    """A generator for exploration and ties, from the entropy of the operating system."""
    return np.random.Generator(np.random.PCG64DXSM())
