"""One transaction of a loop's writer: everything that waited, decided in memory and written at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from fairveil.errors import HorizonError
from fairveil.loop.ask import Ask
from fairveil.loop.facts import Facts
from fairveil.loop.play import Choice
from fairveil.loop.problems import Closed, EventReused, Forgotten, Invalid, OutOfRange, RewardDiffers, UnknownEvent
from fairveil.loop.reply import (
    ACTION,
    ACTIVATED,
    BODY,
    CONTEXT,
    FROZEN,
    LEARN,
    NEVER,
    PENDING,
    REASON,
    REWARD,
    REWARDED,
    ROUND,
    UNTIL,
    Reply,
    RewardReply,
    reply_of,
)
from fairveil.loop.storage import Transaction
from fairveil.randomness import Generator
from fairveil.state import State


@dataclass(frozen=True)
class Status:
    """The row of a loop: counters and modes, and the published state that they belong to."""

    state: State
    mode: str
    round: int
    settled: int
    version: int
    revision: int
    epoch: int
    clock: int
    erased: int
    forgotten: int
    ledger_sequence: int
    stopped: str | None
    closed: int | None


class Batch:
    """Decides and takes rewards inside one transaction; nothing is visible before it commits."""

    def __init__(self, facts: Facts, status: Status, tx: Transaction, now: int, grace: int, rng: Generator) -> None:
        self.facts, self.tx, self.rng = facts, tx, rng
        self.first = self.before = status
        self.now, self.grace = max(now, status.clock), grace
        self.round, self.state = status.round, status.state
        self.known: dict[bytes, Sequence[Any]] = {}
        self.new: dict[bytes, list[Any]] = {}
        self.rewards: dict[bytes, tuple[float | None, int]] = {}
        self.activations: list[bytes] = []
        self.people: dict[bytes, list[Any]] = {}
        self.changed: set[bytes] = set()
        self.appearances: list[tuple[int, bytes, bytes]] = []

    # Reading ---------------------------------------------------------------------------------------------------------

    def look_up(self, keys: Sequence[bytes], subjects: Sequence[bytes]) -> None:
        """Read all that this batch asks about, at once."""
        self.known = dict(self.tx.events(self.facts.id, keys))
        query = "SELECT events, action, propensity FROM subjects WHERE loop = ? AND key = ?"
        for key in dict.fromkeys(subjects):
            found = self.tx.execute(query, (self.facts.id, key))
            self.people[key] = list(found[0]) if found else [0, None, None]

    def _find(self, key: bytes) -> Sequence[Any]:
        row = self.new.get(key) or self.known.get(key)
        if row is None:
            raise UnknownEvent("there is no event with this id", path="event_id", fix="ask for the decision first")
        if row[BODY] is None:
            raise Forgotten("this event is forgotten", path="event_id", fix="retention.events says how long they stay")
        return row

    # Decisions -------------------------------------------------------------------------------------------------------

    def decide(self, ask: Ask) -> Reply:
        known = self.new.get(ask.key) or self.known.get(ask.key)
        if known is not None:
            row = self._find(ask.key)
            if row[BODY] != ask.body:
                raise EventReused(
                    "this event id was used with another body", path="event_id", fix="a new decision has a new event id"
                )
            return self._reply(row, ask, replayed=True)
        if self.before.closed is not None:
            raise Closed("this loop is closed", path="loop", fix="create another one")
        row = self._row(ask)
        self.new[ask.key] = row
        return self._reply(row, ask, replayed=False)

    def _reply(self, row: Sequence[Any], ask: Ask, replayed: bool) -> Reply:
        name = ask.names[row[ACTION]] if ask.names else None
        return reply_of(row, ask.event, name, self.facts.spec.simulated, replayed)

    def _row(self, ask: Ask) -> list[Any]:
        facts, mode = self.facts, self.before.mode
        choice, learn, reason, own = self._choose(ask)
        placed = learn == PENDING or (mode == "apprentice" and reason == "baseline")
        row = [
            facts.id,
            ask.key,
            ask.body,
            self.round if placed else None,
            self.now,
            self.now + facts.wait,
            choice.action,
            float(choice.propensity),
            self.before.version,
            mode,
            learn,
            reason,
            0 if ask.defer else None,
            own if mode == "shadow" else None,
            None,
            None,
            None,
        ]
        if placed:
            self.round += 1
        if learn == PENDING:
            row[CONTEXT] = facts.play.context(ask, choice.action)
            self._count(ask)
        if facts.spec.person.sticky and mode != "shadow":
            self._keep_arm(ask, choice)
        return row

    def _choose(self, ask: Ask) -> tuple[Choice, str, str | None, int | None]:
        """Action, learning, reason and what the policy itself would have done."""
        facts, mode = self.facts, self.before.mode
        kept = self._kept_arm(ask)
        if kept is not None:
            return kept, NEVER, "sticky", None
        blocked = self._blocked(ask)
        at = self._open(blocked)
        if mode in ("shadow", "apprentice"):
            action = ask.baseline if ask.baseline is not None else (0 if ask.allowed is None else ask.allowed[0])
            choice, own = facts.play.taken(self.at_state, at, ask, action, self.rng)
        else:
            choice, own = facts.play.choose(self.at_state, at, ask, self.rng)
        if mode == "shadow":
            return choice, NEVER, "shadow", own
        if blocked is not None:
            return choice, NEVER if blocked == "limit" else FROZEN, blocked, own
        if not choice.learned:
            return choice, NEVER, choice.reason, own
        return choice, PENDING, None, own

    def _blocked(self, ask: Ask) -> str | None:
        """Why this round is not learned, whatever is chosen."""
        if self.before.mode == "frozen":
            return "mode"
        if self.before.stopped is not None:
            return self.before.stopped
        if self.facts.horizon is not None and self.round >= self.facts.horizon:
            return "horizon"
        limit = self.facts.spec.person.max_events
        if limit is not None and any(self.people[key][0] >= limit for key in ask.subjects):
            return "limit"
        return None

    def _open(self, blocked: str | None) -> int:
        """Open the block of the next round and give its number; a frozen loop asks for what it would open next."""
        at = self.round
        if self.facts.horizon is not None:
            at = min(at, self.facts.horizon - 1)
        if blocked in (None, "limit"):
            self.at_state = self.state = self.facts.policy.open(self.state, at, self.rng)
            return at
        try:
            at = max(at, self.facts.reach(self.state))
            self.at_state = self.facts.policy.open(self.state, at, self.rng)
        except HorizonError:
            self.at_state = self.state
        return at

    # Persons ---------------------------------------------------------------------------------------------------------

    def _kept_arm(self, ask: Ask) -> Choice | None:
        if not self.facts.spec.person.sticky or not ask.subjects or self.before.mode == "shadow":
            return None
        _, action, propensity = self.people[ask.subjects[0]]
        if action is None or not ask.permits(action):
            return None
        return Choice(action, propensity, False, "sticky")

    def _keep_arm(self, ask: Ask, choice: Choice) -> None:
        for key in ask.subjects:
            if self.people[key][1] is None:
                self.people[key][1:] = [choice.action, float(choice.propensity)]
                self.changed.add(key)

    def _count(self, ask: Ask) -> None:
        for key in ask.subjects:
            self.appearances.append((self.facts.id, key, ask.key))
            if self.facts.counts_persons:
                self.people[key][0] += 1
                self.changed.add(key)

    # Rewards ---------------------------------------------------------------------------------------------------------

    def reward(self, event: str, key: bytes, value: float) -> RewardReply:
        row = self._find(key)
        mapped = self._mapped(value)
        if row[LEARN] != PENDING:
            if row[REWARDED] is None:
                self._set(row, key, None)
            return RewardReply(event, True, NEVER, row[REASON])
        if row[REWARDED] is not None:
            if row[REWARD] is None:
                released = row[ROUND] < self.before.erased and row[REWARDED] <= row[UNTIL]
                return RewardReply(event, True, NEVER, "released" if released else "late")
            if row[REWARD] != mapped:
                raise RewardDiffers("this event has another reward", path="value", fix="the first one stands")
            return RewardReply(event, True, PENDING)
        if self._still_open(row):
            self._set(row, key, mapped)
            return RewardReply(event, True, PENDING)
        self._set(row, key, None)
        return RewardReply(event, True, NEVER, "late")

    def activate(self, event: str, key: bytes) -> bool:
        """Whether the round counts from now on; one whose window has closed does not."""
        row = self._find(key)
        if row[ACTIVATED] is None:
            raise Invalid("this decision was not deferred", path="event_id", fix="only defer = true is activated later")
        if row[ACTIVATED] == 1:
            return True
        if not self._still_open(row):
            return False
        fresh = self._editable(row, key)
        fresh[ACTIVATED] = 1
        self.activations.append(key)
        return True

    def _still_open(self, row: Sequence[Any]) -> bool:
        placed = row[ROUND] is None or row[ROUND] >= self.before.settled
        return placed and (self.now <= row[UNTIL] or self.now < self.grace)

    def _mapped(self, value: float) -> float:
        """In the policy's range, clipped; a strict loop refuses what lies outside."""
        low, high = self.facts.spec.reward.low, self.facts.spec.reward.high
        if self.facts.policy.local and value not in (0.0, 1.0):
            raise OutOfRange("a local loop takes reports of one bit", path="value", allowed="0 or 1, from LocalClient")
        if self.facts.spec.reward.strict and not low <= value <= high:
            raise OutOfRange(
                "the reward is outside the declared range", path="value", allowed=f"in [{low:g}, {high:g}]"
            )
        return self.facts.mapped(min(max(value, low), high))

    def _set(self, row: Sequence[Any], key: bytes, value: float | None) -> None:
        fresh = self._editable(row, key)
        fresh[REWARD], fresh[REWARDED] = value, self.now
        if key not in self.new:
            self.rewards[key] = value, self.now

    def _editable(self, row: Sequence[Any], key: bytes) -> list[Any]:
        """A row that may be changed: of this batch itself, or a copy of a stored one."""
        if key in self.new:
            return self.new[key]
        fresh = list(row)
        self.known[key] = fresh
        return fresh

    # Writing ---------------------------------------------------------------------------------------------------------

    def write(self) -> Status:
        """Write all of it; gives the status that holds when the transaction commits."""
        with self.tx.together():
            return self._write_all()

    def _write_all(self) -> Status:
        tx, loop = self.tx, self.facts.id
        tx.insert_events([tuple(row) for row in self.new.values()])
        tx.set_rewards(loop, [(key, value, time) for key, (value, time) in self.rewards.items()])
        if self.activations:
            stored = [(loop, key) for key in self.activations if key not in self.new]
            tx.many("UPDATE events SET activated = 1 WHERE loop = ? AND key = ?", stored)
        if self.changed:
            tx.many(
                "INSERT INTO subjects (loop, key, events, action, propensity) VALUES (?, ?, ?, ?, ?) "
                "ON CONFLICT (loop, key) DO UPDATE SET events = excluded.events, action = excluded.action, "
                "propensity = excluded.propensity",
                [(loop, key, *self.people[key]) for key in self.changed],
            )
        if self.appearances:
            tx.many("INSERT INTO appearances (loop, subject, event) VALUES (?, ?, ?)", self.appearances)
        if self.new or self.rewards or self.activations or self.before is not self.first:
            self.change(round=self.round, clock=self.now)
            if self.state is not self.first.state:
                self.change(state=self.state, revision=self.first.revision + 1)
            self.facts.save(tx, self.first, self.before)
        return self.before

    def may_be_due(self, after: Status) -> bool:
        """Whether what is written now may complete a block: all its rounds are decided, and something came for one.

        Only where arrivals are public; where they are hidden time alone completes a block, and a tick looks for that.
        """
        if self.facts.missing != "public" or not (self.rewards or self.activations):
            return False
        block = self.facts.policy.block(after.state)
        return block is not None and block.stop <= after.round

    def change(self, **fields: Any) -> None:
        """Change the row of the loop; it is written with the rest of the batch."""
        self.before = replace(self.before, **fields)
