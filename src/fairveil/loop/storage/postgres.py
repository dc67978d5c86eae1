"""The store in PostgreSQL: row locks make any number of processes one writer after the other."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from typing import Any, ClassVar

from fairveil.loop.storage.driver import EVENT, STATUS, Driver, Row
from fairveil.storage.postgres import driver, kind_of, server_of, without_secrets, words_of

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
    "text",
    "bigint",
    "bigint",
]
_INSERT = f"INSERT INTO events ({EVENT}) SELECT * FROM unnest({', '.join(f'%s::{kind}[]' for kind in _KINDS)})"
# Each key by itself through the unique index: a server that has not looked at the table yet believes that few events
# have this loop, and would read all of them.
_FIND = (
    f"SELECT {', '.join('e.' + column for column in EVENT.split(', '))} FROM unnest(%s::bytea[]) AS k(key) "
    "CROSS JOIN LATERAL (SELECT * FROM events WHERE loop = %s AND key = k.key LIMIT 1) AS e"
)
_REWARD = (
    "UPDATE events e SET reward = v.reward, rewarded = v.rewarded, seat = coalesce(v.seat, e.seat) "
    "FROM (SELECT reward, rewarded, seat, (SELECT seq FROM events WHERE loop = %s AND key = k.key LIMIT 1) AS seq "
    "FROM unnest(%s::bytea[], %s::float8[], %s::bigint[], %s::bigint[]) AS k(key, reward, rewarded, seat) OFFSET 0) "
    "AS v WHERE e.seq = v.seq"
)
_SEAT = (
    "UPDATE events e SET seat = v.seat "
    "FROM (SELECT seat, (SELECT seq FROM events WHERE loop = %s AND key = k.key LIMIT 1) AS seq "
    "FROM unnest(%s::bytea[], %s::bigint[]) AS k(key, seat) OFFSET 0) AS v WHERE e.seq = v.seq"
)
_LOCK = f"SELECT {STATUS} FROM loops WHERE id = %s FOR UPDATE"
_INDEXING = 7290113
_INVALID = "SELECT 1 FROM pg_index WHERE indexrelid = to_regclass(%s) AND NOT indisvalid"
_KEY = EVENT.split(", ").index("key")


def _element(value: Any) -> str:
    """One value as it stands in an array: psycopg asks every value what it is, which costs more than the insert."""
    if value is None:
        return "NULL"
    if isinstance(value, bytes):
        return f'"\\\\x{value.hex()}"'
    if isinstance(value, str):
        return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'
    return str(value)


def _array(values: Iterable[Any]) -> str:
    return "{" + ",".join([_element(value) for value in values]) + "}"


def _columns(rows: Iterable[Sequence[Any]]) -> list[str]:
    return [_array(column) for column in zip(*rows, strict=True)]


@lru_cache(maxsize=256)
def _marked(statement: str) -> str:
    return statement.replace("%", "%%").replace("?", "%s")


class PostgresTransaction:
    dialect = "postgresql"

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
        rows = self._connection.execute(_FIND, (_array(keys), loop), binary=True).fetchall()
        return {row[_KEY]: row for row in rows}

    def insert_events(self, rows: Sequence[Row]) -> None:
        if rows:
            self._connection.execute(_INSERT, _columns(rows))

    def set_rewards(self, loop: int, rewards: Sequence[tuple[bytes, float | None, int, int | None]]) -> None:
        if rewards:
            self._connection.execute(_REWARD, (loop, *_columns(rewards)))

    def set_seats(self, loop: int, seats: Sequence[tuple[bytes, int]]) -> None:
        if seats:
            self._connection.execute(_SEAT, (loop, *_columns(seats)))

    def lock_loop(self, loop: int) -> Row | None:
        row: Row | None = self._connection.execute(_LOCK, (loop,)).fetchone()
        return row


class PostgresDriver(Driver):
    """A database on a server; connections are of the process, and every one of them keeps what it commits."""

    dialect = "postgresql"
    fixes: ClassVar = {
        "full": "free space on the disk of the server",
        "denied": "let this user write to the database",
        "undurable": "change the setting of the server, the database or the user",
        "other": "check that the server runs and can be reached",
    }

    def __init__(self, url: str) -> None:
        self.url = url
        self.failures = (driver().Error, OSError)
        self._server = server_of(url).join(self)

    def __str__(self) -> str:
        return without_secrets(self.url)

    def prepare(self) -> None:
        with self.writing():
            pass

    @contextlib.contextmanager
    def writing(self) -> Iterator[PostgresTransaction]:
        with self.explained(), self._server.writing(prefix="store-") as connection:
            yield PostgresTransaction(connection)

    @contextlib.contextmanager
    def reading(self) -> Iterator[PostgresTransaction]:
        with self.explained(), self._server.reading() as connection:
            yield PostgresTransaction(connection)

    def ledger(self, name: str) -> tuple[str, str | None]:
        return self.url, name

    def ledgers(self) -> list[str]:
        with self.reading() as tx:
            if tx.execute("SELECT to_regclass('entries') IS NULL")[0][0]:
                return []
            return [row[0] for row in tx.execute("SELECT DISTINCT ledger FROM entries ORDER BY 1")]

    def beside(self, ledger: str) -> PostgresDriver:
        return self

    def tidy(self) -> bool:
        """Autovacuum does it; the server's log and dead rows keep erased content until they are recycled."""
        return True

    def json(self, column: str, *path: str) -> str:
        return f"{column}::json #>> '{{{','.join(path)}}}'"

    def time(self, tx: Any) -> int | None:
        [(seconds,)] = tx.execute("SELECT extract(epoch FROM clock_timestamp())")
        return round(seconds * 1_000_000)

    def rewrite(self) -> None:
        """The server's own vacuum does it."""

    def index(self, name: str, statement: str) -> bool:
        with self.explained(), self._server.connection() as connection:
            # nobody waits for this lock: whoever waits would hold a snapshot, for which the making of an index waits
            if not connection.execute(f"SELECT pg_try_advisory_lock({_INDEXING})").fetchone()[0]:
                return False
            try:
                connection.execute("SET statement_timeout = 0")
                if connection.execute(_INVALID, (name,)).fetchone():
                    connection.execute(f"DROP INDEX CONCURRENTLY {name}")
                connection.execute(statement.replace("CREATE INDEX", "CREATE INDEX CONCURRENTLY IF NOT EXISTS", 1))
            finally:
                connection.execute(f"RESET statement_timeout; SELECT pg_advisory_unlock({_INDEXING})")
        return True

    def told(self, problem: Exception) -> tuple[str, str]:
        return kind_of(problem), words_of(problem)

    def close(self) -> None:
        self._server.leave(self)
