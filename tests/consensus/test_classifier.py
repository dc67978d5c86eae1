"""The consensus classifier in scikit-learn's shape."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.utils.estimator_checks import check_estimator

from fairveil.consensus import ConsensusClassifier
from fairveil.errors import InputError

pytestmark = pytest.mark.filterwarnings("ignore::fairveil.classify.RefitWarning")
X = np.random.default_rng(1).normal(size=(1500, 3)) / 3
Y = np.where(X @ [2.0, -1.0, 0.0] > 0, "yes", "no")


def test_scikit_learns_own_checks():
    model = ConsensusClassifier(random_state=0, algorithm={"name": "private-admm", "definition": "pure"}, epsilon=1e3)
    results = check_estimator(model, on_fail=None, on_skip=None)
    failed = [r["check_name"] for r in results if r["status"] == "failed"]
    assert failed == []


def test_groups_are_nodes_and_the_split_does_not_matter_without_noise():
    model = ConsensusClassifier(algorithm={"name": "admm", "penalty": 1.0}, iterations=200, graph="ring")
    by_turn = clone(model).fit(X, Y, groups=np.arange(1500) % 3)
    assert by_turn.node_coef_.shape == (3, 3)
    assert by_turn.guarantee_ is None
    central = LogisticRegression(C=500 / (500 * 0.22), fit_intercept=False, tol=1e-10).fit(X, Y)
    assert np.abs(by_turn.coef_ - central.coef_).max() < 1e-2
    assert by_turn.score(X, Y) > 0.97


def test_private_fit_says_what_it_promises():
    model = ConsensusClassifier(epsilon=3.0, random_state=0, classes=("no", "yes")).fit(X, Y)
    assert model.guarantee_.epsilon == 3.0
    assert model.guarantee_.established
    assert model.simulated_
    assert model.score(X, Y) > 0.9
    assert np.allclose(model.predict_proba(X).sum(1), 1)
    assert (clone(model).fit(X, Y).coef_ == model.coef_).all()
    assert not ConsensusClassifier(epsilon=3.0).fit(X, Y).simulated_


def test_pipelines_and_refusals():
    scaled = make_pipeline(FunctionTransformer(lambda x: x / 2), ConsensusClassifier(epsilon=5.0, random_state=1))
    assert scaled.fit(X, Y).score(X, Y) > 0.9
    with pytest.raises(InputError, match="public classes"):
        ConsensusClassifier(classes=("a", "b")).fit(X, Y)
    with pytest.raises(InputError, match="every row"):
        ConsensusClassifier().fit(X, Y, groups=[1, 2])


def test_nodes_may_be_named_when_the_model_is_made_and_long_rows_refused():
    owner = np.arange(1500) % 3
    named = ConsensusClassifier(node_of_row=owner, epsilon=3.0, random_state=0).fit(X, Y)
    assert (named.coef_ == ConsensusClassifier(epsilon=3.0, random_state=0).fit(X, Y, groups=owner).coef_).all()
    assert (clone(named).fit(X, Y).coef_ == named.coef_).all()
    with pytest.raises(InputError, match="longer than 1"):
        ConsensusClassifier(strict=True, random_state=0).fit(9 * X, Y)
    with pytest.raises(InputError, match="changes the sensitivity"):
        ConsensusClassifier(random_state=0).fit(X, Y, sample_weight=np.ones(1500))
