"""One transaction of a loop's writer: everything that waited, decided in memory and written at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from fairveil.errors import HorizonError
from fairveil.loop.events import ERASED, FROZEN, NEVER, OF_ITS_CONTENT, PENDING, Event, Reply, RewardReply, stored_event
from fairveil.loop.facts import Facts, Status
from fairveil.loop.guards import Serving, fallback
from fairveil.loop.places import Placing
from fairveil.loop.play import Choice, answer_unread, kept_choice, own_choice, without_closed
from fairveil.loop.problems import Closed, EventReused, Invalid, OutOfRange, RewardDiffers
from fairveil.loop.requests import Ask
from fairveil.loop.seats import Seating, due_seats
from fairveil.loop.storage import Transaction, adding, saving
from fairveil.randomness import Generator

FOREVER = 2**63
"""While the clock is in doubt no window closes."""
OF_ONE = ("limit", "released")
"""Reasons that are about one event; the others stop the whole loop from learning."""
OWN = ("online", "frozen")
"""Modes in which the loop's own coins decide."""
UNKEPT = ("shadow", "paused")
"""Modes in which nobody keeps an arm."""


@dataclass(slots=True)
class Known:
    """A person of a loop: events that were learned, and the arm that is kept."""

    events: int = 0
    action: int | None = None
    propensity: float | None = None


