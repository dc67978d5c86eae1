"""How estimators pay, as adapters; their own laws: every fit is counted or charged, and its promise stays with it."""

from __future__ import annotations

import copy
import pickle
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from fairveil.classify.spending import Spending
from fairveil.errors import BudgetError
from fairveil.ledger import Account, Ledger, OneEvent, RunCost
from fairveil.privacy import tally
from fairveil.privacy.limits import Limit
from fairveil.privacy.noise import SeededNoise
from fairveil.privacy.tally import Tally
from fairveil.proof.adapters import Adapter, checks_of, laws_of
from fairveil.proof.engine.adapter import Checks, adapter
from fairveil.proof.laws import must, refused
from fairveil.proof.mutants import Method, Mutant, in_method, twin

ROWS, LABELS = np.tile(np.eye(2), (10, 1)), np.arange(20) % 2


def estimator(**keys: Any) -> Any:
    from fairveil.classify.estimator import PrivateLogisticRegression

    return PrivateLogisticRegression(classes=(0, 1), **keys)


def fitted(model: Any) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return model.fit(ROWS, LABELS)


class Fitting:
    """An estimator that is fitted under a ledger."""

    def __init__(self, ledger: Ledger, retrainings: int, **keys: Any) -> None:
        self.ledger, self.model = ledger, estimator(ledger=ledger, retrainings=retrainings, **keys)

    def release(self) -> Any:
        return fitted(self.model).coef_.tobytes()


def fitting_adapter(retrainings: int) -> Adapter:
    """Fits that are charged one by one, or planned together; every fit has a block of its own."""
    from fairveil.classify.perturbation import Perturbation

    event = estimator(retrainings=retrainings).learner().event()

    @contextmanager
    def opened(folder: Path, number: int) -> Iterator[Fitting]:
        with Ledger.create(folder / "ledger.db", limit=Limit.approximate(8.0, 1e-3, currency="epsilon")) as ledger:
            yield Fitting(ledger, retrainings)

    def payer(ledger: Ledger) -> Account | OneEvent:
        return OneEvent(ledger, event) if retrainings == 1 else Account(ledger, "plan", event, releases=retrainings)

    def another_estimator(folder: Path) -> None:
        with Ledger.open(folder / "ledger.db") as ledger:
            [account] = [str(entry["name"]) for entry in ledger.entries() if entry["kind"] == "account"]
            other = Fitting(ledger, retrainings, epsilon=0.5)
            other.model._account = (account, 1, other.model.learner())
            other.release()

    return Adapter(
        opened,
        (Perturbation, "release"),
        payer,
        lambda name, value: set(value) == {"weights"},
        () if retrainings == 1 else (another_estimator,),
        repeats=False,
        harmless=dict.fromkeys(("drawn-again-on-retry", "lost-drawn-again"), "no fit is asked for by its name again"),
    )


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


def copies_are_counted(folder: Path) -> None:
    """Copies count together, a pickled one where its counter does not live too; what was pickled says so.

    Reduced from `GridSearchCV(n_jobs=2)`, which left "epsilon 1, established" after twenty-one fits.
    """
    model = estimator(epsilon=1.0)
    fitted(copy.deepcopy(model))
    fitted(copy.copy(model))
    must(fitted(model).guarantee_.epsilon > 2.5, "a copy is not counted")
    model = estimator(epsilon=1.0)
    stored = pickle.dumps(model)
    must(fitted(pickle.loads(stored))._tally is model._tally, "what is unpickled beside its counter does not use it")
    tally._LIVE.pop(model._tally.name)  # as in another process
    away = fitted(pickle.loads(stored))
    must(away._tally is not model._tally and away.guarantee_.epsilon > 1.5, "a copy elsewhere knows of no other fit")
    home = fitted(model).guarantee_
    must(home.epsilon > 2.5 and not home.established, "fits of copies elsewhere do not come home")
    model = estimator(epsilon=1.0)
    pickle.dumps(model)
    must(not fitted(model).guarantee_.established, "what was pickled, perhaps to be fitted, passes for established")


