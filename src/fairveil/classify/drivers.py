"""How estimators pay, as laws and mutants: every fit is counted or charged, and its promise stays with it."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import numpy as np

from fairveil.classify.spending import Spending, Tally
from fairveil.errors import BudgetError
from fairveil.laws import must
from fairveil.privacy.audit.drivers import Driver
from fairveil.privacy.audit.mutants import Mutant, method
from fairveil.privacy.ledger import Ledger
from fairveil.privacy.limits import Limit
from fairveil.privacy.noise import SeededNoise
from fairveil.registry import register

Method = Callable[..., Any]
ROWS, LABELS = np.tile(np.eye(2), (10, 1)), np.arange(20) % 2


def estimator(**keys: Any) -> Any:
    from fairveil.classify.estimator import PrivateLogisticRegression

    return PrivateLogisticRegression(classes=(0, 1), **keys)


def fitted(model: Any) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return model.fit(ROWS, LABELS)


def secure_unless_told(folder: Path) -> None:
    """Without a seed two fits differ and are not simulated; with one they are marked."""
    first, second = (fitted(estimator()) for _ in range(2))
    must(not np.array_equal(first.coef_, second.coef_), "noise that anybody can repeat")
    must(not first.simulated_ and fitted(estimator(random_state=1)).simulated_, "seeded noise passes for secure noise")


def fits_are_counted(folder: Path) -> None:
    """Fitting again, or a clone, costs again; what was promised for a fit does not follow new parameters."""
    from sklearn.base import clone

    model = fitted(estimator(epsilon=1.0))
    first = model.guarantee_
    again, copied = fitted(model).guarantee_, fitted(clone(model)).guarantee_
    must(first.established and first.epsilon == 1.0, "the first fit does not keep its promise")
    must(again.epsilon > 1.5 and not again.established, "a refit is not counted")
    must(copied.epsilon > 2.5 and not copied.established, "a clone is not counted")
    model.set_params(epsilon=0.1)
    must(model.guarantee_.epsilon == again.epsilon, "a promise follows parameters that were set after the fit")


def fits_are_charged(folder: Path) -> None:
    """With a ledger every fit is charged before it draws, a planned number at once, and the limit ends it."""
    limit = Limit.approximate(2.5, 1e-4, currency="epsilon")
    with Ledger.create(folder / "ledger.db", limit=limit) as ledger:
        model = estimator(epsilon=1.0, delta=1e-5, ledger=ledger)
        for fits in (1, 2):
            fitted(model)
            must(ledger.spent.units > 0 and len(_released(ledger)) == fits, "a fit is not charged")
        try:
            fitted(model)
        except BudgetError:
            return
    must(False, "fits go on when the limit is reached")


def _released(ledger: Ledger) -> list[Any]:
    return [entry for entry in ledger.entries() if entry["kind"] == "publish"]


def _plant(owner: type, name: str, change: Callable[[Method], Method]) -> Callable[[Any], AbstractContextManager[None]]:
    return lambda _: method(owner, name, change)


def _unpaid(original: Method) -> Method:
    def broken(self: Spending, key: Any, promise: Any, event: Any, planned: int, noise: Any, draw: Method) -> Any:
        kept, self.ledger = self.ledger, None
        try:
            return original(self, key, promise, event, planned, noise, draw)
        finally:
            self.ledger = kept

    return broken


def _planned_for_ever(original: Method) -> Method:
    def broken(self: Tally, key: Any, promise: Any, planned: int) -> Any:
        return original(self, key, promise, 10**9)

    return broken


def _own_counter(original: Method) -> Method:
    def broken(self: Spending) -> Any:
        made = original(self)
        made._tally = Tally()
        return made

    return broken


def _following(original: Method) -> Method:
    def broken(self: Any, **params: Any) -> Any:
        made = original(self, **params)
        if hasattr(self, "guarantee_"):
            made.guarantee_ = self.learner().guarantee()
        return made

    return broken


@register("driver", "estimator")
def estimator_driver() -> Driver:
    """Private estimators: `fairveil.classify.spending`."""
    from fairveil.classify.estimator import PrivateLogisticRegression

    return Driver(
        (secure_unless_told, fits_are_counted, fits_are_charged),
        (
            Mutant("seeded-for-secure", "seeded instead of secure noise",
                   _plant(Spending, "_source", lambda _: lambda self, name: SeededNoise(1))),
            Mutant("refit-not-counted", "further fits cost nothing", _plant(Tally, "count", _planned_for_ever)),
            Mutant("clone-not-counted", "clones count from nothing",
                   _plant(Spending, "__sklearn_clone__", _own_counter)),
            Mutant("promise-follows", "a promise that follows new parameters",
                   _plant(PrivateLogisticRegression, "set_params", _following)),
            Mutant("charge-left-out", "fits beside the ledger", _plant(Spending, "_spend", _unpaid)),
        ),
    )  # fmt: skip
