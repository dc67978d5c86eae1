"""The store in SQLite: one writer at a time, write-ahead log with full sync, erased content overwritten."""

from __future__ import annotations

import contextlib
import os
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, ClassVar

from fairveil.loop.kept import ROOM, SEAT
from fairveil.loop.storage.driver import EVENT, STATUS, Driver, Row
from fairveil.storage.sqlite import BUSY, FAILURES, LOCK, SqliteFile, kind_of, locked

_PLACES = ", ".join("?" for _ in EVENT.split(","))
_INSERT = f"INSERT INTO events ({EVENT}, room) VALUES ({_PLACES}, zeroblob({ROOM}))"
_TOGETHER = 16
"""Keys that are looked up by one statement; the last ones are filled up, so that there is one statement."""
_FIND = f"SELECT {EVENT} FROM events WHERE loop = ? AND key IN ({', '.join('?' for _ in range(_TOGETHER))})"
_KEY = EVENT.split(", ").index("key")
_REWARD = (
    f"UPDATE events SET reward = ?, rewarded = ?, seat = coalesce(?, seat), room = zeroblob({SEAT}) "
    "WHERE loop = ? AND key = ?"
)
_SEAT = f"UPDATE events SET seat = ?, room = zeroblob(max(0, length(room) - {SEAT})) WHERE loop = ? AND key = ?"
_LOCK = f"SELECT {STATUS} FROM loops WHERE id = ?"
PATIENCE = 200
"""Milliseconds that emptying the log waits for readers, with writers behind it; then it is tried again later."""
PAGE, MARGIN = 4000, 1000
"""Rows that are looked at together, and how many without content lie between one that may move and one with content.

A page of SQLite has at most about a hundred of them, and a change of size moves rows of three pages at most.
"""
WRITER, READER = 8192, 1024
"""KiB of pages that a connection keeps. Writers take turns and share one, whose pages stay true; those of a reader are
read again after each commit, and there may be many of them. What lies beside a ledger is written and not read again:
there a writer keeps no more than a reader."""
_PRAGMAS = ("journal_mode = WAL", "secure_delete = ON", "temp_store = MEMORY")


class SqliteTransaction:
    dialect = "sqlite"

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def execute(self, statement: str, values: Sequence[Any] = ()) -> list[Row]:
        return self._connection.execute(statement, values).fetchall()

    def together(self) -> contextlib.AbstractContextManager[None]:
        return contextlib.nullcontext()

    def many(self, statement: str, rows: Iterable[Sequence[Any]]) -> None:
        self._connection.executemany(statement, rows)

    def events(self, loop: int, keys: Sequence[bytes]) -> dict[bytes, Row]:
        found: dict[bytes, Row] = {}
        for first in range(0, len(keys), _TOGETHER):
            some = list(keys[first : first + _TOGETHER])
            some += some[-1:] * (_TOGETHER - len(some))
            for row in self._connection.execute(_FIND, (loop, *some)):
                found[row[_KEY]] = row
        return found

    def insert_events(self, rows: Sequence[Row]) -> None:
        if rows:
            self._connection.executemany(_INSERT, rows)

    def set_rewards(self, loop: int, rewards: Sequence[tuple[bytes, float | None, int, int | None]]) -> None:
        if rewards:
            rows = [(value, time, seat, loop, key) for key, value, time, seat in rewards]
            self._connection.executemany(_REWARD, rows)

    def set_seats(self, loop: int, seats: Sequence[tuple[bytes, int]]) -> None:
        if seats:
            self._connection.executemany(_SEAT, [(seat, loop, key) for key, seat in seats])

    def lock_loop(self, loop: int) -> Row | None:
        row: Row | None = self._connection.execute(_LOCK, (loop,)).fetchone()
        return row  # BEGIN IMMEDIATE holds the only write lock there is


