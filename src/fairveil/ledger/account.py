"""The one way out for a value: charged, synced, drawn, stored, and only then adopted, repeated or lost.

Whatever is served to people passes `release_once` or `release_many`; nothing else in the package asks a ledger for a
block (a test walks the source). What pays is an `OneEvent`, charged at the release, or an `Account`, charged in the
commit that reserves its first block (or before, by `Account.pay`). What came of a block is a `Released`; its holder
says what it does with a value that was drawn now, one that was stored before, and one that is lost.

`fairveil run --ledger`: the ledger that the one run of this process makes its releases through.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, NoReturn

from fairveil.errors import PrivacyError, SpecError
from fairveil.ledger.checks import ReleaseLost
from fairveil.ledger.draws import AccountFacts, Draw, Payment, Released
from fairveil.ledger.ledger import Ledger, account_facts
from fairveil.privacy.charges import Charge
from fairveil.privacy.events import Event, ParallelEvent
from fairveil.privacy.noise import Noise


@dataclass(frozen=True)
class RunCost:
    """The cost of a whole run: an event that was computed for all it ever releases, as a policy's `event()` is."""

    event: Event


@dataclass(frozen=True)
class OneEvent:
    """Every release is charged for itself, in the commit that reserves it."""

    ledger: Ledger
    event: Event

    def payment(self, resume: bool) -> Payment:
        return Payment(event=self.event)


@dataclass(frozen=True)
class Account:
    """Who pays in which ledger, under a name that belongs to one holder.

    ``event``: what all releases of the account cost together. ``releases``: how many it covers; None only where that
    does not change the cost, which is under a `ParallelEvent` and for a `RunCost`. ``holder``: a fingerprint of what
    may use it; another holder, event or number of releases under the same name is refused.

    >>> import tempfile
    >>> from fairveil.privacy.events import PureEvent
    >>> from fairveil.ledger import Limit
    >>> folder = tempfile.TemporaryDirectory()
    >>> with Ledger.create(folder.name + "/ledger.db", limit=Limit.pure(1.0)) as ledger:
    ...     account = Account(ledger, "node", ParallelEvent(PureEvent(1.0)))
    ...     first = release_once(account, account.block("sync-0"), lambda noise: int(noise.laplace(2.0)[0]))
    ...     again = release_once(account, account.block("sync-0"), lambda noise: int(noise.laplace(2.0)[0]))
    >>> first.fate, again.fate, adopted(first) == adopted(again)
    ('drawn', 'stored', True)
    >>> Account(ledger, "fits", PureEvent(1.0))
    Traceback (most recent call last):
    fairveil.errors.PrivacyError: releases: an account says how many releases its event covers...
    >>> folder.cleanup()
    """

    ledger: Ledger
    name: str
    event: Event | RunCost
    holder: str = ""
    releases: int | None = None

    def __post_init__(self) -> None:
        if self.releases is None and not isinstance(self.event, ParallelEvent | RunCost):
            raise PrivacyError(
                "an account says how many releases its event covers",
                path="releases",
                given=None,
                allowed="a number, or an event for disjoint blocks or for a whole run",
                fix="give releases=, or RunCost(event) where the event was computed for all of them together",
            )

    def block(self, name: str) -> str:
        """The id of a block of this account in the ledger: it is taken once, for ever."""
        return f"{self.name}/{name}"

    @property
    def recalibrated(self) -> bool:
        """Whether it was opened by a version or machine that calibrates its event to other last digits."""
        return self.ledger.event_of(self.name) not in (None, self._facts().event.to_dict())

    def pay(self) -> Charge:
        """Charge it now, before its first release; charged already, it costs nothing."""
        facts = self._facts()
        return self.ledger.spend(self.name, facts.event, releases=facts.releases, holder=facts.holder)

    def payment(self, resume: bool) -> Payment:
        return Payment(account=self.name, facts=self._facts(), resume=resume)

    def _facts(self) -> AccountFacts:
        event = self.event.event if isinstance(self.event, RunCost) else self.event
        return account_facts(self.name, event, self.releases, self.holder)


@dataclass(frozen=True)
class Paid:
    """An account that was paid for before (`Account.pay`), used by its name."""

    ledger: Ledger
    name: str

    def payment(self, resume: bool) -> Payment:
        return Payment(account=self.name, resume=resume)


Payer = Account | Paid | OneEvent


def release_once(
    payer: Payer, block: str, draw: Callable[[Noise], Any], noise: Noise | None = None, *, resume: bool = True
) -> Released:
    """Charge, make the charge durable, draw and store one block, once; what became of it.

    ``block``: its complete id in the ledger. ``noise``: the operating system's unless a simulated ledger is given
    another. ``resume=False``: the first block of an account is refused where it was released before, because a holder
    that begins would be served what another run has released. An error in ``draw`` loses the block and is raised.
    Cost: two durable commits; none where the block is settled.
    """
    [found] = payer.ledger.draws.release([block], lambda source, _: draw(source), noise, payer.payment(resume))
    return found


def release_many(payer: Payer, blocks: Sequence[str], draw: Draw, noise: Noise | None = None) -> list[Released]:
    """Blocks that are due together: all charged in one commit, drawn in order, stored in another.

    ``draw`` gets the noise and what became of the blocks before it. The answer ends before a block that somebody else
    is drawing. A draw that fails loses its block and those behind it; blocks before it are kept and stored when they
    are asked for again. Cost: two durable commits for any number of blocks.
    """
    return payer.ledger.draws.release(blocks, draw, noise, payer.payment(True))


def adopt(value: Any) -> Any:
    """An answer: take the value as it is."""
    return value


def stop(problem: ReleaseLost) -> NoReturn:
    """An answer: nothing goes on without this value."""
    raise problem


def adopted(found: Released) -> Any:
    """The value, drawn now or before; ReleaseLost where it is gone. For who keeps no rows beside it."""
    return found.answer(drawn=adopt, stored=adopt, lost=stop)


_ledger: ContextVar[Ledger | None] = ContextVar("ledger", default=None)


@contextmanager
def releases_into(ledger: Ledger) -> Iterator[None]:
    """Runs of recorded data inside this block make their releases through the ledger."""
    token = _ledger.set(ledger)
    try:
        yield
    finally:
        _ledger.reset(token)


def ledger_of_run() -> Ledger | None:
    """The ledger of the run that is under way, None where a run is a study."""
    return _ledger.get()


def check_single(spec: Mapping[str, Any], fix: str) -> None:
    """Refuse what a ledger cannot stand for: several runs, and noise that can be computed again."""
    if spec["runs"] != 1:
        raise SpecError("a ledger pays for one run", path="runs", given=spec["runs"], allowed="1", fix=fix)
    if spec["noise"] != "secure":
        raise SpecError(
            "a ledger takes secure noise only", path="noise", given=spec["noise"], allowed="secure", fix=fix
        )
