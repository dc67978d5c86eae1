"""From a charge on disk to a value on disk: what this process draws now, and what it has drawn and could not store.

Everything that is ever charged, drawn, stored, repeated or lost passes `Draws.release`; what asks for it is
`fairveil.ledger.account`.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, TypeVar

from fairveil.errors import LedgerError
from fairveil.ledger.book import STANDS, Book
from fairveil.ledger.chain import ACCOUNT, LOST, PUBLISH, RESERVE, LedgerStore, Row
from fairveil.ledger.checks import (
    ReleaseLost,
    accepted,
    check_account,
    check_first,
    check_name,
    check_repeated,
    settlement,
    stored_text,
)
from fairveil.ledger.values import decode, encode
from fairveil.privacy.charges import Charge
from fairveil.privacy.events import Event
from fairveil.privacy.noise import Noise
from fairveil.storage.faults import point

NOTHING = "nothing was charged"
DIED = "the process ended before it was published"
ACCOUNT_FACTS = ("event", "releases", "holder")
Fate = Literal["drawn", "stored", "lost"]
Stored = str | ReleaseLost
T = TypeVar("T")


@dataclass(frozen=True)
class Released:
    """What became of one block; ``value`` is what was published, or the `ReleaseLost` that says that it is gone.

    ``drawn``: noise met the rows in this call. ``stored``: the value was published before (a retry, a restart); whether
    the rows at hand are in it cannot be known, so none of them may enter another release. ``lost``: charged, but the
    value is gone.
    """

    value: Any
    fate: Fate

    def answer(self, *, drawn: Callable[[Any], T], stored: Callable[[Any], T], lost: Callable[[ReleaseLost], T]) -> T:
        """What its holder does with it. Each of the three is said: adopt the value, drop the rows, or stop."""
        return {"drawn": drawn, "stored": stored, "lost": lost}[self.fate](self.value)


class AccountFacts(NamedTuple):
    """What an account is opened with, and has to be asked for with for ever."""

    event: Event
    releases: int | None
    holder: str = ""


class Payment(NamedTuple):
    """What pays for blocks: one ``event`` each, or an ``account``, which is opened with its ``facts`` if it is new.

    ``resume``: the account's first block may be handed out although it was released before.
    """

    event: Event | None = None
    account: str | None = None
    facts: AccountFacts | None = None
    resume: bool = True


Draw = Callable[[Noise, Sequence[Released]], Any]
"""From noise, and what became of the blocks before it, to the value of a block."""


def open_account(book: Book, store: LedgerStore, name: str, facts: AccountFacts) -> Charge:
    """Charge a new account inside a transaction; an old one must have been opened with the same facts."""
    table: dict[str, Any] = {"event": facts.event.to_dict(), "releases": facts.releases}
    table |= {"holder": facts.holder} if facts.holder else {}
    known = store.find(ACCOUNT, name)
    if known is not None:
        paid = Charge(*known.table["charge"])
        covered = book.now.limit.charge(facts.event).within(paid)
        check_repeated(name, {key: known.table[key] for key in ACCOUNT_FACTS if key in known.table}, table, covered)
        return paid
    held, charge = book.now.filter.reserve(facts.event)
    book.append(ACCOUNT, name, held.settle(charge), {**table, "charge": charge.to_list()})
    return charge


class Draws:
    """The draws of one process on one ledger."""

    def __init__(self, book: Book) -> None:
        self._book = book
        self.session = book.place.session()
        self._under_way = self.session.under_way  # block -> ledger object and thread that draw it now
        self._drawn = self.session.kept  # drawn, but could not be stored: kept so that it is not drawn again

    def release(self, blocks: Sequence[str], draw: Draw, noise: Noise | None, payment: Payment) -> list[Released]:
        """Charge all of them in one commit, draw in order, store all in another; what became of each.

        Ends before a block that somebody else is drawing, and waits when that is the first one.
        """
        source = accepted(noise, self._book.state.simulated)
        for block in blocks:
            check_name("block", block)
            if self._under_way.get(block) == self._here():
                fix = "draw without the ledger"
                raise LedgerError("a draw asks for its own block", path="block", given=block, fix=fix)
        try:
            known = self.reserve(blocks, payment)
            return self._draw(blocks[: len(known)], draw, source, known)
        finally:
            for block in blocks:
                if self._under_way.get(block) == self._here():
                    del self._under_way[block]

    def _draw(self, blocks: Sequence[str], draw: Draw, source: Noise, known: list[Stored | None]) -> list[Released]:
        fresh: dict[str, str] = {}
        found: list[Released] = []
        try:
            for block, stored in zip(blocks, known, strict=True):
                fate: Fate = "stored"
                if stored is None:
                    stored = self._drawn.get(block)  # of an attempt that could not be stored
                    if stored is None:
                        point("draw")
                        stored = self._drawn[block] = encode(draw(source, tuple(found)))
                        point("drawn")
                        fate = "drawn"
                    fresh[block] = stored
                found.append(_released(stored, fate))
        except BaseException as problem:
            ours = [block for block, stored in zip(blocks, known, strict=True) if stored is None]
            self._give_up([block for block in ours if block not in self._drawn], type(problem).__name__)
            raise
        others = {block: text for block, text in self._publish(fresh).items() if text != fresh[block]}
        return [
            _released(others[block], "stored") if block in others else one
            for block, one in zip(blocks, found, strict=True)
        ]

    def reserve(self, blocks: Sequence[str], payment: Payment) -> list[Stored | None]:
        """For each block what is stored of it, None when it is ours to draw; up to one that is drawn elsewhere."""
        deadline = time.monotonic() + self._book.wait
        while True:
            found: list[Stored | None] = []
            with self._book.writing(NOTHING) as store:
                if blocks and (payment.facts is not None or not payment.resume):
                    self._open(store, blocks[0], payment)
                for block in blocks:
                    if not self._reserve_one(store, block, payment.event, payment.account):
                        break
                    settled = settlement(store, block)
                    found.append(None if settled is None else stored_text(settled))
            if found or not blocks:
                return found
            if time.monotonic() > deadline:
                words = "another process is still drawing this block"
                raise LedgerError(words, path="block", given=blocks[0], fix=STANDS)
            time.sleep(0.005)

    def _open(self, store: LedgerStore, first: str, payment: Payment) -> None:
        """Charge the account in the commit that reserves its first block, and keep it from who does not hold it."""
        if payment.account is not None and payment.facts is not None:
            open_account(self._book, store, payment.account, payment.facts)
        if payment.account is not None and not payment.resume:
            check_first(store, payment.account, first)

    def _reserve_one(self, store: LedgerStore, block: str, event: Event | None, account: str | None) -> bool:
        """Whether the block is settled, or ours to draw or to store; not when it is drawn elsewhere."""
        reservation = store.find(RESERVE, block)
        if reservation is None:
            self._append_reservation(store, block, event, account)
            self._under_way[block] = self._here()
            return True
        asked = (None if event is None else event.to_dict(), account)
        paid = Charge(*reservation.table["charge"])
        covered = event is None or self._book.now.limit.charge(event).within(paid)
        check_repeated(block, (reservation.table["event"], reservation.account), asked, covered)
        if settlement(store, block) is not None:
            return True
        if self._is_under_way(block, reservation):
            return False
        if block not in self._drawn:
            self._append_settled(store, LOST, block, {"reason": DIED})
        self._under_way[block] = self._here()
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
        return block in self._under_way or self.session.alive(reservation.table["session"])

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

    def _here(self) -> tuple[int, int]:
        return id(self), threading.get_ident()

    def settle_dead(self) -> None:
        """Mark what dead processes left reserved as lost, and remove their traces."""
        with self._book.writing(NOTHING) as store:
            for row in store.pending():
                if row.name not in self._drawn and not self._is_under_way(row.name, row):
                    self._append_settled(store, LOST, row.name, {"reason": DIED})
            self.session.sweep()

    def after_fork(self) -> None:
        """A forked child has drawn nothing yet."""
        self.session = self._book.place.session()
        self._under_way, self._drawn = self.session.under_way, self.session.kept


def _released(stored: Stored, fate: Fate) -> Released:
    return Released(stored, "lost") if isinstance(stored, ReleaseLost) else Released(decode(stored), fate)
