"""Rows of the ledger, the hash that links each to all before it, and the state that a chain of rows implies.

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
from typing import Any, Protocol

from fairveil.errors import FairveilError, LedgerError, LedgerTampered
from fairveil.privacy.charges import Charge
from fairveil.privacy.events import event_from_dict
from fairveil.privacy.filters import Filter
from fairveil.privacy.limits import Limit

FORMAT = 1
GENESIS, ACCOUNT, RESERVE, PUBLISH, LOST, ANCHOR = "genesis", "account", "reserve", "publish", "lost", "anchor"
START = "0" * 64


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


class RowTable(Protocol):
    """All rows, in order or looked up."""

    def find(self, kind: str, name: str) -> Row | None: ...

    def releases_under(self, account: str, before: int) -> int: ...

    def rows(self, after: int = -1) -> Iterator[Row]: ...


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


def replay(rows: RowTable, key: bytes | None = None) -> Iterator[tuple[State, Row]]:
    """The state after each row, from the first on, in constant memory."""
    state = None
    for row in rows.rows():
        state = begin(row, key) if state is None else advance(state, row, rows)
        yield state, row
    if state is None:
        raise damaged(0, "the first entry is missing")


def advance(state: State, row: Row, rows: RowTable) -> State:
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


def _follow(state: State, row: Row, rows: RowTable) -> State:
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


def _check_account(row: Row, rows: RowTable) -> None:
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
