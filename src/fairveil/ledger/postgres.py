"""A ledger on a PostgreSQL server: rows of one table for all ledgers, appended under an advisory lock, never changed.

The table is made once and checked at every opening and by every new connection.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

from fairveil.errors import LedgerError, LedgerTampered
from fairveil.ledger.chain import LedgerGone, LedgerStore, Row
from fairveil.storage.alive import Session
from fairveil.storage.faults import point
from fairveil.storage.postgres import (
    Connection,
    check_durable,
    driver,
    kind_of,
    lock_number,
    server_life,
    server_of,
    without_secrets,
    words_of,
)

_GROWS = "BEGIN RAISE EXCEPTION 'the ledger only grows'; END"
_COLUMNS = {
    "ledger": "text not null",
    "sequence": "bigint not null",
    "kind": "text not null",
    "name": "text not null",
    "account": "text",
    "facts": "text not null",
    "value": "text",
    "hash": "text not null",
}
_MAKE = (
    "CREATE TABLE entries ("
    + ", ".join(f"{name} {kind}" for name, kind in _COLUMNS.items())
    + ", CONSTRAINT entries_in_order PRIMARY KEY (ledger, sequence))",
    "CREATE UNIQUE INDEX entries_by_name ON entries (ledger, name, kind)",
    "CREATE INDEX entries_by_account ON entries (ledger, account) WHERE account IS NOT NULL",
    f"CREATE FUNCTION entries_grow() RETURNS trigger LANGUAGE plpgsql AS $${_GROWS}$$",
    "CREATE TRIGGER entries_keep BEFORE UPDATE OR DELETE ON entries FOR EACH ROW EXECUTE FUNCTION entries_grow()",
    "CREATE TRIGGER entries_stay BEFORE TRUNCATE ON entries FOR EACH STATEMENT EXECUTE FUNCTION entries_grow()",
)
_TABLE = "to_regclass('entries')"
_LOOK = {
    "columns": (
        "SELECT attname, format_type(atttypid, atttypmod) || CASE WHEN attnotnull THEN ' not null' ELSE '' END "
        f"FROM pg_attribute WHERE attrelid = {_TABLE} AND attnum > 0 AND NOT attisdropped ORDER BY attnum"
    ),
    "indexes": (
        "SELECT c.relname, regexp_replace(pg_get_indexdef(i.indexrelid), ' ON \\S+', ' ON entries') "
        f"FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid WHERE i.indrelid = {_TABLE} ORDER BY 1"
    ),
    "triggers": (
        "SELECT t.tgname, t.tgtype::text || t.tgenabled::text || ' ' || p.prosrc FROM pg_trigger t "
        f"JOIN pg_proc p ON p.oid = t.tgfoid WHERE t.tgrelid = {_TABLE} AND NOT t.tgisinternal ORDER BY 1"
    ),
    "table": (
        f"SELECT relname, relkind::text || relpersistence::text || relhasrules::text FROM pg_class WHERE oid = {_TABLE}"
    ),
}
_EXPECTED: dict[str, dict[str, str]] = {
    "columns": _COLUMNS,
    "indexes": {
        "entries_by_account": (
            "CREATE INDEX entries_by_account ON entries USING btree (ledger, account) WHERE (account IS NOT NULL)"
        ),
        "entries_by_name": "CREATE UNIQUE INDEX entries_by_name ON entries USING btree (ledger, name, kind)",
        "entries_in_order": "CREATE UNIQUE INDEX entries_in_order ON entries USING btree (ledger, sequence)",
    },
    "triggers": {"entries_keep": f"27O {_GROWS}", "entries_stay": f"34O {_GROWS}"},
    "table": {"entries": "rpfalse"},
}


class PostgresRows(LedgerStore):
    """The rows of one of a server's ledgers. Page checksums are its own; every row is checked by its hash anyway."""

    mine = "ledger = ?"
    same = "s.ledger = r.ledger AND "

    def execute(self, statement: str, values: tuple[Any, ...]) -> Any:
        return self.connection.execute(statement.replace("?", "%s"), values)


