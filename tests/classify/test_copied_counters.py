"""A counter that travels: copies in this process count together, copies elsewhere are counted or said."""

from __future__ import annotations

import copy
import multiprocessing
import os
import pickle
import subprocess
import sys

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, cross_validate

from fairveil.classify import PrivateLogisticRegression, RefitWarning
from fairveil.consensus import ConsensusClassifier
from fairveil.ledger import Ledger
from fairveil.privacy.charges import UNITS, Currency
from fairveil.privacy.limits import Limit
from fairveil.privacy.tally import COPIED, Tally
from fairveil.randomness import generator

pytestmark = pytest.mark.filterwarnings("ignore::fairveil.classify.RefitWarning")
KINDS = [PrivateLogisticRegression, ConsensusClassifier]


def _people(rows: int = 200):
    x = generator(0).normal(size=(rows, 2)) / 3
    return x, (x[:, 0] > 0).astype(int)


def _made(kind, **keys):
    return kind(**({"nodes": 2, "iterations": 3} if kind is ConsensusClassifier else {}), random_state=0, **keys)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("copied", [clone, copy.copy, copy.deepcopy, lambda model: pickle.loads(pickle.dumps(model))])
def test_copies_in_one_process_share_one_count(kind, copied):
    x, y = _people()
    model = _made(kind, epsilon=1.0)
    for _ in range(4):
        copied(model).fit(x, y)
    promise = model.fit(x, y).guarantee_
    assert (promise.epsilon, promise.established) == (5.0, False)
    assert any("fitted 5 times" in note for note in promise.notes)


@pytest.mark.parametrize("kind", KINDS)
def test_a_search_costs_the_same_with_one_and_with_two_jobs(kind):
    """Four budgets, five folds and a refit: twenty-one fits."""
    x, y = _people()
    found = []
    for jobs in (1, 2):
        grid = {"epsilon": [0.1, 0.5, 1.0, 2.0]}
        search = GridSearchCV(_made(kind), grid, cv=5, n_jobs=jobs, refit=lambda _: 2).fit(x, y)
        promise = search.best_estimator_.guarantee_
        found.append((promise.epsilon, promise.delta, promise.established))
        assert (COPIED in promise.notes) == (jobs == 2)
        assert any("fitted 21 times" in note for note in promise.notes)
    assert found[0] == found[1]
    assert found[0][0] == pytest.approx(5 * 3.6 + 1.0, rel=1e-12)
    assert not found[0][2]


def test_planned_fits_cost_the_same_in_any_order():
    x, y = _people()
    found = []
    for jobs in (1, 2):
        grid = {"norm_bound": [1.0, 2.0, 1.0, 2.0]}
        model = PrivateLogisticRegression(retrainings=3, random_state=0)
        search = GridSearchCV(model, grid, cv=2, n_jobs=jobs, refit=lambda _: 0).fit(x, y)
        found.append(search.best_estimator_.guarantee_.epsilon)
    assert found == [4.0, 4.0]  # five fits with one bound and four with the other: two plans of three each


def test_what_was_pickled_is_not_established_until_a_ledger_counts(tmp_path):
    x, y = _people()
    model = PrivateLogisticRegression(1.0, random_state=0)
    stored = pickle.dumps(model)
    promise = model.fit(x, y).guarantee_
    assert (promise.epsilon, promise.established) == (1.0, False)
    assert COPIED in promise.notes
    del model
    later = pickle.loads(stored).fit(x, y).guarantee_  # nobody holds its count any more
    assert not later.established
    assert COPIED in later.notes
    path = tmp_path / "ledger.db"
    with Ledger.create(path, limit=Limit.approximate(30.0, 1e-3, currency="epsilon")) as ledger:
        GridSearchCV(PrivateLogisticRegression(ledger=str(path)), {"epsilon": [0.5, 1.0]}, cv=3, n_jobs=2).fit(x, y)
        paid = pickle.loads(pickle.dumps(PrivateLogisticRegression(1.0, ledger=str(path)))).fit(x, y).guarantee_
        spent = ledger.spent.units / UNITS[Currency.EPSILON]
    assert paid.established
    assert COPIED not in paid.notes
    assert spent in (pytest.approx(6.0), pytest.approx(6.5))


