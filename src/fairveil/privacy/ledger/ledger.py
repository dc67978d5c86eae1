"""The privacy ledger: nothing is released without a charge that is already on disk, and nothing is drawn twice."""

from __future__ import annotations

import contextlib
import os
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from fairveil.errors import LedgerError, PrivacyError, SpecError
from fairveil.privacy.accounting import Accountant
from fairveil.privacy.charges import Charge
from fairveil.privacy.events import Event, ParallelEvent, event_from_dict
from fairveil.privacy.filters import Filter, Quote
from fairveil.privacy.ledger.anchor import Anchor, FileAnchor
from fairveil.privacy.ledger.book import STANDS, Book
from fairveil.privacy.ledger.chain import ACCOUNT, FORMAT, LOST, PUBLISH, RESERVE, Row
from fairveil.privacy.ledger.faults import point
from fairveil.privacy.ledger.locks import Session
from fairveil.privacy.ledger.store import Store
from fairveil.privacy.ledger.values import decode, encode
from fairveil.privacy.limits import Limit
from fairveil.privacy.noise import Noise, SecureNoise, ZeroNoise

NOTHING = "nothing was charged"


class ReleaseLost(LedgerError):
    """The block was charged, but its value never reached the ledger. It stays charged and is never drawn again."""

    code = "release-lost"


