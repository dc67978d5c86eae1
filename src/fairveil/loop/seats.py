"""Seats: the public number of a round in its line, given when its reward comes or its window closes.

A loop that releases by arrival has one line an arm, or one for all where candidates are chosen. Where arrivals are
public a round gets the next seat of its line when its reward is in and the decision was shown, whichever is later;
where they are hidden, when its window closes, answered or not. The seat is written in the transaction that accepts the
reward (or closes the window), so a crash keeps both or neither, and it never changes: a database refuses a second round
at the same seat. A round that can never be learned is closed and has no seat. An older copy of a store begins new lines
(`fairveil.loop.recovery`), and no round of an old line is learned any more.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from fairveil.arrays import Ints
from fairveil.bandits.protocol import Block
from fairveil.loop.events import ERASED, NEVER, OF_ITS_CONTENT, PENDING, Event
from fairveil.loop.facts import Facts, Status, counters
from fairveil.loop.kept import without_content
from fairveil.loop.storage import Transaction
from fairveil.state import State

PAGE = 2000
MAY_SETTLE = f"(learn IN ('{PENDING}', '{ERASED}') OR (learn = '{NEVER}' AND reason IN {OF_ITS_CONTENT!r}))"
"""Rounds that settle with their window: also those that are not learned for what is in them, which nothing may show."""
GATHERED = 0.1
"""Share of the reports released so far that gather before the next release of a local policy."""


class Seating:
    """The seats that one batch gives: the counters of all lines as they will be when it commits."""

    def __init__(self, facts: Facts, status: Status) -> None:
        self.facts, self.first = facts, status.epoch * facts.lines
        self.came, self.closed = counters(facts, status)
        self._taken = _taken(facts, status.state)
        self._base = status.state.get("base", np.zeros(facts.lines, np.int64))
        self.given: dict[bytes, int] = {}
        self.changed = False

    def line(self, state: State) -> int:
        """The line of a new round: that of the arm whose turn it is, whatever was chosen."""
        return self.first + (int(state["turn"][2]) if "turn" in state else 0)

    def close(self, queue: int) -> None:
        """A round that will never have a seat."""
        self.closed[queue - self.first] += 1
        self.changed = True

    def take(self, queue: int) -> int:
        """The next seat of a line."""
        place = queue - self.first
        self.came[place] += 1
        self.changed = True
        return int(self.came[place] - self._base[place]) - 1

    def at_answer(self, row: Event) -> Event:
        """The round with its seat, where it has its reward, was shown, and arrivals are public."""
        ready = row.reward is not None and row.activated != 0 and row.seat is None
        if not ready or row.queue is None or self.facts.missing != "public":
            return row
        return row._replace(seat=self.take(row.queue))

    def through(self, row: Event) -> str | None:
        """Why a round is not learned any more: its seat is released, or it is of a time before a restore."""
        place = -1 if row.queue is None else row.queue - self.first
        if place < 0:
            return "restored"
        return "released" if row.seat is not None and row.seat < self._taken[place] else None

    def counted(self, state: State, rounds: int) -> State:
        """A state with the counters of its lines as this batch has made them."""
        arrived = self.facts.arrived
        return state if arrived is None else arrived.counted(state, self.came.copy(), self.closed.copy(), rounds)

    @property
    def tally(self) -> bytes:
        """The counters as the row of the loop keeps them."""
        return np.concatenate([self.came, self.closed]).astype("<i8").tobytes()


def through(facts: Facts, status: Status, row: Event) -> bool:
    """Whether a round is released, lost or abandoned."""
    if not facts.by_seat:
        return row.round is not None and row.round < status.released
    return Seating(facts, status).through(row) is not None


def _taken(facts: Facts, state: State) -> Ints:
    """Of every line the first seat that is in no release."""
    if "taken" in state and "base" in state:
        taken: Ints = state["taken"] - state["base"]
        return taken
    block = facts.policy.block(state)
    return np.array([np.iinfo(np.int64).max if block is None else block.first])


def due_seats(facts: Facts, status: Status) -> list[Block]:
    """Pools that are due, by arm, or the next batch of the line. Reports that people have noised gather for a while:
    each release is an entry of the ledger for ever. While nothing is decided that is learned the turn ends where it
    is, so that nobody's answer waits for rounds that may never come."""
    policy, state = facts.policy, status.state
    if facts.arrived is None:
        block = policy.block(state)
        return [block] if block is not None and block.stop <= counters(facts, status)[0][0] else []
    if at_rest(facts, status):
        state = {**state, "given": decided_by_line(state, status.round)}
    found = policy.open_blocks(state)
    if not policy.local:
        return found
    waits = state["given"] > state["came"] + state["closed"]
    return [one for one in found if not waits[one.arm] or one.stop - one.first >= GATHERED * one.first]


