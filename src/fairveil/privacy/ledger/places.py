"""Which storage a path or a URL names."""

from __future__ import annotations

import os
from pathlib import Path

from fairveil.errors import SpecError
from fairveil.privacy.ledger.storage import Place


def place_of(path: str | os.PathLike[str], name: str | None = None) -> Place:
    """The place that a path names, or a URL and the name of a ledger there (given, or after ``#``)."""
    kind, mark, _ = path.partition("://") if isinstance(path, str) else ("", "", "")
    if not mark:
        from fairveil.privacy.ledger.sqlite.place import SqlitePlace

        if name is not None:
            raise SpecError("a file holds one ledger", path="ledger", given=name, fix="leave the name out")
        return SqlitePlace(Path(path))
    if kind not in ("postgresql", "postgres"):
        allowed = "a path, or postgresql://user@host/database"
        raise SpecError("no ledger can be kept there", path="path", given=f"{kind}://...", allowed=allowed)
    url, _, written = str(path).partition("#")
    chosen = name or written
    if not chosen:
        raise SpecError("a ledger on a server has a name", path="ledger", fix="give ledger=..., or #name in the URL")
    from fairveil.privacy.ledger.postgres.place import PostgresPlace

    return PostgresPlace(url, chosen)
