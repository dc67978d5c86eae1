"""The rows in PostgreSQL: appended in durable transactions under an advisory lock, never changed."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from fairveil.privacy.ledger.chain import LOST, PUBLISH, RESERVE, Row
from fairveil.privacy.ledger.faults import point
from fairveil.privacy.ledger.postgres.connect import Connection, driver, lock_number

_COLUMNS = "sequence, kind, name, account, facts, value, hash"
_PAGE = 500


class PostgresStore:
    """One connection to the rows of one ledger."""

    def __init__(self, connection: Connection, ledger: str) -> None:
        self._connection, self.ledger = connection, ledger

    def current(self) -> bool:
        return not (self._connection.closed or self._connection.broken)

    @contextlib.contextmanager
    def writing(self) -> Iterator[None]:
        point("begin")
        self._connection.execute("BEGIN")
        try:
            self._connection.execute("SELECT pg_advisory_xact_lock(%s)", (lock_number("writer", self.ledger),))
            point("begun")
            yield
            point("commit")
            self._connection.execute("COMMIT")
        except BaseException:
            with contextlib.suppress(driver().Error):
                self._connection.execute("ROLLBACK")
            raise
        point("committed")

    @contextlib.contextmanager
    def snapshot(self) -> Iterator[None]:
        self._connection.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
        try:
            yield
        finally:
            with contextlib.suppress(driver().Error):
                self._connection.execute("ROLLBACK")

    def append(self, row: Row) -> None:
        point("insert")
        self.insert(row)
        point("inserted")

    def insert(self, row: Row) -> None:
        self._connection.execute(
            f"INSERT INTO entries (ledger, {_COLUMNS}) VALUES (%s, %s, %s, %s, %s, %s, %s, %s)",
            (self.ledger, row.sequence, row.kind, row.name, row.account, row.facts, row.value, row.hash),
        )

    def last(self) -> tuple[int, str] | None:
        query = "SELECT sequence, hash FROM entries WHERE ledger = %s ORDER BY sequence DESC LIMIT 1"
        found = self._one(query)
        return None if found is None else (found[0], found[1])

    def hash_at(self, sequence: int) -> str | None:
        found = self._one("SELECT hash FROM entries WHERE ledger = %s AND sequence = %s", sequence)
        return None if found is None else found[0]

    def find(self, kind: str, name: str) -> Row | None:
        found = self._one(f"SELECT {_COLUMNS} FROM entries WHERE ledger = %s AND name = %s AND kind = %s", name, kind)
        return None if found is None else Row(*found)

    def rows(self, after: int = -1, at_most: int = -1) -> Iterator[Row]:
        left = at_most
        query = f"SELECT {_COLUMNS} FROM entries WHERE ledger = %s AND sequence > %s ORDER BY sequence LIMIT %s"
        while left != 0:
            size = _PAGE if left < 0 else min(left, _PAGE)
            page = self._connection.execute(query, (self.ledger, after, size)).fetchall()
            for found in page:
                yield Row(*found)
            if len(page) < size:
                return
            after, left = page[-1][0], left - size if left > 0 else left

    def releases_under(self, account: str, before: int) -> int:
        query = "SELECT count(*) FROM entries WHERE ledger = %s AND account = %s AND sequence < %s"
        found = self._one(query, account, before)
        return 0 if found is None else found[0]

    def first_under(self, account: str) -> str | None:
        query = "SELECT name FROM entries WHERE ledger = %s AND account = %s AND kind = %s ORDER BY sequence LIMIT 1"
        found = self._one(query, account, RESERVE)
        return None if found is None else found[0]

    def pending(self) -> list[Row]:
        settled = (
            "SELECT 1 FROM entries s WHERE s.ledger = r.ledger AND s.name = r.name "
            f"AND s.kind IN ('{PUBLISH}', '{LOST}')"
        )
        query = (
            f"SELECT {_COLUMNS} FROM entries r WHERE ledger = %s AND kind = '{RESERVE}' "
            f"AND NOT EXISTS ({settled}) ORDER BY sequence"
        )
        return [Row(*found) for found in self._connection.execute(query, (self.ledger,)).fetchall()]

    def names(self, kind: str) -> Iterator[str]:
        query = "SELECT name FROM entries WHERE ledger = %s AND kind = %s ORDER BY sequence"
        for found in self._connection.execute(query, (self.ledger, kind)).fetchall():
            yield found[0]

    def check_pages(self) -> None:
        """Page checksums are the server's own; every row is read and checked by its hash anyway."""

    def close(self) -> None:
        self._connection.close()

    def _one(self, query: str, *values: Any) -> Any:
        return self._connection.execute(query, (self.ledger, *values)).fetchone()
