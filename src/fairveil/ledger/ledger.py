"""The privacy ledger: nothing is released without a charge that is already on disk, and nothing is drawn twice."""

from __future__ import annotations

import contextlib
import os
import uuid
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from fairveil.errors import LedgerError, PrivacyError
from fairveil.ledger.anchor import Anchor, FileAnchor
from fairveil.ledger.book import Book
from fairveil.ledger.chain import ACCOUNT, LOST, PUBLISH, RESERVE, State
from fairveil.ledger.checks import (
    ReleaseLost,
    check_event,
    check_key,
    check_name,
    check_pays,
    check_releases,
    check_same,
    first,
    no_ledger,
    settlement,
)
from fairveil.ledger.draws import NOTHING, AccountFacts, Draws, Payment, Released, open_account
from fairveil.ledger.places import Place, place_of
from fairveil.ledger.values import decode
from fairveil.privacy.accounting import Accountant
from fairveil.privacy.charges import Charge
from fairveil.privacy.events import Event, ParallelEvent, event_from_dict
from fairveil.privacy.filters import Admission, Filter
from fairveil.privacy.limits import Limit
from fairveil.privacy.noise import Noise


class Ledger:
    """An append-only, hash-chained record of what was spent and what was released for it.

    Guarantee: at any time, also after a crash, the charges on disk cover every value that anybody could have seen, and
    a block has at most one value. Cost: two durable commits a release (one for `spend`), O(1) in time and memory.

    >>> import tempfile
    >>> from fairveil.privacy.events import PureEvent
    >>> folder = tempfile.TemporaryDirectory()
    >>> with Ledger.create(folder.name + "/ledger.db", limit=Limit.pure(1.0)) as ledger:
    ...     noisy = ledger.release("count", lambda noise: 7 + int(noise.laplace(2.0)[0]), event=PureEvent(0.5))
    ...     again = ledger.release("count", lambda noise: 0, event=PureEvent(0.5))
    >>> noisy == again                                     # the stored value; nothing is drawn or charged again
    True
    >>> folder.cleanup()
    """

    def __init__(self, book: Book) -> None:
        self._book = book
        self.draws = Draws(book)  # asked by `fairveil.ledger.account` and by nobody else
        book.on_fork = self.draws.after_fork

    @classmethod
    def open(
        cls,
        path: str | os.PathLike[str],
        *,
        ledger: str | None = None,
        limit: Limit | None = None,
        anchor: str | os.PathLike[str] | Anchor | None = None,
        simulated: bool = False,
        key: bytes | None = None,
        wait: float = 30.0,
        reanchor: bool = False,
        known: State | None = None,
    ) -> Ledger:
        """Open a ledger that exists; the whole chain is checked. A ledger that is gone is an error, never a new budget.

        ``path``: a file, or ``postgresql://user@host/database`` with the name of the ``ledger`` there. ``limit``: if
        given, it must be the ledger's own. ``anchor``: a file in a second place (or an `Anchor`) that shows when the
        ledger was set back. ``simulated``: takes seeded noise, protects nobody, and says so for ever. ``key``: the
        secret that a ledger was made with. ``wait``: seconds to wait for other processes. ``reanchor``: go on although
        the old anchor is lost; the ledger records it. ``known``: the state of a ledger that this process has had open
        before; the chain is checked from there on.
        """
        book = _book(path, ledger, anchor, wait, key)
        with _closed_on_error(book):
            if not book.exists():
                raise no_ledger(book.place)
            return cls._opened(book, limit, simulated, reanchor, known)

    @classmethod
    def create(
        cls,
        path: str | os.PathLike[str],
        *,
        limit: Limit,
        ledger: str | None = None,
        anchor: str | os.PathLike[str] | Anchor | None = None,
        simulated: bool = False,
        unit: str = "",
        key: bytes | None = None,
        wait: float = 30.0,
    ) -> Ledger:
        """Make a ledger with this budget where there is none; one that is there is opened as it is.

        Call it once, for data that was never used before: where a ledger was lost, it makes a new one with the whole
        budget (only an anchor can tell, and refuses). ``unit``: in words, whom one charge protects. ``key``: at least
        16 secret bytes, kept elsewhere, without which nobody can write or rewrite an entry that passes. The rest is as
        for `open`.
        """
        book = _book(path, ledger, anchor, wait, key)
        with _closed_on_error(book):
            if not book.exists():
                table = first(book.place, limit, simulated, unit, book.anchor is not None, key is not None)
                book.create(table, uuid.uuid4().hex)
            return cls._opened(book, limit, simulated, False)

    @classmethod
    def _opened(
        cls, book: Book, limit: Limit | None, simulated: bool, reanchor: bool, known: State | None = None
    ) -> Ledger:
        book.load(known)
        check_same(book, limit, simulated)
        book.adopt_anchor(reanchor)
        opened = cls(book)
        opened.draws.settle_dead()
        return opened

    def spend(self, name: str, event: Event, *, releases: int | None = 1, holder: str = "") -> Charge:
        """Pay for an account before any data is read; releases then name the account instead of an event.

        A `ParallelEvent` covers any number of releases on disjoint blocks. Another event covers ``releases`` of them,
        None if it was computed for a whole run (a policy's `event()`). The same name and event again charge nothing.
        ``holder``: who may use the account (a policy's fingerprint); another holder of the same name is refused.
        """
        facts = account_facts(name, event, releases, holder)
        with self._book.writing(NOTHING) as store:
            return open_account(self._book, store, name, facts)

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
        check_pays(event, account)
        [found] = self.draws.release([block], lambda source, _: draw(source), noise, Payment(event, account))
        if isinstance(found.value, ReleaseLost):
            raise found.value
        return found.value

    def release_all(
        self,
        blocks: Sequence[str],
        draw: Callable[[Noise, Sequence[Any]], Any],
        *,
        account: str,
        noise: Noise | None = None,
    ) -> list[Any]:
        """Releases of one account that are due together: all charged in one commit, drawn in order, stored in another.

        ``draw`` gets the noise and what the blocks before it gave. The answer has a value for each block, or the
        `ReleaseLost` that `release` would raise, and ends before a block that somebody else is drawing. A draw that
        fails loses its block and those behind it; blocks before it are kept and stored when they are asked for again.
        """

        def values(source: Noise, earlier: Sequence[Released]) -> Any:
            return draw(source, tuple(one.value for one in earlier))

        return [one.value for one in self.draws.release(blocks, values, noise, Payment(account=account))]

    def quote(self, event: Event) -> Admission:
        """What an event would cost and whether it fits; charges nothing."""
        return self.filter.quote(event)

    def status(self, block: str) -> str:
        """``unknown``, ``reserved``, ``published`` or ``lost``."""
        with self._book.reading() as store:
            settled = settlement(store, block)
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

    def event_of(self, account: str) -> dict[str, Any] | None:
        """The event that an account was opened with, as plain data; None where there is no such account."""
        with self._book.reading() as store:
            row = store.find(ACCOUNT, account)
        return None if row is None else dict(row.table["event"])

    def holder_of(self, account: str) -> str | None:
        """Who may use an account; None where there is no such account."""
        with self._book.reading() as store:
            row = store.find(ACCOUNT, account)
        return None if row is None else str(row.table.get("holder", ""))

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
    def sequence(self) -> int:
        """The number of the last entry, as it is on disk now."""
        with self._book.reading():
            return self._book.state.sequence

    @property
    def seen(self) -> int:
        """The number of the last entry that this process has read or written; on disk there may be later ones."""
        return self._book.state.sequence

    @property
    def known(self) -> State:
        """What this process has checked so far; see `open`."""
        return self._book.state

    @property
    def idle(self) -> bool:
        """Whether nothing is being drawn, and nothing was drawn that could not be stored yet."""
        return not (self.draws.session.under_way or self.draws.session.kept)

    @property
    def simulated(self) -> bool:
        return self._book.state.simulated

    @property
    def place(self) -> Place:
        """Where it is kept; ``str`` of it names the file or the database, without secrets."""
        return self._book.place

    def lost(self) -> list[str]:
        """The blocks that were charged and lost."""
        with self._book.reading() as store:
            return list(store.names(LOST))

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
        self.draws.session.end()
        self._book.close()

    def __enter__(self) -> Ledger:
        return self

    def __exit__(self, *problem: object) -> None:
        self.close()

    def __del__(self) -> None:
        with contextlib.suppress(Exception):
            self.close()

    def __reduce__(self) -> Any:
        raise PrivacyError("a ledger cannot be pickled", fix="open it by its path in the other process")


def account_facts(name: str, event: Event, releases: int | None, holder: str) -> AccountFacts:
    """What an account of this name is opened with; under a `ParallelEvent` nobody counts releases."""
    check_name("name", name)
    check_event(event)
    check_releases(releases)
    return AccountFacts(event, None if isinstance(event, ParallelEvent) else releases, holder)


def _book(
    path: str | os.PathLike[str],
    ledger: str | None,
    anchor: str | os.PathLike[str] | Anchor | None,
    wait: float,
    key: bytes | None,
) -> Book:
    check_key(key)
    mark = FileAnchor(anchor) if isinstance(anchor, str | os.PathLike) else anchor
    return Book(place_of(path, ledger), mark, wait, key)


@contextlib.contextmanager
def _closed_on_error(book: Book) -> Iterator[None]:
    try:
        yield
    except BaseException:
        book.close()
        raise