def test_a_fitted_model_that_is_loaded_elsewhere_keeps_the_promise_of_its_fit(tmp_path):
    x, y = _people()
    model = PrivateLogisticRegression(1.0, random_state=0).fit(x, y)
    assert model.guarantee_.established
    (tmp_path / "model.pickle").write_bytes(pickle.dumps(model))
    code = (
        "import pickle, sys, numpy, warnings; warnings.simplefilter('ignore')\n"
        "model = pickle.load(open(sys.argv[1], 'rb')); print(model.guarantee_.established)\n"
        "x = numpy.eye(2).repeat(20, 0); model.fit(x, x[:, 0]); print(model.guarantee_.epsilon)\n"
    )
    told = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / "model.pickle")], capture_output=True, text=True, check=True
    )
    assert told.stdout.split() == ["True", "2.0"]
    assert model.fit(x, y).guarantee_.epsilon == 3.0  # the fit of the other process came home


def _fit_in_fork(model, answers) -> None:
    answers.put(model.fit(*_people()).guarantee_.established)


def test_a_forked_process_does_not_count_for_itself_in_silence():
    model, context = PrivateLogisticRegression(1.0, random_state=0), multiprocessing.get_context("fork")
    model._counter()
    answers = context.Queue()
    child = context.Process(target=_fit_in_fork, args=(model, answers))
    child.start()
    assert answers.get() is False
    child.join()


def test_estimators_that_come_home_say_what_was_spent_until_then():
    x, y = _people()
    model = PrivateLogisticRegression(1.0, random_state=0)
    found = cross_validate(model, x, y, cv=3, n_jobs=2, return_estimator=True)["estimator"]
    assert not any(one.guarantee_.established for one in found)
    assert model.fit(x, y).guarantee_.epsilon == 4.0
    assert np.isfinite(found[0].coef_).all()


@pytest.mark.filterwarnings("error::fairveil.classify.RefitWarning")
def test_a_consensus_that_is_fitted_again_says_so():
    x, y = _people()
    model = _made(ConsensusClassifier, epsilon=1.0).fit(x, y)
    assert model.guarantee_.established
    with pytest.warns(RefitWarning, match="2 times"):
        model.fit(x, y)
    assert (model.guarantee_.epsilon, model.guarantee_.established) == (2.0, False)
    plain = _made(ConsensusClassifier, algorithm="admm").fit(x, y).fit(x, y)
    assert plain.guarantee_ is None


def test_the_file_that_copies_count_in_is_its_owners_alone():
    counter = Tally()
    counter._share()
    assert os.stat(counter.file).st_mode & 0o077 == 0


@pytest.mark.parametrize("kept", [True, False], ids=["leaves", "comes later"])
def test_fits_on_both_sides_of_a_ledger_are_added_up(tmp_path, kept):
    """`set_params(ledger=None)` after three fits said "epsilon 1, established", and so did a ledger after three."""
    x, y = _people()
    with Ledger.create(tmp_path / "ledger.db", limit=Limit.approximate(9.0, 1e-3, currency="epsilon")) as ledger:
        model = PrivateLogisticRegression(1.0, ledger=ledger if kept else None)
        for _ in range(3):
            model.fit(x, y)
        if kept:
            assert (model.guarantee_.epsilon, model.guarantee_.established) == (1.0, True), "the ledger has the sum"
        for one in (clone(model.set_params(ledger=None if kept else ledger)), model):
            promise = one.fit(x, y).guarantee_
        assert (promise.epsilon, promise.established) == (5.0, False)
