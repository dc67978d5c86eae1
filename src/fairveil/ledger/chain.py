"""Rows of the ledger, asked for and appended by the same statements in a file and on a server; the hash that links each
to all before it, and the state that a chain of rows implies.

`advance` is the only place that says which row may follow: opening, catching up with other processes, writing and
`verify` all run it. It checks the link, the order of events for each block, the charge, the totals and the limit.
"""

from __future__ import annotations

import hashlib
import hmac
import json
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, ClassVar

from fairveil.errors import FairveilError, LedgerError, LedgerTampered
from fairveil.privacy.charges import Charge
from fairveil.privacy.events import event_from_dict
from fairveil.privacy.filters import Filter
from fairveil.privacy.limits import Limit
from fairveil.storage.faults import point

FORMAT = 1
GENESIS, ACCOUNT, RESERVE, PUBLISH, LOST, ANCHOR = "genesis", "account", "reserve", "publish", "lost", "anchor"
START = "0" * 64
COLUMNS = "sequence, kind, name, account, facts, value, hash"
PAGE = 500
"""Rows that are read at a time."""


@dataclass(frozen=True)
class Row:
    """One entry: ``name`` is the ledger's id, an account, a block or a counter, depending on ``kind``.

    ``account`` is the account that paid, in a reservation that names no event.
    """

    sequence: int
    kind: str
    name: str
    account: str | None
    facts: str
    value: str | None
    hash: str

    @cached_property
    def table(self) -> dict[str, Any]:
        """The facts as a dictionary, read once: leave it as it is."""
        try:
            table = json.loads(self.facts)
        except ValueError:
            table = None
        if not isinstance(table, dict):
            raise damaged(self.sequence, "its facts cannot be read")
        return table

    def describe(self) -> dict[str, Any]:
        """The entry as plain data, without the released value."""
        facts = {"sequence": self.sequence, "kind": self.kind, "name": self.name, **self.table, "hash": self.hash}
        return facts if self.account is None else {**facts, "account": self.account}


class LedgerGone(LedgerTampered):
    """There is no ledger where one was, or should be."""


class LedgerStore:
    """The rows of one ledger, inside a transaction. A file holds one ledger, and a server's table many: ``mine`` is the
    condition that tells whose a row is, and what it asks for stands before all other values."""

    mine: ClassVar[str] = "TRUE"
    same: ClassVar[str] = ""
    """What says that rows r and s are of one ledger, before other conditions."""

    def __init__(self, connection: Any, *whose: str) -> None:
        self.connection, self._whose = connection, whose

    def ask(self, query: str, *values: Any) -> list[Any]:
        """The answer to a query with question marks, the first of them in ``mine``."""
        found: list[Any] = self.execute(query, (*self._whose, *values)).fetchall()
        return found

    def execute(self, statement: str, values: tuple[Any, ...]) -> Any:
        """A statement with question marks."""
        return self.connection.execute(statement, values)

    def append(self, row: Row) -> None:
        """Add a row, past the points at which tests stop a process."""
        point("insert")
        self.insert(row)
        point("inserted")

    def insert(self, row: Row) -> None:
        """Add a row."""
        values = (row.sequence, row.kind, row.name, row.account, row.facts, row.value, row.hash)
        columns = ("ledger, " if self._whose else "") + COLUMNS
        marks = ", ".join("?" for _ in columns.split(","))
        self.execute(f"INSERT INTO entries ({columns}) VALUES ({marks})", (*self._whose, *values))

    def last(self) -> tuple[int, str] | None:
        """Sequence number and hash of the last row."""
        found = self.ask(f"SELECT sequence, hash FROM entries WHERE {self.mine} ORDER BY sequence DESC LIMIT 1")
        return tuple(found[0]) if found else None

    def hash_at(self, sequence: int) -> str | None:
        found = self.ask(f"SELECT hash FROM entries WHERE {self.mine} AND sequence = ?", sequence)
        return found[0][0] if found else None

    def find(self, kind: str, name: str) -> Row | None:
        """The row of a kind under a name: there is at most one."""
        found = self.ask(f"SELECT {COLUMNS} FROM entries WHERE {self.mine} AND name = ? AND kind = ?", name, kind)
        return Row(*found[0]) if found else None

    def rows(self, after: int = -1, at_most: int = -1) -> Iterator[Row]:
        """Rows in order after a sequence number, in constant memory; -1 for ``at_most``: all of them."""
        query = f"SELECT {COLUMNS} FROM entries WHERE {self.mine} AND sequence > ? ORDER BY sequence LIMIT ?"
        while at_most != 0:
            size = PAGE if at_most < 0 else min(at_most, PAGE)
            page = self.ask(query, after, size)
            for found in page:
                yield Row(*found)
            if len(page) < size:
                return
            after, at_most = page[-1][0], at_most - size if at_most > 0 else at_most

    def releases_under(self, account: str, before: int) -> int:
        """How many releases were reserved under an account before this sequence number."""
        query = f"SELECT count(*) FROM entries WHERE {self.mine} AND account = ? AND sequence < ?"
        return int(self.ask(query, account, before)[0][0])

    def first_under(self, account: str) -> str | None:
        """The name of the first block that was reserved under an account."""
        query = f"SELECT name FROM entries WHERE {self.mine} AND account = ? AND kind = ? ORDER BY sequence LIMIT 1"
        found = self.ask(query, account, RESERVE)
        return found[0][0] if found else None

    def pending(self) -> list[Row]:
        """Reservations that are neither published nor lost."""
        settled = f"SELECT 1 FROM entries s WHERE {self.same}s.name = r.name AND s.kind IN ('{PUBLISH}', '{LOST}')"
        query = f"SELECT {COLUMNS} FROM entries r WHERE {self.mine} AND kind = ? AND NOT EXISTS ({settled})"
        return [Row(*found) for found in self.ask(f"{query} ORDER BY sequence", RESERVE)]

    def names(self, kind: str) -> Iterator[str]:
        query = f"SELECT name FROM entries WHERE {self.mine} AND kind = ? ORDER BY sequence"
        return (name for (name,) in self.ask(query, kind))

    def check_pages(self) -> None:
        """What the storage itself can check of its pages and indexes; a server does so by itself."""


