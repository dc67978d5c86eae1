"""How a private estimator pays: through a ledger, or through a counter that it shares with its clones.

A search over parameters clones an estimator and fits every clone on the same people. With ``ledger=`` every fit is
charged there before noise meets data, so the search is counted and stops at the limit. Without one, an estimator and
its clones share a counter: fits beyond the plan are said so in ``guarantee_`` and warned about once. Rows are never
compared: every further fit is taken to be on the same people.
"""

from __future__ import annotations

import copy
import os
import uuid
import warnings
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from typing import Any

from fairveil.errors import BudgetError
from fairveil.privacy.events import Event
from fairveil.privacy.guarantee import Guarantee
from fairveil.privacy.ledger import Ledger
from fairveil.privacy.noise import Noise, SecureNoise, SeededNoise

Draw = Callable[[Noise], dict[str, Any]]
SIMULATED = "the noise was seeded: this fit is a simulation and protects nobody"


class RefitWarning(UserWarning):
    """A private estimator (or a clone of it) was fitted more often than its budget was planned for."""


@dataclass
class Tally:
    """Fits of an estimator and all its clones: one entry a plan, each plan for a public number of fits."""

    plans: list[tuple[Any, float, float]] = field(default_factory=list)
    fits: int = 0
    left: int = 0
    warned: bool = False

    def count(self, key: Any, promise: Guarantee, planned: int) -> Guarantee:
        """One more fit, before anything is drawn; what all fits so far cost together if they saw the same people."""
        self.fits += 1
        if self.left == 0 or self.plans[-1][0] != key:
            self.plans.append((key, promise.epsilon or 0.0, promise.delta or 0.0))
            self.left = planned
        self.left -= 1
        if len(self.plans) == 1:
            return promise
        epsilon, delta = (sum(plan[place] for plan in self.plans) for place in (1, 2))
        if not self.warned:
            self.warned = True
            warnings.warn(
                f"this private estimator and its clones were fitted {self.fits} times, but the budget was planned for "
                f"{planned}: on the same people that costs epsilon {epsilon:g}, and held-out scores of a search are "
                "not protected. Pass ledger= to have every fit charged, or plan the fits: retrainings",
                RefitWarning,
                stacklevel=4,
            )
        excess = (
            f"fitted {self.fits} times by this estimator and its clones, but the budget was split over {planned}; the "
            f"numbers are the sums over all fits, for the same people in every one"
        )
        notes = (*promise.notes, excess)
        return replace(promise, epsilon=epsilon, delta=min(delta, 0.999), established=False, notes=notes)


class Spending:
    """Mixin of private estimators: `_spend` charges and draws; clones share the ledger and the counter."""

    ledger: Ledger | str | os.PathLike[str] | None
    noise: Noise | None
    random_state: Any

    def __sklearn_clone__(self) -> Any:
        from sklearn.base import clone

        given = self.get_params(deep=False)  # type: ignore[attr-defined]
        ledger = given.pop("ledger")
        made: Any = type(self)(**{name: clone(value, safe=False) for name, value in given.items()})
        made.ledger = ledger  # shared, never copied
        for name in ("_metadata_request", "_sklearn_output_config"):
            if hasattr(self, name):
                setattr(made, name, copy.deepcopy(getattr(self, name)))
        made._tally = self._counter()
        return made

    def _counter(self) -> Tally:
        if not hasattr(self, "_tally"):
            self._tally = Tally()
        return self._tally

    def _source(self, name: str) -> Noise:
        if self.noise is not None:
            return self.noise
        if self.random_state is None:
            return SecureNoise()
        from sklearn.utils import check_random_state

        return SeededNoise(int(check_random_state(self.random_state).randint(2**31 - 1)), name)

    def _check_budget(self, event: Event) -> None:
        """BudgetError before a single row is read, if the ledger would not pay."""
        if self.ledger is None or getattr(self, "_account", None) is not None:
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
            stated = promise
            with _opened(self.ledger) as ledger:
                published = self._through(ledger, key, event, planned, noise, draw)
        self.guarantee_, self.simulated_ = stated, noise.simulated
        return published

    def _through(self, ledger: Ledger, key: Any, event: Event, planned: int, noise: Noise, draw: Draw) -> Any:
        block = f"fit-{uuid.uuid4().hex}"
        if planned == 1:
            return ledger.release(block, draw, event=event, noise=noise)
        account, left, known = getattr(self, "_account", None) or ("", 0, None)
        if left == 0 or known != key:
            account, left = f"plan-{uuid.uuid4().hex}", planned
            ledger.spend(account, event, releases=planned)
        self._account = (account, left - 1, key) if left > 1 else None
        return ledger.release(block, draw, account=account, noise=noise)


def _opened(ledger: Ledger | str | os.PathLike[str]) -> AbstractContextManager[Ledger]:
    """A ledger as it is, or one that is opened by its path for this fit alone (other processes can do that, too)."""
    return nullcontext(ledger) if isinstance(ledger, Ledger) else Ledger.open(ledger)
