"""An event as it is stored, what callers get back of it, and what whoever runs the loop may take away.

Ids are kept as keyed hashes alone, so an exported line names its event by that hash.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, NamedTuple

from fairveil.loop.clock import in_words
from fairveil.loop.kept import ALL
from fairveil.loop.problems import Forgotten, UnknownEvent

if TYPE_CHECKING:
    from fairveil.loop.loop import Loop

PENDING, NEVER, FROZEN, ERASED = "pending", "never", "frozen", "erased"
OF_ITS_CONTENT = ("limit", "sticky", "excluded")
"""Reasons that follow from who asks and for what: such an event keeps its round, which counts as a missing reward, so
that what is in one request moves no row of another one into another block."""


class Event(NamedTuple):
    """A stored event, in the order of its columns; `fairveil.loop.kept` says until when each is kept.

    ``key``, ``body``: keyed hashes of its id and request; ``round``: None for a decision that has no place in a block;
    ``decided``, ``until``: its window, by the server's clock; ``version``, ``mode``: of the loop at that moment;
    ``activated``: 0 or 1 for a deferred decision; ``own``: what the policy would have done, in shadow mode;
    ``learn``: pending, never, frozen, or erased: its content went before its block was released, so that it counts as
    a round whose reward is missing, for ever; ``rewarded``: when a reward came; ``reward``, ``context``: raw content;
    ``erased``: None, or what is gone (`fairveil.loop.kept`); ``queue``, ``seat``: its line and its place in it
    (`fairveil.loop.seats`).
    """

    loop: int
    key: bytes
    body: bytes | None
    round: int | None
    decided: int
    until: int
    action: int
    propensity: float
    version: int
    mode: str
    learn: str
    reason: str | None
    activated: int | None
    own: int | None
    reward: float | None = None
    rewarded: int | None = None
    context: bytes | None = None
    erased: str | None = None
    queue: int | None = None
    seat: int | None = None

    def fate(self, through: bool) -> str:
        """What became of its reward: none, never, pending, released or late.

        ``through``: its block is released, lost or abandoned. Of those, and of what is not learned, it does not say
        whether one came. A decision whose window closed before it was shown is not learned.
        """
        if self.learn != PENDING or self.round is None:
            return "never"
        if through:
            return "released"
        if self.activated == 0 and self.erased is not None:
            return "never"
        if self.rewarded is None:
            return "none"
        return "late" if self.reward is None else "pending"


def stored_event(row: Event | None) -> Event:
    """An event that is known; refuses one that never was, and one that is forgotten."""
    if row is None:
        raise UnknownEvent("there is no event with this id", path="event_id", fix="ask for the decision first")
    if row.erased == ALL:
        raise Forgotten("this event is forgotten", path="event_id", fix="retention.events says how long they stay")
    return row


class Reply(NamedTuple):
    """A decision. ``learning``: pending, never or frozen, with the reason; ``replayed``: it was made before."""

    event_id: str
    action: int
    action_id: str | None
    propensity: float
    round: int | None
    policy_version: int
    mode: str
    learning: str
    reason: str | None
    reward_until: str
    simulated: bool = False
    replayed: bool = False

    @classmethod
    def of(cls, row: Event, event: str, name: str | None, simulated: bool, replayed: bool) -> Reply:
        return cls(
            event,
            row.action,
            name,
            row.propensity,
            row.round,
            row.version,
            row.mode,
            *(NEVER, ERASED) if row.learn == ERASED else (row.learn, row.reason),
            in_words(row.until),
            simulated,
            replayed,
        )

    def to_dict(self) -> dict[str, Any]:
        """The body of the answer; ``simulated`` only where it is so."""
        table = self._asdict()
        del table["replayed"]
        if not self.simulated:
            del table["simulated"]
        return table


class RewardReply(NamedTuple):
    """What becomes of a reward: ``learned`` is pending or never, with the reason."""

    event_id: str
    accepted: bool
    learned: str
    reason: str | None = None

    def to_dict(self) -> dict[str, Any]:
        table = self._asdict()
        if self.reason is None:
            del table["reason"]
        return table


_PLAIN = ("round", "action", "propensity", "version", "mode", "learn", "reason", "activated")


def event_lines(loop: Loop, after: int, count: int) -> str:
    """So many events behind number ``after``, each on a line that ends; what was erased is absent."""
    query = (
        f"SELECT seq, key, decided, until, rewarded, {', '.join(_PLAIN)} FROM events "
        "WHERE loop = ? AND seq > ? ORDER BY seq LIMIT ?"
    )
    rows = loop.store.read(query, (loop.facts.id, after, count))
    return "".join(json.dumps(_line(row), separators=(",", ":")) + "\n" for row in rows)


def _line(row: tuple[Any, ...]) -> dict[str, Any]:
    seq, key, decided, until, rewarded, *plain = row
    table = {"seq": seq, "event": bytes(key).hex(), **dict(zip(_PLAIN, plain, strict=True))}
    times = (("decided", decided), ("until", until), ("rewarded", rewarded))
    table |= {name: in_words(value) for name, value in times if value is not None}
    return {name: value for name, value in table.items() if value is not None}