class PostgresPlace:
    """A URL (``postgresql://user@host/database``) and the name of a ledger there."""

    def __init__(self, url: str, name: str) -> None:
        self.url, self.name = url, name
        self.failures: tuple[type[Exception], ...] = (driver().Error, OSError)
        self._server = server_of(url)

    def __str__(self) -> str:
        return f"{without_secrets(self.url)}#{self.name}"

    def check_new(self) -> None:
        """A database that cannot be reached or written says so itself."""

    def check(self, wait: float) -> None:
        self._server.join(self)
        with self._server.connection(wait, check_durable) as connection:
            self._check_there(connection)

    def create(self, wait: float, first: Callable[[], Row]) -> None:
        with self._server.connection(wait, check_durable) as connection:
            rows = PostgresRows(connection, self.name)
            point("create-begin")
            with connection.transaction():
                _make(connection)
                connection.execute("SELECT pg_advisory_xact_lock(%s)", (lock_number("writer", self.name),))
                if rows.last() is not None:
                    return
                _check(connection)
                rows.insert(first())
                point("create-commit")
            point("create-done")

    def turn(self, wait: float) -> contextlib.AbstractContextManager[None]:
        """The writer lock is the transaction's own, so it ends with it."""
        return contextlib.nullcontext()

    @contextlib.contextmanager
    def writing(self, wait: float) -> Iterator[PostgresRows]:
        with self._server.writing(wait, _check, lock=lock_number("writer", self.name)) as connection:
            yield PostgresRows(connection, self.name)

    @contextlib.contextmanager
    def snapshot(self, wait: float) -> Iterator[PostgresRows]:
        with self._server.reading(wait, _check) as connection:
            yield PostgresRows(connection, self.name)

    @contextlib.contextmanager
    def reading(self) -> Iterator[PostgresRows]:
        with self._server.reading() as connection:
            try:
                self._check_there(connection)
            except LedgerGone:
                fix = "check the URL and the name"
                raise LedgerError("there is no ledger of this name here", path=str(self), fix=fix) from None
            yield PostgresRows(connection, self.name)

    def session(self) -> Session:
        return Session(server_life(self.url), self.name)

    def explain(self, problem: Exception, effect: str, anchored: bool = False) -> LedgerError:
        if isinstance(problem, LedgerError):
            return problem
        kind, text = kind_of(problem), words_of(problem)
        if kind == "busy" and not isinstance(problem, TimeoutError):
            fix = f"wait for it or end it; {effect}"
            return LedgerError("another process keeps the ledger locked", path=str(self), given=text, fix=fix)
        fix = {
            "busy": "repeat in a moment, or use fewer threads at once",
            "undurable": "change the setting of the server, the database or the user",
            "full": "free space on the disk of the server (and of the anchor)",
            "denied": "let this user write to the database (and to the folder of the anchor)",
            "local": "see to the folder of the anchor",
            "down": "check that the server runs and can be reached",
        }[kind]
        return LedgerError("the ledger cannot be written", path=str(self), given=text, fix=f"{fix}; {effect}")

    def close(self) -> None:
        self._server.leave(self)

    def _check_there(self, connection: Connection) -> None:
        if not _present(connection) or PostgresRows(connection, self.name).last() is None:
            raise LedgerGone("the ledger is gone", path=str(self), fix="restore the database from a copy")
        _check(connection)


def _present(connection: Connection) -> bool:
    return bool(connection.execute(f"SELECT {_TABLE} IS NOT NULL").fetchone()[0])


def _make(connection: Connection) -> None:
    """Make the table if there is none; call it inside a transaction."""
    connection.execute("SELECT pg_advisory_xact_lock(%s)", (lock_number("schema", ""),))
    if not _present(connection):
        for statement in _MAKE:
            connection.execute(statement)


def _check(connection: Connection) -> None:
    """Refuse a table that fairveil did not make so: it might be changed without a trace."""
    found: dict[str, dict[Any, Any]] = {
        part: dict(connection.execute(query).fetchall()) for part, query in _LOOK.items()
    }
    wrong = [part for part, expected in _EXPECTED.items() if found[part] != expected]
    if wrong:
        raise LedgerTampered(
            "the table of the ledgers is not as fairveil made it",
            path=f"postgresql://{connection.info.host or 'local'}:{connection.info.port}/{connection.info.dbname}",
            given="other " + ", ".join(wrong),
            allowed="the table, indexes and triggers that fairveil made",
            fix="check the database, or restore it from a copy",
        )
