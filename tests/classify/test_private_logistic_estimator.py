from __future__ import annotations

import itertools

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.utils.estimator_checks import parametrize_with_checks

from fairveil import data
from fairveil.classify import PrivateLogisticRegression, RefitWarning
from fairveil.errors import PrivacyError, SpecError
from fairveil.privacy.noise import SeededNoise, ZeroNoise
from fairveil.randomness import generator


@pytest.mark.filterwarnings("ignore::fairveil.classify.RefitWarning")
@parametrize_with_checks(
    [
        PrivateLogisticRegression(),
        PrivateLogisticRegression(method="output", definition="pure"),
    ]
)
def test_scikit_learn_accepts_it(estimator, check) -> None:
    check(estimator)


def _people(rows: int = 4000):
    sample = data.load("synthetic-adult", seed=0, rows=rows)
    encoded = sample.encode()
    return encoded.matrix / encoded.norm_bound, sample["income"]


def test_it_learns_and_a_larger_budget_learns_better() -> None:
    x, y = _people(12_000)
    train, test = slice(0, 9000), slice(9000, None)

    def score(epsilon: float) -> float:
        made = [PrivateLogisticRegression(epsilon, neighbours="zero-out-row", random_state=seed) for seed in range(4)]
        models = [model.fit(x[train], y[train]) for model in made]
        return float(np.mean([model.score(x[test], y[test]) for model in models]))

    plain = PrivateLogisticRegression(1.0, strength=1.0, method="output", noise=ZeroNoise()).fit(x[train], y[train])
    base = max(y[test].mean(), 1 - y[test].mean())
    best = plain.score(x[test], y[test])
    assert score(3.0) > best - 0.01
    assert score(1.0) > base + 0.02
    assert score(3.0) > score(0.1)


def test_a_seed_repeats_and_is_marked_as_simulation_and_entropy_does_neither() -> None:
    x, y = _people(300)
    first, again, other = (PrivateLogisticRegression(random_state=seed).fit(x, y) for seed in (1, 1, 2))
    assert (first.coef_ == again.coef_).all()
    assert (first.coef_ != other.coef_).any()
    assert first.simulated_
    secure, fresh = PrivateLogisticRegression().fit(x, y), PrivateLogisticRegression().fit(x, y)
    assert not secure.simulated_
    assert (secure.coef_ != fresh.coef_).any()


def test_it_clones_and_works_in_pipelines() -> None:
    x, y = _people(300)
    model = PrivateLogisticRegression(2.0, random_state=3)
    assert clone(model).get_params() == model.get_params()
    pipeline = make_pipeline(FunctionTransformer(lambda rows: rows / 2), model).fit(x, y)
    assert pipeline.predict_proba(x[:5]).shape == (5, 2)


def test_an_own_source_of_noise_cannot_be_cloned_into_a_second_stream() -> None:
    with pytest.raises(PrivacyError, match="copied"):
        clone(PrivateLogisticRegression(noise=SeededNoise(1)))


def test_public_classes_need_not_all_occur() -> None:
    x, _ = _people(50)
    model = PrivateLogisticRegression(classes=(0, 1), random_state=0).fit(x, np.ones(50, int))
    assert model.classes_.tolist() == [0, 1]
    with pytest.raises(ValueError, match="public classes"):
        PrivateLogisticRegression(classes=(0, 1)).fit(x, np.full(50, 2))


def test_long_rows_are_clipped_in_training_and_prediction() -> None:
    rng = generator(1)
    x = rng.normal(size=(200, 2))
    y = (x[:, 0] > 0).astype(int)
    long = x * 1000
    unit = x / np.linalg.norm(x, axis=1, keepdims=True)
    first, second = (PrivateLogisticRegression(random_state=0).fit(rows, y) for rows in (long, unit))
    assert np.allclose(first.coef_, second.coef_, atol=1e-9)
    assert np.allclose(first.decision_function(long), second.decision_function(unit), atol=1e-9)


def test_the_guarantee_states_unit_neighbours_and_what_is_public() -> None:
    promise = PrivateLogisticRegression(2.0, retrainings=5, method="output").guarantee()
    assert (promise.epsilon, promise.delta, promise.neighbours) == (2.0, 1e-5, "replace-row")
    assert "5 retrainings" in promise.unit
    assert any("number of rows" in note for note in promise.notes)
    for method, definition in itertools.product(("output", "objective"), ("gaussian", "pure")):
        for neighbours in (None, "replace-row", "zero-out-row"):
            given = {} if neighbours is None else {"neighbours": neighbours}
            made = PrivateLogisticRegression(2.0, method=method, definition=definition, **given)
            assert made.guarantee().neighbours == (neighbours or "replace-row")
    assert PrivateLogisticRegression(2.0, definition="pure").guarantee().definition == "pure"


def test_bad_budgets_are_refused_at_fit() -> None:
    x, y = _people(20)
    for epsilon in (0, -1.0, float("nan"), "1", None, True):
        with pytest.raises(SpecError, match="epsilon"):
            PrivateLogisticRegression(epsilon).fit(x, y)


def test_fits_beyond_the_plan_are_not_covered_by_the_guarantee() -> None:
    x, y = _people(50)
    model = PrivateLogisticRegression(1.0, retrainings=2, random_state=0)
    assert model.fit(x, y).fit(x, y).guarantee_.established
    with pytest.warns(RefitWarning, match="3 times"):
        model.fit(x, y)
    promise = model.guarantee_
    assert (promise.established, promise.epsilon, promise.delta) == (False, 2.0, 2e-5)
    assert any("3 times" in note for note in promise.notes)


def test_the_guarantee_belongs_to_the_fit_and_a_refit_is_counted() -> None:
    x, y = _people(50)
    model = PrivateLogisticRegression(10.0, random_state=0).fit(x, y)
    model.set_params(epsilon=0.1)
    assert model.guarantee_.epsilon == model.guarantee().epsilon == 10.0
    assert any("simulation" in note for note in model.guarantee_.notes)
    with pytest.warns(RefitWarning):
        model.fit(x, y)
    assert model.guarantee_.epsilon == pytest.approx(10.1)
    assert not model.guarantee_.established


def test_a_fit_that_fails_in_the_middle_counts(monkeypatch) -> None:
    from fairveil.classify.perturbation import Perturbation

    x, y = _people(50)
    model = PrivateLogisticRegression(1.0, random_state=0)

    def stopped(*given: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Perturbation, "release", stopped)
        with pytest.raises(KeyboardInterrupt):
            model.fit(x, y)
    with pytest.warns(RefitWarning):
        model.fit(x, y)
    assert not model.guarantee_.established


def test_labels_read_from_the_data_are_said_to_be_public_and_two_classes_are_two() -> None:
    x, y = _people(20)
    assert any("labels" in note for note in PrivateLogisticRegression(1.0).guarantee().notes)
    assert not any("labels" in note for note in PrivateLogisticRegression(1.0, classes=(0, 1)).guarantee().notes)
    for classes in ((0, 0), (0, 1, 2), (0,)):
        with pytest.raises(ValueError, match="two different labels"):
            PrivateLogisticRegression(1.0, classes=classes).fit(x, np.zeros(len(y)))
