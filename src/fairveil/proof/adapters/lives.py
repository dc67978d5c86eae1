"""Lives of a loop, as laws and mutants: what was forgotten is counted, by whatever remembers it.

Breaks behind it: a store that went on under a new key, one whose pages were lost twice, and a loop that started from
another one, learned the same people again and promised what a new loop promises; an epoch rode on a loop of its name.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from fairveil.errors import BudgetError
from fairveil.ledger import Account, RunCost
from fairveil.loop import lives, upkeep
from fairveil.loop.clock import ManualClock
from fairveil.loop.config import Person, Reward
from fairveil.loop.loop import Loop
from fairveil.loop.public import loop_table
from fairveil.loop.store import Store
from fairveil.proof.adapters.restored import POLICY, WAIT, Place
from fairveil.proof.engine.adapter import Checks, adapter
from fairveil.proof.laws import must
from fairveil.proof.mutants import Method, Mutant, in_function

TRIAL: dict[str, Any] = {"policy": POLICY, "reward": Reward(0, 1, wait=f"{WAIT}s"), "person": Person(max_events=1)}
UNIT = 1_000_000
"""Epsilon 1 in the units of a ledger."""


class Trial(Place):
    """A loop that limits persons, in a ledger with room for others."""

    def made(self, store: Store) -> Loop:
        return store.create("trial", **TRIAL, budget={"ledger": "shared", "epsilon": 3.0})

    @contextmanager
    def blind(self) -> Iterator[Loop]:
        """The loop of a store that is put back without the keys of released events."""
        self.put_back(everything=False)
        self.lose_pages()
        with self.opened() as loop:
            self.tick(loop)
            yield loop

    def play(self, loop: Loop, first: int) -> list[Any]:
        replies = [loop.decide(f"e-{number}", subject=f"p-{number}") for number in range(first, first + 24)]
        for reply in replies:
            loop.reward(reply.event_id, 1.0)
        self.tick(loop)
        return replies


def promised(loop: Loop) -> tuple[Any, Any]:
    """Epsilon for one event, and for one person."""
    table = loop_table(loop)
    return table["guarantee"]["epsilon"], (table["person_guarantee"] or {}).get("epsilon")


def a_new_key_is_counted(folder: Path) -> None:
    """Under a new key nobody is recognised: both promises count whoever is learned again."""
    clock = ManualClock()
    for life in range(3):
        given: dict[str, Any] = {"key_file": folder / f"key-{life}", "new_key": life > 0}
        with Store.open(f"sqlite:///{folder}/store.db", clock=clock, **given) as store:
            loop = store.create("trial", **TRIAL) if life == 0 else store.loop("trial")
            reply = loop.decide("e-0", subject="ann")
            must(reply.learning == "pending", "somebody is recognised without a key")
            must(promised(loop) == (life + 1.0, life + 1.0), "a promise leaves out who was forgotten with a key")


def a_new_key_is_remembered(folder: Path) -> None:
    """A store that is put back has forgotten its new key; the ledger has not, and promises count that life."""
    place = Trial(folder)
    place.begin()
    with place.opened(key=bytes(range(32)), new_key=True) as loop:
        place.play(loop, 24)
    place.put_back(everything=False)
    with place.opened() as loop:
        place.tick(loop)
        must(promised(loop)[1] == 3.0, "a promise leaves out a life under a key that the store has forgotten")


def accepted_epochs_are_counted(folder: Path) -> None:
    """Every epoch that was accepted is in the guarantee, and in the ledger, however often its pages are lost."""
    place = Trial(folder)
    place.begin()
    for epoch, uncharged in ((1, False), (2, False), (3, True), (4, True)):
        with place.blind() as loop:
            upkeep.accept_epoch(loop.store, "trial", uncharged=uncharged)
            place.tick(loop)
            place.play(loop, 24)
            must(promised(loop)[0] == epoch + 1.0, "the guarantee forgets an epoch that was accepted")
            must(loop.ledger.spent.units == min(epoch + 1, 3) * UNIT, "an accepted epoch is not charged")


def no_account_is_shared(folder: Path) -> None:
    """Neither does an epoch ride on a loop that has paid, nor a loop on an epoch, whatever they are called."""
    place = Trial(folder)
    with place.opened() as loop:
        loop.store.create("trial-epoch-1", **TRIAL, budget={"ledger": "shared"})
    place.begin()
    with place.blind() as loop:
        upkeep.accept_epoch(loop.store, "trial")
        must(loop.ledger.spent.units == 3 * UNIT, "an epoch rides on what a loop has paid")


def what_it_started_from_is_counted(folder: Path) -> None:
    """A person's promise counts the loops whose numbers a loop took over; without a limit there it makes none."""
    with Store.open(f"sqlite:///{folder}/store.db", clock=ManualClock(), key=bytes(32)) as store:
        store.create("first", **TRIAL)
        second = store.create("second", **TRIAL, start_from="first")
        third = store.create("third", **TRIAL, start_from="second")
        must([promised(one)[1] for one in (second, third)] == [2.0, 3.0], "a promise leaves out the loops before it")
        store.create("free", **TRIAL | {"person": Person()})
        last = store.create("last", **TRIAL, start_from="free")
        must(promised(last)[1] is None, "a promise is made over people who were not limited")


def _beside_alone(loop: Loop, epoch: int) -> set[int]:
    return set() if loop.pages is None else set(loop.pages.accepted())


def _unrecorded(loop: Loop, epoch: int, uncharged: bool) -> bool:
    account = Account(loop.ledger, lives.epoch_account(loop.name, epoch), RunCost(loop.facts.policy.event()))
    try:
        return account.pay().units > 0
    except BudgetError:
        if not uncharged:
            raise
        return False


def _from_nothing(original: Method) -> Method:
    return lambda loop: original(loop)._replace(before=0)


@adapter("lives")
def lives_checks() -> Checks:
    """What a loop has forgotten: `fairveil.loop.lives`, and the promises of `fairveil.loop.public`."""
    return Checks(
        (
            a_new_key_is_counted,
            a_new_key_is_remembered,
            accepted_epochs_are_counted,
            no_account_is_shared,
            what_it_started_from_is_counted,
        ),
        (
            Mutant("new-key-uncounted", "a new key makes strangers of everybody, and no promise says so",
                   in_function(lives._new_keys, lambda tx, loop: set())),
            Mutant("keys-in-the-store-alone", "a new key is known to the store alone, which may be put back",
                   in_function(lives._remembered, lambda ledger, loop: [])),
            Mutant("epochs-beside-alone", "accepted epochs are counted by the file that was lost",
                   in_function(lives._accepted, _beside_alone)),
            Mutant("uncharged-unrecorded", "an epoch that the ledger could not pay for is not in it",
                   in_function(upkeep._pay_epoch, _unrecorded)),
            Mutant("epoch-named-as-a-loop", "the account of an epoch has a name that a loop can have",
                   in_function(lives.epoch_account, lambda loop, epoch: f"{loop}-epoch-{epoch}")),
            Mutant("starts-from-nothing", "whoever was learned in the loop before is left out of a promise",
                   in_function(lives.lives_of, _from_nothing(lives.lives_of))),
        ),
    )  # fmt: skip
