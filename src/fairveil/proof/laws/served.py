"""Laws of the one way out, written once and run over every adapter: charged, drawn, stored, and only then shown.

An adapter (`drive`, an agent, a loop, ...) asks `fairveil.ledger.account` for blocks and says what it does with them.
For the laws it is described by how it is built, releases a block, comes back, and is rivalled.

>>> sorted(law.__name__ for law in LAWS)[:3]
['asked_again_is_answered_from_storage', 'bound_to_its_holder', 'charged_before_drawn']
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol

from fairveil.errors import BudgetError, ContractError, LedgerError, LedgerTampered, PrivacyError
from fairveil.ledger import Account, Ledger, Limit, OneEvent, Paid, RunCost, release_once
from fairveil.ledger.chain import ACCOUNT, LOST, PUBLISH, RESERVE
from fairveil.privacy.events import Event, ParallelEvent, PureEvent
from fairveil.privacy.noise import SecureNoise, SeededNoise
from fairveil.proof.engine.adapter import Law
from fairveil.proof.laws import must
from fairveil.proof.mutants import Method, Mutant, method, twin

SAID_LOST = "lost"
"""What a holder shows of a block that it says is gone."""


class Holder(Protocol):
    """Somebody who holds rows and an account."""

    ledger: Ledger

    def release(self) -> Any:
        """What people see of the first block, drawn now or before: comparable with ==, or `SAID_LOST`."""


@dataclass(frozen=True)
class Adapter:
    """How the laws of the one way out are shown an adapter.

    ``opened(folder, number)``: a holder over the ledger of the folder; called again it is the holder that comes back
    without what it had, with other rows and another source of noise where it can have them. ``draws``: the served
    method where noise meets rows, as (class, name). ``payer(ledger)``: what pays. ``stored(name, value)``: whether a
    stored value holds releases and public facts only. ``rivals``: what each of these does in a folder where a block was
    released is refused. ``repeats``: a block is asked for again after a crash; else every release has its own name.
    ``harmless``: mutants of the path that change nothing here, and why.
    """

    opened: Callable[[Path, int], AbstractContextManager[Holder]]
    draws: tuple[type, str]
    payer: Callable[[Ledger], Account | OneEvent]
    stored: Callable[[str, Any], bool]
    rivals: tuple[Callable[[Path], Any], ...]
    laws: tuple[Law, ...] = ()
    mutants: tuple[Mutant, ...] = ()
    repeats: bool = True
    harmless: Mapping[str, str] = field(default_factory=dict)


SOURCES = ("laplace", "laplace_in_turn", "gaussian", "gaussians", "uniform_integers", "binomial")
"""Methods of a source that everything random comes out of."""


def reserved(ledger: Ledger) -> list[str]:
    """Blocks that are charged and neither stored nor lost."""
    waiting: dict[str, None] = {}
    for entry in ledger.entries():
        if entry["kind"] == RESERVE:
            waiting[str(entry["name"])] = None
        elif entry["kind"] in (PUBLISH, LOST):
            waiting.pop(str(entry["name"]), None)
    return list(waiting)


def names_of(ledger: Ledger, kind: str) -> list[str]:
    return [str(entry["name"]) for entry in ledger.entries() if entry["kind"] == kind]


@contextmanager
def witness(ledger: Ledger) -> Iterator[Ledger]:
    """The ledger as somebody else opens it now."""
    with Ledger.open(str(ledger.place), simulated=ledger.simulated) as opened:
        yield opened


@contextmanager
def told(adapter: Adapter, what: Callable[[], None]) -> Iterator[list[int]]:
    """``what`` is called whenever noise is about to meet rows; the list has an entry for each time."""
    times: list[int] = []

    @twin
    def watched(original: Method, *given: Any, **named: Any) -> Any:
        times.append(len(times))
        what()
        return original(*given, **named)

    with method(*adapter.draws, watched):
        yield times


def charged_before_drawn(adapter: Adapter, folder: Path) -> None:
    """When noise meets rows, whoever opens the ledger sees what pays charged and a block reserved."""

    with adapter.opened(folder, 0) as holder:

        def look() -> None:
            with witness(holder.ledger) as seen:
                charged = seen.remaining.units < seen.limit.units and reserved(seen)
            must(charged, "noise is drawn before its charge is on disk")

        with told(adapter, look) as times:
            holder.release()
    must(times, "nothing is drawn")


def drawn_inside_a_reserved_block(adapter: Adapter, folder: Path) -> None:
    """Under a source that counts, every single draw of a run falls between a reservation and its value."""
    draws: list[bool] = []
    with adapter.opened(folder, 0) as holder, witness(holder.ledger) as seen, ExitStack() as planted:

        @twin
        def counted(original: Method, *given: Any, **named: Any) -> Any:
            draws.append(bool(reserved(seen)))
            return original(*given, **named)

        for source in (SecureNoise, SeededNoise):
            for name in SOURCES:
                planted.enter_context(method(source, name, counted))
        holder.release()
        holder.release()
    must(draws, "nothing is drawn")
    must(all(draws), "noise is drawn outside a reserved block")


def stored_before_shown(adapter: Adapter, folder: Path) -> None:
    """What is shown is in the ledger: no block of a holder is left between its charge and its value."""
    with adapter.opened(folder, 0) as holder:
        shown = holder.release()
        must(shown != SAID_LOST, "a block that was drawn is said to be lost")
        with witness(holder.ledger) as seen:
            must(names_of(seen, PUBLISH) and not reserved(seen), "a value is shown before it is stored")


def only_releases_are_stored(adapter: Adapter, folder: Path) -> None:
    """What the ledger keeps holds releases and public facts, nothing that rows are in."""
    with adapter.opened(folder, 0) as holder:
        holder.release()
        for name in names_of(holder.ledger, PUBLISH):
            must(adapter.stored(name, holder.ledger.value(name)), "rows are stored beside releases")


def asked_again_is_answered_from_storage(adapter: Adapter, folder: Path) -> None:
    """A holder that comes back sees what was shown, draws nothing and pays nothing; else it pays for each again."""
    with adapter.opened(folder, 0) as holder:
        shown, spent = holder.release(), holder.ledger.spent
    with adapter.opened(folder, 1) as again, told(adapter, lambda: None) as times:
        later = again.release()
        paid = again.ledger.spent != spent
        blocks = names_of(again.ledger, RESERVE)
    if adapter.repeats:
        must(not times, "asking again draws again")
        must(later == shown, "asking again gives another value")
        must(not paid, "asking again is charged again")
    else:
        must(times and len(set(blocks)) == len(blocks) == 2, "a release has no block of its own")
        must(paid or adapter.payer(again.ledger).__class__ is Account, "a release costs nothing")


def lost_is_told(adapter: Adapter, folder: Path) -> None:
    """A draw that fails stays charged, is never made again, and whoever asks for its block is told."""

    def dies() -> None:
        raise ZeroDivisionError

    with adapter.opened(folder, 0) as holder:
        with told(adapter, dies) as times, suppress(ZeroDivisionError):
            holder.release()
        must(times, "nothing is drawn")
        must(holder.ledger.spent.units > 0, "a lost draw is not charged")
        lost = holder.ledger.lost()
        must(lost, "a draw that failed is not lost")
    with adapter.opened(folder, 1) as again, told(adapter, lambda: None) as times:
        later = again.release()
        must(set(lost) <= set(again.ledger.lost()), "a lost block comes back")
    if adapter.repeats:
        must(later == SAID_LOST, "nobody is told that a block is lost")
        must(not times, "a lost block is drawn again")


def covers_so_many(adapter: Adapter, folder: Path) -> None:
    """An account of n releases refuses the next one; without a number it is for disjoint blocks or a whole run."""
    with adapter.opened(folder, 0) as holder:
        holder.release()
        payer = adapter.payer(holder.ledger)
        facts = [entry for entry in holder.ledger.entries() if entry["kind"] == ACCOUNT]
    if isinstance(payer, OneEvent):
        must(not facts, "what is charged one by one has an account")
        return
    event = payer.event.event if isinstance(payer.event, RunCost) else payer.event
    counted = None if isinstance(event, ParallelEvent) else payer.releases
    told_so = [entry for entry in facts if entry["event"] == event.to_dict() and entry["releases"] == counted]
    must(told_so and len(facts) == 1, "the account is not the one that pays")
    must(counted or isinstance(payer.event, ParallelEvent | RunCost), "an account that covers any number of releases")
    _refused(lambda: replace(payer, event=PureEvent(1.0), releases=None), "an account does not say how much it covers")
    if counted is not None:
        _one_more(payer, event, counted, folder)


def _one_more(payer: Account, event: Event, count: int, folder: Path) -> None:
    with Ledger.create(folder / "counted.db", limit=Limit.covering(event)) as ledger:
        account = replace(payer, ledger=ledger)
        for number in range(count):
            release_once(account, account.block(f"counted-{number}"), lambda noise: 1)
        for again in (account, Paid(ledger, account.name)):
            _refused(
                functools.partial(release_once, again, account.block("one-more"), lambda noise: 1),
                "an account makes more releases than were paid for",
            )


def bound_to_its_holder(adapter: Adapter, folder: Path) -> None:
    """What was paid for by one holder serves nobody else."""
    with adapter.opened(folder, 0) as holder:
        holder.release()
    for rival in adapter.rivals:
        _refused(functools.partial(rival, folder), "an account serves two")


def _refused(what: Callable[[], Any], problem: str) -> None:
    try:
        what()
    except LedgerTampered:
        raise  # refused by what reads the chain again, not by what should have refused it
    except (BudgetError, LedgerError, PrivacyError):
        return
    raise ContractError(problem)


LAWS: tuple[Callable[[Adapter, Path], None], ...] = (
    charged_before_drawn,
    drawn_inside_a_reserved_block,
    stored_before_shown,
    only_releases_are_stored,
    asked_again_is_answered_from_storage,
    lost_is_told,
    covers_so_many,
    bound_to_its_holder,
)


def laws_of(adapter: Adapter) -> tuple[Law, ...]:
    """Every law of the one way out, for one adapter."""
    return tuple(_shown(law, adapter) for law in LAWS)


def _shown(law: Callable[[Adapter, Path], None], adapter: Adapter) -> Law:
    def run(folder: Path) -> None:
        law(adapter, folder)

    run.__name__ = law.__name__
    return run
