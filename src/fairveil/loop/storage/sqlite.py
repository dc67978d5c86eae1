"""The store in SQLite: one writer at a time, write-ahead log with full sync, erased content overwritten."""

from __future__ import annotations

import contextlib
import fcntl
import os
import sqlite3
import threading
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from fairveil.loop.problems import StorageFailed
from fairveil.loop.storage.driver import EVENT, STATUS, Row
from fairveil.privacy.ledger.faults import point

_PLACES = ", ".join("?" for _ in EVENT.split(","))
_INSERT = f"INSERT INTO events ({EVENT}) VALUES ({_PLACES})"
_FIND = f"SELECT {EVENT} FROM events WHERE loop = ? AND key = ?"
_REWARD = "UPDATE events SET reward = ?, rewarded = ? WHERE loop = ? AND key = ?"
_LOCK = f"SELECT {STATUS} FROM loops WHERE id = ?"


class SqliteTransaction:
    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def execute(self, statement: str, values: Sequence[Any] = ()) -> list[Row]:
        return self._connection.execute(statement, values).fetchall()

    def together(self) -> contextlib.AbstractContextManager[None]:
        return contextlib.nullcontext()

    def many(self, statement: str, rows: Iterable[Sequence[Any]]) -> None:
        self._connection.executemany(statement, rows)

    def events(self, loop: int, keys: Sequence[bytes]) -> dict[bytes, Row]:
        execute = self._connection.execute
        found = {}
        for key in keys:
            row = execute(_FIND, (loop, key)).fetchone()
            if row is not None:
                found[key] = row
        return found

    def insert_events(self, rows: Sequence[Row]) -> None:
        if rows:
            self._connection.executemany(_INSERT, rows)

    def set_rewards(self, loop: int, rewards: Sequence[tuple[bytes, float | None, int]]) -> None:
        if rewards:
            self._connection.executemany(_REWARD, [(value, time, loop, key) for key, value, time in rewards])

    def lock_loop(self, loop: int) -> Row | None:
        row: Row | None = self._connection.execute(_LOCK, (loop,)).fetchone()
        return row  # BEGIN IMMEDIATE holds the only write lock there is


class SqliteDriver:
    """One file. Writers of this process take turns by a lock, processes by flock, which the dead let go."""

    dialect = "sqlite"
    failures: tuple[type[Exception], ...] = (sqlite3.Error, OSError)

    def __init__(self, path: Path) -> None:
        self.path = path
        self._turn = threading.Lock()
        self._owner = os.getpid()
        self._writer: sqlite3.Connection | None = None
        self._readers: list[sqlite3.Connection] = []
        self._lock: int | None = None

    def __str__(self) -> str:
        return f"sqlite:///{self.path}"

    def prepare(self) -> None:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self.writing() as tx:
            [(mode,)] = tx.execute("PRAGMA journal_mode")
        if mode != "wal":
            raise sqlite3.OperationalError("the file system does not take a write-ahead log")

    @contextlib.contextmanager
    def writing(self) -> Iterator[SqliteTransaction]:
        self._after_fork()
        with self._turn:
            connection, lock = self._connected()
            fcntl.flock(lock, fcntl.LOCK_EX)
            try:
                point("store-begin")
                connection.execute("BEGIN IMMEDIATE")
                try:
                    point("store-begun")
                    yield SqliteTransaction(connection)
                    point("store-commit")
                    connection.execute("COMMIT")
                except BaseException:
                    with contextlib.suppress(sqlite3.Error):
                        connection.execute("ROLLBACK")
                    if connection.in_transaction:
                        self._disconnect()  # what could not be taken back must not be part of the next commit
                    raise
                point("store-committed")
            except self.failures:
                self._disconnect()  # nothing that a connection remembers of a failed transaction is kept
                raise
            finally:
                fcntl.flock(lock, fcntl.LOCK_UN)

    @contextlib.contextmanager
    def reading(self) -> Iterator[SqliteTransaction]:
        self._after_fork()
        try:
            connection = self._readers.pop()
        except IndexError:
            connection = _connect(self.path)
        try:
            connection.execute("BEGIN")
            try:
                yield SqliteTransaction(connection)
            finally:
                connection.execute("ROLLBACK")
        except BaseException as problem:
            if isinstance(problem, self.failures) or connection.in_transaction:
                connection.close()
            else:
                self._readers.append(connection)
            raise
        self._readers.append(connection)

    def ledger(self, name: str) -> tuple[str | Path, str | None]:
        folder = self.path.parent / "ledgers"
        folder.mkdir(exist_ok=True)
        return folder / f"{name}.db", None

    def ledgers(self) -> list[str]:
        return sorted(file.stem for file in (self.path.parent / "ledgers").glob("*.db"))

    def tidy(self) -> None:
        with self._turn:
            connection, _ = self._connected()
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")

    def explain(self, problem: Exception) -> StorageFailed:
        low = str(problem).lower()
        if "readonly" in low or "read-only" in low or "permission" in low or "unable to open" in low:
            fix = "make the folder of the store writable for this user"
        elif "full" in low or "no space" in low or "too large" in low or "disk i/o" in low:
            fix = "free space on the disk of the store"
        elif "malformed" in low or "not a database" in low:
            fix = "the file is damaged: restore it from a backup (fairveil store restore)"
        else:
            fix = "see the error of the system"
        reason = str(problem) or type(problem).__name__
        return StorageFailed("the store cannot be written", path=str(self), given=reason, fix=f"{fix}, then repeat")

    def close(self) -> None:
        with self._turn:
            self._disconnect()
            while self._readers:
                self._readers.pop().close()
            if self._lock is not None:
                os.close(self._lock)
                self._lock = None

    def _connected(self) -> tuple[sqlite3.Connection, int]:
        if self._lock is None:
            flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC
            self._lock = os.open(self.path.with_name(self.path.name + ".lock"), flags, 0o600)
        if self._writer is None:
            self._writer = _connect(self.path)
        return self._writer, self._lock

    def _disconnect(self) -> None:
        if self._writer is not None:
            with contextlib.suppress(sqlite3.Error):
                self._writer.close()
            self._writer = None

    def _after_fork(self) -> None:
        """A child has connections and locks of its own; its parent's are left as they are."""
        if self._owner != os.getpid():
            self._owner, self._turn = os.getpid(), threading.Lock()
            _left_behind.append((self._writer, self._readers))
            self._writer, self._readers, self._lock = None, [], None


_left_behind: list[Any] = []
"""Connections that a forked child inherited: closing them there would drop the parent's locks."""


def _connect(path: Path) -> sqlite3.Connection:
    fresh = not path.exists()
    connection = sqlite3.connect(path, timeout=30.0, isolation_level=None, check_same_thread=False)
    if fresh:
        os.chmod(path, 0o600)
    for pragma in ("journal_mode = WAL", "synchronous = FULL", "fullfsync = ON", "secure_delete = ON"):
        connection.execute(f"PRAGMA {pragma}")
    for pragma in ("trusted_schema = OFF", "temp_store = MEMORY", "cache_size = -16384"):
        connection.execute(f"PRAGMA {pragma}")
    return connection
