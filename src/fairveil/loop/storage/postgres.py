"""The store in PostgreSQL: row locks make any number of processes one writer after the other."""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from typing import Any

from fairveil.loop.problems import StorageFailed
from fairveil.loop.storage.driver import EVENT, STATUS, Row
from fairveil.privacy.ledger.faults import point
from fairveil.privacy.ledger.postgres.connect import check_durable, connect, driver, leave, without_secrets

_KINDS = [
    "bigint",
    "bytea",
    "bytea",
    "bigint",
    "bigint",
    "bigint",
    "bigint",
    "float8",
    "bigint",
    "text",
    "text",
    "text",
    "bigint",
    "bigint",
    "float8",
    "bigint",
    "bytea",
]
_INSERT = f"INSERT INTO events ({EVENT}) SELECT * FROM unnest({', '.join(f'%s::{kind}[]' for kind in _KINDS)})"
# Each key by itself through the unique index: a server that has not looked at the table yet believes that few events
# have this loop, and would read all of them.
_FIND = (
    f"SELECT {', '.join('e.' + column for column in EVENT.split(', '))} FROM unnest(%s::bytea[]) AS k(key) "
    "CROSS JOIN LATERAL (SELECT * FROM events WHERE loop = %s AND key = k.key LIMIT 1) AS e"
)
_REWARD = (
    "UPDATE events e SET reward = v.reward, rewarded = v.rewarded "
    "FROM (SELECT reward, rewarded, (SELECT seq FROM events WHERE loop = %s AND key = k.key LIMIT 1) AS seq "
    "FROM unnest(%s::bytea[], %s::float8[], %s::bigint[]) AS k(key, reward, rewarded) OFFSET 0) AS v "
    "WHERE e.seq = v.seq"
)
_LOCK = f"SELECT {STATUS} FROM loops WHERE id = %s FOR UPDATE"
_WAIT = 30.0
_KEY = EVENT.split(", ").index("key")


@lru_cache(maxsize=256)
def _marked(statement: str) -> str:
    return statement.replace("%", "%%").replace("?", "%s")


class PostgresTransaction:
    def __init__(self, connection: Any) -> None:
        self._connection = connection

    def execute(self, statement: str, values: Sequence[Any] = ()) -> list[Row]:
        cursor = self._connection.execute(_marked(statement), values)
        if not statement.startswith(("SELECT", "SHOW")):
            return []  # asking for a result would end the journey of what travels together
        found: list[Row] = cursor.fetchall()
        return found

    def together(self) -> Any:
        return self._connection.pipeline()

    def many(self, statement: str, rows: Iterable[Sequence[Any]]) -> None:
        with self._connection.cursor() as cursor:
            cursor.executemany(_marked(statement), list(rows))

    def events(self, loop: int, keys: Sequence[bytes]) -> dict[bytes, Row]:
        if not keys:
            return {}
        rows = self._connection.execute(_FIND, (list(keys), loop), binary=True).fetchall()
        return {row[_KEY]: row for row in rows}

    def insert_events(self, rows: Sequence[Row]) -> None:
        if rows:
            self._connection.execute(_INSERT, [list(column) for column in zip(*rows, strict=True)])

    def set_rewards(self, loop: int, rewards: Sequence[tuple[bytes, float | None, int]]) -> None:
        if rewards:
            keys, values, times = (list(column) for column in zip(*rewards, strict=True))
            self._connection.execute(_REWARD, (loop, keys, values, times))

    def lock_loop(self, loop: int) -> Row | None:
        row: Row | None = self._connection.execute(_LOCK, (loop,)).fetchone()
        return row


class PostgresDriver:
    """A database on a server; connections are kept and used again."""

    dialect = "postgresql"

    def __init__(self, url: str) -> None:
        self.url = url
        self.failures: tuple[type[Exception], ...] = (driver().Error, OSError)
        self._idle: list[Any] = []
        self._turn = threading.Lock()
        self._owner = os.getpid()

    def __str__(self) -> str:
        return without_secrets(self.url, "store").partition("#")[0]

    def prepare(self) -> None:
        with self.writing() as tx:
            check_durable(tx._connection, str(self))

    @contextlib.contextmanager
    def writing(self) -> Iterator[PostgresTransaction]:
        with self._connection() as connection:
            point("store-begin")
            connection.execute("BEGIN")
            try:
                point("store-begun")
                yield PostgresTransaction(connection)
                point("store-commit")
                connection.execute("COMMIT")
            except BaseException:
                with contextlib.suppress(driver().Error):
                    connection.execute("ROLLBACK")
                raise
            point("store-committed")

    @contextlib.contextmanager
    def reading(self) -> Iterator[PostgresTransaction]:
        with self._connection() as connection:
            connection.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
            try:
                yield PostgresTransaction(connection)
            finally:
                with contextlib.suppress(driver().Error):
                    connection.execute("ROLLBACK")

    def ledger(self, name: str) -> tuple[str, str | None]:
        return self.url, name

    def ledgers(self) -> list[str]:
        with self.reading() as tx:
            if tx.execute("SELECT to_regclass('entries') IS NULL")[0][0]:
                return []
            return [row[0] for row in tx.execute("SELECT DISTINCT ledger FROM entries ORDER BY 1")]

    def tidy(self) -> None:
        """Autovacuum does it; the server's log and dead rows keep erased content until they are recycled."""

    def explain(self, problem: Exception) -> StorageFailed:
        errors = driver().errors
        text = (str(problem) or type(problem).__name__).splitlines()[0]
        if isinstance(problem, errors.DiskFull):
            fix = "free space on the disk of the server"
        elif isinstance(problem, errors.InsufficientPrivilege | errors.ReadOnlySqlTransaction):
            fix = "let this user write to the database"
        else:
            fix = "check that the server runs and can be reached"
        return StorageFailed("the store cannot be written", path=str(self), given=text, fix=f"{fix}, then repeat")

    def close(self) -> None:
        with self._turn:
            while self._idle:
                self._idle.pop().close()

    @contextlib.contextmanager
    def _connection(self) -> Iterator[Any]:
        self._after_fork()
        with self._turn:
            connection = self._idle.pop() if self._idle else None
        if connection is None or connection.closed:
            connection = connect(self.url, _WAIT)
        try:
            yield connection
        finally:
            if not connection.closed and connection.info.transaction_status == driver().pq.TransactionStatus.IDLE:
                self._idle.append(connection)
            else:  # broken, or a transaction that could not be taken back: it must not be part of the next commit
                connection.close()
                self.close()  # where one was cut off the idle ones were too

    def _after_fork(self) -> None:
        if self._owner != os.getpid():
            for connection in self._idle:
                leave(connection, self._owner)
            self._owner, self._idle, self._turn = os.getpid(), [], threading.Lock()