def at_rest(facts: Facts, status: Status) -> bool:
    """Whether no round is decided to be learned: the loop is frozen, closed or at its horizon. All of it is public."""
    over = facts.horizon is not None and status.round >= facts.horizon
    return over or status.mode == "frozen" or status.closed is not None


# Windows that close ---------------------------------------------------------------------------------------------------


class Unseated(NamedTuple):
    """A round without a seat whose window has closed."""

    key: bytes
    queue: int
    activated: int | None


def close_windows(batch: Any, low: int, stop: int) -> None:
    """Rounds low .. stop - 1 have closed: where arrivals are hidden they get their seats, in the order of rounds.

    Where they are public none that waits will be answered: it is closed, and its content goes. A line of candidates
    takes it all the same, because everybody shown is counted. A decision that was not shown has no seat.
    """
    seats, facts = batch.seats, batch.facts
    query = (
        "SELECT key, queue, activated FROM events WHERE loop = ? AND round >= ? AND round < ? AND seat IS NULL "
        f"AND {MAY_SETTLE} ORDER BY round"
    )
    rows = [Unseated(*row) for row in batch.tx.execute(query, (facts.id, low, stop))]
    settles = facts.missing != "public" or facts.policy.arms is None
    over = []
    for row in rows:
        if settles and row.activated != 0:
            seats.given[row.key] = seats.take(row.queue)
        else:
            seats.close(row.queue)
            over.append(row.key)
    erase_content(batch, over)


def erase_content(batch: Any, keys: Sequence[bytes], missing: bool = False) -> None:
    """Erase the content of stored events. ``missing``: rounds that are still open count as missing from here on,
    whatever comes."""
    learn = f", learn = CASE WHEN learn = '{PENDING}' AND round >= ? THEN '{ERASED}' ELSE learn END" if missing else ""
    gone, before = without_content(batch.tx.dialect) + learn, (batch.before.released,) if missing else ()
    rows = [(batch.facts.id, key) for key in keys]
    statement = f"UPDATE events SET {gone} WHERE loop = ? AND key = ? AND erased IS NULL"
    batch.tx.many(statement, [(*before, *row) for row in rows])
    batch.tx.many("DELETE FROM appearances WHERE loop = ? AND event = ?", rows)


def first_waiting(tx: Transaction, loop: int, low: int, high: int) -> int:
    """The first round from ``low`` on that has no seat and may still get one."""
    query = f"SELECT round FROM events WHERE loop = ? AND round >= ? AND {MAY_SETTLE} AND seat IS NULL"
    found = tx.execute(f"{query} ORDER BY round LIMIT 1", (loop, low))
    return found[0][0] if found else high


# The store against itself ---------------------------------------------------------------------------------------------


def check_lines(facts: Facts, status: Status, tx: Transaction) -> str | None:
    """Counters against rounds: what is wrong, or None. Seats of a line are 0, 1, 2, ...; every round stands once."""
    first, stop = status.epoch * facts.lines, (status.epoch + 1) * facts.lines
    query = (
        "SELECT queue, count(*), count(seat), min(seat), max(seat), count(CASE WHEN seat IS NULL AND "
        f"(round < ? OR NOT {MAY_SETTLE}) THEN 1 END) FROM events WHERE loop = ? AND queue >= ? AND queue < ? "
        "GROUP BY queue"
    )
    rows = tx.execute(query, (status.settled, facts.id, first, stop))
    came, closed = counters(facts, status)
    base = status.state.get("base", np.zeros(facts.lines, np.int64))
    found = np.zeros((3, facts.lines), np.int64)
    for queue, rounds, seats, lowest, highest, over in rows:
        if seats and highest - lowest != seats - 1:
            return f"seats {lowest} to {highest} of line {queue - first}, {seats} in all"
        found[:, queue - first] = rounds, 0 if highest is None else highest + 1, over
    if not np.array_equal(found[1], came - base) and not (facts.lines == 1 and found[1][0] == 0):
        return f"{found[1].tolist()} seats, and {(came - base).tolist()} counted"
    if status.epoch or facts.spec.start_from is not None:  # counters go on, rounds of another life are not here
        return None
    if not np.array_equal(found[2], closed):
        return f"{found[2].tolist()} rounds closed, and {closed.tolist()} counted"
    if facts.arrived is None or np.array_equal(found[0], decided_by_line(status.state, status.round)):
        return None
    return f"{found[0].tolist()} rounds, and {status.state['given'].tolist()} given"


def decided_by_line(state: State, rounds: int | None) -> Ints:
    """Rounds of every arm that were decided, after so many in all (None: its turns to their end)."""
    decided: Ints = state["given"].copy()
    first, stop, arm = (int(number) for number in state["turn"][:3])
    if arm >= 0 and rounds is not None:
        decided[arm] -= stop - max(first, min(rounds, stop))
    return decided