def fits_are_charged(folder: Path) -> None:
    """With a ledger every fit is charged before it draws, a planned number at once, and the limit ends it."""
    limit = Limit.approximate(2.5, 1e-4, currency="epsilon")
    with Ledger.create(folder / "ledger.db", limit=limit) as ledger:
        model = estimator(epsilon=1.0, delta=1e-5, ledger=ledger)
        for fits in (1, 2):
            fitted(model)
            must(ledger.spent.units > 0 and len(_released(ledger)) == fits, "a fit is not charged")
        with refused("fits go on when the limit is reached", BudgetError):
            fitted(model)


def _released(ledger: Ledger) -> list[Any]:
    return [entry for entry in ledger.entries() if entry["kind"] == "publish"]


@twin
def _unpaid(
    original: Method, self: Spending, key: Any, promise: Any, event: Any, planned: int, noise: Any, draw: Method
) -> Any:
    kept, self.ledger = self.ledger, None
    try:
        return original(self, key, promise, event, planned, noise, draw)
    finally:
        self.ledger = kept


@twin
def _planned_for_ever(original: Method, self: Tally, key: Any, promise: Any, planned: int) -> Any:
    return original(self, key, promise, 10**9)


@twin
def _own_counter(original: Method, self: Spending) -> Any:
    made = original(self)
    made._tally = Tally()
    return made


def _forgotten_copy(original: Method) -> Method:
    return lambda self, *memo: Tally()


def _forgotten_pickle(original: Method) -> Method:
    return lambda self: (Tally, ())


@twin
def _silent_pickle(original: Method, self: Tally) -> Any:
    made = original(self)
    self.copied = False
    return made


@twin
def _counted_here(original: Method, self: Tally, fit: Any) -> None:
    self.fits.append(fit)


@twin
def _following(original: Method, self: Any, **params: Any) -> Any:
    made = original(self, **params)
    if hasattr(self, "guarantee_"):
        made.guarantee_ = self.learner().guarantee()
    return made


@twin
def _free_plan(original: Method, self: Spending, ledger: Ledger, key: Any, event: Any, planned: int) -> Any:
    """A plan that never ends: its event passes for that of a whole run."""
    original(self, ledger, key, event, planned)
    account = Account(ledger, "plan", RunCost(event))
    account.pay()
    return account


@adapter("estimator")
def estimator_checks() -> Checks:
    """Private estimators: `fairveil.classify.spending`."""
    from fairveil.classify.estimator import PrivateLogisticRegression

    return checks_of(replace(
        fitting_adapter(retrainings=2),
        laws=(*laws_of(fitting_adapter(retrainings=1)), secure_unless_told, fits_are_counted, copies_are_counted,
              fits_are_charged),
        mutants=(
            Mutant("seeded-for-secure", "seeded instead of secure noise",
                   in_method(Spending, "_source", lambda _: lambda self, name: SeededNoise(1))),
            Mutant("refit-not-counted", "further fits cost nothing", in_method(Tally, "count", _planned_for_ever)),
            Mutant("clone-not-counted", "clones count from nothing",
                   in_method(Spending, "__sklearn_clone__", _own_counter)),
            Mutant("copy-not-counted", "deep copies count from nothing",
                   in_method(Tally, "__deepcopy__", _forgotten_copy)),
            Mutant("pickle-not-counted", "what is unpickled counts from nothing",
                   in_method(Tally, "__reduce__", _forgotten_pickle)),
            Mutant("pickle-not-said", "what was pickled and fitted once passes for established",
                   in_method(Tally, "__reduce__", _silent_pickle)),
            Mutant("fits-stay-away", "fits of another process do not come home",
                   in_method(Tally, "_add", _counted_here)),
            Mutant("promise-follows", "a promise that follows new parameters",
                   in_method(PrivateLogisticRegression, "set_params", _following)),
            Mutant("fit-beside-the-ledger", "fits beside the ledger", in_method(Spending, "_spend", _unpaid)),
            Mutant("plan-without-end", "a plan that covers any number of fits",
                   in_method(Spending, "_plan", _free_plan)),
        ),
    ))  # fmt: skip
