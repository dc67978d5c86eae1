"""A ledger in an SQLite file and what lies beside it: rows appended in durable transactions, never changed.

A new ledger is made complete under another name and renamed, so a file that exists without its first entry was damaged,
not half made.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import sqlite3
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

from fairveil.errors import LedgerError, LedgerTampered
from fairveil.ledger.anchor import sync_folder
from fairveil.ledger.chain import LedgerGone, LedgerStore, Row
from fairveil.storage.alive import Session
from fairveil.storage.faults import point
from fairveil.storage.sqlite import FAILURES, LOCK, SqliteFile, connect, durable, folder_life, kind_of, locked

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


def kind_of_table(path: Path) -> str | None:
    """What people's rows usually lie in, where this file looks like that: a CSV, a parquet, an Excel."""
    with path.open("rb") as file:
        start = file.read(16)
    kind = {".csv": "a CSV", ".tsv": "a CSV", ".parquet": "a parquet", ".xlsx": "an Excel"}.get(path.suffix.lower())
    text = "a CSV" if b"," in start and b"\0" not in start and not start.lstrip().startswith(b"{") else None
    return None if start.startswith(_MAGIC) else kind or text


MAKING_A_LEDGER = (
    "a ledger is made of a table by `fairveil run SPEC --ledger trial.db`, where SPEC names the table (a log in "
    "[environment.log] file, people in [environment] file), or by `fairveil release --in TABLE --ledger stream.db` for "
    "a stream of counts"
)
"""What to do with a table where a ledger is asked for."""
_MAGIC = b"SQLite format 3"
_SEARCHED = 65536
_PRAGMAS = ("cell_size_check = ON",)


class SqliteRows(LedgerStore):
    """The rows of a ledger file through one connection."""

    def __init__(self, path: Path, connection: sqlite3.Connection) -> None:
        super().__init__(connection)
        self.path = path

    @property
    def durable(self) -> bool:
        """Whether a commit returns only when it is on disk."""
        return durable(self.connection)

    def check_pages(self) -> None:
        """SQLite's own check of pages and indexes."""
        [(found,)] = self.ask("PRAGMA integrity_check(1)")
        if found != "ok":
            raise LedgerTampered(
                "the ledger file is damaged", path=str(self.path), given=found, fix="restore it from a copy"
            )


