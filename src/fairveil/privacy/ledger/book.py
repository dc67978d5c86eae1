"""One open ledger in one process: locks, connection, catching up with others, and the anchor.

Every write runs: thread lock, writer lock, transaction, catch up with rows that others appended (each is checked),
check the anchor, append, commit (on disk), move the anchor. An error before the commit leaves nothing behind.
"""

from __future__ import annotations

import contextlib
import os
import threading
import weakref
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Any

from fairveil.errors import LedgerError, LedgerTampered
from fairveil.privacy.filters import Filter
from fairveil.privacy.ledger.anchor import Anchor, Mark
from fairveil.privacy.ledger.chain import ANCHOR, GENESIS, START, Row, State, advance, make_row, replay, totals
from fairveil.privacy.ledger.storage import LedgerGone, LedgerStore, Place

STANDS = "what was charged stays charged"


class Book:
    """The chain of one ledger, safe to share between threads; a forked child gets its own connection and locks."""

    state: State

    def __init__(self, place: Place, anchor: Anchor | None, wait: float, key: bytes | None = None) -> None:
        self.place = place
        self.anchor = anchor
        self.wait = wait
        self.key = key
        self.guard = threading.RLock()
        self.on_fork: Callable[[], None] | None = None
        self._writer = place.lock(wait)
        self._store: LedgerStore | None = None
        self._fresh: State | None = None
        self._closed = False
        _books.add(self)

    def exists(self) -> bool:
        with self.guard, self._explained("nothing was charged"):
            try:
                self._connected()
            except LedgerGone:
                return False
            return True

    def create(self, table: dict[str, Any], name: str) -> None:
        """Make the ledger if there is none; two processes that start together make one ledger."""

        def first() -> Row:
            if self.anchor is not None and self.anchor.read() is not None:
                raise LedgerTampered(
                    "the ledger is gone, but its anchor is there",
                    path=str(self.place),
                    fix="restore the ledger, or name a fresh anchor for a new ledger on data never used before",
                )
            return make_row(START, 0, GENESIS, name, {**table, "time": _now()}, key=self.key)

        with self.guard, self._explained("nothing was charged"):
            self.place.create(self._writer, first)

    def load(self) -> None:
        """Check the whole chain from its first row; constant memory, time linear in the length."""
        with self.guard, self._explained("nothing was charged"):
            for state, _ in replay(self._connected(), self.key):
                self.state = state

    def adopt_anchor(self, again: bool) -> None:
        """Start to use an anchor that has no mark yet. ``again``: the old mark was lost, say so in the ledger."""
        if self.anchor is None:
            return
        with self.writing("nothing was charged", check_anchor=False) as store:
            if self.anchor.read() is not None:
                return
            just_started = anchor_just_started(self.state, store)
            if self.state.anchored and not just_started and not again:
                raise LedgerTampered(
                    "this ledger has an anchor, but no mark was found where the anchor should be",
                    path=str(self.anchor),
                    fix="name the right anchor; if it is lost for good, open once with reanchor=True",
                )
            if not just_started:
                number = str(self.state.sequence + 1)
                self.append(ANCHOR, number, self.state.filter, {"again": self.state.anchored})
            else:
                self._move_anchor()

    @contextlib.contextmanager
    def writing(self, effect: str, *, check_anchor: bool = True) -> Iterator[LedgerStore]:
        """A durable transaction; ``effect`` tells the user of an error before the commit what became of the charge."""
        outcome = [effect]
        with self.guard, self._explained(lambda: outcome[0]), self._writer.held():
            store = self._connected()
            try:
                with store.writing():
                    self._catch_up(store)
                    if check_anchor:
                        self._check_anchor(store)
                    self._fresh = self.state
                    yield store
            except self.place.failures:
                self._disconnect()  # nothing that a connection remembers about a failed transaction is kept
                outcome[0] = self._effect_of_failure(effect)
                raise
            finally:
                done, self._fresh = self._fresh, None
            outcome[0] = STANDS
            moved = done is not None and done.sequence != self.state.sequence
            self.state = done if done is not None else self.state
            if moved:
                self._move_anchor()

    @contextlib.contextmanager
    def reading(self) -> Iterator[LedgerStore]:
        """The newest committed state."""
        with self.guard, self._explained("nothing was charged"):
            store = self._connected()
            with store.snapshot():
                self._catch_up(store)
                yield store

    def append(
        self,
        kind: str,
        name: str,
        after: Filter,
        table: dict[str, Any],
        *,
        account: str | None = None,
        value: str | None = None,
    ) -> None:
        """Add a row inside `writing`; ``after`` is the filter it leaves. It is checked like any row that is read."""
        state, store = self.now, self._store
        if self._fresh is None or store is None:
            raise LedgerError("a row can only be written inside a transaction", path=str(self.place))
        facts = {**table, "totals": totals(after), "time": _now()}
        number, key = state.sequence + 1, self.key
        row = make_row(state.head, number, kind, name, facts, account=account, value=value, key=key)
        self._fresh = advance(state, row, store)
        store.append(row)

    @property
    def now(self) -> State:
        """The state with what was appended so far in this transaction."""
        return self.state if self._fresh is None else self._fresh

    def close(self) -> None:
        with self.guard:
            self._closed = True
            self._disconnect()
            self._writer.close()

    def _effect_of_failure(self, effect: str) -> str:
        """A commit that reports an error has, very rarely, reached the disk: look."""
        unreadable: tuple[type[Exception], ...] = (*self.place.failures, LedgerError)
        try:
            reached = self._connected().last() != (self.state.sequence, self.state.head)
        except unreadable:
            return "the ledger cannot be read now; open it again to see whether it was charged"
        return STANDS if reached else effect

    def _connected(self) -> LedgerStore:
        if self._closed:
            raise LedgerError("this ledger is closed", path=str(self.place), fix="open it again")
        if self._store is not None and not self._store.current():
            self._disconnect()  # replaced or cut off: what is there now must continue what was seen
        if self._store is None:
            self._store = self.place.open(self.wait)
        return self._store

    def _disconnect(self) -> None:
        if self._store is not None:
            with contextlib.suppress(*self.place.failures):
                self._store.close()
            self._store = None

    def _catch_up(self, store: LedgerStore) -> None:
        last = store.last()
        if last == (self.state.sequence, self.state.head):
            return
        if last is None or store.hash_at(self.state.sequence) != self.state.head:
            raise _set_back(self.place, self.state.sequence, "this process saw")
        state = self.state
        for row in store.rows(state.sequence):
            state = advance(state, row, store)
        self.state = state

    def _check_anchor(self, store: LedgerStore) -> None:
        """The anchor is a place in this chain; when it is behind, a crash kept it from moving, and it moves now."""
        if self.anchor is None:
            if self.state.anchored:
                raise LedgerError(
                    "this ledger has an anchor",
                    path="anchor",
                    allowed="the anchor it was opened with before",
                    fix="open it with anchor=...; without it an older copy could pass as the ledger",
                )
            return
        mark = self.anchor.read()
        if mark is None:
            raise LedgerTampered("the anchor is gone", path=str(self.anchor), fix="restore it, or see reanchor=True")
        check_mark(mark, self.state, store, self.place)
        if mark.sequence != self.state.sequence:
            self._move_anchor()

    def _move_anchor(self) -> None:
        if self.anchor is not None:
            self.anchor.write(Mark(self.state.ledger, self.state.sequence, self.state.head))

    @contextlib.contextmanager
    def _explained(self, effect: str | Callable[[], str]) -> Iterator[None]:
        try:
            yield
        except self.place.failures as problem:
            raise self.place.explain(problem, effect if isinstance(effect, str) else effect()) from problem

    def _before_fork(self) -> None:
        self.guard.acquire()
        self._disconnect()  # connections must not cross a fork

    def _after_fork_in_parent(self) -> None:
        self.guard.release()

    def _after_fork_in_child(self) -> None:
        self.guard = threading.RLock()
        self._writer.close()
        if self.on_fork is not None:
            self.on_fork()


