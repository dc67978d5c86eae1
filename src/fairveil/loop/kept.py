"""What is kept until when: the one table that erasure, retention, DELETE of a person, the guide and the laws read.

A row of a store is never removed, because its event must be known for ever; its columns are emptied. The column
``erased`` says how far: nothing, the content, or all but the key. So an empty column never has to mean something else.

SQLite moves rows between pages when they grow or shrink, and what it leaves behind is not overwritten, whatever
``secure_delete`` says. So a row there keeps its size: it is stored with room for what will come (`ROOM`), and what is
erased leaves as many zeros behind, until no row near it has content (`fairveil.loop.storage.sqlite`).
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from fairveil.loop.store import Store

CONTENT, ALL = "content", "all"
"""What the column ``erased`` says: the raw content is gone; everything is gone but the key."""
ROOM = 40
"""Bytes of a new row that a reward, its time and what says that it is erased may take."""
SEAT = 8
"""Bytes of these that the seat of a round may take where it comes after the reward."""
_SLACK = 12
RAW = "90d"
"""How long raw content is kept at most, unless a loop says otherwise."""

UNTIL = {
    "report": "every scheduled kind has reported its place, at most `reports.keep` (90d)",
    "block": "its block is released, lost or abandoned, at most `retention.raw`; not learned: its window",
    "events": "`retention.events` (400d)",
    "session": "12 hours, logout, or until the token is revoked",
    "ever": "for ever",
}
"""The conditions of the table, in words."""


class Line(NamedTuple):
    """Columns of a table, what they hold, and until when: a key of `UNTIL`. No column: rows of their own."""

    table: str
    columns: tuple[str, ...]
    what: str
    until: str


TABLE = (
    Line("events", ("context",), "features and groups of candidates", "block"),
    Line("events", ("reward", "rewarded"), "the reward, and when it came", "block"),
    Line("events", ("body",), "keyed fingerprint of the request; without features where nothing is learned", "block"),
    Line(
        "appearances",
        ("loop", "subject", "event", "places"),
        "in which events a person stood, at how many places, by keyed hashes",
        "block",
    ),
    Line("events", ("decided", "until"), "when it was decided, when its window closes", "events"),
    Line(
        "events", ("action", "propensity", "own", "activated"), "what was decided, and whether it was shown", "events"
    ),
    Line(
        "events", ("version", "mode", "learn", "reason"), "from which published state, whether it is learned", "events"
    ),
    Line(
        "events",
        ("seq", "loop", "key", "round", "erased", "room", "queue", "seat"),
        "keyed hash of the event's id, its round, its public place in the line of its arm",
        "ever",
    ),
    Line(
        "places",
        ("content",),
        "groups shown and chosen, exposure given and owed, chances of the targets, the reward: for reports",
        "report",
    ),
    Line(
        "place_appearances",
        ("loop", "subject", "place", "places"),
        "at which places a person stands, hashed, as how many candidates",
        "report",
    ),
    Line(
        "places",
        ("loop", "place", "event", "decided", "until", "action", "propensity", "mode"),
        "number of a decision that can be reported, its keyed hash, when and how it was made",
        "ever",
    ),
    Line("place_people", (), "keyed hash of a person's id, at how many places", "ever"),
    Line("reporting", (), "counters of places", "ever"),
    Line("reports", (), "which places were reported, and when", "ever"),
    Line("subjects", (), "keyed hash of a person's id, how often learned, the arm kept", "ever"),
    Line("serving", (), "how often the loop's own coins chose what", "ever"),
    Line("audits", (), "audits of a loop's code on made-up rows, and what they found", "ever"),
    Line("loops", (), "configuration, counters, published state", "ever"),
    Line("budgets", (), "what a ledger holds, for lists", "ever"),
    Line("blocks", (), "which rounds or seats were released, and when", "ever"),
    Line("releases", (), "released values", "ever"),
    Line("released_pages", (), "keyed hashes of released events, beside their ledger", "ever"),
    Line("trail", (), "what operators did", "ever"),
    Line("tokens", (), "names, roles and hashes of tokens", "ever"),
    Line("sessions", (), "hashes of sessions of the dashboard", "session"),
    Line("meta", (), "version, id and name of the key of the store", "ever"),
)


@cache
def columns(table: str, until: str) -> tuple[str, ...]:
    """The columns of a table that go on a condition.

    >>> columns("events", "block")
    ('context', 'reward', 'rewarded', 'body')
    """
    return tuple(name for one in TABLE if (one.table, one.until) == (table, until) for name in one.columns)


@cache
def without_content(dialect: str) -> str:
    """What an UPDATE of events sets when the content goes."""
    made = [f"{name} = NULL" for name in columns("events", "block")] + [f"erased = '{CONTENT}'"]
    if dialect == "sqlite":
        lengths = " + ".join(f"coalesce(length({name}), 0)" for name in ("context", "body", "room"))
        made.append(f"room = zeroblob(max(0, {lengths} - {_SLACK}))")
    return ", ".join(made)


@cache
def without_anything() -> str:
    """The same when an event is forgotten: its key and its round stay."""
    gone = (*columns("events", "block"), *columns("events", "events"))
    return ", ".join([*(f"{name} = NULL" for name in gone), f"erased = '{ALL}'"])


def left_behind(store: Store, loop: int, stop: int) -> list[str]:
    """Columns of rounds below ``stop`` that hold something although their block is through."""
    rounds, found = "loop = ? AND round < ?", []
    with store.reading() as tx:
        for name in columns("events", "block"):
            if tx.execute(f"SELECT count({name}) FROM events WHERE {rounds}", (loop, stop))[0][0]:
                found.append(name)
        events = f"SELECT key FROM events WHERE {rounds}"
        query = f"SELECT count(*) FROM appearances WHERE loop = ? AND event IN ({events})"
        if tx.execute(query, (loop, loop, stop))[0][0]:
            found.append("appearances")
    return found


def page() -> str:
    """The table of the guide."""
    rows = [f"| {one.what} | `{one.table}` | {UNTIL[one.until]} |" for one in TABLE]
    return "\n".join(["| what | where | until |", "|---|---|---|", *rows])
