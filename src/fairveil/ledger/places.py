"""Where a ledger is kept: what the ledger asks of a file or of a database server, and which of them a path names.

Both keep the same rows with the same hashes, so `verify`, the anchor and the rules of the chain know no difference.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Protocol

from fairveil.errors import LedgerError, SpecError
from fairveil.ledger.chain import LedgerStore, Row
from fairveil.storage.alive import Session


class Place(Protocol):
    """One ledger's place. ``str`` of it names the place in errors, without secrets."""

    failures: tuple[type[Exception], ...]
    """What the storage raises when it fails."""

    def check_new(self) -> None:
        """Refuse, before anything is made, a place where no ledger can be made."""

    def check(self, wait: float) -> None:
        """Refuse a ledger whose tables are not as they were made; LedgerGone when there is no ledger."""

    def create(self, wait: float, first: Callable[[], Row]) -> None:
        """Make the ledger with its first row if there is none, so that two who start together make one.

        ``first`` is called under the writer lock, only when there is none.
        """

    def turn(self, wait: float) -> AbstractContextManager[None]:
        """Held around a write and what follows it, where a transaction cannot hold it; freed when the process dies."""

    def writing(self, wait: float) -> AbstractContextManager[LedgerStore]:
        """A transaction that nobody else can write beside; durable when it ends without an error."""

    def snapshot(self, wait: float) -> AbstractContextManager[LedgerStore]:
        """Reads that see one moment."""

    def reading(self) -> AbstractContextManager[LedgerStore]:
        """A snapshot that needs no write access, of a place that nobody here has open."""

    def session(self) -> Session:
        """Shows others, as long as this process lives, that the draws under its token are still under way."""

    def explain(self, problem: Exception, effect: str, anchored: bool = False) -> LedgerError:
        """A failure as an error that says what to do and what became of the charge. ``anchored``: an anchor was named,
        so there was a ledger here."""

    def close(self) -> None:
        """Nothing is kept open for it any more."""


def place_of(path: str | os.PathLike[str], name: str | None = None) -> Place:
    """The place that a path names, or a URL and the name of a ledger there (given, or after ``#``)."""
    kind, mark, _ = path.partition("://") if isinstance(path, str) else ("", "", "")
    if not mark:
        from fairveil.ledger.sqlite import SqlitePlace

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
    from fairveil.ledger.postgres import PostgresPlace

    return PostgresPlace(url, chosen)
