"""Connections of the ledger to PostgreSQL: commits that wait for the disk, or none."""

from __future__ import annotations

import hashlib
import os
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from fairveil.errors import DependencyError, LedgerError

if TYPE_CHECKING:
    import psycopg

Connection = Any
"""A psycopg connection; psycopg is an optional part."""

_KEEP_ALIVE = {
    **{"keepalives": 1, "keepalives_idle": 10, "keepalives_interval": 5, "keepalives_count": 3},
    "tcp_user_timeout": 25_000,
}
_SERVER_ALIVE = "SET tcp_keepalives_idle = 10; SET tcp_keepalives_interval = 5; SET tcp_keepalives_count = 3"
_DURABLE = {"synchronous_commit": ("on", "remote_apply"), "fsync": ("on",), "full_page_writes": ("on",)}
_left_behind: list[Connection] = []


def driver() -> Any:
    """The module psycopg."""
    try:
        import psycopg
    except ImportError:
        raise DependencyError(
            "PostgreSQL needs psycopg", given="no psycopg", fix="pip install 'fairveil[postgres]'"
        ) from None
    return psycopg


def connect(url: str, wait: float) -> psycopg.Connection[Any]:
    """A connection that commits only what was told to; ``wait``: seconds for the server and for locks."""
    seconds = max(1, round(wait))
    connection = driver().connect(url, autocommit=True, connect_timeout=max(2, seconds), **_KEEP_ALIVE)
    try:
        # one statement in each transaction of the ledger must see what others committed just before it
        connection.execute("SET default_transaction_isolation = 'read committed'")
        connection.execute(f"SET lock_timeout = {int(max(wait, 0.001) * 1000)}")
        connection.execute(_SERVER_ALIVE)
        # a plan kept from the day when a table was empty reads all of it, and goes on so while the table grows
        connection.execute("SET plan_cache_mode = force_custom_plan")
    except BaseException:
        connection.close()
        raise
    return connection


def check_durable(connection: Connection, place: str) -> None:
    """Refuse a server whose commits may be gone after a crash: a charge must be on disk before its noise is drawn."""
    for setting, allowed in _DURABLE.items():
        [given] = connection.execute(f"SHOW {setting}").fetchone()
        if given not in allowed:
            raise LedgerError(
                "this server does not keep what it commits",
                path=place,
                given=f"{setting} = {given}",
                allowed=f"{setting} = {allowed[0]}",
                fix="change the setting of the server, the database or the user; nothing was charged",
            )


def leave(connection: Connection, owner: int) -> None:
    """Close; in a child that inherited it, without a word to the server, because the parent still uses it."""
    if owner == os.getpid():
        connection.close()
    else:
        os.close(connection.fileno())
        _left_behind.append(connection)  # its destructor must not run here


def lock_number(kind: str, name: str) -> int:
    """The key of an advisory lock, a signed 64-bit number."""
    digest = hashlib.sha256(f"fairveil ledger {kind} {name}".encode()).digest()
    return int.from_bytes(digest[:8], "big", signed=True)


def without_secrets(url: str, name: str) -> str:
    """Server, database and ledger for messages: no user, no password, no options."""
    parts = urlsplit(url)
    port = f":{parts.port}" if parts.port else ""
    return f"postgresql://{parts.hostname or 'local'}{port}{parts.path}#{name}"