class SqlitePlace:
    """The path of a ledger file."""

    failures = FAILURES

    def __init__(self, path: Path) -> None:
        self.path = path
        self._real = Path(os.path.realpath(path))
        self._file = SqliteFile(self._real, _PRAGMAS, self._check_schema, self._gone)
        self._lock = f"{self._real}{LOCK}"

    def __str__(self) -> str:
        return str(self.path)

    def check_new(self) -> None:
        if not self.path.parent.is_dir():
            raise LedgerError("the folder of the ledger does not exist", path=str(self), fix="create the folder first")

    def check(self, wait: float) -> None:
        with self._file.connection() as connection:
            self._check_schema(connection)

    def create(self, wait: float, first: Callable[[], Row]) -> None:
        with self.turn(wait):
            if not self._real.exists():
                _make(self._real, first())

    def turn(self, wait: float) -> contextlib.AbstractContextManager[None]:
        return locked(self._lock, wait, mode=0o600)

    @contextlib.contextmanager
    def writing(self, wait: float) -> Iterator[SqliteRows]:
        with self._file.writing() as connection:
            yield SqliteRows(self.path, connection)

    @contextlib.contextmanager
    def snapshot(self, wait: float) -> Iterator[SqliteRows]:
        with self._file.reading() as connection:
            yield SqliteRows(self.path, connection)

    @contextlib.contextmanager
    def reading(self) -> Iterator[SqliteRows]:
        """The file and its log are copied aside when the folder is read-only."""
        if not self.path.is_file():
            raise LedgerError("there is no ledger here", path=str(self), allowed="a ledger file", fix="check the path")
        with contextlib.ExitStack() as stack:
            source = self._real
            if not os.access(source.parent, os.W_OK) or not os.access(source, os.W_OK):
                folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="fairveil-ledger-"))
                copy = Path(folder) / source.name
                for suffix in ("", "-wal"):
                    if _beside(source, suffix).exists():
                        shutil.copyfile(_beside(source, suffix), _beside(copy, suffix))
                source = copy
            file = stack.enter_context(contextlib.closing(SqliteFile(source, _PRAGMAS)))
            connection = stack.enter_context(file.reading())
            self._check_schema(connection)
            yield SqliteRows(self.path, connection)

    def session(self) -> Session:
        return Session(folder_life(self._real.parent), str(self._real))

    def explain(self, problem: Exception, effect: str, anchored: bool = False) -> LedgerError:
        if isinstance(problem, LedgerError):
            return problem
        kind, text = kind_of(problem), str(problem) or type(problem).__name__
        if kind == "damaged":
            if anchored or self._was_ledger():
                fix = "restore it from a copy"
                return LedgerTampered("the ledger file is damaged", path=str(self), given=text, fix=fix)
            table = kind_of_table(self._real)
            return LedgerError(
                "this is not a ledger" if table is None else f"this is {table} file, not a ledger",
                path=str(self),
                allowed="a ledger: the SQLite file in which fairveil keeps what was released and what it cost",
                fix=MAKING_A_LEDGER,
            )
        if isinstance(problem, TimeoutError):
            fix = f"wait for it or end it; {effect}"
            return LedgerError("another process keeps the ledger locked", path=str(self), given=text, fix=fix)
        fix = {
            "denied": "make the folder of the ledger (and of its anchor) writable for this user",
            "full": "free space on the disk of the ledger (and of its anchor)",
            "busy": "wait for the other process, or end it",
        }.get(kind, "see the error of the system")
        return LedgerError("the ledger cannot be written", path=str(self), given=text, fix=f"{fix}; {effect}")

    def close(self) -> None:
        self._file.close()

    def _was_ledger(self) -> bool:
        """A file that SQLite cannot read was a ledger if it begins like a database, holds a ledger's table, or has
        beside it what only a ledger leaves there."""
        with self._real.open("rb") as file:
            start = file.read(_SEARCHED)
        whole = start[: len(_MAGIC)]
        beside = any(_beside(self._real, suffix).exists() for suffix in ("-wal", "-shm", LOCK))
        return beside or _MAGIC.startswith(whole) or _SCHEMA["entries"].encode() in start

    def _gone(self) -> LedgerGone:
        return LedgerGone("the ledger file is gone", path=str(self), fix="restore it from a copy")

    def _check_schema(self, connection: sqlite3.Connection) -> None:
        found = dict(connection.execute("SELECT name, sql FROM sqlite_master WHERE sql IS NOT NULL"))
        if found != _SCHEMA:
            raise LedgerTampered(
                "this file is not an unchanged fairveil ledger",
                path=str(self),
                given=", ".join(sorted(found)) or "no tables",
                allowed="the tables that fairveil made",
                fix="check the path, or restore the file from a copy",
            )


def _make(path: Path, first: Row) -> None:
    """Make a ledger file with its first row; call it under the writer lock, when no such file exists."""
    fresh = _beside(path, ".new")
    for suffix in ("", "-wal", "-shm", "-journal"):
        _beside(fresh, suffix).unlink(missing_ok=True)
    point("create-begin")
    os.close(os.open(fresh, os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))  # the log beside it gets the same mode
    connection = connect(str(fresh), _PRAGMAS)
    try:
        # a rollback journal here: with a write-ahead log a full disk could leave the content outside the file
        connection.execute("PRAGMA journal_mode = DELETE")
        connection.execute("BEGIN IMMEDIATE")
        for statement in _SCHEMA.values():
            connection.execute(statement)
        SqliteRows(path, connection).insert(first)
        point("create-commit")
        connection.execute("COMMIT")
        mode = connection.execute("PRAGMA journal_mode = WAL").fetchone()[0]
    finally:
        connection.close()
    if mode != "wal" or _beside(fresh, "-wal").exists():
        raise sqlite3.OperationalError("the file system does not take a write-ahead log, or the disk is full")
    point("create-rename")
    os.rename(fresh, path)
    sync_folder(path.parent)
    point("create-done")


def _beside(path: Path, suffix: str) -> Path:
    return path.with_name(path.name + suffix)
