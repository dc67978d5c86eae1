"""Carrying bytes between a coordinator and parties: what every transport does, and the one in this process.

A carrier promises nothing: bytes may be lost, repeated, late or reordered. `drive` asks until the run is over.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fairveil.federated.coordinator import Coordinator


RETRY = 5.0
"""Seconds after which a party is asked again whose answer is known to be lost."""
AGAIN = 45.0
"""Seconds after which a party is asked again that has not answered; each time twice as long, up to the patience."""


class Carrier(ABC):
    """How bytes travel. Who a party is, is the carrier's word; what it says is signed."""

    @abstractmethod
    def ask(self, party: int, request: bytes) -> None:
        """Send a request to a party; does not wait."""

    @abstractmethod
    def answers(self) -> Sequence[tuple[int, bytes | None]]:
        """What came back since the last call, in any order; None where it is known that nothing will come."""

    def pause(self) -> None:  # noqa: B027  a carrier in this process has nothing to wait for
        """Wait a little before answers are looked for again."""


class Inline(Carrier):
    """Parties in this process, each a function from a request to its answer. Everything arrives, once, in order.

    >>> carrier = Inline({0: bytes.upper, 1: bytes.title})
    >>> carrier.ask(1, b"round"), carrier.ask(0, b"round"), carrier.answers(), carrier.answers()
    (None, None, [(1, b'Round'), (0, b'ROUND')], [])
    """

    def __init__(self, parties: Mapping[int, Callable[[bytes], bytes]]) -> None:
        self.parties = dict(parties)
        self._answers: list[tuple[int, bytes]] = []

    def ask(self, party: int, request: bytes) -> None:
        self._answers.append((party, self.parties[party](request)))

    def answers(self) -> list[tuple[int, bytes]]:
        found, self._answers = self._answers, []
        return found


def drive(
    coordinator: Coordinator,
    carrier: Carrier,
    *,
    clock: Callable[[], float] = time.time,
    patience: float = 0.0,
    watch: Callable[[Coordinator], None] | None = None,
) -> None:
    """Ask everybody who is awaited, take what comes back, until the run is over.

    Delivery is at most once, a request may be lost without a word, and parties repeat what they have said: one that has
    not answered is asked again after `AGAIN` seconds, then after twice as long, at most ``patience``; one whose answer
    is known to be lost after `RETRY`. A late answer to an earlier request leaves the later one under way: else every
    request that was ever repeated would be repeated for ever. A clock that is set back asks at once. ``watch`` is
    called after every round.
    """
    asked: dict[int, tuple[float, float]] = {}  # when, and how long an answer is waited for
    while not coordinator.finished:
        now = clock()
        coordinator.tick(now)
        for party in coordinator.awaited:
            since, wait = asked.get(party, (now, 0.0))
            if not 0.0 <= now - since < wait:
                asked[party] = now, min(max(2.0 * wait, AGAIN), patience)
                carrier.ask(party, coordinator.ask(party))
        for party, answer in carrier.answers():
            if answer is None:
                asked[party] = now, min(RETRY, patience)
                continue
            coordinator.take(party, answer, clock())
            if coordinator.up_to_date(party):
                asked.pop(party, None)
        if watch is not None:
            watch(coordinator)
        carrier.pause()
