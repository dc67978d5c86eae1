"""Where a ledger is kept: what the ledger asks of a file or of a database server, and which of them a path names.

Both keep the same rows with the same hashes, asked for and appended by the same statements, so `verify`, the anchor and
the rules of the chain know no difference.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, ClassVar, Protocol

from fairveil.errors import LedgerError, SpecError
from fairveil.ledger.chain import LOST, PUBLISH, RESERVE, Row
from fairveil.storage.alive import Session
from fairveil.storage.faults import point

COLUMNS = "sequence, kind, name, account, facts, value, hash"
PAGE = 500
"""Rows that are read at a time."""


class LedgerStore:
    """The rows of one ledger, inside a transaction. A file holds one ledger, and a server's table many: ``mine`` is the
    condition that tells whose a row is, and what it asks for stands before all other values."""

    mine: ClassVar[str] = "TRUE"
    same: ClassVar[str] = ""
    """What says that rows r and s are of one ledger, before other conditions."""

    def __init__(self, connection: Any, *whose: str) -> None:
        self.connection, self._whose = connection, whose

    def ask(self, query: str, *values: Any) -> list[Any]:
        """The answer to a query with question marks, the first of them in ``mine``."""
        found: list[Any] = self.execute(query, (*self._whose, *values)).fetchall()
        return found

    def execute(self, statement: str, values: tuple[Any, ...]) -> Any:
        """A statement with question marks."""
        return self.connection.execute(statement, values)

    def append(self, row: Row) -> None:
        """Add a row, past the points at which tests stop a process."""
        point("insert")
        self.insert(row)
        point("inserted")

    def insert(self, row: Row) -> None:
        """Add a row."""
        values = (row.sequence, row.kind, row.name, row.account, row.facts, row.value, row.hash)
        columns = ("ledger, " if self._whose else "") + COLUMNS
        marks = ", ".join("?" for _ in columns.split(","))
        self.execute(f"INSERT INTO entries ({columns}) VALUES ({marks})", (*self._whose, *values))

    def last(self) -> tuple[int, str] | None:
        """Sequence number and hash of the last row."""
        found = self.ask(f"SELECT sequence, hash FROM entries WHERE {self.mine} ORDER BY sequence DESC LIMIT 1")
        return tuple(found[0]) if found else None

    def hash_at(self, sequence: int) -> str | None:
        found = self.ask(f"SELECT hash FROM entries WHERE {self.mine} AND sequence = ?", sequence)
        return found[0][0] if found else None

    def find(self, kind: str, name: str) -> Row | None:
        """The row of a kind under a name: there is at most one."""
        found = self.ask(f"SELECT {COLUMNS} FROM entries WHERE {self.mine} AND name = ? AND kind = ?", name, kind)
        return Row(*found[0]) if found else None

    def rows(self, after: int = -1, at_most: int = -1) -> Iterator[Row]:
        """Rows in order after a sequence number, in constant memory; -1 for ``at_most``: all of them."""
        query = f"SELECT {COLUMNS} FROM entries WHERE {self.mine} AND sequence > ? ORDER BY sequence LIMIT ?"
        while at_most != 0:
            size = PAGE if at_most < 0 else min(at_most, PAGE)
            page = self.ask(query, after, size)
            for found in page:
                yield Row(*found)
            if len(page) < size:
                return
            after, at_most = page[-1][0], at_most - size if at_most > 0 else at_most

    def releases_under(self, account: str, before: int) -> int:
        """How many releases were reserved under an account before this sequence number."""
        query = f"SELECT count(*) FROM entries WHERE {self.mine} AND account = ? AND sequence < ?"
        return int(self.ask(query, account, before)[0][0])

    def first_under(self, account: str) -> str | None:
        """The name of the first block that was reserved under an account."""
        query = f"SELECT name FROM entries WHERE {self.mine} AND account = ? AND kind = ? ORDER BY sequence LIMIT 1"
        found = self.ask(query, account, RESERVE)
        return found[0][0] if found else None

    def pending(self) -> list[Row]:
        """Reservations that are neither published nor lost."""
        settled = f"SELECT 1 FROM entries s WHERE {self.same}s.name = r.name AND s.kind IN ('{PUBLISH}', '{LOST}')"
        query = f"SELECT {COLUMNS} FROM entries r WHERE {self.mine} AND kind = ? AND NOT EXISTS ({settled})"
        return [Row(*found) for found in self.ask(f"{query} ORDER BY sequence", RESERVE)]

    def names(self, kind: str) -> Iterator[str]:
        query = f"SELECT name FROM entries WHERE {self.mine} AND kind = ? ORDER BY sequence"
        return (name for (name,) in self.ask(query, kind))

    def check_pages(self) -> None:
        """What the storage itself can check of its pages and indexes; a server does so by itself."""


class Place(Protocol):
    """One ledger's place. ``str`` of it names the place in errors, without secrets."""

    failures: tuple[type[Exception], ...]
    """What the storage raises when it fails."""

    def check_new(self) -> None:
        """Refuse, before anything is made, a place where no ledger can be made."""

    def check(self, wait: float) -> None:
        """Refuse a ledger whose tables are not as they were made; LedgerGone when there is no ledger."""

    def create(self, wait: float, first: Callable[[], Row]) -> None:
        """Make the ledger with its first row if there is none, so that two who start together make one.

        ``first`` is called under the writer lock, only when there is none.
        """

    def turn(self, wait: float) -> AbstractContextManager[None]:
        """Held around a write and what follows it, where a transaction cannot hold it; freed when the process dies."""

    def writing(self, wait: float) -> AbstractContextManager[LedgerStore]:
        """A transaction that nobody else can write beside; durable when it ends without an error."""

    def snapshot(self, wait: float) -> AbstractContextManager[LedgerStore]:
        """Reads that see one moment."""

    def reading(self) -> AbstractContextManager[LedgerStore]:
        """A snapshot that needs no write access, of a place that nobody here has open."""

    def session(self) -> Session:
        """Shows others, as long as this process lives, that the draws under its token are still under way."""

    def explain(self, problem: Exception, effect: str, anchored: bool = False) -> LedgerError:
        """A failure as an error that says what to do and what became of the charge. ``anchored``: an anchor was named,
        so there was a ledger here."""

    def close(self) -> None:
        """Nothing is kept open for it any more."""


def place_of(path: str | os.PathLike[str], name: str | None = None) -> Place:
    """The place that a path names, or a URL and the name of a ledger there (given, or after ``#``)."""
    kind, mark, _ = path.partition("://") if isinstance(path, str) else ("", "", "")
    if not mark:
        from fairveil.ledger.sqlite import SqlitePlace

        if name is not None:
            raise SpecError("a file holds one ledger", path="ledger", given=name, fix="leave the name out")
        return SqlitePlace(Path(path))
    if kind not in ("postgresql", "postgres"):
        allowed = "a path, or postgresql://user@host/database"
        raise SpecError("no ledger can be kept there", path="path", given=f"{kind}://...", allowed=allowed)
    url, _, written = str(path).partition("#")
    chosen = name or written
    if not chosen:
        raise SpecError("a ledger on a server has a name", path="ledger", fix="give ledger=..., or #name in the URL")
    from fairveil.ledger.postgres import PostgresPlace

    return PostgresPlace(url, chosen)
