"""A ledger file and what lies beside it."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Callable
from pathlib import Path

from fairveil.errors import LedgerError, LedgerTampered
from fairveil.privacy.ledger.chain import Row
from fairveil.privacy.ledger.sqlite.locks import FileSession, FileWriterLock
from fairveil.privacy.ledger.sqlite.store import SqliteStore
from fairveil.privacy.ledger.storage import LedgerGone, WriterLock


class SqlitePlace:
    """The path of a ledger file."""

    failures: tuple[type[Exception], ...] = (sqlite3.Error, OSError)

    def __init__(self, path: Path) -> None:
        self.path = path

    def __str__(self) -> str:
        return str(self.path)

    def check_new(self) -> None:
        if not self.path.parent.is_dir():
            raise LedgerError("the folder of the ledger does not exist", path=str(self), fix="create the folder first")

    def create(self, lock: WriterLock, first: Callable[[], Row]) -> None:
        with lock.held():
            if not self.path.exists():
                SqliteStore.create(self.path, first())

    def open(self, wait: float) -> SqliteStore:
        if not self.path.exists():
            raise LedgerGone("the ledger file is gone", path=str(self), fix="restore it from a copy")
        return SqliteStore.open(self.path)

    def reading(self) -> contextlib.AbstractContextManager[SqliteStore]:
        if not self.path.is_file():
            raise LedgerError("there is no ledger here", path=str(self), allowed="a ledger file", fix="check the path")
        return SqliteStore.reading(self.path)

    def lock(self, wait: float) -> FileWriterLock:
        return FileWriterLock(self.path, wait)

    def session(self) -> FileSession:
        return FileSession(self.path)

    def explain(self, problem: Exception, effect: str) -> LedgerError:
        if isinstance(problem, LedgerError):
            return problem
        text = str(problem) or type(problem).__name__
        low = text.lower()
        if "malformed" in low or "not a database" in low:
            fix = "restore it from a copy"
            return LedgerTampered("the ledger file is damaged", path=str(self), given=text, fix=fix)
        if "readonly" in low or "read-only" in low or "permission" in low or "unable to open" in low:
            fix = "make the folder of the ledger (and of its anchor) writable for this user"
        elif "full" in low or "no space" in low or "too large" in low or "disk i/o" in low or "quota" in low:
            fix = "free space on the disk of the ledger (and of its anchor)"
        elif "locked" in low or "busy" in low:
            fix = "wait for the other process, or end it"
        else:
            fix = "see the error of the system"
        return LedgerError("the ledger cannot be written", path=str(self), given=text, fix=f"{fix}; {effect}")
