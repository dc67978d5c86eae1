"""What a store asks of its database."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import cache
from pathlib import Path
from typing import Any, ClassVar, Protocol

from fairveil.loop.events import Event
from fairveil.loop.problems import StorageFailed

Row = tuple[Any, ...]
EVENT = ", ".join(Event._fields)
"""The columns of an event, in the order in which rows are given and read."""


class Transaction(Protocol):
    """Statements inside one transaction. Values stand where the statement has a question mark."""

    dialect: str

    def execute(self, statement: str, values: Sequence[Any] = ()) -> list[Row]: ...

    def together(self) -> AbstractContextManager[Any]:
        """Statements inside, none of which is read from, may travel to the database at once."""

    def many(self, statement: str, rows: Iterable[Sequence[Any]]) -> None: ...

    def events(self, loop: int, keys: Sequence[bytes]) -> dict[bytes, Row]:
        """The events with these keys; columns as in `EVENT`."""

    def insert_events(self, rows: Sequence[Row]) -> None: ...

    def set_rewards(self, loop: int, rewards: Sequence[tuple[bytes, float | None, int, int | None]]) -> None:
        """Key, reward, time and maybe seat of each."""

    def set_seats(self, loop: int, seats: Sequence[tuple[bytes, int]]) -> None:
        """Key and seat of each."""

    def lock_loop(self, loop: int) -> Row | None:
        """The row of a loop, which nobody else writes until the transaction ends; columns as in `STATUS`."""


@cache
def adding(table: str, columns: str) -> str:
    """The statement that adds a row.

    >>> adding("places", "loop, place")
    'INSERT INTO places (loop, place) VALUES (?, ?)'
    """
    return f"INSERT INTO {table} ({columns}) VALUES ({', '.join('?' for _ in columns.split(','))})"


@cache
def saving(table: str, key: str, columns: str) -> str:
    """The statement that puts a row in the place of the one that has its key."""
    others = [name for name in columns.split(", ") if name not in key.split(", ")]
    changed = ", ".join(f"{name} = excluded.{name}" for name in others)
    return f"{adding(table, columns)} ON CONFLICT ({key}) DO UPDATE SET {changed}"


def noted(tx: Transaction, key: str) -> str | None:
    """What a store has noted of itself under a key."""
    found = tx.execute("SELECT value FROM meta WHERE key = ?", (key,))
    return found[0][0] if found else None


def note(tx: Transaction, key: str, value: str) -> None:
    """Note it in the place of what was there."""
    tx.execute(saving("meta", "key", "key, value"), (key, value))


STATUS = (
    "mode, round, settled, released, version, revision, epoch, clock, erased, aged, ledger_sequence, stopped, closed, "
    "due, tally"
)
"""The columns of a loop's row that its writer reads and changes."""


class Driver(Protocol):
    """A database. Connections are made when needed and do not cross a fork; what fails is a `StorageFailed`."""

    dialect: ClassVar[str]
    failures: tuple[type[Exception], ...]
    url: str
    path: Path | None = None
    """The file that it is; None on a server."""
    fixes: ClassVar[Mapping[str, str]]
    """What to do about a failure, by its kind; ``other`` for the rest."""

    def writing(self) -> AbstractContextManager[Transaction]:
        """A transaction that is durable when it ends without an error."""

    def reading(self) -> AbstractContextManager[Transaction]:
        """A transaction that sees one moment and writes nothing."""

    def prepare(self) -> None:
        """Check that the database can be written and keeps what it commits."""

    def ledger(self, name: str) -> tuple[str | Path, str | None]:
        """Where the ledger of this name is: path (or URL) and name for `Ledger.open`."""

    def ledgers(self) -> list[str]:
        """The names of all ledgers."""

    def beside(self, ledger: str) -> Driver:
        """Where the pages of a ledger's blocks are: a store of its own, or this one on a server."""

    def tidy(self) -> bool:
        """Take what was erased out of the log too; False when somebody who reads must end first."""

    def json(self, column: str, *path: str) -> str:
        """An expression for what stands at a path in a column of JSON."""

    def time(self, tx: Transaction) -> int | None:
        """The time of day of the database's own machine; None where that is this machine."""

    def rewrite(self) -> None:
        """After a migration: what older versions left behind of erased rows goes."""

    def index(self, name: str, statement: str) -> bool:
        """Make an index while others write; False where another process is at it."""

    def close(self) -> None: ...

    def told(self, problem: Exception) -> tuple[str, str]:
        """What a failure was, in one word and in the database's own."""

    @contextmanager
    def explained(self) -> Iterator[None]:
        """Inside, what the database fails with says what to do."""
        try:
            yield
        except self.failures as problem:
            raise self.explain(problem) from problem

    def explain(self, problem: Exception) -> StorageFailed:
        """A failure as an error that says what to do."""
        kind, words = self.told(problem)
        fix = self.fixes.get(kind, self.fixes["other"])
        failed = StorageFailed("the store cannot be written", path=str(self), given=words, fix=f"{fix}, then repeat")
        failed.kind = kind
        return failed
