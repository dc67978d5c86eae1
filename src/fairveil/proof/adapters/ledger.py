"""The ledger as its own first adapter: one event, and an account of two releases, with nobody around them.

Its own laws: where noise comes from, who died, what fits, what is on disk; each of its own mutants breaks one of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

from fairveil.errors import BudgetError
from fairveil.ledger import Account, Ledger, OneEvent, ReleaseLost, checks, release_once
from fairveil.ledger.account import adopt
from fairveil.ledger.chain import LOST
from fairveil.ledger.draws import Draws, Payment
from fairveil.ledger.sqlite import SqlitePlace
from fairveil.privacy.charges import Charge
from fairveil.privacy.events import PureEvent
from fairveil.privacy.filters import Filter
from fairveil.privacy.limits import Limit
from fairveil.privacy.noise import Noise, SeededNoise
from fairveil.proof.adapters import SAID_LOST, Adapter, checks_of, laws_of
from fairveil.proof.engine.adapter import Checks, Law, adapter
from fairveil.proof.laws import must, refused
from fairveil.proof.mutants import Method, Mutant, function, method, twin
from fairveil.storage import sqlite


def seeded_noise(ledger: Any) -> AbstractContextManager[None]:
    """Noise that anybody can repeat."""
    return function(checks.accepted, lambda noise, simulated: SeededNoise(1))


def sync_left_out(ledger: Any) -> AbstractContextManager[None]:
    """Commits return before they are on disk."""
    original = sqlite.connect

    def connected(*given: Any) -> sqlite.Connection:
        connection = original(*given)
        connection.execute("PRAGMA synchronous = OFF")
        return connection

    return function(original, connected)


def account_shared(ledger: Any) -> AbstractContextManager[None]:
    """An account serves whoever names it."""
    return function(checks.check_repeated, lambda name, known, asked, covered=True: None)


def account_without_end(ledger: Any) -> AbstractContextManager[None]:
    """Nobody counts the releases of an account."""
    return function(checks.check_account, lambda store, name, sequence: None)


def lost_given_back(ledger: Any) -> AbstractContextManager[None]:
    """What a lost draw has cost can be spent again."""

    @twin
    def broken(original: Method, self: Draws, store: Any, kind: str, block: str, *more: Any) -> None:
        with method(Filter, "settle", lambda _: _released) if kind == LOST else nullcontext():
            original(self, store, kind, block, *more)

    return method(Draws, "_append_settled", broken)


def _released(held: Filter, charge: Charge) -> Filter:
    return replace(held, reserved=held.reserved - charge)


MUTANTS = (
    Mutant("seeded-noise", "seeded instead of secure noise", seeded_noise),
    Mutant("lost-given-back", "a lost block costs nothing", lost_given_back),
    Mutant("sync-left-out", "commits that are not on disk yet", sync_left_out),
    Mutant("account-shared", "an account that serves anybody", account_shared),
    Mutant("account-without-end", "an account that serves any number of releases", account_without_end),
)


COST = PureEvent(0.25)
LIMIT = Limit.pure(1.0)


def ledger_in(folder: Path) -> Ledger:
    return Ledger.create(folder / "ledger.db", limit=LIMIT)


def secure_source(folder: Path) -> None:
    """Without a source of the caller's, noise comes from the operating system, also where people insist otherwise."""
    seen: list[Noise] = []

    def look(noise: Noise) -> int:
        seen.append(noise)
        return 1

    with ledger_in(folder) as ledger:
        ledger.release("source", look, event=COST)
    must(seen[0].protects and not seen[0].simulated, "a ledger that protects people hands out seeded noise")


def dead_is_lost(folder: Path) -> None:
    """What a process had reserved when it died is lost for the others, who were there all the time."""
    with ledger_in(folder) as ledger:
        dying = Ledger.open(folder / "ledger.db")
        dying.draws.reserve(["dead"], Payment(COST))
        dying.draws.session.forget()
        dying._book.close()
        with refused("a block of a process that died is drawn again", ReleaseLost):
            ledger.release("dead", lambda noise: 1, event=COST)


def lost_stays_charged(folder: Path) -> None:
    """A draw that failed has cost what it costs."""

    def fails(noise: Noise) -> int:
        raise ZeroDivisionError

    with ledger_in(folder) as ledger:
        try:
            ledger.release("lost", fails, event=COST)
        except ZeroDivisionError:
            must(ledger.spent.units == COST.epsilon * 1e6, "a lost draw is not charged")


def overdraft_refused(folder: Path) -> None:
    """What does not fit is refused before anything is drawn."""
    drawn: list[int] = []

    def draw(noise: Noise) -> int:
        drawn.append(1)
        return 1

    with ledger_in(folder) as ledger, refused("the limit can be overdrawn", BudgetError):
        for number in range(8):
            ledger.release(f"over-{number}", draw, event=COST)
    must(len(drawn) <= 1 / COST.epsilon, "more is drawn than the limit allows")


def synced(folder: Path) -> None:
    """A commit returns when it is on disk: every connection to the file asks for that."""
    ledger_in(folder).close()
    with SqlitePlace(folder / "ledger.db").snapshot(1.0) as rows:
        must(rows.durable, "commits return before they are on disk")


LAWS: tuple[Law, ...] = (secure_source, dead_is_lost, lost_stays_charged, overdraft_refused, synced)


Pays = Callable[[Ledger], Account | OneEvent]


class Count:
    """One noisy number under one name."""

    def __init__(self, ledger: Ledger, payer: Account | OneEvent) -> None:
        self.ledger, self.payer = ledger, payer

    def draw(self, noise: Noise) -> int:
        return int(noise.laplace(2.0**20)[0])

    def release(self) -> Any:
        return release_once(self.payer, "count", self.draw).answer(drawn=adopt, stored=adopt, lost=lambda _: SAID_LOST)


def ledger_adapter(pays: Pays, rivals: tuple[Pays, ...]) -> Adapter:
    """A number under a payer; what else asks for it, or for more, is refused."""

    @contextmanager
    def opened(folder: Path, number: int) -> Iterator[Count]:
        with ledger_in(folder) as ledger:
            yield Count(ledger, pays(ledger))

    def refused(rival: Pays) -> Callable[[Path], None]:
        def ask(folder: Path) -> None:
            with ledger_in(folder) as ledger:
                Count(ledger, rival(ledger)).release()

        return ask

    asked = tuple(refused(rival) for rival in rivals)
    return Adapter(opened, (Count, "draw"), pays, lambda name, value: isinstance(value, int), asked)


def one_event(ledger: Ledger) -> OneEvent:
    return OneEvent(ledger, COST)


def account(ledger: Ledger) -> Account:
    return Account(ledger, "two", COST, "one", releases=2)


def another_event(ledger: Ledger) -> OneEvent:
    return OneEvent(ledger, replace(COST, epsilon=0.125))


def another_holder(ledger: Ledger) -> Account:
    return replace(account(ledger), holder="two")


def a_cheaper_account(ledger: Ledger) -> Account:
    return replace(account(ledger), event=replace(COST, epsilon=0.125))


def a_larger_account(ledger: Ledger) -> Account:
    return replace(account(ledger), releases=3)


@adapter("ledger")
def ledger_checks() -> Checks:
    """The ledger: charged, durable, drawn once, stored, then shown."""
    single = ledger_adapter(one_event, (account, another_event))
    counted = ledger_adapter(account, (one_event, another_holder, a_cheaper_account, a_larger_account))
    return checks_of(replace(counted, laws=(*laws_of(single), *LAWS), mutants=MUTANTS))
