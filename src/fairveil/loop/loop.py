"""A loop: decisions at once, rewards later, releases when they are due."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from fairveil.errors import FairveilError, LedgerError, PrivacyError, SpecError
from fairveil.loop import settle, trail
from fairveil.loop.ask import Ask, Preparer
from fairveil.loop.batch import Batch, Status
from fairveil.loop.blocks import adopt, draw, due_blocks
from fairveil.loop.clock import SECOND
from fairveil.loop.config import MODES
from fairveil.loop.facts import Facts
from fairveil.loop.problems import Closed, Forgotten, Invalid, UnknownEvent
from fairveil.loop.recovery import check_ledger
from fairveil.loop.releases import release
from fairveil.loop.reply import ACTION, BODY, LEARN, REWARD, REWARDED, ROUND, UNTIL, Reply, RewardReply, reply_of
from fairveil.loop.requests import DecisionRequest, checked
from fairveil.loop.writer import Item, Writer, decision
from fairveil.privacy.ledger import Ledger
from fairveil.privacy.ledger.faults import point

if TYPE_CHECKING:
    from fairveil.loop.store import Store

FORGET_EVERY = 60 * SECOND


class Loop:
    """One policy with one budget that decides for one purpose. Made by `Store.create`, found by `Store.loop`.

    Guarantee: that of its policy, for one event; `person_guarantee` for somebody behind several. An acknowledged
    decision or reward is on disk; a block is charged before it is read and drawn once, whatever crashes.
    Cost: charged to its ledger when it is created. A decision or a reward shares one durable commit with all that wait
    beside it; memory does not grow with the number of events.
    """

    def __init__(self, store: Store, facts: Facts) -> None:
        self.store, self.facts = store, facts
        self.writer = Writer(
            facts, store.driver, store.clock, store.started, store.due, store.rng if facts.spec.simulated else None
        )
        self.prepare = Preparer(facts.spec, getattr(facts.policy, "arms", None), store.keys)
        self._ticking = threading.Lock()
        self._ledger: Ledger | None = None
        self._checked = False
        self._forgot = 0

    @property
    def name(self) -> str:
        return self.facts.spec.name

    # Decisions and rewards -------------------------------------------------------------------------------------------

    def decide(self, event: str | None = None, **request: Any) -> Reply:
        """A decision for one event; the same event and request again give the same answer.

        ``subject``, ``group``, ``candidates`` (each with ``features`` and maybe ``id``, ``group``, ``subject``),
        ``exclude`` (positions), ``baseline`` (a position) and ``defer`` are as in the HTTP contract.
        """
        asked = checked(DecisionRequest, {"event_id": event, **request})
        return self._one(self.decision(asked))

    def reward(self, event: str, value: float) -> RewardReply:
        """What came of an event, clipped to the declared range. The first one stands."""
        return self._one(self.reward_item(event, value))

    def activate(self, event: str) -> bool:
        """A deferred decision was shown: from now on it counts. False when its window has closed."""
        return bool(self._one(self.activation(event)))

    def decide_many(self, requests: Iterable[dict[str, Any]]) -> list[Reply | FairveilError]:
        """Decisions in one transaction, each with its answer or its error."""
        return self._many([self._item(checked(DecisionRequest, dict(table))) for table in requests])

    def reward_many(self, rewards: Iterable[tuple[str, float]]) -> list[RewardReply | FairveilError]:
        """Rewards in one transaction, each with its answer or its error."""
        return self._many([self.reward_item(event, value) for event, value in rewards])

    def decision(self, request: DecisionRequest) -> Item:
        """A request as an item for the writer."""
        ask = self.prepare(request)
        self._check_subjects(ask)
        return decision(ask, self.facts.looks_at_persons)

    def _item(self, request: DecisionRequest) -> Item:
        """The same, where a refusal is the item's own."""
        try:
            return self.decision(request)
        except FairveilError as problem:
            failed = Item(lambda batch: None)
            failed.error, failed.done = problem, True
            return failed

    def reward_item(self, event: str, value: float) -> Item:
        number = _number(value)
        key = self.store.keys.event(_id(event))
        return Item(lambda batch: batch.reward(event, key, number), (key,))

    def activation(self, event: str) -> Item:
        key = self.store.keys.event(_id(event))
        return Item(lambda batch: batch.activate(event, key), (key,))

    def _check_subjects(self, ask: Ask) -> None:
        person = self.facts.spec.person
        if not ask.subjects and (person.max_events is not None or person.sticky):
            path = "candidates.0.subject" if ask.shown else "subject"
            raise Invalid("this loop counts events per person", path=path, fix="say who it is about")

    def _one(self, item: Item) -> Any:
        self.writer.run([item])
        return item.outcome()

    def _many(self, items: Sequence[Item]) -> list[Any]:
        waiting = [item for item in items if not item.done]
        if waiting:
            self.writer.run(waiting)
        return [item.result if item.error is None else item.error for item in items]

    def event(self, event: str) -> dict[str, Any]:
        """The stored reply of an event and what became of its reward."""
        key = self.store.keys.event(_id(event))
        with self.store.reading() as tx:
            row = tx.events(self.facts.id, [key]).get(key)
        if row is None:
            raise UnknownEvent("there is no event with this id", path="event_id", fix="ask for the decision first")
        if row[BODY] is None:
            raise Forgotten("this event is forgotten", path="event_id", fix="retention.events says how long they stay")
        names = self.facts.spec.actions
        reply = reply_of(row, event, None if names is None else names[row[ACTION]], self.facts.spec.simulated, True)
        return {**reply.to_dict(), "reward": _fate(row, self.status().erased)}

    # Operation -------------------------------------------------------------------------------------------------------

    def status(self) -> Status:
        """The row of the loop as it is stored now."""
        with self.store.reading() as tx:
            return self.store.status_of(tx, self.facts)

    def set_mode(self, mode: str, actor: str = "local") -> None:
        """Change who decides and whether is learned; an entry of the trail."""
        if mode not in MODES:
            raise SpecError("unknown mode", path="mode", given=mode, allowed=", ".join(MODES))

        def change(batch: Batch) -> None:
            if batch.before.closed is not None:
                raise Closed("this loop is closed", path="loop")
            if batch.before.mode != mode:
                trail.note(batch.tx, batch.now, actor, "mode", self.name, {"from": batch.before.mode, "to": mode})
                batch.change(mode=mode)

        self.writer.act(change)

    def close(self, actor: str = "local") -> None:
        """End the loop: no more decisions; ledger, releases and what was published stay."""

        def change(batch: Batch) -> None:
            if batch.before.closed is None:
                trail.note(batch.tx, batch.now, actor, "close", self.name)
                batch.change(closed=batch.now)

        self.writer.act(change)

    def erase_subject(self, subject: str, actor: str = "local") -> int:
        """Erase the raw data of a person now; rounds that are still open settle as missing. Gives the events found."""
        key = self.store.keys.subject(_id(subject))

        def change(batch: Batch) -> int:
            loop = self.facts.id
            found = batch.tx.execute("SELECT event FROM appearances WHERE loop = ? AND subject = ?", (loop, key))
            batch.tx.many(
                "UPDATE events SET context = NULL, reward = NULL, rewarded = decided WHERE loop = ? AND key = ?",
                [(loop, event) for (event,) in found],
            )
            batch.tx.execute("DELETE FROM appearances WHERE loop = ? AND subject = ?", (loop, key))
            trail.note(batch.tx, batch.now, actor, "erase-subject", self.name, {"events": len(found)})
            return len(found)

        return int(self.writer.act(change))

    def release(self, kind: str, settings: dict[str, Any] | None = None) -> Any:
        """A release by hand: ``summary`` is free. The same request at the same version gives the stored one."""
        return release(self, kind, settings)[0]

    # Releases --------------------------------------------------------------------------------------------------------

    @property
    def ledger(self) -> Ledger:
        if self._ledger is None:
            self._ledger = self.store.ledger(self.facts.spec.budget.ledger or self.name, self.facts.spec.simulated)
        return self._ledger

    def tick(self) -> int:
        """Move ``settled``, make the releases that are due, erase, forget. Gives the number of releases."""
        with self._ticking:
            status = self.status()
            if status.closed is not None and status.settled >= status.round:
                return 0
            fits = self._fits()
            self.writer.act(settle.settle)
            made = self._release_due() if fits else 0
            self._erase()
            now = self.store.clock.now()
            if now - self._forgot >= FORGET_EVERY:
                self._forgot = now
                while self.writer.act(settle.forget):
                    pass
            return made

    def verify(self) -> bool:
        """Whether the ledger continues what is stored, looked at once after a start; where not, nothing is learned."""
        with self._ticking:
            return self._fits()

    def _fits(self) -> bool:
        if not self._checked:
            try:
                check_ledger(self)
            except (LedgerError, PrivacyError) as problem:
                self._refuse(problem)
                return False
            self._checked = True
        return True

    def _refuse(self, problem: Exception) -> None:
        """The ledger stays open: what it has drawn and could not store is not drawn again."""
        self.store.report(problem)
        self._checked = False
        self._stop("ledger")

    def _release_due(self) -> int:
        made = 0
        try:
            while True:
                status = self.status()
                blocks = due_blocks(self.facts.policy, status)
                if not blocks:
                    break
                noise = self.store.noise if self.facts.spec.simulated else None
                values = draw(self.facts, status, blocks, self.store.driver, self.ledger, noise)
                point("block-drawn")
                sequence = self.ledger.sequence
                work = partial(adopt, blocks=blocks, epoch=status.epoch, values=values, sequence=sequence)
                made += int(self.writer.act(work))
            self._stop(None)
        except (LedgerError, PrivacyError) as problem:
            self._refuse(problem)
        return made

    def _stop(self, reason: str | None) -> None:
        """Learning that stops never stops decisions: they go on, and say why they are not learned."""

        def change(batch: Batch) -> None:
            if batch.before.stopped != reason:
                batch.change(stopped=reason)

        if self.status().stopped != reason:
            self.writer.act(change)

    def _erase(self) -> None:
        """Raw rows of blocks that are released or lost, in pages; a crash in between is resumed here."""

        def page(batch: Batch) -> bool:
            query = "SELECT max(stop) FROM blocks WHERE loop = ?"
            stop = batch.tx.execute(query, (self.facts.id,))[0][0]
            return stop is not None and settle.erase(batch, stop)

        while self.writer.act(page):
            self.store.erased = True


def _fate(row: Sequence[Any], erased: int) -> str:
    """What became of the reward of an event."""
    if row[REWARDED] is None:
        return "none"
    if row[LEARN] != "pending":
        return "never"
    if row[REWARD] is not None:
        return "pending"
    return "released" if row[ROUND] < erased and row[REWARDED] <= row[UNTIL] else "late"


def _id(given: str) -> str:
    if not isinstance(given, str) or not 0 < len(given) <= 200 or not given.isprintable():
        raise Invalid("an id is needed", path="event_id", allowed="1 to 200 printable characters")
    return given


def _number(value: float) -> float:
    wrong = isinstance(value, bool) or not isinstance(value, int | float) or value != value
    if wrong or value in (float("inf"), float("-inf")):
        raise Invalid("a reward is a number", path="value", allowed="a finite number")
    return float(value)
