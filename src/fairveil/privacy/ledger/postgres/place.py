"""A named ledger in a database on a server."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator

from fairveil.errors import LedgerError
from fairveil.privacy.ledger.chain import Row
from fairveil.privacy.ledger.faults import point
from fairveil.privacy.ledger.postgres import schema
from fairveil.privacy.ledger.postgres.connect import check_durable, connect, driver, lock_number, without_secrets
from fairveil.privacy.ledger.postgres.locks import PostgresSession, TransactionLock
from fairveil.privacy.ledger.postgres.store import PostgresStore
from fairveil.privacy.ledger.storage import LedgerGone, WriterLock

_WAIT = 10.0


class PostgresPlace:
    """A URL (``postgresql://user@host/database``) and the name of a ledger there."""

    def __init__(self, url: str, name: str) -> None:
        self.url, self.name = url, name
        self.failures: tuple[type[Exception], ...] = (driver().Error, OSError)

    def __str__(self) -> str:
        return without_secrets(self.url, self.name)

    def check_new(self) -> None:
        """A database that cannot be reached or written says so itself."""

    def create(self, lock: WriterLock, first: Callable[[], Row]) -> None:
        with contextlib.closing(connect(self.url, _WAIT)) as connection:
            check_durable(connection, str(self))
            store = PostgresStore(connection, self.name)
            point("create-begin")
            with connection.transaction():
                schema.make(connection)
                connection.execute("SELECT pg_advisory_xact_lock(%s)", (lock_number("writer", self.name),))
                if store.last() is not None:
                    return
                schema.check(connection, str(self))
                store.insert(first())
                point("create-commit")
            point("create-done")

    def open(self, wait: float) -> PostgresStore:
        connection = connect(self.url, wait)
        try:
            check_durable(connection, str(self))
            store = self._checked(connection)
        except BaseException:
            connection.close()
            raise
        return store

    @contextlib.contextmanager
    def reading(self) -> Iterator[PostgresStore]:
        with contextlib.closing(connect(self.url, _WAIT)) as connection:
            try:
                store = self._checked(connection)
            except LedgerGone:
                fix = "check the URL and the name"
                raise LedgerError("there is no ledger of this name here", path=str(self), fix=fix) from None
            with store.snapshot():
                yield store

    def lock(self, wait: float) -> TransactionLock:
        return TransactionLock()

    def session(self) -> PostgresSession:
        return PostgresSession(self.url)

    def explain(self, problem: Exception, effect: str) -> LedgerError:
        if isinstance(problem, LedgerError):
            return problem
        errors = driver().errors
        text = (str(problem) or type(problem).__name__).splitlines()[0]
        if isinstance(problem, errors.LockNotAvailable):
            fix = f"wait for it or end it; {effect}"
            return LedgerError("another process keeps the ledger locked", path=str(self), given="waited", fix=fix)
        low = text.lower()
        if isinstance(problem, errors.DiskFull) or "no space" in low or "full" in low:
            fix = "free space on the disk of the server (and of the anchor)"
        elif isinstance(problem, errors.InsufficientPrivilege | errors.ReadOnlySqlTransaction) or "read-only" in low:
            fix = "let this user write to the database (and to the folder of the anchor)"
        elif isinstance(problem, OSError):
            fix = "see to the folder of the anchor"
        else:
            fix = "check that the server runs and can be reached"
        # the text of a failed connection may repeat the address that was given; it never holds the password
        return LedgerError("the ledger cannot be written", path=str(self), given=text, fix=f"{fix}; {effect}")

    def _checked(self, connection: object) -> PostgresStore:
        store = PostgresStore(connection, self.name)
        if not schema.present(connection) or store.last() is None:
            raise LedgerGone("the ledger is gone", path=str(self), fix="restore the database from a copy")
        schema.check(connection, str(self))
        return store
