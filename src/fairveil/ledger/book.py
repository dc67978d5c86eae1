"""One open ledger in one process: locks, connection, catching up with others, and the anchor.

Every write runs: thread lock, writer lock, transaction, catch up with rows that others appended (each is checked),
check the anchor, append, commit (on disk), move the anchor. An error before the commit leaves nothing behind.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Any

from fairveil.errors import LedgerError, LedgerTampered
from fairveil.ledger.anchor import Anchor, FileAnchor, Mark
from fairveil.ledger.chain import (
    ANCHOR,
    GENESIS,
    START,
    LedgerGone,
    LedgerStore,
    Row,
    State,
    advance,
    make_row,
    replay,
    totals,
)
from fairveil.ledger.places import Place
from fairveil.privacy.filters import Filter
from fairveil.storage.alive import Guarded

STANDS = "what was charged stays charged"


class Book(Guarded):
    """The chain of one ledger, safe to share between threads and with forked children; holds nothing open itself."""

    state: State

    def __init__(self, place: Place, anchor: Anchor | None, wait: float, key: bytes | None = None) -> None:
        self.place = place
        self.anchor = anchor
        self.wait = wait
        self.key = key
        self.on_fork: Callable[[], None] | None = None
        self._store: LedgerStore | None = None
        self._fresh: State | None = None
        self._closed = False
        super().__init__(2)

    def exists(self) -> bool:
        with self.guard, self._explained("nothing was charged"):
            try:
                self._open_place().check(self.wait)
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
            self._open_place().create(self.wait, first)

    def load(self, known: State | None = None) -> None:
        """Check the whole chain from its first row, or from a known one; constant memory, time linear in the length."""
        with self.guard, self._explained("nothing was charged"), self._open_place().snapshot(self.wait) as store:
            if known is not None:
                self.state = known
                return self._catch_up(store)
            for state, _ in replay(store, self.key):
                self.state = state
        return None

    def adopt_anchor(self, again: bool) -> None:
        """Start to use an anchor that has no mark yet. ``again``: the old mark was lost, say so in the ledger."""
        if self.anchor is None:
            return
        with self.writing("nothing was charged", check_anchor=False) as store:
            if again and isinstance(self.anchor, FileAnchor):
                self.anchor.put_aside()
            if self.anchor.read() is not None:
                return
            just_started = anchor_just_started(self.state, store)
            if self.state.anchored and not just_started and not again:
                raise LedgerTampered(
                    "this ledger has an anchor, but no mark was found where the anchor should be",
                    path=str(self.anchor),
                    fix=f"name the right anchor; if it is lost for good, {accept(self.anchor)}",
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
        with self.guard, self._explained(lambda: outcome[0]), self._open_place().turn(self.wait):
            try:
                with self.place.writing(self.wait) as store:
                    self._catch_up(store)
                    if check_anchor:
                        self._check_anchor(store)
                    self._fresh, self._store = self.state, store
                    yield store
            except self.place.failures:
                if self._fresh is not None:
                    outcome[0] = self._effect_of_failure(effect)
                raise
            finally:
                done, self._fresh, self._store = self._fresh, None, None
            outcome[0] = STANDS
            moved = done is not None and done.sequence != self.state.sequence
            self.state = done if done is not None else self.state
            if moved:
                self._move_anchor()

    @contextlib.contextmanager
    def reading(self) -> Iterator[LedgerStore]:
        """The newest committed state."""
        with self.guard, self._explained("nothing was charged"), self._open_place().snapshot(self.wait) as store:
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
            self.place.close()

    def _effect_of_failure(self, effect: str) -> str:
        """A commit that reports an error has, very rarely, reached the disk: look."""
        unreadable: tuple[type[Exception], ...] = (*self.place.failures, LedgerError)
        try:
            with self._open_place().snapshot(self.wait) as store:
                reached = store.last() != (self.state.sequence, self.state.head)
        except unreadable:
            return "the ledger cannot be read now; open it again to see whether it was charged"
        return STANDS if reached else effect

    def _open_place(self) -> Place:
        if self._closed:
            raise LedgerError("this ledger is closed", path=str(self.place), fix="open it again")
        return self.place

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
            raise LedgerTampered(
                "the anchor is gone", path=str(self.anchor), fix=f"restore it, or {accept(self.anchor)}"
            )
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
            words = effect if isinstance(effect, str) else effect()
            raise self.place.explain(problem, words, self.anchor is not None) from problem

    def after_fork_in_child(self) -> None:
        super().after_fork_in_child()
        if self.on_fork is not None:
            self.on_fork()


def accept(anchor: Anchor) -> str:
    """How an operator goes on without the mark: of a store by its command, of a ledger alone when it is opened."""
    name = anchor.path.stem if isinstance(anchor, FileAnchor) and anchor.path.suffix == ".anchor" else ""
    command = f"of a store's ledger: fairveil store reanchor {name} --anchor ...; " if name else ""
    return f"{command}open once with reanchor=True"


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
