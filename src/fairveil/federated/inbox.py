"""Messages that came in: each is taken once and in order, or refused with a reason."""

from __future__ import annotations

import logging
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from fairveil.federated.message import Form, Message

log = logging.getLogger("fairveil.federated")
AHEAD = 1
"""Messages of this many synchronisations after the current one may wait: others can be that much faster."""


@dataclass(frozen=True)
class Receipt:
    """What became of a message: taken, or refused with a reason that repeats nothing of it."""

    accepted: bool
    reason: str = ""


class Inbox:
    """The messages of a party's synchronisations that are not complete. Memory O(parties x message).

    Refusals change nothing, are logged without content, and are kept in ``refused``.
    """

    def __init__(self, index: int, parties: int) -> None:
        self.index, self.parties = index, parties
        self.refused: list[str] = []
        self._here: dict[int, dict[int, Message]] = {}

    def take(self, message: Any, form: Form, sync: int, time: int | None, last: int) -> Receipt:
        """Take a message of another party, or refuse it.

        ``sync`` is the synchronisation that is awaited, ``last`` the number of all of them. ``time`` is the round that
        the message must name, None while that round depends on releases that are not made yet.
        """
        reason = form.problem_with(message) or self._misplaced(message, sync, time, last)
        if reason:
            self.refused.append(reason)
            log.warning("party %d refused a message: %s", self.index, reason)
            return Receipt(False, reason)
        self.put(message)
        return Receipt(True)

    def _misplaced(self, message: Message, sync: int, time: int | None, last: int) -> str:
        if message.sender == self.index:
            return "from this party itself"
        if message.sync < sync or message.sender in self._here.get(message.sync, {}):
            return "replayed"
        if message.sync > sync + AHEAD:
            return "out of order"
        if message.sync >= last or (time is not None and message.round != time):
            return "not in the schedule"
        return ""

    def put(self, message: Message) -> None:
        """Put the party's own message in."""
        self._here.setdefault(message.sync, {})[message.sender] = message

    def own(self, sync: int) -> Message | None:
        """The message that this party has sent already."""
        return self._here.get(sync, {}).get(self.index)

    def complete(self, sync: int, awaited: Collection[int] | None = None) -> list[Message] | None:
        """Everybody's messages in order of their senders, once all are here; None before. They leave the inbox.

        ``awaited``: the senders that are waited for, all parties unless told; what others sent comes along.
        """
        here = self._here.get(sync, {})
        if not set(range(self.parties) if awaited is None else awaited) <= set(here):
            return None
        self._here.pop(sync, None)
        return [here[sender] for sender in sorted(here)]

    def messages(self) -> list[Message]:
        """All that is here, in order."""
        return [self._here[sync][sender] for sync in sorted(self._here) for sender in sorted(self._here[sync])]
