"""A party of a federation: its own rows, its own state, its own ledger."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from typing import Any

from fairveil.errors import InputError
from fairveil.federated.inbox import Receipt
from fairveil.federated.message import Message
from fairveil.privacy.noise import Noise


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