def link(previous: str, row: Row, key: bytes | None = None) -> str:
    """The hash of a row: of everything in it and of the hash before it; with a key, one that needs the key to make."""
    digest = None if row.value is None else hashlib.sha256(row.value.encode()).hexdigest()
    content = [previous, row.sequence, row.kind, row.name, row.account, row.facts, digest]
    text = json.dumps(content, separators=(",", ":")).encode()
    return hashlib.sha256(text).hexdigest() if key is None else hmac.new(key, text, hashlib.sha256).hexdigest()


def make_row(
    previous: str,
    sequence: int,
    kind: str,
    name: str,
    table: dict[str, Any],
    *,
    account: str | None = None,
    value: str | None = None,
    key: bytes | None = None,
) -> Row:
    facts = json.dumps(table, sort_keys=True, separators=(",", ":"), allow_nan=False)
    bare = Row(sequence, kind, name, account, facts, value, "")
    return replace(bare, hash=link(previous, bare, key))


def damaged(sequence: int, what: str) -> LedgerTampered:
    return LedgerTampered(
        f"entry {sequence} of the ledger was changed: {what}",
        path="ledger",
        allowed="the entries that fairveil wrote, in their order",
        fix="restore the ledger file from a copy that matches its anchor; until then treat the budget as spent",
    )


@dataclass(frozen=True)
class State:
    """All that a chain implies, in constant size."""

    ledger: str
    simulated: bool
    anchored: bool
    unit: str
    filter: Filter
    sequence: int
    head: str
    key: bytes | None = field(default=None, repr=False)

    @property
    def limit(self) -> Limit:
        return self.filter.limit


def totals(filter: Filter) -> list[int]:
    return filter.spent.to_list() + filter.reserved.to_list()