class Ledger:
    """An append-only, hash-chained record of what was spent and what was released for it.

    Guarantee: at any time, also after a crash, the charges on disk cover every value that anybody could have seen, and
    a block has at most one value. Cost: two durable commits a release (one for `spend`), O(1) in time and memory.

    >>> import tempfile
    >>> from fairveil.privacy.events import PureEvent
    >>> folder = tempfile.TemporaryDirectory()
    >>> with Ledger.open(folder.name + "/ledger.db", limit=Limit.pure(1.0)) as ledger:
    ...     noisy = ledger.release("count", lambda noise: 7 + int(noise.laplace(2.0)[0]), event=PureEvent(0.5))
    ...     again = ledger.release("count", lambda noise: 0, event=PureEvent(0.5))
    >>> noisy == again                                     # the stored value; nothing is drawn or charged again
    True
    >>> folder.cleanup()
    """

    def __init__(self, book: Book) -> None:
        self._book = book
        self._session = Session(book.path)
        self._under_way: dict[str, int] = {}  # block -> thread that draws it now
        self._drawn: dict[str, str] = {}  # drawn, but could not be stored: kept so that it is not drawn again
        book.on_fork = self._after_fork

    @classmethod
    def open(
        cls,
        path: str | os.PathLike[str],
        *,
        limit: Limit | None = None,
        anchor: str | os.PathLike[str] | Anchor | None = None,
        simulated: bool = False,
        unit: str = "",
        wait: float = 30.0,
        reanchor: bool = False,
    ) -> Ledger:
        """Open a ledger, or make one when a limit is given and no file is there. The whole chain is checked.

        ``anchor``: a file in a second place (or an `Anchor`) that shows when the ledger was set back. ``simulated``:
        takes seeded noise, protects nobody, and says so for ever. ``unit``: in words, whom one charge protects.
        ``wait``: seconds to wait for other processes. ``reanchor``: go on although the old anchor is lost; the ledger
        records it.
        """
        place = Path(path)
        mark = FileAnchor(anchor) if isinstance(anchor, str | os.PathLike) else anchor
        book = Book(place, mark, wait)
        try:
            if not place.exists():
                book.create(_first(place, limit, simulated, unit, mark is not None), uuid.uuid4().hex)
            book.load()
            _check_same(book, limit, simulated)
            book.adopt_anchor(reanchor)
            ledger = cls(book)
            ledger._settle_dead()
        except BaseException:
            book.close()
            raise
        return ledger

    def spend(self, name: str, event: Event, *, releases: int | None = 1) -> Charge:
        """Pay for an account before any data is read; releases then name the account instead of an event.

        A `ParallelEvent` covers any number of releases on disjoint blocks. Another event covers ``releases`` of them,
        None if it was computed for a whole run (a policy's `event()`). The same name and event again charge nothing.
        """
        _check_name("name", name)
        if releases is not None and (isinstance(releases, bool) or not isinstance(releases, int) or releases < 1):
            raise SpecError("releases is a count", path="releases", given=releases, allowed="at least 1, or None")
        facts = {"event": event.to_dict(), "releases": None if isinstance(event, ParallelEvent) else releases}
        with self._book.writing(NOTHING) as store:
            known = store.find(ACCOUNT, name)
            if known is not None:
                _check_repeated(name, {key: known.table[key] for key in facts}, facts)
                return Charge(*known.table["charge"])
            held, charge = self._book.state.filter.reserve(event)
            self._book.append(ACCOUNT, name, held.settle(charge), {**facts, "charge": charge.to_list()})
        return charge

    def release(
        self,
        block: str,
        draw: Callable[[Noise], Any],
        *,
        event: Event | None = None,
        account: str | None = None,
        noise: Noise | None = None,
    ) -> Any:
        """Charge, make the charge durable, draw, store, and only then hand out the value.

        Name either the ``event`` that this release costs, or the ``account`` that paid for it. A block that was
        published returns its stored value without drawing; one that was lost raises `ReleaseLost`. BudgetError:
        nothing was charged. An error in ``draw`` loses the block: the charge stands, as noise may have met data.
        """
        source = self._accept(noise)
        _check_name("block", block)
        if (event is None) == (account is None):
            raise SpecError("a release names its event or its account", path="event", allowed="exactly one of the two")
        stored = self._reserve(block, event, account)
        if stored is not None:
            return decode(stored)
        try:
            point("draw")
            self._drawn[block] = encode(draw(source))
            point("drawn")
            return decode(self._publish(block))
        except BaseException as problem:
            if block not in self._drawn:
                self._give_up(block, type(problem).__name__)
            raise
        finally:
            self._under_way.pop(block, None)

    def lose(self, block: str, reason: str = "given up") -> None:
        """Give up a reserved block of this process for good."""
        with self._book.writing(STANDS) as store:
            if store.find(RESERVE, block) is not None and _settled(store, block) is None:
                self._append_settled(store, LOST, block, {"reason": reason})
        self._drawn.pop(block, None)

    def quote(self, event: Event) -> Quote:
        """What an event would cost and whether it fits; charges nothing."""
        return self.filter.quote(event)

    def status(self, block: str) -> str:
        """``unknown``, ``reserved``, ``published`` or ``lost``."""
        with self._book.reading() as store:
            settled = _settled(store, block)
            if settled is not None:
                return "published" if settled.kind == PUBLISH else "lost"
            return "unknown" if store.find(RESERVE, block) is None else "reserved"

    def value(self, block: str) -> Any:
        """The value of a published block: free for ever."""
        with self._book.reading() as store:
            row = store.find(PUBLISH, block)
        if row is None or row.value is None:
            raise LedgerError("this block is not published", path="block", given=block, allowed="a published block")
        return decode(row.value)

    @property
    def filter(self) -> Filter:
        """Limit, spent and reserved, as they are on disk now."""
        with self._book.reading():
            return self._book.state.filter

    @property
    def limit(self) -> Limit:
        return self._book.state.limit

    @property
    def spent(self) -> Charge:
        return self.filter.spent

    @property
    def remaining(self) -> Charge:
        return self.filter.remaining

    @property
    def simulated(self) -> bool:
        return self._book.state.simulated

    @property
    def path(self) -> Path:
        return self._book.path

    def lost(self) -> list[str]:
        """The blocks that were charged and lost."""
        with self._book.reading() as store:
            return list(store.names(LOST))

    def accountant(self) -> Accountant:
        """An accountant that has read every charge: the best bound for events that were fixed in advance."""
        accountant = Accountant()
        with self._book.reading() as store:
            for row in store.rows():
                event = row.table.get("event") if row.kind in (ACCOUNT, RESERVE) else None
                if event is not None:
                    accountant.compose(event_from_dict(event))
        return accountant

    def close(self) -> None:
        self._session.end()
        self._book.close()

    def __enter__(self) -> Ledger:
        return self

    def __exit__(self, *problem: object) -> None:
        self.close()

    def __reduce__(self) -> Any:
        raise PrivacyError("a ledger cannot be pickled", fix="open it by its path in the other process")

    def _accept(self, noise: Noise | None) -> Noise:
        source = SecureNoise() if noise is None else noise
        protects = isinstance(source, Noise) and source.protects and not source.simulated
        if isinstance(source, ZeroNoise) or not isinstance(source, Noise) or not (protects or self.simulated):
            raise PrivacyError(
                "this ledger does not take this noise",
                path="noise",
                given=type(source).__name__,
                allowed="SecureNoise" + (" or SeededNoise" if self.simulated else ""),
                fix="a ledger for simulations is opened with simulated=True, and stays one",
            )
        return source

    def _reserve(self, block: str, event: Event | None, account: str | None) -> str | None:
        """None when the block is now ours to draw, its stored text when it was published."""
        deadline = time.monotonic() + self._book.wait
        while True:
            with self._book.writing(NOTHING) as store:
                reservation = store.find(RESERVE, block)
                if reservation is None:
                    self._append_reservation(store, block, event, account)
                    self._under_way[block] = threading.get_ident()
                    break
                asked = (None if event is None else event.to_dict(), account)
                _check_repeated(block, (reservation.table["event"], reservation.account), asked)
                settled = _settled(store, block)
                if settled is None and not self._is_drawn_now(block, reservation):
                    if block in self._drawn:
                        break
                    self._append_settled(store, LOST, block, {"reason": "the process ended before it was published"})
                    settled = store.find(LOST, block)
            if settled is not None:
                return _stored(settled)
            if time.monotonic() > deadline:
                raise LedgerError("another process is still drawing this block", path="block", given=block, fix=STANDS)
            time.sleep(0.005)
        return self._publish(block) if block in self._drawn else None

    def _append_reservation(self, store: Store, block: str, event: Event | None, account: str | None) -> None:
        self._session.begin()
        before = self._book.state.filter
        held, charge = (before, Charge()) if event is None else before.reserve(event)
        if account is not None:
            _check_account(store, account, self._book.state.sequence + 1)
        facts = {"event": None if event is None else event.to_dict(), "charge": charge.to_list()}
        self._book.append(RESERVE, block, held, {**facts, "session": self._session.token}, account=account)

    def _is_drawn_now(self, block: str, reservation: Row) -> bool:
        owner = reservation.table["session"]
        if owner != self._session.token:
            return self._session.alive(owner)
        if self._under_way.get(block) == threading.get_ident():
            raise LedgerError("a draw asks for its own block", path="block", given=block, fix="draw without the ledger")
        return block in self._under_way

    def _publish(self, block: str) -> str:
        text = self._drawn[block]
        with self._book.writing("the charge stands; ask for the block again to store the same value") as store:
            settled = _settled(store, block)
            if settled is None:
                self._append_settled(store, PUBLISH, block, {}, text)
        self._drawn.pop(block, None)
        return text if settled is None else _stored(settled)

    def _append_settled(
        self, store: Store, kind: str, block: str, facts: dict[str, Any], text: str | None = None
    ) -> None:
        reservation = store.find(RESERVE, block)
        if reservation is None:
            raise LedgerError("this block was never reserved", path="block", given=block)
        after = self._book.now.filter.settle(Charge(*reservation.table["charge"]))
        self._book.append(kind, block, after, facts, value=text)

    def _give_up(self, block: str, reason: str) -> None:
        with contextlib.suppress(LedgerError):  # the reservation is on disk: the next one who asks finds it lost
            self.lose(block, f"the draw failed: {reason}")

    def _settle_dead(self) -> None:
        """Mark what dead processes left reserved as lost, and remove their traces."""
        with self._book.writing(NOTHING) as store:
            for row in store.pending():
                if not self._session.alive(row.table["session"]):
                    self._append_settled(store, LOST, row.name, {"reason": "the process ended before it was published"})
            self._session.sweep()

    def _after_fork(self) -> None:
        self._session.forget()
        self._session = Session(self._book.path)
        self._under_way, self._drawn = {}, {}

    def entries(self, after: int = -1) -> Iterator[dict[str, Any]]:
        """Every entry as plain data, in order; values stay in the ledger (see `value`)."""
        while True:
            with self._book.reading() as store:
                page = list(store.rows(after, at_most=500))
            for row in page:
                yield row.describe()
            if not page:
                return
            after = page[-1].sequence


