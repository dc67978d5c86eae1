"""The rows of one ledger, asked for and appended by the same statements in a file and on a server."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar

from fairveil.ledger.chain import LOST, PUBLISH, RESERVE, Row
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
