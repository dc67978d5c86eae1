"""Every private learner keeps the laws of learners, and a learner that breaks one is named."""

from __future__ import annotations

import pytest

from fairveil import registry
from fairveil.classify.learner import ONE_ROW, Learner
from fairveil.classify.learners import PrivateLogistic
from fairveil.errors import ContractError
from fairveil.proof.laws.learners import check_learner, long_rows_are_clipped, nothing_exact_is_handed_out
from fairveil.proof.mutants import mutants_of

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


@pytest.mark.parametrize("entry", registry.entries("learner"), ids=lambda entry: entry.name)
def test_every_promise_says_of_how_many_rows_of_a_person_it_speaks(entry) -> None:
    """A bagged fit said "epsilon 1, established" of a row that stood in it four times."""
    promise = registry.example(entry.target).guarantee()
    assert promise is None or ONE_ROW in promise.notes


@pytest.mark.parametrize("method", ["output", "objective"])
@pytest.mark.parametrize("definition", ["pure", "gaussian"])
def test_every_way_to_fit_keeps_them(method, definition) -> None:
    check_learner(PrivateLogistic(epsilon=1.0, delta=1e-5, method=method, definition=definition))
