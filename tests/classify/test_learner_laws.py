"""Every private learner keeps the laws of learners, and a learner that breaks one is named."""

from __future__ import annotations

import numpy as np
import pytest

from fairveil import registry
from fairveil.classify.fair.learner import PrivateFair
from fairveil.classify.learner import ONE_ROW, Learner
from fairveil.classify.learners import PrivateLogistic
from fairveil.classify.perturbation import Perturbation
from fairveil.errors import ContractError
from fairveil.fairness.groups import Counter
from fairveil.proof.laws.learners import (
    check_learner,
    long_rows_are_clipped,
    nothing_exact_is_handed_out,
    order_moves_nothing,
)
from fairveil.proof.mutants import method, mutants_of

PRIVATE = [
    entry.name
    for entry in registry.entries("learner")
    if (made := registry.example(entry.target)).guarantee() is not None and made.guarantee().established
]
BY_LAW = ("exact-count", "no-clip", "data-bound")


@pytest.mark.parametrize("name", PRIVATE)
def test_a_private_learner_keeps_its_laws(name) -> None:
    assert check_learner(registry.example(registry.get("learner", name))) == [
        "long_rows_are_clipped",
        "nothing_exact_is_handed_out",
        "draws_fit_the_budget",
        "order_moves_nothing",
        "exact_cost",
    ]


@pytest.mark.parametrize("name", PRIVATE)
def test_planted_mistakes_break_a_law(name) -> None:
    learner: Learner = registry.example(registry.get("learner", name))
    planted = [mutant for mutant in mutants_of("learner", learner) if mutant.name in BY_LAW]
    assert planted
    for mutant in planted:
        with mutant.plant(learner), pytest.raises(ContractError, match=r"without noise|too long"):
            check_learner(learner)
    for law in (long_rows_are_clipped, nothing_exact_is_handed_out):  # what broke holds again
        law(learner)


def first_rows(original):
    """Only the first rows count."""

    def broken(self, rows, *given, **named):
        first = (np.arange(len(rows)) < len(rows) // 5).reshape(-1, *[1] * (rows.ndim - 1))
        return original(self, rows * first, *given, **named)

    return broken


@pytest.mark.parametrize(
    ("learner", "owner", "name"), [(PrivateFair, Counter, "__init__"), (PrivateLogistic, Perturbation, "release")]
)
def test_a_mistake_that_reads_the_order_of_rows_breaks_a_law(learner, owner, name) -> None:
    """No law of learners had another order of the same rows in it: a count of the first rows kept all of them."""
    with method(owner, name, first_rows), pytest.raises(ContractError, match="order of rows"):
        order_moves_nothing(registry.example(learner))
    order_moves_nothing(registry.example(learner))


@pytest.mark.parametrize("entry", registry.entries("learner"), ids=lambda entry: entry.name)
def test_every_promise_says_of_how_many_rows_of_a_person_it_speaks(entry) -> None:
    """A bagged fit said "epsilon 1, established" of a row that stood in it four times."""
    promise = registry.example(entry.target).guarantee()
    assert promise is None or ONE_ROW in promise.notes


@pytest.mark.parametrize("method", ["output", "objective"])
@pytest.mark.parametrize("definition", ["pure", "gaussian"])
def test_every_way_to_fit_keeps_them(method, definition) -> None:
    check_learner(PrivateLogistic(epsilon=1.0, delta=1e-5, method=method, definition=definition))
