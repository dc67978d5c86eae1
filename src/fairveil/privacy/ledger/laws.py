"""Laws of a ledger: what must hold around every draw, checked on a ledger of its own.

>>> import tempfile
>>> with tempfile.TemporaryDirectory() as folder:
...     len(check_ledger(folder))
10
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

from fairveil.errors import BudgetError, ContractError, LedgerError, LedgerTampered
from fairveil.laws import must
from fairveil.privacy.events import PureEvent
from fairveil.privacy.ledger.checks import ReleaseLost
from fairveil.privacy.ledger.ledger import Ledger
from fairveil.privacy.ledger.sqlite.store import SqliteStore
from fairveil.privacy.limits import Limit
from fairveil.privacy.noise import Noise

COST = PureEvent(0.25)
LIMIT = 1.0


def charged_first(file: Path, ledger: Ledger) -> None:
    """When noise is drawn, whoever opens the ledger at that moment sees the charge."""

    def draw(noise: Noise) -> int:
        with Ledger.open(file) as witness:
            seen = witness.filter
            must(seen.remaining.units < seen.limit.units, "noise is drawn before its charge is on disk")
        return 1

    ledger.release("charged", draw, event=COST)


def stored_first(file: Path, ledger: Ledger) -> None:
    """What a caller is handed is in the ledger already."""
    value = ledger.release("stored", lambda noise: int(noise.laplace(8.0)[0]), event=COST)
    with Ledger.open(file) as witness:
        must(witness.status("stored") == "published", "a value is handed out before it is stored")
        must(witness.value("stored") == value, "the stored value is another one")


def drawn_once(file: Path, ledger: Ledger) -> None:
    """Asking again draws nothing, costs nothing and gives the same value."""
    draws: list[int] = []

    def draw(noise: Noise) -> int:
        draws.append(1)
        return len(draws)

    first = ledger.release("once", draw, event=COST)
    spent = ledger.spent
    again = ledger.release("once", draw, event=COST)
    must(len(draws) == 1, "a block is drawn twice")
    must(first == again, "asking again gives another value")
    must(ledger.spent == spent, "asking again is charged again")


def secure_source(file: Path, ledger: Ledger) -> None:
    """Without a source of the caller's, noise comes from the operating system, also where people insist otherwise."""
    seen: list[Noise] = []

    def look(noise: Noise) -> int:
        seen.append(noise)
        return 1

    ledger.release("source", look, event=COST)
    must(seen[0].protects and not seen[0].simulated, "a ledger that protects people hands out seeded noise")


def lost_stays_lost(file: Path, ledger: Ledger) -> None:
    """A draw that failed is charged and never drawn again."""

    def fails(noise: Noise) -> int:
        raise ZeroDivisionError

    before = ledger.spent
    with contextlib.suppress(ZeroDivisionError):
        ledger.release("lost", fails, event=COST)
    must(ledger.spent.units > before.units, "a lost draw is not charged")
    try:
        ledger.release("lost", lambda noise: 1, event=COST)
    except ReleaseLost:
        return
    raise ContractError("a lost block is drawn again")


def dead_is_lost(file: Path, ledger: Ledger) -> None:
    """What a process had reserved when it died is lost for the others, who were there all the time."""
    dying = Ledger.open(file)
    dying._draws.reserve(["dead"], COST, None)
    dying._draws.session.forget()
    dying._book.close()
    try:
        ledger.release("dead", lambda noise: 1, event=COST)
    except ReleaseLost:
        return
    raise ContractError("a block of a process that died is drawn again")


def overdraft_refused(file: Path, ledger: Ledger) -> None:
    """What does not fit is refused before anything is drawn."""
    drawn: list[int] = []

    def draw(noise: Noise) -> int:
        drawn.append(1)
        return 1

    try:
        for number in range(8):
            ledger.release(f"over-{number}", draw, event=COST)
    except BudgetError:
        must(len(drawn) <= LIMIT / COST.epsilon, "more is drawn than the limit allows")
        return
    raise ContractError("the limit can be overdrawn")


def one_holder(file: Path, ledger: Ledger) -> None:
    """An account belongs to who opened it: another holder, or another event, is refused."""
    ledger.spend("run", COST, releases=None, holder="one")
    for holder, event in (("two", COST), ("one", PureEvent(0.125))):
        try:
            ledger.spend("run", event, releases=None, holder=holder)
        except LedgerError:
            continue
        raise ContractError("an account serves two")


def paid_for_so_many(file: Path, ledger: Ledger) -> None:
    """An account that was paid for two releases makes two."""
    ledger.spend("two", COST, releases=2)
    try:
        for number in range(3):
            ledger.release(f"two-{number}", lambda noise: 1, account="two")
    except LedgerTampered:
        raise  # refused by what reads the chain again, not by what should have refused it
    except LedgerError:
        return
    raise ContractError("an account makes more releases than were paid for")


def synced(file: Path, ledger: Ledger) -> None:
    """A commit returns when it is on disk: every connection to the file asks for that."""
    store = SqliteStore.open(file)
    try:
        must(store.durable, "commits return before they are on disk")
    finally:
        store.close()


Law = Callable[[Path, Ledger], None]
LAWS: tuple[Law, ...] = (
    charged_first,
    stored_first,
    drawn_once,
    secure_source,
    lost_stays_lost,
    dead_is_lost,
    overdraft_refused,
    one_holder,
    paid_for_so_many,
    synced,
)


def check_ledger(folder: str | Path, make: Callable[..., Any] = Ledger.create) -> list[str]:
    """Run every law on a fresh ledger each; returns their names, raises ContractError at the first that is broken."""
    for law in LAWS:
        file = Path(folder) / f"{law.__name__}.db"
        with make(file, limit=Limit.pure(LIMIT)) as ledger:
            try:
                law(file, ledger)
            except ContractError as problem:
                raise ContractError(f"{law.__name__}: {problem.problem}", path="ledger") from None
    return [law.__name__ for law in LAWS]
