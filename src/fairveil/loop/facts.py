"""A loop: what never changes about it, worked out once when it is opened, and the row that does."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from fairveil.arrays import Ints
from fairveil.bandits.feedback import with_arrivals
from fairveil.bandits.protocol import Policy
from fairveil.errors import SpecError
from fairveil.loop.accept import missing_of
from fairveil.loop.clock import SECOND, seconds_of
from fairveil.loop.config import LoopSpec
from fairveil.loop.guards import guards_of, names_of_arms
from fairveil.loop.play import ArmsPlay, ByArrival, ByMerit, play_of
from fairveil.loop.reporting import rules_of
from fairveil.loop.storage import Transaction
from fairveil.loop.storage.driver import STATUS
from fairveil.privacy.guarantee import REFUSED, Guarantee
from fairveil.state import State, load_state, save_state

ERASED = (
    "a person who is erased before their block is released counts as a missing reward, and among candidates as a round "
    "that nobody had: exact totals of rounds and rewards, where a policy publishes them, may show that somebody was"
)
SENDERS = (
    "whoever may send an event's reward is told whether it has another one, and so is taken to know it; nobody else is"
)
STORED = (
    "until its release a row is in the store, whose readers are trusted; the disk keeps what was synced, and only an "
    "anchor or a key shows that somebody put an older ledger in its place"
)
STANDS_IN = (
    "an event over its person's limit, or of somebody who keeps an arm or excludes one, counts as any other with a "
    "public number in place of its reward; to give one event to another person moves at most one row of each of the two"
)
SHOWN = (
    "which deferred decisions were shown in time is public: one that was not is in no release and is counted exactly"
)
OF_RELEASE_0_1 = (
    "made by release 0.1: in what it released before the upgrade, who somebody is may have moved the rows of others"
)
_COLUMNS = STATUS.split(", ")


class Status(NamedTuple):
    """The row of a loop: counters and modes, and the published state that they belong to.

    ``released``: rounds below are through, released or lost or abandoned; ``erased``: rounds below have no content
    left; ``aged``: the same, by time, of events that are not learned; ``due``: when it needs its next tick; ``tally``:
    seats given and rounds closed, of every line (`fairveil.loop.seats`).
    """

    state: State
    mode: str
    round: int
    settled: int
    released: int
    version: int
    revision: int
    epoch: int
    clock: int
    erased: int
    aged: int
    ledger_sequence: int
    stopped: str | None
    closed: int | None
    due: int
    tally: bytes | None = None


class Facts:
    """The number of a loop in its store, its description and its policy, and what follows from them.

    ``began``: where it started from another loop, the first round that is its own, and rounds of every arm before it;
    ``wait``: length of the window in microseconds; ``missing``: what becomes of a reward that does not come, and
    ``default`` what it then counts as, in the policy's range, ``unit_default`` in [0, 1]; ``counts_persons``: events
    per person are limited; ``looks_at_persons``: that, or they keep an arm; ``keeps_rounds``: an event that is not
    learned for what is in it keeps its round, because a promise is made; ``keeps_raw``, ``keeps_unlearned``,
    ``keeps_events``: how long content of what waits for its block, content of what is not learned, and events are kept,
    in microseconds; ``rules``: the targets that may be valued; ``most_actions``: the most that one request can have;
    ``by_seat``: it releases by arrival, over ``lines`` of seats; ``arrived``: the policy where each arm has a line;
    ``by_merit``: the policy where it owes exposure.
    """

    def __init__(self, id: int, spec: LoopSpec, policy: Policy, created: int, began: tuple[int, ...] = ()) -> None:
        self.id, self.spec, self.policy, self.created, self.began = id, spec, policy, created, began
        self.guards = guards_of(spec.allocation, spec.explore, policy.arms, spec.actions)
        self.play = play_of(policy, self.guards)
        self.missing = missing_of(spec, policy)
        default = spec.reward.low if spec.reward.default is None else spec.reward.default
        self.default, self.unit_default = self.mapped(default), self.unit(default)
        self.horizon = None if policy.horizon_free else policy.horizon
        self.counts_persons = spec.person.max_events is not None
        self.looks_at_persons = self.counts_persons or spec.person.sticky
        self.keeps_rounds = not policy.local and policy.guarantee() is not None
        self.wait, raw = spec.reward.seconds * SECOND, spec.retention.raw
        self.keeps_raw = None if raw is None else seconds_of(raw, "retention.raw") * SECOND
        self.keeps_unlearned = self.wait if self.keeps_raw is None else min(self.wait, self.keeps_raw)
        self.keeps_events = seconds_of(spec.retention.events, "retention.events") * SECOND
        self.rules = rules_of(spec.targets, policy.arms, spec.actions, len(spec.features or ()))
        self.groups, self.most_actions = len(spec.groups or ["all"]), policy.arms or spec.max_candidates
        self.by_seat, self.lines = policy.by_seat, policy.arms or 1
        self.by_merit = policy if isinstance(policy, ByMerit) else None
        self.arrived = policy if policy.clock == "arrived" and isinstance(policy, ByArrival) else None

    def check_mode(self, mode: str) -> None:
        """A loop is paused by the fallback that it declared."""
        if mode == "paused" and self.guards.fallback is None:
            raise SpecError(
                "this loop declares no fallback", path="mode", given=mode, allowed="the other modes",
                fix="freeze it; or declare allocation.fallback in a new loop, with start_from this one",
            )  # fmt: skip

    @property
    def first_round(self) -> int:
        """The first round that is its own: rounds go on where those of the loop stopped that it started from."""
        return self.began[0] if self.began else 0

    @property
    def things(self) -> int:
        """What the loop's own coins choose among: its arms; of candidates, whether a coin decided."""
        return self.policy.arms or 2

    @property
    def arm_names(self) -> list[str]:
        """The ids of its arms, numbers where none were given; of candidates none."""
        return names_of_arms(self.spec.actions, self.policy.arms)

    @property
    def guarantee(self) -> Guarantee | None:
        """The policy's promise as this loop keeps it: what it does about arrivals, what refusals and erasures show."""
        promise = self.policy.guarantee()
        if promise is None:
            return None
        refused = (REFUSED,) if self.spec.reward.strict else ()
        if self.policy.local:
            return replace(promise, notes=(*promise.notes, *refused, SHOWN))
        kept = with_arrivals(promise, self.missing)
        stands = (STANDS_IN,) if self.looks_at_persons else ()
        older = (OF_RELEASE_0_1,) if self.spec.of_release_0_1 else ()
        return replace(kept, notes=(*kept.notes, *refused, *stands, *older, SHOWN, ERASED, SENDERS, STORED))

    def mapped(self, value: float) -> float:
        """A reward of the declared range in the policy's: arms take [0, 1], the others read declared bounds."""
        if isinstance(self.play, ArmsPlay):
            low, high = self.spec.reward.low, self.spec.reward.high
            return (value - low) / (high - low)
        return value

    def unit(self, value: float) -> float:
        """A reward of the declared range in [0, 1], as reports read it; clipped."""
        low, high = self.spec.reward.low, self.spec.reward.high
        return (min(max(value, low), high) - low) / (high - low)

    def save(self, tx: Transaction, before: Status, after: Status) -> None:
        """Write the row of the loop; the state only when it changed."""
        changed: dict[str, Any] = {
            name: value for name in _COLUMNS if (value := getattr(after, name)) != getattr(before, name)
        }
        if after.revision != before.revision:
            changed["state"] = save_state(after.state)
        if changed:
            columns = ", ".join(f"{name} = ?" for name in changed)
            tx.execute(f"UPDATE loops SET {columns} WHERE id = ?", (*changed.values(), self.id))

    def present(self, status: Status) -> Status:
        """The row with the public counters of its lines in the policy's state, where that has them."""
        if status.tally is None or self.arrived is None:
            return status
        came, closed = counters(self, status)
        return status._replace(state=self.arrived.counted(status.state, came, closed, status.round))

    def load(self, tx: Transaction) -> State:
        [(data,)] = tx.execute("SELECT state FROM loops WHERE id = ?", (self.id,))
        return load_state(bytes(data))


def counters(facts: Facts, status: Status) -> tuple[Ints, Ints]:
    """Of every line the seats that were given and the rounds that closed without one.

    Arrays of their own: numba compiles a function once more for one that cannot be written.
    """
    if status.tally is None:
        return np.zeros(facts.lines, np.int64), np.zeros(facts.lines, np.int64)
    came, closed = np.frombuffer(status.tally, "<i8").reshape(2, facts.lines).copy()
    return came, closed


def first_tally(facts: Facts, state: State) -> bytes | None:
    """The counters of a state in which every line begins: those of the state itself, or of its next batch."""
    if not facts.by_seat:
        return None
    if "came" in state:
        return np.concatenate([state["came"], state["closed"]]).astype("<i8").tobytes()
    block = facts.policy.block(state)
    return np.array([0 if block is None else block.first, 0], "<i8").tobytes()
