"""Where loops are kept: SQLite in a file, or PostgreSQL; a few dozen statements, no mapper between.

Tables are made by numbered migrations, applied in order inside a transaction; the version is kept in ``meta``, beside
what else a store knows of itself.
"""

from __future__ import annotations

import re
from functools import cache
from importlib import resources
from pathlib import Path

from fairveil.errors import SpecError
from fairveil.loop.storage.driver import Driver, Transaction, adding, note, noted, saving

__all__ = [
    "Driver",
    "Transaction",
    "adding",
    "bring_up_to_date",
    "driver_of",
    "latest_moment",
    "note",
    "noted",
    "ready_mark",
    "saving",
    "version_of",
]


NOTED = "index:"
_INDEX = re.compile(r"CREATE INDEX (?P<name>\w+) ON (?P<table>\w+) ")


def driver_of(url: str) -> Driver:
    """``sqlite:///folder/store.db`` (four slashes for an absolute path) or ``postgresql://user@host/database``."""
    kind, mark, rest = url.partition("://")
    if mark and kind == "sqlite" and rest.startswith("/") and len(rest) > 1:
        from fairveil.loop.storage.sqlite import SqliteDriver

        return SqliteDriver(Path(rest[1:]))
    if mark and kind in ("postgresql", "postgres"):
        from fairveil.loop.storage.postgres import PostgresDriver

        return PostgresDriver(url)
    raise SpecError(
        "no store can be kept there",
        path="store",
        given=f"{kind}://..." if mark else "a path without ://",
        allowed="sqlite:///folder/store.db or postgresql://user@host/database",
        fix="" if mark else "write sqlite:/// before the path of a file",
    )


@cache
def steps(dialect: str) -> dict[int, str]:
    """The statements of every version, for one database."""
    found = {}
    for file in resources.files(__name__).joinpath("migrations").iterdir():
        name = re.fullmatch(rf"([0-9]{{4}})_[a-z_]+\.{dialect}\.sql", file.name)
        if name is not None:
            found[int(name[1])] = file.read_text()
    return dict(sorted(found.items()))


def version_of(tx: Transaction) -> int:
    """The version of the tables that a transaction sees, 0 when there are none."""
    query = {
        "sqlite": "SELECT count(*) FROM sqlite_master WHERE name = 'meta'",
        "postgresql": "SELECT count(*) FROM pg_class WHERE oid = to_regclass('meta')",
    }[tx.dialect]
    [(there,)] = tx.execute(query)
    return int(noted(tx, "version") or 0) if there else 0


def bring_up_to_date(driver: Driver, *, migrate: bool) -> None:
    """Make a new store, or check the version of an old one; ``migrate`` upgrades it."""
    known = steps(driver.dialect)
    with driver.reading() as tx:
        newest, found = max(known), version_of(tx)
    if found > newest:
        raise SpecError(
            "this store was written by a newer release",
            path="store",
            given=found,
            allowed=f"up to {newest}",
            fix="upgrade fairveil",
        )
    if 0 < found < newest and not migrate:
        raise SpecError(
            "this store has an older version",
            path="store",
            given=found,
            allowed=str(newest),
            fix="run fairveil store migrate",
        )
    if found < newest:
        _upgrade(driver, known, beside=found > 0 and driver.dialect == "postgresql")
        if found:
            driver.rewrite()
    if driver.dialect == "postgresql":
        _make_indexes(driver)


def _upgrade(driver: Driver, known: dict[int, str], beside: bool) -> None:
    """All versions in one transaction: an interrupted upgrade has not begun. ``beside``: indexes of tables that have
    rows are noted and made afterwards, without a lock on the table."""
    with driver.writing() as tx:
        if driver.dialect == "postgresql":
            tx.execute("SET LOCAL statement_timeout = 0")  # a large table takes its time
            tx.execute("SELECT pg_advisory_xact_lock(7290112)")
        for number, script in known.items():
            if number > version_of(tx):  # another process may have been faster
                for statement in filter(None, map(str.strip, script.split(";\n"))):
                    index = _INDEX.match(statement) if beside else None
                    if index is None or f"CREATE TABLE {index['table']} " in script:
                        tx.execute(statement)
                    else:
                        note(tx, NOTED + index["name"], statement)
                note(tx, "version", str(number))


def _make_indexes(driver: Driver) -> None:
    """Indexes that an upgrade has left to be made, one after the other; what is interrupted is made again."""
    with driver.reading() as tx:
        noted = tx.execute("SELECT key, value FROM meta WHERE key LIKE ? ORDER BY key", (NOTED + "%",))
    for key, statement in noted:
        if driver.index(key.removeprefix(NOTED), statement):
            with driver.writing() as tx:
                tx.execute("DELETE FROM meta WHERE key = ?", (key,))


def latest_moment(tx: Transaction) -> int | None:
    """The last moment that is stored: of a loop, or of a process that was ready."""
    [(loops,)] = tx.execute("SELECT max(clock) FROM loops")
    return max((one for one in (loops, ready_mark(tx)) if one is not None), default=None)


def ready_mark(tx: Transaction) -> int | None:
    """The moment that a process wrote which was ready last."""
    found = noted(tx, "ready")
    return None if found is None else int(found)
