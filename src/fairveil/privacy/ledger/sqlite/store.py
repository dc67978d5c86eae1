"""The rows in SQLite: appended in durable transactions, never changed.

Write-ahead log with synchronous=FULL: a commit returns when it is on disk. A new ledger is made complete under another
name and renamed, so a file that exists without its first entry was damaged, not half made.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import sqlite3
import tempfile
from collections.abc import Iterator
from pathlib import Path

from fairveil.errors import LedgerTampered
from fairveil.privacy.ledger.anchor import sync_folder
from fairveil.privacy.ledger.chain import LOST, PUBLISH, RESERVE, Row
from fairveil.privacy.ledger.faults import point

_SCHEMA = {
    "entries": (
        "CREATE TABLE entries (sequence INTEGER PRIMARY KEY, kind TEXT NOT NULL, name TEXT NOT NULL, "
        "account TEXT, facts TEXT NOT NULL, value TEXT, hash TEXT NOT NULL)"
    ),
    "entries_by_name": "CREATE UNIQUE INDEX entries_by_name ON entries (name, kind)",
    "entries_by_account": "CREATE INDEX entries_by_account ON entries (account) WHERE account IS NOT NULL",
    "entries_keep": (
        "CREATE TRIGGER entries_keep BEFORE UPDATE ON entries BEGIN SELECT RAISE(ABORT, 'the ledger only grows'); END"
    ),
    "entries_stay": (
        "CREATE TRIGGER entries_stay BEFORE DELETE ON entries BEGIN SELECT RAISE(ABORT, 'the ledger only grows'); END"
    ),
}
FULL = 2
"""What SQLite calls synchronous = FULL."""
_COLUMNS = "sequence, kind, name, account, facts, value, hash"


class SqliteStore:
    """One connection to one ledger file."""

    def __init__(self, path: Path, connection: sqlite3.Connection) -> None:
        self.path = path
        self._connection = connection
        stat = os.stat(path)
        self._file = stat.st_dev, stat.st_ino

    @classmethod
    def create(cls, path: Path, first: Row) -> None:
        """Make a ledger file with its first row; call it under the writer lock, when no such file exists."""
        fresh = path.with_name(path.name + ".new")
        for suffix in ("", "-wal", "-shm", "-journal"):
            fresh.with_name(fresh.name + suffix).unlink(missing_ok=True)
        point("create-begin")
        connection = _connect(fresh)
        try:
            # a rollback journal here: with a write-ahead log a full disk could leave the content outside the file
            connection.execute("PRAGMA journal_mode = DELETE")
            connection.execute("BEGIN IMMEDIATE")
            for statement in _SCHEMA.values():
                connection.execute(statement)
            _insert(connection, first)
            point("create-commit")
            connection.execute("COMMIT")
            mode = connection.execute("PRAGMA journal_mode = WAL").fetchone()[0]
        finally:
            connection.close()
        if mode != "wal" or fresh.with_name(fresh.name + "-wal").exists():
            raise sqlite3.OperationalError("the file system does not take a write-ahead log, or the disk is full")
        point("create-rename")
        os.rename(fresh, path)
        sync_folder(path.parent)
        point("create-done")

    @classmethod
    def open(cls, path: Path) -> SqliteStore:
        """Open for reading and writing."""
        store = cls(path, _connect(path))
        try:
            store._check_schema()
        except BaseException:
            store.close()
            raise
        return store

    @classmethod
    @contextlib.contextmanager
    def reading(cls, path: Path) -> Iterator[SqliteStore]:
        """A snapshot that needs no write access: the file and its log are copied aside when the folder is read-only."""
        with contextlib.ExitStack() as stack:
            source = path
            if not os.access(path.parent, os.W_OK) or not os.access(path, os.W_OK):
                folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="fairveil-ledger-"))
                source = Path(folder) / path.name
                for suffix in ("", "-wal"):
                    if path.with_name(path.name + suffix).exists():
                        shutil.copyfile(path.with_name(path.name + suffix), source.with_name(source.name + suffix))
            store = cls(source, _connect(source))
            stack.callback(store.close)
            stack.enter_context(store.snapshot())
            store._check_schema()
            yield store

    @property
    def durable(self) -> bool:
        """Whether a commit returns only when it is on disk."""
        return int(self._connection.execute("PRAGMA synchronous").fetchone()[0]) >= FULL

    def current(self) -> bool:
        """Whether the path still names the file that is open."""
        try:
            stat = os.stat(self.path)
        except OSError:
            return False
        return (stat.st_dev, stat.st_ino) == self._file

    @contextlib.contextmanager
    def writing(self) -> Iterator[None]:
        """A transaction that nobody else can write beside; durable when it ends without an error."""
        point("begin")
        self._connection.execute("BEGIN IMMEDIATE")
        try:
            point("begun")
            yield
            point("commit")
            self._connection.execute("COMMIT")
        except BaseException:
            with contextlib.suppress(sqlite3.Error):
                self._connection.execute("ROLLBACK")
            raise
        point("committed")

    @contextlib.contextmanager
    def snapshot(self) -> Iterator[None]:
        """Reads that see one moment."""
        self._connection.execute("BEGIN")
        try:
            yield
        finally:
            with contextlib.suppress(sqlite3.Error):
                self._connection.execute("ROLLBACK")

    def append(self, row: Row) -> None:
        point("insert")
        _insert(self._connection, row)
        point("inserted")

    def last(self) -> tuple[int, str] | None:
        """Sequence number and hash of the last row."""
        found = self._connection.execute("SELECT sequence, hash FROM entries ORDER BY sequence DESC LIMIT 1").fetchone()
        return None if found is None else (found[0], found[1])

    def hash_at(self, sequence: int) -> str | None:
        found = self._connection.execute("SELECT hash FROM entries WHERE sequence = ?", (sequence,)).fetchone()
        return None if found is None else found[0]

    def find(self, kind: str, name: str) -> Row | None:
        found = self._connection.execute(
            f"SELECT {_COLUMNS} FROM entries WHERE name = ? AND kind = ?", (name, kind)
        ).fetchone()
        return None if found is None else Row(*found)

    def rows(self, after: int = -1, at_most: int = -1) -> Iterator[Row]:
        """Rows in order after a sequence number, in constant memory; -1 for ``at_most``: all of them."""
        query = f"SELECT {_COLUMNS} FROM entries WHERE sequence > ? ORDER BY sequence LIMIT ?"
        for found in self._connection.execute(query, (after, at_most)):
            yield Row(*found)

    def releases_under(self, account: str, before: int) -> int:
        """How many releases were reserved under an account before this sequence number."""
        query = "SELECT count(*) FROM entries WHERE account = ? AND sequence < ?"
        return self._connection.execute(query, (account, before)).fetchone()[0]

    def first_under(self, account: str) -> str | None:
        """The name of the first block that was reserved under an account."""
        query = f"SELECT name FROM entries WHERE account = ? AND kind = '{RESERVE}' ORDER BY sequence LIMIT 1"
        found = self._connection.execute(query, (account,)).fetchone()
        return None if found is None else found[0]

    def pending(self) -> list[Row]:
        """Reservations that are neither published nor lost."""
        settled = f"SELECT 1 FROM entries s WHERE s.name = r.name AND s.kind IN ('{PUBLISH}', '{LOST}')"
        query = f"SELECT {_COLUMNS} FROM entries r WHERE kind = '{RESERVE}' AND NOT EXISTS ({settled})"
        return [Row(*found) for found in self._connection.execute(query)]

    def names(self, kind: str) -> Iterator[str]:
        query = "SELECT name FROM entries WHERE kind = ? ORDER BY sequence"
        for found in self._connection.execute(query, (kind,)):
            yield found[0]

    def check_pages(self) -> None:
        """SQLite's own check of pages and indexes."""
        found = self._connection.execute("PRAGMA integrity_check(1)").fetchone()[0]
        if found != "ok":
            raise LedgerTampered(
                "the ledger file is damaged", path=str(self.path), given=found, fix="restore it from a copy"
            )

    def close(self) -> None:
        self._connection.close()

    def _check_schema(self) -> None:
        found = dict(self._connection.execute("SELECT name, sql FROM sqlite_master WHERE sql IS NOT NULL"))
        if found != _SCHEMA:
            raise LedgerTampered(
                "this file is not an unchanged fairveil ledger",
                path=str(self.path),
                given=", ".join(sorted(found)) or "no tables",
                allowed="the tables that fairveil made",
                fix="check the path, or restore the file from a copy",
            )


def _connect(path: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(path, timeout=30.0, isolation_level=None, check_same_thread=False)
    for pragma in ("synchronous = FULL", "fullfsync = ON", "trusted_schema = OFF", "cell_size_check = ON"):
        connection.execute(f"PRAGMA {pragma}")
    return connection


def _insert(connection: sqlite3.Connection, row: Row) -> None:
    connection.execute(
        f"INSERT INTO entries ({_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?)",
        (row.sequence, row.kind, row.name, row.account, row.facts, row.value, row.hash),
    )
