"""A loop: decisions at once, rewards later, releases when they are due."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Sequence
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

from fairveil.bandits.nash.closing import left_of, without
from fairveil.errors import FairveilError, LedgerError, PrivacyError, SpecError
from fairveil.ledger import Ledger
from fairveil.loop import settle, trail
from fairveil.loop.batch import Batch
from fairveil.loop.blocks import adopt, draw, take_due
from fairveil.loop.clock import SECOND
from fairveil.loop.config import MODES
from fairveil.loop.events import Event, Reply, RewardReply, stored_event
from fairveil.loop.facts import Facts, Status
from fairveil.loop.keys import NO_ALIASES, Aliases, aliases_of, aliases_of_event, aliases_of_person, renamed
from fairveil.loop.pages import Pages
from fairveil.loop.paying import note_budget
from fairveil.loop.places import erase_person
from fairveil.loop.problems import Closed, Invalid, Unknown
from fairveil.loop.recovery import EpochWaits, check_ledger
from fairveil.loop.reports import quote_release, release
from fairveil.loop.reports import tick as report_tick
from fairveil.loop.requests import DecisionRequest, Preparer, checked
from fairveil.loop.seats import through
from fairveil.loop.writer import Item, Writer
from fairveil.storage.faults import point

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

    def __init__(self, store: Store, facts: Facts, ledger: Ledger | None = None) -> None:
        """``ledger``: its own, where that is open already."""
        self.store, self.facts, self.name = store, facts, facts.spec.name
        self.ledger_name = facts.spec.budget.ledger or self.name
        self.writer = Writer(
            facts, store.driver, store.clock, store.started, store.due, store.rng if facts.spec.simulated else None
        )
        self.pages = self.writer.pages = _pages(store, facts, self.ledger_name)
        self._ticking = threading.Lock()
        self.reports_lock = threading.Lock()
        self._ledger = ledger
        self.history: tuple[int, list[dict[str, Any]]] | None = None
        self._forgot = store.upkeep_from - FORGET_EVERY
        self.used = True
        """Since `fairveil.loop.memory` looked last."""

    @cached_property
    def prepare(self) -> Preparer:
        """Checks requests, and makes keys of ids."""
        return Preparer(self.facts.spec, self.facts.policy.arms, self.store.keys)

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
        return self._many([self.item(checked(DecisionRequest, dict(table))) for table in requests])

    def reward_many(self, rewards: Iterable[tuple[str, float]]) -> list[RewardReply | FairveilError]:
        """Rewards in one transaction, each with its answer or its error."""
        return self._many([self.reward_item(event, value) for event, value in rewards])

    def decision(self, request: DecisionRequest) -> Item:
        """A request as an item for the writer."""
        ask = self.prepare(request)
        aliases = aliases_of(ask) if ask.older else NO_ALIASES
        subjects = ask.subjects if self.facts.looks_at_persons else ()
        return Item(lambda batch: batch.decide(ask), (ask.key,), subjects, aliases=aliases, decides=True)

    def item(self, request: DecisionRequest) -> Item:
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
        return Item(lambda batch: batch.reward(event, key, number), (key,), aliases=self._aliases(event))

    def activation(self, event: str) -> Item:
        key = self.store.keys.event(_id(event))
        return Item(lambda batch: batch.activate(event, key), (key,), aliases=self._aliases(event))

    def _aliases(self, event: str) -> Aliases:
        """What the key of an event was before a change of keys."""
        return aliases_of_event(self.store.keys, event) if self.store.keys.old else NO_ALIASES

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
        keys = [one.event(_id(event)) for one in self.store.keys]
        with self.store.reading() as tx:
            found = next(iter(tx.events(self.facts.id, keys).values()), None)
        row = stored_event(None if found is None else Event(*found))
        names = self.facts.spec.actions
        reply = Reply.of(row, event, None if names is None else names[row.action], self.facts.spec.simulated, True)
        return {**reply.to_dict(), "reward": row.fate(through(self.facts, self.status(), row))}

    # Operation -------------------------------------------------------------------------------------------------------

    def status(self) -> Status:
        """The row of the loop as it is stored now."""
        with self.store.reading() as tx:
            return self.store.status_of(tx, self.facts)

    def set_mode(self, mode: str, actor: str = "local") -> None:
        """Change who decides and whether is learned; an entry of the trail."""
        if mode not in MODES:
            raise SpecError("unknown mode", path="mode", given=mode, allowed=", ".join(MODES))
        self.facts.check_mode(mode)

        def change(batch: Batch) -> None:
            if batch.before.closed is not None:
                raise Closed("this loop is closed", path="loop")
            if batch.before.mode != mode:
                trail.note(batch.tx, batch.now, actor, "mode", self.name, {"from": batch.before.mode, "to": mode})
                batch.change(mode=mode, due=batch.wall)

        self.writer.act(change)

    def close(self, actor: str = "local") -> None:
        """End the loop: no more decisions; ledger, releases and what was published stay."""

        def change(batch: Batch) -> None:
            if batch.before.closed is None:
                trail.note(batch.tx, batch.now, actor, "close", self.name)
                batch.change(closed=batch.now, due=batch.wall)

        self.writer.act(change)

    def close_action(self, action: str, actor: str = "local") -> None:
        """Take an arm out: its id is closed for ever. What was published of it stays; open rounds are still learned."""
        names = self.facts.arm_names
        if action not in names:
            words = "there is no arm of this name" if names else "candidates come with each request"
            raise Unknown(words, path="action", allowed=", ".join(names[:20]))
        if not self.facts.policy.closes_arms:
            fix = "exclude it in requests, or make a new loop without it"
            raise Invalid("this policy closes no arm", path="action", given=self.facts.policy.name, fix=fix)
        arm = names.index(action)

        def change(batch: Batch) -> None:
            if batch.before.closed is not None:
                raise Closed("this loop is closed", path="loop")
            left = left_of(batch.state)
            open_arms = range(len(names)) if left is None else left.tolist()
            if arm not in open_arms:
                return
            if len(open_arms) == 1:
                raise Invalid("this is the last arm", path="action", allowed="one arm stays", fix="close the loop")
            trail.note(batch.tx, batch.now, actor, "close-action", self.name, {"action": action})
            batch.state = without(batch.status().state, arm, batch.round, len(names))
            batch.change(clock=batch.now)

        self.writer.act(change)

    def erase_subject(self, subject: str, actor: str = "local") -> int:
        """Erase the content of events in which a person stands; open rounds count as missing. Gives how many there are.

        How often the person was learned stays, and the arm that the person keeps: both are part of what was promised.
        """
        key = self.store.keys.subject(_id(subject))

        def change(batch: Batch) -> int:
            renamed(batch.tx, self.facts.id, [aliases_of_person(self.store.keys, subject)])
            found = settle.erase_person(batch, key)
            if batch.places is not None:
                erase_person(batch, key)
            trail.note(batch.tx, batch.now, actor, "erase-subject", self.name)  # of how many events is private
            return found

        events = int(self.writer.act(change))
        self.store.erased()
        self.store.tidy(at_once=True)
        return events

    def release(self, kind: str, settings: dict[str, Any] | None = None, **asked: Any) -> Any:
        """A release by hand: ``summary`` is free, ``fairness`` and ``evaluation`` cost their budget.

        ``first``, ``stop``: settled places; ``epsilon``, ``rho`` or ``mu``: the budget of the whole release. The same
        request again gives the stored one.
        """
        return release(self, kind, settings, **asked)[0]

    def quote_release(self, kind: str, settings: dict[str, Any] | None = None, **asked: Any) -> dict[str, Any]:
        """What a release would cost and how sure it would be; with ``half_width`` the budget that it needs."""
        return quote_release(self, kind, settings, **asked)

    # Releases --------------------------------------------------------------------------------------------------------

    @property
    def ledger(self) -> Ledger:
        if self._ledger is None:
            self._ledger = self.store.ledger(self.ledger_name, self.facts.spec.simulated)
        return self._ledger

    @property
    def idle(self) -> bool:
        """Whether nothing of it is under way in this process: it may leave memory."""
        busy = self.writer.busy or self._ticking.locked() or self.reports_lock.locked()
        return not busy and (self._ledger is None or self._ledger.idle)

    def tick(self) -> int:
        """Move ``settled``, make the releases that are due, erase, forget. Gives the number of releases."""
        with self._ticking:
            fits = self.checked or self._fits()
            self._settle()
            made = self._release_due() if fits else 0
            if fits and self.facts.spec.reports is not None:
                made += report_tick(self)
            self._sweep(settle.erase)
            now = self.store.clock.now()
            if now - self._forgot >= FORGET_EVERY:
                self._forgot = now
                self.forget()
            self.writer.act(partial(settle.rest, forgets=self._forgot + FORGET_EVERY))
            return made

    @property
    def checked(self) -> bool:
        """Whether its ledger was compared with the store since the start."""
        return self.name in self.store.memory.checked

    def verify(self) -> bool:
        """Whether the ledger continues what is stored, looked at once after a start; where not, nothing is learned."""
        with self._ticking:
            return self.checked or self._fits()

    def _fits(self) -> bool:
        try:
            check_ledger(self)
        except (LedgerError, PrivacyError) as problem:
            self._refuse(problem)
            return False
        self.store.memory.checked.add(self.name)
        note_budget(self)
        return True

    def _refuse(self, problem: Exception) -> None:
        """The ledger stays open: what it has drawn and could not store is not drawn again."""
        self.store.report(problem)
        self.store.memory.checked.discard(self.name)
        self._stop("epoch" if isinstance(problem, EpochWaits) else "ledger")

    def _settle(self) -> None:
        """Move ``settled`` as far as it goes; by arrival in pages."""
        before, settled = -1, self.writer.act(settle.settle)
        while self.facts.by_seat and settled > before:
            before, settled = settled, self.writer.act(settle.settle)

    def _release_due(self) -> int:
        facts, made = self.facts, 0
        noise = self.store.noise if facts.spec.simulated else None
        try:
            while True:
                blocks, status = self.writer.act(take_due)
                if not blocks:
                    break
                values = draw(facts, status, blocks, self.store.driver, self.ledger, noise, self.pages)
                if not values:
                    break  # another process draws the first one
                point("block-drawn")
                sequence = self.ledger.seen  # at least the entries of these blocks
                work = partial(adopt, blocks=blocks, epoch=status.epoch, values=values, sequence=sequence)
                made += self.writer.act(work)
            if status.stopped is not None:
                self._stop(None)
        except (LedgerError, PrivacyError) as problem:
            self._refuse(problem)
        return made

    def _stop(self, reason: str | None) -> None:
        """Learning that stops never stops decisions: they go on, and say why they are not learned."""

        def change(batch: Batch) -> None:
            if batch.before.stopped != reason:
                batch.change(stopped=reason, due=batch.wall)

        self.writer.act(change)

    def forget(self) -> None:
        """Apply retention now."""
        self._sweep(settle.forget)

    def _sweep(self, page: Callable[[Batch], int]) -> None:
        """Erase in pages until nothing is left; a crash in between is resumed by the next one."""
        count = settle.PAGE
        while count == settle.PAGE:
            count = self.writer.act(page)
            if count:
                self.store.erased()


def _pages(store: Store, facts: Facts, ledger: str) -> Pages | None:
    """Where the keys of released events go; a simulation and reports that people have noised keep none."""
    if facts.spec.simulated or facts.policy.local:
        return None
    return Pages(store.driver, ledger, facts.spec.name, lambda: store.keys)


def _id(given: str) -> str:
    if not isinstance(given, str) or not 0 < len(given) <= 200 or not given.isprintable():
        raise Invalid("an id is needed", path="event_id", allowed="1 to 200 printable characters")
    return given


def _number(value: float) -> float:
    wrong = isinstance(value, bool) or not isinstance(value, int | float) or value != value
    if wrong or value in (float("inf"), float("-inf")):
        raise Invalid("a reward is a number", path="value", allowed="a finite number")
    return float(value)