def _first(path: Path, limit: Limit | None, simulated: bool, unit: str, anchored: bool) -> dict[str, Any]:
    if limit is None:
        raise LedgerError(
            "there is no ledger here", path=str(path), allowed="an existing file, or a limit", fix="give limit=Limit..."
        )
    if not path.parent.is_dir():
        raise LedgerError("the folder of the ledger does not exist", path=str(path), fix="create the folder first")
    table = {"format": FORMAT, "limit": limit.to_dict(), "simulated": bool(simulated), "anchored": anchored}
    return {**table, "unit": str(unit)}


def _check_same(book: Book, limit: Limit | None, simulated: bool) -> None:
    if limit is not None and limit != book.state.limit:
        raise LedgerError(
            "the ledger has another limit",
            path="limit",
            given=limit.to_dict(),
            allowed=str(book.state.limit.to_dict()),
            fix="open it without a limit to keep its own; a limit never changes",
        )
    if book.state.simulated != bool(simulated):
        raise PrivacyError(
            "a simulated ledger stays simulated" if book.state.simulated else "this ledger protects people",
            path="simulated",
            given=simulated,
            allowed=str(book.state.simulated),
        )


def _check_name(field: str, name: str) -> None:
    if not isinstance(name, str) or not 0 < len(name) <= 200 or not name.isprintable():
        raise SpecError("a name is needed", path=field, given=name, allowed="1 to 200 printable characters")


def _check_repeated(name: str, known: object, asked: object) -> None:
    if known != asked:
        raise LedgerError(
            "this name was used for something else",
            path="block",
            given=name,
            allowed="the event or account it was used with, or a new name",
            fix="every release carries its own block id; nothing was charged",
        )


def _check_account(store: Store, name: str, sequence: int) -> None:
    account = store.find(ACCOUNT, name)
    if account is None:
        raise LedgerError("this account was never paid for", path="account", given=name, fix="call spend first")
    allowed = account.table["releases"]
    if allowed is not None and store.releases_under(name, sequence) >= allowed:
        raise LedgerError(
            "this account has no release left",
            path="account",
            given=name,
            allowed=f"{allowed} in all",
            fix="pay for another account; nothing was charged",
        )


def _settled(store: Store, block: str) -> Row | None:
    return store.find(PUBLISH, block) or store.find(LOST, block)


def _stored(row: Row) -> str:
    if row.kind == LOST or row.value is None:
        raise ReleaseLost(
            "this block was charged but its value is lost",
            path="block",
            given=row.name,
            fix="go on without it (a policy's lost()); it is never drawn again",
        )
    return row.value
