"""Estimators are dataclasses of their configuration: every parameter is written once, in the learner."""

from __future__ import annotations

import dataclasses
import inspect
import pickle

import numpy as np
import pytest
from sklearn.base import clone

from fairveil.classify import (
    ExponentialFairClassifier,
    FairNRClassifier,
    PrivateFairClassifier,
    PrivateFairNRClassifier,
    PrivateGameClassifier,
    PrivateLogisticRegression,
)
from fairveil.errors import SpecError

PRIVATE = [
    PrivateLogisticRegression,
    PrivateFairClassifier,
    ExponentialFairClassifier,
    PrivateGameClassifier,
    PrivateFairNRClassifier,
]
BESIDE = {"ledger", "noise", "random_state", "classes"}


@pytest.mark.parametrize("kind", [*PRIVATE, FairNRClassifier])
def test_parameters_are_the_fields_of_the_configuration(kind) -> None:
    fields = {item.name: item.default for item in dataclasses.fields(kind.configuration)}
    given = kind().get_params()
    names = {kind.renamed.get(name, name): name for name in fields}
    assert set(names) | (BESIDE & set(given)) == set(given)
    other = {name for name, field in names.items() if given[name] != fields[field]}
    assert other <= {"epsilon", "norm_bound", "retrainings"}, "public defaults that a task fills in differently"
    places = inspect.signature(kind).parameters.values()
    assert [one.name for one in places if one.kind is one.POSITIONAL_OR_KEYWORD] == ["epsilon"][: kind in PRIVATE]
    assert "__init__" not in inspect.getsource(kind)


@pytest.mark.parametrize("kind", PRIVATE)
def test_parameters_lead_back_to_the_configuration(kind) -> None:
    """Whole numbers and numpy's are plain floats where floats are meant; nothing is checked before `learner`."""
    made = clone(kind(epsilon=np.float32(2.0), norm_bound=3))
    assert made.learner() == made.configuration(**{**made.learner().parameters(), "epsilon": 2.0, "norm_bound": 3.0})
    assert pickle.loads(pickle.dumps(made)).get_params() == made.get_params()
    with pytest.raises(SpecError, match="epsilon"):
        made.set_params(epsilon=-1.0).learner()
    with pytest.raises(SpecError, match="delta"):
        kind(delta="small").learner()
    with pytest.raises(TypeError):
        kind(1.0, 1e-5)


def test_whole_numbers_stay_whole() -> None:
    assert PrivateFairClassifier(rounds=40, count_parts=[np.float64(0.25), 0.5, 0.25]).learner().rounds == 40
    for wrong in ({"rounds": 40.0}, {"rounds": True}, {"epsilon": True}, {"randomised": 1}):
        with pytest.raises(SpecError, match=next(iter(wrong))):
            PrivateFairClassifier(**wrong).learner()
