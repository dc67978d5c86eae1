"""Locks that the server frees when a connection ends: one writer at a time, and who is still alive."""

from __future__ import annotations

import contextlib
import os
import uuid
from collections.abc import Iterator

from fairveil.privacy.ledger.postgres.connect import Connection, connect, driver, leave, lock_number


class TransactionLock:
    """The writer lock is taken inside each transaction (`PostgresStore.writing`), so it ends with it."""

    @contextlib.contextmanager
    def held(self) -> Iterator[None]:
        yield

    def close(self) -> None:
        pass


class PostgresSession:
    """A connection that holds an advisory lock on its token: whoever can take that lock knows that the owner is gone.

    A draw whose connection died counts as lost as soon as somebody looks, even if its process lives: its value is then
    thrown away unseen.
    """

    def __init__(self, url: str, wait: float = 10.0) -> None:
        self.token = uuid.uuid4().hex
        self._url, self._wait = url, wait
        self._connection: Connection | None = None
        self._owner = os.getpid()
        self._held = False

    def begin(self) -> None:
        connection = self._connected()
        if not self._held:
            connection.execute("SELECT pg_advisory_lock(%s)", (lock_number("session", self.token),))
            self._held = True

    def alive(self, token: str) -> bool:
        if token == self.token:
            return self._held
        key = lock_number("session", token)
        connection = self._connected()
        [free] = connection.execute("SELECT pg_try_advisory_lock(%s)", (key,)).fetchone()
        if free:
            connection.execute("SELECT pg_advisory_unlock(%s)", (key,))
        return not free

    def sweep(self) -> None:
        """Nothing is left behind: the server frees the locks of the dead."""

    def end(self) -> None:
        self.forget()

    def forget(self) -> None:
        if self._connection is not None:
            with contextlib.suppress(Exception):
                leave(self._connection, self._owner)
        self._connection, self._held = None, False

    def _connected(self) -> Connection:
        if self._connection is not None:
            try:
                self._connection.execute("SELECT 1")
            except driver().Error:
                self.forget()
        if self._connection is None:
            self._connection, self._held, self._owner = connect(self._url, self._wait), False, os.getpid()
        return self._connection