def begin(row: Row, key: bytes | None = None) -> State:
    """The state after the first row."""
    if row.sequence != 0 or row.kind != GENESIS:
        raise damaged(0, "the first entry is missing")
    table = row.table
    keyed = bool(table.get("keyed", False))
    if keyed != (key is not None):
        problem = "this ledger was made with a key" if keyed else "this ledger was made without a key"
        raise LedgerError(problem, path="key", fix="open it with that key" if keyed else "leave the key out")
    if row.hash != link(START, row, key):
        raise damaged(0, "its content does not fit its hash" + (", or this is another key" if keyed else ""))
    if table.get("format") != FORMAT:
        raise LedgerError(
            "this ledger has another format",
            path="ledger",
            given=table.get("format"),
            allowed=str(FORMAT),
            fix="read it with the release of fairveil that wrote it",
        )
    try:
        limit = Limit.from_dict(table["limit"])
        return State(row.name, table["simulated"], table["anchored"], table["unit"], Filter(limit), 0, row.hash, key)
    except (FairveilError, KeyError) as problem:
        raise damaged(0, "its facts cannot be read") from problem


def replay(rows: LedgerStore, key: bytes | None = None) -> Iterator[tuple[State, Row]]:
    """The state after each row, from the first on, in constant memory."""
    state = None
    for row in rows.rows():
        state = begin(row, key) if state is None else advance(state, row, rows)
        yield state, row
    if state is None:
        raise damaged(0, "the first entry is missing")


def advance(state: State, row: Row, rows: LedgerStore) -> State:
    """The state after one more row, or LedgerTampered when that row cannot follow."""
    number = state.sequence + 1
    if row.sequence != number:
        raise damaged(number, "it is missing")
    if row.hash != link(state.head, row, state.key):
        raise damaged(number, "its content does not fit its hash")
    try:
        after = _follow(state, row, rows)
        recorded = row.table["totals"]
    except (FairveilError, KeyError, TypeError, ValueError) as problem:
        if isinstance(problem, LedgerTampered):
            raise
        raise damaged(number, "it breaks the rules of the ledger") from problem
    if recorded != totals(after.filter):
        raise damaged(number, "its totals do not add up")
    return replace(after, sequence=number, head=row.hash)


def _follow(state: State, row: Row, rows: LedgerStore) -> State:
    table = row.table
    if row.kind == ANCHOR:
        return replace(state, anchored=True)
    if row.kind in (ACCOUNT, RESERVE):
        charge = Charge(*table["charge"])
        _check_charge(state, row, charge)
        _check_account(row, rows)
        if not state.filter.admits(charge):
            raise damaged(row.sequence, "it goes over the limit")
        held = Filter(state.limit, state.filter.spent, state.filter.reserved + charge)
        return replace(state, filter=held.settle(charge) if row.kind == ACCOUNT else held)
    if row.kind in (PUBLISH, LOST):
        reservation = rows.find(RESERVE, row.name)
        if reservation is None or reservation.sequence >= row.sequence:
            raise damaged(row.sequence, "it has no reservation")
        other = rows.find(LOST if row.kind == PUBLISH else PUBLISH, row.name)
        if other is not None and other.sequence <= row.sequence:
            raise damaged(row.sequence, "its block was settled before")
        return replace(state, filter=state.filter.settle(Charge(*reservation.table["charge"])))
    raise damaged(row.sequence, "its kind is not known")


def _check_account(row: Row, rows: LedgerStore) -> None:
    """A release under an account belongs to one that was opened before and has releases left."""
    if row.account is None:
        return
    account = rows.find(ACCOUNT, row.account)
    if account is None or account.sequence >= row.sequence:
        raise damaged(row.sequence, "its account was not opened")
    allowed = account.table["releases"]
    if allowed is not None and rows.releases_under(row.account, row.sequence) >= allowed:
        raise damaged(row.sequence, "its account has no release left")


def _check_charge(state: State, row: Row, recorded: Charge) -> None:
    """The recorded charge is what the event costs; one part in 10^8 is left to other machines' rounding."""
    event = row.table["event"]
    expected = Charge() if event is None else state.limit.charge(event_from_dict(event))
    slack = Charge(2 + expected.units // 10**8, 2 + expected.delta_units // 10**8)
    if (event is None) != (row.kind == RESERVE and row.account is not None):
        raise damaged(row.sequence, "it needs either an event or an account")
    if min(recorded.to_list()) < 0 or not expected.within(recorded + (slack if event is not None else Charge())):
        raise damaged(row.sequence, "its charge is smaller than its event")
