"""Where a ledger is kept: what the ledger asks of a file or of a database server.

Both keep the same rows with the same hashes, so `verify`, the anchor and the rules of the chain know no difference.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import Protocol

from fairveil.errors import LedgerError, LedgerTampered
from fairveil.privacy.ledger.chain import Row


class LedgerGone(LedgerTampered):
    """There is no ledger where one was, or should be."""


class LedgerStore(Protocol):
    """One connection to the rows of one ledger."""

    def current(self) -> bool:
        """Whether the connection still reaches the ledger of its place."""

    def writing(self) -> AbstractContextManager[None]:
        """A transaction that nobody else can write beside; durable when it ends without an error."""

    def snapshot(self) -> AbstractContextManager[None]:
        """Reads that see one moment."""

    def append(self, row: Row) -> None: ...

    def last(self) -> tuple[int, str] | None:
        """Sequence number and hash of the last row."""

    def hash_at(self, sequence: int) -> str | None: ...

    def find(self, kind: str, name: str) -> Row | None: ...

    def rows(self, after: int = -1, at_most: int = -1) -> Iterator[Row]:
        """Rows in order after a sequence number, in constant memory; -1 for ``at_most``: all of them."""

    def releases_under(self, account: str, before: int) -> int:
        """How many releases were reserved under an account before this sequence number."""

    def first_under(self, account: str) -> str | None:
        """The name of the first block that was reserved under an account."""

    def pending(self) -> list[Row]:
        """Reservations that are neither published nor lost."""

    def names(self, kind: str) -> Iterator[str]: ...

    def check_pages(self) -> None:
        """What the storage itself can check of its pages and indexes."""

    def close(self) -> None: ...


class WriterLock(Protocol):
    """Held around every write; freed when its process dies."""

    def held(self) -> AbstractContextManager[None]: ...

    def close(self) -> None: ...


class Session(Protocol):
    """Shows others, for as long as this process lives, that the draws under its token are still under way."""

    token: str

    def begin(self) -> None:
        """Start to be visible; called under the writer lock."""

    def alive(self, token: str) -> bool:
        """Whether the process behind a token still lives."""

    def sweep(self) -> None:
        """Remove what dead processes left; called under the writer lock."""

    def end(self) -> None: ...

    def forget(self) -> None:
        """Let go without a trace: what the end of a process does, and a forked child with its parent's session."""


class Place(Protocol):
    """One ledger's place. ``str`` of it names the place in errors, without secrets."""

    failures: tuple[type[Exception], ...]
    """What the storage raises when it fails."""

    def check_new(self) -> None:
        """Refuse, before anything is made, a place where no ledger can be made."""

    def create(self, lock: WriterLock, first: Callable[[], Row]) -> None:
        """Make the ledger with its first row if there is none, so that two who start together make one.

        ``first`` is called under the lock, only when there is none.
        """

    def open(self, wait: float) -> LedgerStore:
        """A connection for writing, whose schema was checked; LedgerGone when there is no ledger."""

    def reading(self) -> AbstractContextManager[LedgerStore]:
        """A snapshot that needs no write access."""

    def lock(self, wait: float) -> WriterLock: ...

    def session(self) -> Session: ...

    def explain(self, problem: Exception, effect: str) -> LedgerError:
        """A failure as an error that says what to do and what became of the charge."""