class SqliteDriver(Driver):
    """One file. Writers take turns by a lock beside it, which the dead let go."""

    dialect = "sqlite"
    failures = FAILURES
    path: Path
    fixes: ClassVar = {
        "denied": "make the folder of the store writable for this user",
        "full": "free space on the disk of the store",
        "damaged": "the file is damaged: restore it from a backup (fairveil store restore)",
        "other": "see the error of the system",
    }

    def __init__(self, path: Path, writer: int = WRITER) -> None:
        """``writer``: KiB of pages that the connection of writers keeps."""
        self.path, self.url = path, f"sqlite:///{path}"
        self._file, self._readers = (
            SqliteFile(path.absolute(), (*_PRAGMAS, f"cache_size = -{most}")) for most in (writer, READER)
        )
        self._lock = f"{path.absolute()}{LOCK}"

    def __str__(self) -> str:
        return self.url

    def prepare(self) -> None:
        with self.explained():
            self.path.parent.mkdir(parents=True, exist_ok=True)
            if not self.path.exists():
                with contextlib.suppress(FileExistsError):
                    os.close(os.open(self.path, os.O_CREAT | os.O_EXCL, 0o600))
            with self.writing() as tx:
                [(mode,)] = tx.execute("PRAGMA journal_mode")
            if mode != "wal":
                raise sqlite3.OperationalError("the file system does not take a write-ahead log")

    @contextlib.contextmanager
    def writing(self) -> Iterator[SqliteTransaction]:
        with self.explained(), locked(self._lock, mode=0o600), self._file.writing("store-") as connection:
            yield SqliteTransaction(connection)

    @contextlib.contextmanager
    def reading(self) -> Iterator[SqliteTransaction]:
        with self.explained(), self._readers.reading() as connection:
            yield SqliteTransaction(connection)

    def ledger(self, name: str) -> tuple[str | Path, str | None]:
        folder = self.path.parent / "ledgers"
        folder.mkdir(exist_ok=True)
        return folder / f"{name}.db", None

    def ledgers(self) -> list[str]:
        return sorted(file.stem for file in (self.path.parent / "ledgers").glob("*.db"))

    def beside(self, ledger: str) -> SqliteDriver:
        path, _ = self.ledger(ledger)
        return SqliteDriver(Path(path).with_suffix(".events"), writer=READER)

    def tidy(self) -> bool:
        while self._pack():
            pass
        with self.explained(), locked(self._lock, mode=0o600), self._file.connection() as connection:
            try:
                connection.execute(f"PRAGMA busy_timeout = {PATIENCE}")
                [(busy, _, _)] = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
            finally:
                connection.execute(f"PRAGMA busy_timeout = {round(BUSY * 1000)}")
        return not busy

    def _pack(self) -> bool:
        """Take the zeros out of old rows, as far as no row with content is near; whether more is left."""
        with self.writing() as tx:
            [(packed,)] = tx.execute("SELECT value FROM meta WHERE key = 'packed'")
            query = "SELECT seq, erased FROM events WHERE seq > ? ORDER BY seq LIMIT ?"
            rows = tx.execute(query, (int(packed), PAGE))
            empty = next((place for place, (_, erased) in enumerate(rows) if erased is None), len(rows))
            if empty <= MARGIN:
                return False
            last = rows[empty - MARGIN - 1][0]
            tx.execute("UPDATE events SET room = NULL WHERE seq > ? AND seq <= ?", (int(packed), last))
            tx.execute("UPDATE meta SET value = ? WHERE key = 'packed'", (str(last),))
            return len(rows) == PAGE

    def json(self, column: str, *path: str) -> str:
        return f"json_extract({column}, '$.{'.'.join(path)}')"

    def time(self, tx: Any) -> int | None:
        return None

    def rewrite(self) -> None:
        with self.explained(), locked(self._lock, mode=0o600), self._file.connection() as connection:
            connection.execute("VACUUM")
        self.tidy()

    def index(self, name: str, statement: str) -> bool:
        with self.writing() as tx:
            tx.execute(statement)
        return True

    def told(self, problem: Exception) -> tuple[str, str]:
        return kind_of(problem), str(problem) or type(problem).__name__

    def close(self) -> None:
        self._file.close()
