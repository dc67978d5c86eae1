"""How a private estimator pays: through a ledger, or through a counter that it shares with its clones and copies.

A search over parameters clones an estimator and fits every clone on the same people. With ``ledger=`` every fit is
charged there before noise meets data, so the search is counted and stops at the limit. Without one, an estimator, its
clones and its copies share a counter (`fairveil.privacy.tally`): fits beyond the plan are said so in ``guarantee_`` and
warned about once. An estimator that leaves its ledger, or came to it later, counts what was fitted on the other side.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from fairveil.errors import BudgetError
from fairveil.ledger import Account, Ledger, OneEvent, release_once
from fairveil.ledger.account import Payer, adopted
from fairveil.privacy.events import Event
from fairveil.privacy.guarantee import Guarantee
from fairveil.privacy.noise import Noise, SecureNoise, SeededNoise
from fairveil.privacy.tally import Counted, RefitWarning, Tally

if TYPE_CHECKING:
    from fairveil.fairness.metrics import GroupReport

__all__ = ["RefitWarning", "Spending", "Tally"]

Draw = Callable[[Noise], dict[str, Any]]
FIT, PLAN = "fit-", "plan-"
"""How names of releases and of accounts of estimators begin in a ledger."""
SIMULATED = "the noise was seeded: this fit is a simulation and protects nobody"


class Spending(Counted):
    """Mixin of private estimators: `_spend` charges and draws; clones and copies share the ledger and the counter."""

    _shared = ("ledger",)
    ledger: Ledger | str | os.PathLike[str] | None
    noise: Noise | None
    random_state: Any
    guarantee_: Guarantee
    simulated_: bool
    report_: GroupReport | None = None
    """What a fit published about itself beside its rule, if anything."""
    group_names_: tuple[str, ...] = ()
    """The declared groups that a fit looked at."""
    _account: tuple[str, int, Any] | None = None
    """Name of the account of planned fits, how many it still pays for, and of which estimator."""

    @property
    def fitted(self) -> bool:
        """Whether a fit has published."""
        return "guarantee_" in vars(self)

    def _source(self, name: str) -> Noise:
        if self.noise is not None:
            return self.noise
        if self.random_state is None:
            return SecureNoise()
        from sklearn.utils import check_random_state

        return SeededNoise(int(check_random_state(self.random_state).randint(2**31 - 1)), name)

    def _check_budget(self, event: Event) -> None:
        """BudgetError before a single row is read, if the ledger would not pay."""
        if self.ledger is None or self._account is not None:
            return
        with _opened(self.ledger) as ledger:
            quote, currency = ledger.quote(event), ledger.limit.currency
        if not quote.admitted:
            other = "" if currency == "epsilon" else "; (epsilon, delta) of fits add up best in currency='epsilon'"
            raise BudgetError(
                f"the ledger does not allow this fit; {quote.words}", path="ledger",
                fix=f"nothing was charged and no row was read; ask for less{other}",
            )  # fmt: skip

    def _spend(self, key: Any, promise: Guarantee, event: Event, planned: int, noise: Noise, draw: Draw) -> Any:
        """Charge, draw, publish; sets ``guarantee_`` and ``simulated_`` and returns what was published."""
        if noise.simulated:
            promise = replace(promise, notes=(*promise.notes, SIMULATED))
        if self.ledger is None:
            stated = self._counter().count(key, promise, planned)
            published = draw(noise)
        else:
            stated = self._counter().count_paid(key, promise, planned)
            with _opened(self.ledger) as ledger:
                published = self._through(ledger, key, event, planned, noise, draw)
        self.guarantee_, self.simulated_ = stated, noise.simulated
        return published

    def _through(self, ledger: Ledger, key: Any, event: Event, planned: int, noise: Noise, draw: Draw) -> Any:
        payer = OneEvent(ledger, event) if planned == 1 else self._plan(ledger, key, event, planned)
        return adopted(release_once(payer, f"{FIT}{uuid.uuid4().hex}", draw, noise))

    def _plan(self, ledger: Ledger, key: Any, event: Event, planned: int) -> Payer:
        """The account of so many planned fits; a new one when it is used up or another estimator is fitted."""
        name, left, known = self._account or ("", 0, None)
        begins = left == 0 or known != key
        if begins:
            name, left = f"{PLAN}{uuid.uuid4().hex}", planned
        account = Account(ledger, name, event, releases=planned)
        if begins:
            account.pay()  # a plan that does not fit leaves no trace here
        self._account = (name, left - 1, key) if left > 1 else None
        return account


def _opened(ledger: Ledger | str | os.PathLike[str]) -> AbstractContextManager[Ledger]:
    """A ledger as it is, or one that is opened by its path for this fit alone (other processes can do that, too)."""
    return nullcontext(ledger) if isinstance(ledger, Ledger) else Ledger.open(ledger)
