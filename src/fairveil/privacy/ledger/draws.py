"""From a charge on disk to a value on disk: what this process draws now, and what it has drawn and could not store."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from fairveil.errors import LedgerError
from fairveil.privacy.charges import Charge
from fairveil.privacy.events import Event
from fairveil.privacy.ledger.book import STANDS, Book
from fairveil.privacy.ledger.chain import LOST, PUBLISH, RESERVE, Row
from fairveil.privacy.ledger.checks import ReleaseLost, check_account, check_repeated, settlement, stored_text
from fairveil.privacy.ledger.faults import point
from fairveil.privacy.ledger.storage import LedgerStore
from fairveil.privacy.ledger.values import decode, encode
from fairveil.privacy.noise import Noise

NOTHING = "nothing was charged"
DIED = "the process ended before it was published"
Draw = Callable[[Noise, Sequence[Any]], Any]
Stored = str | ReleaseLost


class Draws:
    """The draws of one process on one ledger."""

    def __init__(self, book: Book) -> None:
        self._book = book
        self.session = book.place.session()
        self._under_way: dict[str, int] = {}  # block -> thread that draws it now
        self._drawn: dict[str, str] = {}  # drawn, but could not be stored: kept so that it is not drawn again

    def release(
        self, blocks: Sequence[str], draw: Draw, source: Noise, event: Event | None, account: str | None
    ) -> list[Any]:
        """Charge all of them in one commit, draw in order, store all in another; a value or `ReleaseLost` for each.

        Ends before a block that somebody else is drawing, and waits when that is the first one.
        """
        for block in blocks:
            if self._under_way.get(block) == threading.get_ident():
                fix = "draw without the ledger"
                raise LedgerError("a draw asks for its own block", path="block", given=block, fix=fix)
        try:
            known = self.reserve(blocks, event, account)
            return self._draw(blocks[: len(known)], draw, source, known)
        finally:
            for block in blocks:
                if self._under_way.get(block) == threading.get_ident():
                    del self._under_way[block]

    def _draw(self, blocks: Sequence[str], draw: Draw, source: Noise, known: list[Stored | None]) -> list[Any]:
        fresh: dict[str, str] = {}
        values: list[Any] = []
        try:
            for block, stored in zip(blocks, known, strict=True):
                if stored is None:
                    stored = self._drawn.get(block)  # of an attempt that could not be stored
                    if stored is None:
                        point("draw")
                        stored = self._drawn[block] = encode(draw(source, tuple(values)))
                        point("drawn")
                    fresh[block] = stored
                values.append(_value(stored))
        except BaseException as problem:
            ours = [block for block, stored in zip(blocks, known, strict=True) if stored is None]
            self._give_up([block for block in ours if block not in self._drawn], type(problem).__name__)
            raise
        stored_now = self._publish(fresh)
        return [_value(stored_now[block]) if block in fresh else value for block, value in zip(blocks, values)]

    def reserve(self, blocks: Sequence[str], event: Event | None, account: str | None) -> list[Stored | None]:
        """For each block what is stored of it, None when it is ours to draw; up to one that is drawn elsewhere."""
        deadline = time.monotonic() + self._book.wait
        while True:
            found: list[Stored | None] = []
            with self._book.writing(NOTHING) as store:
                for block in blocks:
                    if not self._reserve_one(store, block, event, account):
                        break
                    settled = settlement(store, block)
                    found.append(None if settled is None else stored_text(settled))
            if found or not blocks:
                return found
            if time.monotonic() > deadline:
                words = "another process is still drawing this block"
                raise LedgerError(words, path="block", given=blocks[0], fix=STANDS)
            time.sleep(0.005)

    def _reserve_one(self, store: LedgerStore, block: str, event: Event | None, account: str | None) -> bool:
        """Whether the block is settled, or ours to draw or to store; not when it is drawn elsewhere."""
        reservation = store.find(RESERVE, block)
        if reservation is None:
            self._append_reservation(store, block, event, account)
            self._under_way[block] = threading.get_ident()
            return True
        asked = (None if event is None else event.to_dict(), account)
        check_repeated(block, (reservation.table["event"], reservation.account), asked)
        if settlement(store, block) is not None:
            return True
        if self._is_under_way(block, reservation):
            return False
        if block not in self._drawn:
            self._append_settled(store, LOST, block, {"reason": DIED})
        self._under_way[block] = threading.get_ident()
        return True

    def _append_reservation(self, store: LedgerStore, block: str, event: Event | None, account: str | None) -> None:
        self.session.begin()
        before = self._book.now
        held, charge = (before.filter, Charge()) if event is None else before.filter.reserve(event)
        if account is not None:
            check_account(store, account, before.sequence + 1)
        facts = {"event": None if event is None else event.to_dict(), "charge": charge.to_list()}
        self._book.append(RESERVE, block, held, {**facts, "session": self.session.token}, account=account)

    def _is_under_way(self, block: str, reservation: Row) -> bool:
        owner = reservation.table["session"]
        return block in self._under_way if owner == self.session.token else self.session.alive(owner)

    def _publish(self, drawn: Mapping[str, str]) -> dict[str, Stored]:
        """Store what was drawn; gives what is stored, which others may have found lost meanwhile."""
        stored: dict[str, Stored] = {}
        if not drawn:
            return stored
        with self._book.writing("the charge stands; ask for the block again to store the same value") as store:
            for block, text in drawn.items():
                settled = settlement(store, block)
                if settled is None:
                    self._append_settled(store, PUBLISH, block, {}, text)
                stored[block] = text if settled is None else stored_text(settled)
        for block in drawn:
            self._drawn.pop(block, None)
        return stored

    def _append_settled(
        self, store: LedgerStore, kind: str, block: str, facts: dict[str, Any], text: str | None = None
    ) -> None:
        reservation = store.find(RESERVE, block)
        if reservation is None:
            raise LedgerError("this block was never reserved", path="block", given=block)
        after = self._book.now.filter.settle(Charge(*reservation.table["charge"]))
        self._book.append(kind, block, after, facts, value=text)

    def _give_up(self, blocks: Sequence[str], reason: str) -> None:
        if not blocks:
            return
        # if this fails too, the reservations are on disk and the next one who asks finds the blocks lost
        with contextlib.suppress(LedgerError), self._book.writing(STANDS) as store:
            for block in blocks:
                if settlement(store, block) is None:
                    self._append_settled(store, LOST, block, {"reason": f"the draw failed: {reason}"})

    def settle_dead(self) -> None:
        """Mark what dead processes left reserved as lost, and remove their traces."""
        with self._book.writing(NOTHING) as store:
            for row in store.pending():
                if not self.session.alive(row.table["session"]):
                    self._append_settled(store, LOST, row.name, {"reason": DIED})
            self.session.sweep()

    def after_fork(self) -> None:
        """A forked child has drawn nothing yet."""
        self.session.forget()
        self.session = self._book.place.session()
        self._under_way, self._drawn = {}, {}


def _value(stored: Stored) -> Any:
    return stored if isinstance(stored, ReleaseLost) else decode(stored)