def anchor_just_started(state: State, store: LedgerStore) -> bool:
    """Whether nothing came after the entry that starts an anchor: then a crash may have kept the first mark away."""
    last = store.find(ANCHOR, str(state.sequence))
    return state.anchored and (state.sequence == 0 or last is not None)


def check_mark(mark: Mark, state: State, store: LedgerStore, place: Place) -> None:
    """Refuse a ledger that its anchor has seen longer or with another content."""
    if mark.ledger != state.ledger:
        raise LedgerTampered(
            "the anchor belongs to another ledger", path=str(place), given=mark.ledger, allowed=state.ledger
        )
    if store.hash_at(mark.sequence) != mark.head:
        raise _set_back(place, mark.sequence, "its anchor has seen")


def _set_back(place: Place, sequence: int, who: str) -> LedgerTampered:
    return LedgerTampered(
        f"the ledger was set back, cut or rewritten: {who} entry {sequence}, which is not in it as it was",
        path=str(place),
        fix="restore the newest ledger; until then treat the budget as spent",
    )


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")


_books: weakref.WeakSet[Book] = weakref.WeakSet()
_forking: list[Book] = []


def _before_fork() -> None:
    for book in list(_books):
        book._before_fork()
        _forking.append(book)


def _after_fork(in_child: bool) -> None:
    while _forking:
        book = _forking.pop()
        if in_child:
            book._after_fork_in_child()
        else:
            book._after_fork_in_parent()


os.register_at_fork(
    before=_before_fork,
    after_in_parent=lambda: _after_fork(False),
    after_in_child=lambda: _after_fork(True),
)
