"""After a change of keys: rows that stand under an old key are found by it, and go by the new one from then on.

Ids are not stored, so nothing can be hashed again at once. Whoever comes back brings the id: in the transaction of that
request the rows of the event and of the people in it get their new names, before anything is looked up. All processes
write under the new key, so no row under an old one is ever added.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from fairveil.loop.keys import Keys
    from fairveil.loop.pages import Pages
    from fairveil.loop.requests import Ask
    from fairveil.loop.storage import Transaction

Pair = tuple[bytes, bytes]
EVENTS = (("events", "key"), ("appearances", "event"), ("places", "event"))
PEOPLE = (
    ("subjects", "key"), ("appearances", "subject"), ("place_people", "key"), ("place_appearances", "subject")
)  # fmt: skip
"""Where events and people stand under keyed hashes."""


class Aliases(NamedTuple):
    """New and old key, of events and of people."""

    events: tuple[Pair, ...] = ()
    people: tuple[Pair, ...] = ()


NO_ALIASES = Aliases()


def aliases_of(ask: Ask) -> Aliases:
    events = tuple((ask.key, old.key) for old in ask.older)
    return Aliases(events, tuple(pair for old in ask.older for pair in zip(ask.mentioned, old.mentioned, strict=True)))


def aliases_of_event(keys: Keys, id: str) -> Aliases:
    return Aliases(events=tuple((keys.event(id), old.event(id)) for old in keys.old))


def aliases_of_person(keys: Keys, id: str) -> Aliases:
    return Aliases(people=tuple((keys.subject(id), old.subject(id)) for old in keys.old))


def renamed(tx: Transaction, loop: int, given: Iterable[Aliases]) -> Aliases:
    """Give rows their new names; gives all aliases together."""
    known = [one for one in given if one is not NO_ALIASES]
    if not known:
        return NO_ALIASES
    events = tuple(dict.fromkeys(pair for one in known for pair in one.events))
    people = tuple(dict.fromkeys(pair for one in known for pair in one.people))
    for places, pairs in ((EVENTS, events), (PEOPLE, people)):
        for table, column in places if pairs else ():
            statement = f"UPDATE {table} SET {column} = ? WHERE loop = ? AND {column} = ?"
            tx.many(statement, [(new, loop, old) for new, old in pairs])
    return Aliases(events, people)


def released(pages: Pages, tx: Transaction, fresh: Sequence[bytes], aliases: Aliases) -> frozenset[bytes]:
    """Which of these events a lost copy of the store has released under an old key."""
    wanted = {old: new for new, old in aliases.events if new in set(fresh)}
    return frozenset(wanted[old] for old in pages.among(tx, wanted)) if wanted else frozenset()
