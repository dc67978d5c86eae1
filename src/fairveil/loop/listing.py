"""Many loops at once, each list one query: a page of public rows, and how long their oldest rounds wait."""

from __future__ import annotations

import json
from dataclasses import fields
from typing import TYPE_CHECKING, Any

import numpy as np

from fairveil.loop.accept import policy_of
from fairveil.loop.clock import SECOND, in_words, seconds_of
from fairveil.loop.config import read_spec
from fairveil.loop.facts import Facts, Status
from fairveil.loop.guards import Serving, served
from fairveil.loop.places import Counters
from fairveil.loop.public import counted, stored_table
from fairveil.loop.storage.driver import STATUS, noted
from fairveil.state import load_state

if TYPE_CHECKING:
    from fairveil.loop.store import Store

PAGE = 50
"""Loops of one page."""
_STATUS, _PLACES = STATUS.split(", "), [field.name for field in fields(Counters)]
_WANTED = [
    *(f"l.{name}" for name in ("name", "id", "config", "created", "began", "beside", "state", *_STATUS)),
    *(f"r.{name}" for name in _PLACES),
    *("s.decided", "s.counts", "b.words", "x.id", "x.kind", "x.created", "x.value"),
]
_PAGE = (
    f"SELECT {', '.join(_WANTED)} FROM loops l LEFT JOIN reporting r ON r.loop = l.id "
    "LEFT JOIN serving s ON s.loop = l.id "
    "LEFT JOIN budgets b ON b.ledger = l.ledger LEFT JOIN releases x ON x.loop = l.id AND x.id = "
    "(SELECT id FROM releases WHERE loop = l.id ORDER BY created DESC, id DESC LIMIT 1) "
    "WHERE {where} ORDER BY l.name LIMIT ?"
)


def page(store: Store, after: str = "", only: str | None = None) -> dict[str, dict[str, Any]]:
    """Public rows of the loops after a name, in the order of names, with budget and last release; one query."""
    where, given = ("l.name > ?", after) if only is None else ("l.name = ? AND l.name > ?", only)
    values = (given, PAGE) if only is None else (given, after, PAGE)
    rows = store.read(_PAGE.format(where=where), values)
    return {row[0]: _row(row) for row in rows}


def _row(row: tuple[Any, ...]) -> dict[str, Any]:
    id, config, created, began, beside, state, *rest = row[1:]
    status, places = rest[: len(_STATUS)], rest[len(_STATUS) : len(_STATUS) + len(_PLACES)]
    decided, counts, budget, release, kind, made, value = rest[-7:]
    spec = read_spec(json.loads(config))
    facts = Facts(id, spec, policy_of(spec), created, tuple(json.loads(began)))
    table = None
    if spec.reports is not None:
        table = counted(Counters() if places[0] is None else Counters(*places))
    serving, last = None, None
    if facts.guards.coins:
        serving = served(
            facts, Serving(0, np.zeros((3, facts.things))) if counts is None else Serving.of(decided, counts)
        )
    if release is not None:
        words = json.loads(value).get("words")
        last = {"id": release, "kind": kind, "created": in_words(made), "words": words[0] if words else None}
    return {
        **stored_table(facts, facts.present(Status(load_state(bytes(state)), *status)), beside, table, serving),
        "budget": None if budget is None else json.loads(budget),
        "last_release": last,
    }


def unsettled_ages(store: Store) -> list[tuple[str, float, float]]:
    """Of every loop: its name, seconds since its oldest round that is not settled was decided (0: all are), and the
    length of its window; public facts."""
    wait = store.driver.json("config", "reward", "wait")
    query = f"SELECT l.name, e.decided, {wait} FROM loops l LEFT JOIN events e ON e.loop = l.id AND e.round = l.settled"
    rows, now = store.read(query), store.clock.now()
    return [
        (name, 0.0 if decided is None else max(now - decided, 0) / SECOND, float(seconds_of(words, "reward.wait")))
        for name, decided, words in rows
    ]


def backup_age(store: Store) -> float:
    """Seconds since `fairveil store backup` ended last; before the first one, since there is something to lose."""
    with store.reading() as tx:
        last = noted(tx, "backup")
        [(first,)] = tx.execute("SELECT min(created) FROM loops")
    since = first if last is None else int(last)
    return 0.0 if since is None else max(store.clock.now() - since, 0) / SECOND


def budgets_left(store: Store) -> list[tuple[str, float]]:
    """Of every ledger that keeps something for releases by hand the share that is left, 0 to 1.

    A ledger of a loop's own keeps what the loop declared to spare; a shared one all of its limit.
    """
    spare, shared = (store.driver.json("l.config", *path) for path in (("reports", "spare"), ("budget", "ledger")))
    query = (
        f"SELECT b.ledger, b.words, max({spare}), max({shared}) FROM budgets b JOIN loops l ON l.ledger = b.ledger "
        "WHERE l.closed IS NULL GROUP BY b.ledger, b.words"
    )
    rows = store.read(query)
    found = []
    for name, text, kept, ledger in rows:
        words = json.loads(text)
        whole = _first_number(words["limit"]) if ledger is not None else float(kept or 0.0)
        if whole > 0.0:
            found.append((name, min(_first_number(words["remaining"]) / whole, 1.0)))
    return found


def _first_number(words: str) -> float:
    return float(words.split(",")[0].split()[1])