class Batch:
    """Decides and takes rewards inside one transaction; nothing is visible before it commits."""

    def __init__(self, facts: Facts, status: Status, tx: Transaction, now: int, grace: int, rng: Generator) -> None:
        self.facts, self.tx, self.rng = facts, tx, rng
        self.first = self.before = status
        self.wall, self.now, self.grace = now, max(now, status.clock), grace
        self.round, self.state = status.round, status.state
        self.known: dict[bytes, Event] = {}
        self.new: dict[bytes, Event] = {}
        self.rewards: dict[bytes, tuple[float | None, int, int | None]] = {}
        self.seats = Seating(facts, status) if facts.by_seat else None
        self.activations: list[bytes] = []
        self.people: dict[bytes, Known] = {}
        self.changed: set[bytes] = set()
        self.appearances: list[tuple[int, bytes, bytes, int]] = []
        self.places = None if facts.spec.reports is None else Placing(facts, tx, self.now, grace)
        self.released: frozenset[bytes] = frozenset()  # events that a lost copy of this store has released

    # Reading ---------------------------------------------------------------------------------------------------------

    def look_up(self, keys: Sequence[bytes], subjects: Sequence[bytes]) -> None:
        """Read all that this batch asks about, at once."""
        self.known = {key: Event(*row) for key, row in self.tx.events(self.facts.id, keys).items()}
        query = "SELECT events, action, propensity FROM subjects WHERE loop = ? AND key = ?"
        for key in dict.fromkeys(subjects):
            found = self.tx.execute(query, (self.facts.id, key))
            self.people[key] = Known(*found[0]) if found else Known()

    @cached_property
    def serving(self) -> Serving:
        """What the loop's own coins gave; written with the batch where it was asked for."""
        return Serving.read(self.tx, self.facts.id, self.facts.things)

    def _find(self, key: bytes) -> Event:
        return stored_event(self.new.get(key) or self.known.get(key))

    # Decisions -------------------------------------------------------------------------------------------------------

    def decide(self, ask: Ask) -> Reply:
        known = self.new.get(ask.key) or self.known.get(ask.key)
        if known is not None:
            row = self._find(ask.key)
            if not ask.is_like(row):
                raise EventReused(
                    "this event id was used with another body", path="event_id", fix="a new decision has a new event id"
                )
            return self._reply(row, ask, replayed=True)
        if self.before.closed is not None:
            raise Closed("this loop is closed", path="loop", fix="create another one")
        ask = without_closed(self, ask)
        row = self.new[ask.key] = self._decided(ask)
        if self.places is not None:
            self.places.decided(ask, row)
        return self._reply(row, ask, replayed=False)

    def _reply(self, row: Event, ask: Ask, replayed: bool) -> Reply:
        return Reply.of(row, ask.event, ask.name(row), self.facts.spec.simulated, replayed)

    def _decided(self, ask: Ask) -> Event:
        facts, mode = self.facts, self.before.mode
        choice, learn = self._choose(ask)
        pending = learn == PENDING
        counts = pending or self._keeps_round(ask, choice)
        placed = counts or (mode == "apprentice" and choice.reason == "baseline")
        made = Event(  # by position: a name for each costs every decision a microsecond
            facts.id,
            ask.key,
            ask.body if pending else ask.outline,
            self.round if placed else None,
            self.now,
            self.now + facts.wait,
            choice.action,
            float(choice.propensity),
            self.before.version,
            mode,
            learn,
            choice.reason,
            0 if ask.defer else None,
            choice.own if mode == "shadow" else None,
            None,
            None,
            facts.play.context(ask, choice.action) if pending else None,
            None,
            self.seats.line(self.at_state) if self.seats is not None and placed else None,
        )
        if placed:
            self.round += 1
            if (
                self.seats is not None
                and not pending
                and choice.reason not in OF_ITS_CONTENT
                and made.queue is not None
            ):
                self.seats.close(made.queue)
        self._note_persons(ask)
        if counts and facts.counts_persons:
            self._count(ask, pending)
        if facts.spec.person.sticky and mode not in UNKEPT:
            self._keep_arm(ask, choice)
        if facts.guards.coins and mode in OWN:
            self.serving.add(choice.drawn)
        if self.places is not None:
            self.places.law, self.places.state = choice.law, self.state
        return made

    def _choose(self, ask: Ask) -> tuple[Choice, str]:
        """What is done, with the reason why it is not learned, and whether it is."""
        facts, mode = self.facts, self.before.mode
        if mode == "paused":
            actions = len(ask.names) if facts.policy.arms is None else facts.policy.arms
            action, propensity = fallback(facts.guards, ask, actions, self.rng)
            return Choice(action, propensity, action, "paused"), FROZEN
        kept, blocked = self._kept_arm(ask), self._blocked(ask)
        if kept is None or facts.keeps_rounds:
            at = self._open(blocked)
        if kept is not None and mode != "apprentice":
            return kept_choice(self, kept, ask, at) if facts.keeps_rounds and mode in OWN else kept, NEVER
        if mode in ("shadow", "apprentice"):
            action = ask.baseline if ask.baseline is not None else (0 if ask.allowed is None else ask.allowed[0])
            choice = facts.play.taken(self.at_state, at, ask, action, self.rng)
        else:
            choice = own_choice(self, ask, at)
        if mode == "shadow":
            return choice._replace(reason="shadow"), NEVER
        taken = choice.reason == "baseline" and blocked in (None, "limit")  # by the caller, from whoever asks
        if kept is not None:
            return kept._replace(reason="baseline") if taken else kept, NEVER
        if blocked is not None and not taken:
            return choice._replace(reason=blocked), NEVER if blocked in OF_ONE else FROZEN
        return choice, PENDING if choice.reason is None else NEVER

    def _keeps_round(self, ask: Ask, choice: Choice) -> bool:
        """Whether an event that is not learned for what is in it takes a round all the same."""
        of_content = self.facts.keeps_rounds and choice.takes and choice.reason in OF_ITS_CONTENT
        return of_content and self._blocked(ask) in (None, "limit")

    def _blocked(self, ask: Ask) -> str | None:
        """Why this round is not learned, whatever is chosen."""
        if ask.key in self.released:
            return "released"
        if self.before.mode == "frozen":
            return "mode"
        if self.before.stopped is not None:
            return self.before.stopped
        if self.facts.horizon is not None and self.round >= self.facts.horizon:
            return "horizon"
        limit = self.facts.spec.person.max_events
        if limit is not None and any(self.people[key].events >= limit for key in ask.subjects):
            return "limit"
        return None

    def _open(self, blocked: str | None) -> int:
        """Open the block of the next round and give its number; a frozen loop asks for what it would open next."""
        at = self.round
        if self.facts.horizon is not None:
            at = min(at, self.facts.horizon - 1)
        if blocked is None or blocked in OF_ONE:
            if self.seats is None or at >= self.facts.policy.reach(self.state):
                state = self.state if self.seats is None else self.seats.counted(self.state, self.round)
                self.state = self.facts.policy.open(state, at, self.rng)
            self.at_state = self.state
            return at
        try:
            at = max(at, self.facts.policy.reach(self.state))
            self.at_state = self.facts.policy.open(self.state, at, self.rng)
        except HorizonError:
            self.at_state = self.state
        return at

    # Persons ---------------------------------------------------------------------------------------------------------

    def _kept_arm(self, ask: Ask) -> Choice | None:
        if not self.facts.spec.person.sticky or not ask.subjects or self.before.mode in UNKEPT:
            return None
        known = self.people[ask.subjects[0]]
        if known.action is None or known.propensity is None or not ask.permits(known.action):
            return None
        return Choice(known.action, known.propensity, known.action, "sticky")

    def _keep_arm(self, ask: Ask, choice: Choice) -> None:
        for key in ask.subjects:
            known = self.people[key]
            if known.action is None or not ask.permits(known.action):
                known.action, known.propensity = choice.action, float(choice.propensity)
                self.changed.add(key)

    def _note_persons(self, ask: Ask) -> None:
        """Who stands in an event, learned or not, chosen or left out: an erasure must find it."""
        for key, places in zip(ask.mentioned, ask.places, strict=True):
            self.appearances.append((self.facts.id, key, ask.key, places))

    def _count(self, ask: Ask, learned: bool) -> None:
        """Everybody in an event that keeps its round; what is learned beyond a limit too, and no release takes that."""
        limit = self.facts.spec.person.max_events
        for key in ask.subjects:
            known = self.people[key]
            if learned or limit is None or known.events < limit:
                known.events += 1
                self.changed.add(key)

    # Rewards ---------------------------------------------------------------------------------------------------------

    def reward(self, event: str, key: bytes, value: float) -> RewardReply:
        row = self._find(key)
        mapped = self._mapped(value)
        if self.places is not None:
            self.places.rewarded(key, self.facts.unit(value))
        if row.learn != PENDING or row.round is None:
            answer_unread(self, row)
            return RewardReply(event, True, NEVER, ERASED if row.learn == ERASED else row.reason)
        through = self.through(row)
        if through is not None:  # whether or not one had come
            return RewardReply(event, True, NEVER, through)
        if row.rewarded is not None:
            if row.reward is None:
                return RewardReply(event, True, NEVER, "late")
            if row.reward != mapped:
                raise RewardDiffers("this event has another reward", path="value", fix="the first one stands")
            return RewardReply(event, True, PENDING)
        if self.still_open(row):
            self.answer(row, mapped)
            return RewardReply(event, True, PENDING)
        if row.erased is None:
            self.answer(row, None)
        return RewardReply(event, True, NEVER, "late")

    def through(self, row: Event) -> str | None:
        """Why a round is not learned any more, whether or not its reward had come."""
        if self.seats is not None:
            return self.seats.through(row)
        return "released" if row.round is not None and row.round < self.before.released else None

    def activate(self, event: str, key: bytes) -> bool:
        """Whether the round counts from now on; one whose window has closed does not."""
        row = self._find(key)
        if row.activated is None:
            raise Invalid("this decision was not deferred", path="event_id", fix="only defer = true is activated later")
        if row.activated == 1:
            return True
        if not self.still_open(row):
            return False
        if self.places is not None:
            self.places.activated(key)
        self._put(self._seated(row._replace(activated=1)))
        self.activations.append(key)
        return True

    def still_open(self, row: Event) -> bool:
        placed = row.round is None or row.round >= self.before.settled
        return placed and row.erased is None and (self.now <= row.until or self.now < self.grace)

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

    def answer(self, row: Event, value: float | None) -> None:
        """A reward that came, or that it came too late."""
        row = self._seated(row._replace(reward=value, rewarded=self.now))
        self._put(row)
        if row.key not in self.new:
            self.rewards[row.key] = value, self.now, row.seat

    def _seated(self, row: Event) -> Event:
        """The row with its seat, where it gets one now."""
        if self.seats is None or row.seat is not None:
            return row
        made = self.seats.at_answer(row)
        if made.seat is not None and row.key not in self.new:
            self.seats.given[row.key] = made.seat
        return made

    def _put(self, row: Event) -> None:
        """What this batch makes of a row: a new one, or one that is stored."""
        (self.new if row.key in self.new else self.known)[row.key] = row

    # Writing ---------------------------------------------------------------------------------------------------------

    def status(self) -> Status:
        """The row of the loop as this batch has made it so far."""
        tally = self.before.tally if self.seats is None else self.seats.tally
        return self.facts.present(self.before._replace(state=self.state, round=self.round, tally=tally))

    def write(self) -> Status:
        """Write all of it; gives the status that holds when the transaction commits."""
        if self.places is not None:
            self.places.write()
        if "serving" in vars(self):
            self.serving.save(self.tx, self.facts.id)
        seated = self.seats is not None and self.seats.changed
        if self.new or self.rewards or self.activations or seated or self.before is not self.first:
            with self.tx.together():
                if self.new or self.rewards or self.activations or seated:
                    self._write_events()
                revision = self.first.revision + (self.state is not self.first.state)
                after = self.status()
                fields = {"state": after.state, "tally": after.tally, "due": self._due()}
                self.change(round=self.round, clock=self.now, revision=revision, **fields)
                self.facts.save(self.tx, self.first, self.before)
        return self.before

    def _due(self) -> int:
        """When the loop needs its next tick: what is new now never needs one later than that."""
        due = self.before.due
        if self.new:
            due = min(due, self.now + self.facts.keeps_unlearned + 1)
        if self.facts.missing == "public" and (self.rewards or self.activations):
            due = min(due, self.wall)
        return due

    def _write_events(self) -> None:
        tx, loop = self.tx, self.facts.id
        if self.new:
            tx.insert_events(list(self.new.values()))
            if beside := sum(row.round is None for row in self.new.values()):
                tx.execute("UPDATE loops SET beside = beside + ? WHERE id = ?", (beside, loop))
        if self.rewards:
            tx.set_rewards(loop, [(key, *found) for key, found in self.rewards.items()])
        if self.seats is not None:
            tx.set_seats(loop, [(key, seat) for key, seat in self.seats.given.items() if key not in self.rewards])
        if self.activations:
            stored = [(loop, key) for key in self.activations if key not in self.new]
            tx.many("UPDATE events SET activated = 1 WHERE loop = ? AND key = ?", stored)
        if self.changed:
            changed = [(key, self.people[key]) for key in self.changed]
            tx.many(
                saving("subjects", "loop, key", "loop, key, events, action, propensity"),
                [(loop, key, one.events, one.action, one.propensity) for key, one in changed],
            )
        if self.appearances:
            tx.many(adding("appearances", "loop, subject, event, places"), self.appearances)

    def may_be_due(self, after: Status) -> bool:
        """Whether what is written now may complete a block, where arrivals are public: all its rounds are decided, and
        something came for one. Where they are hidden time alone completes a block, and a tick looks for that."""
        if self.facts.missing != "public" or not (self.rewards or self.activations):
            return False
        if self.facts.by_seat:
            return bool(due_seats(self.facts, after))
        block = self.facts.policy.block(after.state)
        return block is not None and block.stop <= after.round

    def after_grace(self, until: int | None) -> int:
        """When a window closes that is open ``until`` then; at once where that is not known any more."""
        return 0 if until is None else until + 1 if self.grace == FOREVER else max(until + 1, self.grace)

    def change(self, **fields: Any) -> None:
        """Change the row of the loop; it is written with the rest of the batch."""
        self.before = self.before._replace(**fields)
