"""The table of all ledgers on a server: made once, only ever appended to, and checked at every opening."""

from __future__ import annotations

from typing import Any

from fairveil.errors import LedgerTampered
from fairveil.privacy.ledger.postgres.connect import Connection, lock_number

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


def present(connection: Connection) -> bool:
    return bool(connection.execute(f"SELECT {_TABLE} IS NOT NULL").fetchone()[0])


def make(connection: Connection) -> None:
    """Make the table if there is none; call it inside a transaction."""
    connection.execute("SELECT pg_advisory_xact_lock(%s)", (lock_number("schema", ""),))
    if not present(connection):
        for statement in _MAKE:
            connection.execute(statement)


def check(connection: Connection, place: str) -> None:
    """Refuse a table that fairveil did not make so: it might be changed without a trace."""
    found: dict[str, dict[Any, Any]] = {
        part: dict(connection.execute(query).fetchall()) for part, query in _LOOK.items()
    }
    wrong = [part for part, expected in _EXPECTED.items() if found[part] != expected]
    if wrong:
        raise LedgerTampered(
            "the table of the ledger is not as fairveil made it",
            path=place,
            given="other " + ", ".join(wrong),
            allowed="the table, indexes and triggers that fairveil made",
            fix="check the database, or restore it from a copy",
        )
