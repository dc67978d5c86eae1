"""A party of a federation: its own rows, its own state, its own ledger.

Messages that came in: each is taken once and in order, or refused with a reason.
"""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fairveil.arrays import Ints
from fairveil.errors import InputError, PrivacyError
from fairveil.federated.message import Form, Message
from fairveil.privacy.noise import Noise

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
            return self.refuse(reason)
        self.put(message)
        return Receipt(True)

    def refuse(self, reason: str) -> Receipt:
        """Refuse a message in words that repeat nothing of it."""
        self.refused.append(reason)
        log.warning("party %d refused a message: %s", self.index, reason)
        return Receipt(False, reason)

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


class MaskedNumbers(NamedTuple):
    """What a party shows of a block of secure sums: masked numbers, and how many rows are behind them (public)."""

    numbers: NDArray[np.uint64]
    rows: int


class Union(NamedTuple):
    """Who takes part in one block of secure sums, for ever: its digest, the parties, and this party's masks."""

    digest: str
    parties: tuple[int, ...]
    masks: Callable[[int], NDArray[np.uint64]]
    """As many masks as the block has numbers."""

    def check_part(self, party: int, colluding: int, called: str) -> None:
        """Refuse a union without this party, or one that is small enough for all others to collude."""
        if party not in self.parties or len(self.parties) <= colluding:
            raise PrivacyError(
                f"this {called} has no part in this union", path="union", given=list(self.parties),
                allowed="itself among more parties than may collude",
            )  # fmt: skip


class Party(ABC):
    """What every party does, whatever it learns and however its messages travel.

    Guarantee: everything that leaves a party is a `Message` from `send`: charged to the party's ledger before its noise
    is drawn, drawn once, stored before it is seen. What a row pays over all messages it enters (one, for a bandit
    agent; all of a run, for a consensus node) is charged once, also after retries and restarts. Receiving spends
    nothing.
    """

    index: int
    """The party's own place among all of them."""

    @abstractmethod
    def due(self) -> bool:
        """Is a message of this party due?"""

    @abstractmethod
    def send(self, noise: Noise | None = None) -> Message:
        """The message that is due; asked for again, the same one. ``noise`` None: from the operating system."""

    @abstractmethod
    def receive(self, message: Any) -> Receipt:
        """Take a message of another party, or refuse it: then nothing changes or is spent, and the log says why."""

    @property
    def syncs(self) -> int:
        """Synchronisations that are complete."""
        raise NotImplementedError

    def released(self, sync: int) -> bool:
        """Whether this party's ledger holds its release of a synchronisation."""
        raise NotImplementedError

    def catch_up(self, messages: Iterable[Message]) -> None:
        """Take in complete synchronisations of a log, in order; whoever is in none of its messages was left out.

        An own message among them must be in the party's ledger: it is repeated from there, never drawn again.
        """
        raise NotImplementedError

    def contribute(self, union: Union, noise: Noise | None = None) -> MaskedNumbers | None:
        """The masked numbers of the synchronisation that is due, drawn for this union alone; None where they are lost.

        Charged, drawn, masked and stored in one step; asked again for the same union, the same ones. Another union for
        the same block is refused: the difference of two sums would be one party's numbers under one share of noise.
        """
        raise NotImplementedError

    def take_sum(self, parties: Sequence[int], total: Ints, rows: int) -> None:
        """Complete the synchronisation that is awaited by the sum over these parties."""
        raise NotImplementedError

    def void(self, parties: Sequence[int]) -> None:
        """The sum over these parties will never be known: their rows of this block are gone, and all go on."""
        raise NotImplementedError

    def answer(self, messages: Iterable[Any], noise: Noise | None = None) -> Message | None:
        """Receive, then send if something is due."""
        for message in messages:
            self.receive(message)
        return self.send(noise) if self.due() else None

    @abstractmethod
    def save(self) -> bytes:
        """Everything a restart needs but the ledger. Holds raw rows: keep it where the rows are kept."""

    @abstractmethod
    def load(self, data: bytes) -> None:
        """Go on from what `save` gave. What was sent since then comes back from the ledger and is not drawn again."""


def by_synchronisation(messages: Iterable[Message], first: int) -> Iterator[tuple[int, dict[int, Message]]]:
    """Messages of a log by synchronisation, from ``first`` on, each with its messages by sender; none may be missing.

    What is older than ``first`` is known and left out.
    """
    groups: dict[int, dict[int, Message]] = {}
    for message in messages:
        if message.sync >= first and groups.setdefault(message.sync, {}).setdefault(message.sender, message) != message:
            raise InputError("a log holds two messages of one party", path="messages", given=f"party {message.sender}")
    for place, sync in enumerate(sorted(groups)):
        if sync != first + place:
            raise InputError("the log leaves a synchronisation out", path="messages", given=first + place)
        yield sync, dict(sorted(groups[sync].items()))


def exchange(parties: Sequence[Party], noises: Iterable[Noise | None]) -> list[Message]:
    """One synchronisation of parties in one process: everybody sends, everybody receives."""
    sources = list(noises)
    if len(sources) != len(parties):
        raise InputError(
            "there is not one noise per party",
            path="noises",
            given=len(sources),
            allowed=f"{len(parties)}, or None each",
        )
    messages = [party.send(noise) for party, noise in zip(parties, sources)]
    for message in messages:
        for party in parties:
            if party.index != message.sender:
                party.receive(message)
    return messages
