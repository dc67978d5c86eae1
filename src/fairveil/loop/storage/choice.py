"""Which storage a URL names."""

from __future__ import annotations

from pathlib import Path

from fairveil.errors import SpecError
from fairveil.loop.storage.driver import Driver


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
    )
