"""Private estimators among scikit-learn's tools: ledgers, clones, searches, pipelines, routing, data frames."""

from __future__ import annotations

import itertools

import numpy as np
import pandas as pd
import pytest
import sklearn
from sklearn.base import clone
from sklearn.compose import ColumnTransformer
from sklearn.decomposition import PCA
from sklearn.ensemble import BaggingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import FeatureUnion, make_pipeline
from sklearn.preprocessing import FunctionTransformer, MinMaxScaler, Normalizer, OneHotEncoder, StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from fairveil import data, registry
from fairveil.classify import (
    ExponentialFairClassifier,
    FairNRClassifier,
    PrivateFairClassifier,
    PrivateFairNRClassifier,
    PrivateGameClassifier,
    PrivateLogisticRegression,
    PublicEncoder,
    RefitWarning,
    check_pipeline,
)
from fairveil.classify.learner import ONE_ROW
from fairveil.data import Column
from fairveil.errors import BudgetError, InputError, PrivacyError, SpecError
from fairveil.ledger import Ledger
from fairveil.privacy.charges import UNITS, Currency
from fairveil.privacy.limits import Limit
from fairveil.randomness import generator

FAIR = [PrivateFairClassifier, ExponentialFairClassifier, PrivateGameClassifier]


def _people(rows: int = 300):
    rng = generator(0)
    group = rng.choice(["a", "b"], rows)
    x = np.stack([rng.normal(size=rows), group == "a"], axis=1) / 3
    return x, (x[:, 0] > 0).astype(int), group


def _limit(epsilon: float = 10.0, delta: float = 1e-3) -> Limit:
    return Limit.approximate(epsilon, delta, currency="epsilon")


@pytest.mark.filterwarnings("ignore::fairveil.classify.RefitWarning")
@parametrize_with_checks([PrivateFairClassifier(fairness="none", classes=None)])
def test_scikit_learn_accepts_what_needs_no_groups(estimator, check) -> None:
    check(estimator)


def _given(kind, group):
    return {} if kind is PrivateLogisticRegression else {"sensitive_features": group}


@pytest.mark.parametrize("kind", [PrivateLogisticRegression, *FAIR])
def test_every_fit_is_charged_before_rows_are_read(kind, tmp_path) -> None:
    x, y, group = _people()
    with Ledger.create(tmp_path / "ledger.db", limit=_limit(1.5, 1e-4)) as ledger:
        model = kind(1.0, ledger=ledger).fit(x, y, **_given(kind, group))
        assert model.guarantee_.established
        assert not model.simulated_
        before = len(list(ledger.entries()))
        with pytest.raises(BudgetError, match="no row was read"):
            clone(model).fit("not rows at all", y, **_given(kind, group))
        assert len(list(ledger.entries())) == before
        with pytest.raises(PrivacyError):  # seeded noise never draws on a real ledger
            kind(0.1, ledger=ledger, random_state=0).fit(x, y, **_given(kind, group))


def test_wrong_input_costs_nothing(tmp_path) -> None:
    x, y, group = _people()
    with Ledger.create(tmp_path / "ledger.db", limit=_limit()) as ledger:
        with pytest.raises(ValueError, match="public classes"):
            PrivateFairClassifier(1.0, ledger=ledger).fit(x, y + 5, sensitive_features=group)
        assert ledger.spent.units == 0


@pytest.mark.filterwarnings("error::fairveil.classify.RefitWarning")
def test_a_search_is_counted_by_the_ledger(tmp_path) -> None:
    """Two budgets, three folds and a refit: seven fits, all of them charged."""
    x, y, _ = _people()
    with Ledger.create(tmp_path / "ledger.db", limit=_limit()) as ledger:
        search = GridSearchCV(PrivateLogisticRegression(ledger=ledger), {"epsilon": [0.5, 1.0]}, cv=3).fit(x, y)
        best = search.best_params_["epsilon"]
        spent = ledger.spent.units / UNITS[Currency.EPSILON]
        charged = [entry for entry in ledger.entries() if entry["kind"] == "reserve"]
    assert len(charged) == 7
    assert spent == pytest.approx(4.5 + best)


def test_a_ledger_may_be_named_by_its_path_and_a_plan_is_paid_once(tmp_path) -> None:
    x, y, group = _people()
    path = tmp_path / "ledger.db"
    Ledger.create(path, limit=_limit(1.0, 1e-5)).close()
    model = PrivateFairClassifier(1.0, retrainings=2, rounds=20, ledger=str(path))
    model.fit(x, y, sensitive_features=group).fit(x, y, sensitive_features=group)
    with pytest.raises(BudgetError):
        model.fit(x, y, sensitive_features=group)


@pytest.mark.parametrize("kind", [PrivateLogisticRegression, *FAIR])
def test_clones_share_a_counter_and_warn_once(kind) -> None:
    x, y, group = _people()
    model = kind(0.5, random_state=0)
    first, second, third = clone(model), clone(model), clone(clone(model))
    assert first.get_params() == model.get_params()
    assert first.fit(x, y, **_given(kind, group)).guarantee_.established
    with pytest.warns(RefitWarning, match="2 times"):
        second.fit(x, y, **_given(kind, group))
    third.fit(x, y, **_given(kind, group))  # no second warning: pytest makes warnings errors
    assert (third.guarantee_.established, third.guarantee_.epsilon) == (False, 1.5)
    assert kind(0.5, random_state=0).fit(x, y, **_given(kind, group)).guarantee_.established


def test_a_search_without_a_ledger_says_what_it_cost() -> None:
    x, y, _ = _people()
    with pytest.warns(RefitWarning, match="held-out scores"):
        search = GridSearchCV(PrivateLogisticRegression(random_state=0), {"epsilon": [0.5, 1.0]}, cv=3).fit(x, y)
    assert search.best_estimator_.guarantee_.epsilon == pytest.approx(4.5 + search.best_params_["epsilon"])
    assert not search.best_estimator_.guarantee_.established


@pytest.mark.filterwarnings("ignore::fairveil.classify.RefitWarning")
@pytest.mark.parametrize("kind", FAIR)
def test_groups_are_routed_through_searches_and_pipelines(kind) -> None:
    x, y, group = _people()
    with sklearn.config_context(enable_metadata_routing=True):
        model = kind(1.0, random_state=0).set_fit_request(sensitive_features=True)
        model.set_predict_request(sensitive_features=True).set_score_request(sensitive_features=True)
        pipeline = make_pipeline(FunctionTransformer(), model)
        pipeline.fit(x, y, sensitive_features=group).predict(x, sensitive_features=group)
        GridSearchCV(model, {"epsilon": [1.0, 2.0]}, cv=2, refit=False).fit(x, y, sensitive_features=group)
        scores = cross_val_score(model, x, y, params={"sensitive_features": group}, cv=2)
    assert np.isfinite(scores).all()


@pytest.mark.parametrize("kind", [*FAIR, FairNRClassifier])
def test_frames_arrays_and_one_to_four_columns(kind) -> None:
    x, y, group = _people()
    frame = pd.DataFrame(x, columns=["one", "two"])
    rng = generator(1)
    given = {} if kind is FairNRClassifier else {"epsilon": 1.0}
    few = {"rounds": 20} if hasattr(kind(), "rounds") else {}
    if kind in (ExponentialFairClassifier, PrivateGameClassifier):
        few["hypotheses"] = "stumps"
    for columns in range(1, 5):
        sensitive = pd.DataFrame({f"s{i}": group if i == 0 else rng.choice(["u", "v"], 300) for i in range(columns)})
        model = kind(**given, **few, random_state=0).fit(frame, y, sensitive_features=sensitive)
        assert len(model.group_names_) == 2**columns
        chance = model.predict_proba(frame, sensitive_features=sensitive)
        assert chance.shape == (300, 2)
    labels = np.where(y == 1, "yes", "no")
    text = kind(**given, **few, classes=("no", "yes"), random_state=0).fit(x, labels, sensitive_features=group)
    assert set(text.predict(x, sensitive_features=group, random_state=0)) <= {"no", "yes"}


def test_a_printed_private_learner_takes_no_ledger_and_no_secure_noise(tmp_path) -> None:
    x, y, group = _people()
    for given in ({}, {"ledger": tmp_path / "none.db", "random_state": 0}):
        with pytest.raises(PrivacyError, match="not established"):
            PrivateFairNRClassifier(1.0, **given).fit(x, y, sensitive_features=group)
    with pytest.warns(UserWarning, match="asks for"):
        model = PrivateFairNRClassifier(1.0, rounds=3, random_state=0).fit(x, y, sensitive_features=group)
    assert not model.guarantee_.established


def test_an_ensemble_that_draws_a_row_several_times_is_named():
    """One bagged fit said "epsilon 1, established" of a row that stood in it four times."""
    private = PrivateLogisticRegression()
    for inner in (private, make_pipeline(FunctionTransformer(), private)):
        [leak] = check_pipeline(BaggingClassifier(inner))
        assert leak.transformer == "BaggingClassifier"
        assert "several times" in leak.why
        assert check_pipeline(BaggingClassifier(inner, bootstrap=False, max_samples=0.5)) == []
    assert check_pipeline(BaggingClassifier(LogisticRegression())) == []
    x, y, _ = _people()
    bagged = BaggingClassifier(PrivateLogisticRegression(random_state=0), n_estimators=1, random_state=0).fit(x, y)
    assert ONE_ROW in bagged.estimators_[0].guarantee_.notes


def test_transformers_that_learn_are_named_and_others_are_not() -> None:
    private = PrivateLogisticRegression()
    bad = [StandardScaler(), MinMaxScaler(), PCA(), OneHotEncoder()]
    for step in bad:
        [leak] = check_pipeline(make_pipeline(step, private))
        assert leak.transformer == type(step).__name__
        assert "PublicEncoder" in leak.fix
    fine = [FunctionTransformer(), Normalizer(), OneHotEncoder(categories=[["a", "b"]]), PublicEncoder(_schema())]
    assert check_pipeline(make_pipeline(*fine, private)) == []
    assert check_pipeline(make_pipeline(StandardScaler(), LogisticRegression())) == []
    nested = make_pipeline(
        ColumnTransformer([("scale", StandardScaler(), [0]), ("keep", "passthrough", [1])]),
        FeatureUnion([("a", PCA()), ("b", Normalizer())]),
        make_pipeline(MinMaxScaler(), PrivateFairClassifier()),
    )
    found = check_pipeline(GridSearchCV(nested, {}))
    assert [leak.transformer for leak in found] == ["StandardScaler", "PCA", "MinMaxScaler"]
    assert found[0].step.endswith("scale")


def _schema() -> list[Column]:
    return [Column("age", "continuous", low=0, high=80), Column("kind", "category", categories=("a", "b"))]


@pytest.mark.parametrize("row", [["secret-7", "a"], [30, "secret-7"], [None, "a"], [[1, 2], "a"]])
def test_the_public_encoder_refuses_a_cell_without_repeating_it(row) -> None:
    with pytest.raises(InputError) as caught:
        PublicEncoder(_schema()).fit_transform(pd.DataFrame([row], columns=["age", "kind"]))
    assert caught.value.path in ("age", "kind")
    assert "secret" not in f"{caught.value} {caught.value.__cause__} {caught.value.given}"


def test_the_public_encoder_learns_nothing_and_agrees_with_the_data_set() -> None:
    people = data.load("synthetic-adult", seed=0, rows=50)
    encoder = PublicEncoder(people)
    rows = encoder.fit_transform(people.frame())
    expected = people.encode(bins=8)
    assert (rows == expected.matrix).all()
    assert encoder.norm_bound == expected.norm_bound
    assert tuple(encoder.get_feature_names_out()) == expected.names
    one = clone(encoder).fit(people.frame().iloc[:1]).transform(people.frame())
    assert (one == rows).all()
    plain = PublicEncoder(_schema(), bins=0).fit_transform(np.array([[40, "b"], [160, "a"]], dtype=object))
    assert plain.tolist() == [[0.5, 0.0, 1.0], [1.0, 1.0, 0.0]]
    with pytest.raises(InputError, match="columns"):
        PublicEncoder(_schema()).transform([[1]])


def test_a_table_that_does_not_fit_the_schema_is_told_which_column_it_lacks() -> None:
    encoder = PublicEncoder(
        [Column("income", "continuous", low=0, high=9), Column("years", "continuous", low=0, high=5)]
    )
    with pytest.raises(InputError) as refused:
        encoder.transform(pd.DataFrame({"income": [1.0], "yeers": [2.0], "sex": ["f"]}))
    assert "the table lacks what the schema names: years" in str(refused.value)
    assert refused.value.given == ["income", "yeers", "sex"]
    assert refused.value.fix == "did you mean yeers?"
    with pytest.raises(SpecError, match="did you mean years"):
        PublicEncoder(encoder.schema, columns=["yeers"]).fit()


def test_bins_and_scales_are_public() -> None:
    column = Column("gain", "continuous", low=0, high=99, scale="log")
    values = np.array([0.0, 8.0, 9.0, 98.9, 99.0, 500.0, -3.0])
    cell = column.encode(values, signed=False, bins=2).argmax(axis=1)
    assert cell.tolist() == [0, 0, 1, 1, 1, 1, 0]
    assert column.encode(values, signed=False)[:, 0].max() == 1.0
    few = column.encode(values[:2], signed=False, bins=2)  # other rows do not move an edge
    assert (few == column.encode(values, signed=False, bins=2)[:2]).all()
    for a, b in itertools.pairwise(range(1, 9)):
        assert len(column.encoded_names(b)) == a + 1


@pytest.mark.parametrize("kind", [*FAIR, FairNRClassifier, PrivateLogisticRegression])
def test_no_message_quotes_a_cell(kind) -> None:
    """scikit-learn's own words for these quote the table: a private value would end up in a log."""
    x, y, group = _people()
    words = np.full((300, 2), "secretcell")
    for table in (x[:, 0] + 0.123456, words, words.astype(object), x + 0.123456j):
        with pytest.raises(InputError) as caught:
            kind().fit(table, y, **_given(kind, group))
        assert not any(hidden in str(caught.value) for hidden in ("secretcell", "0.123", "array="))


def _arrays(thing, seen):
    """Every array that can be reached from an object."""
    if id(thing) in seen:
        return
    seen.add(id(thing))
    if isinstance(thing, np.ndarray):
        yield thing
    elif isinstance(thing, dict):
        for value in thing.values():
            yield from _arrays(value, seen)
    elif isinstance(thing, list | tuple):
        for value in thing:
            yield from _arrays(value, seen)
    elif hasattr(thing, "__dict__") and not callable(thing):
        yield from _arrays(vars(thing), seen)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("oracle", ["least-squares", "exact", "logistic"])
def test_no_fitted_model_keeps_a_row(oracle) -> None:
    rng = np.random.default_rng(3)
    rows = 397
    x, group, y = rng.normal(size=(rows, 3)) / 3, rng.choice(["a", "b"], rows), rng.integers(0, 2, rows)
    fast = {"rounds": 3, "plays": 1, "oracle": oracle}
    models = [FairNRClassifier(**fast, random_state=0), PrivateFairNRClassifier(**fast, random_state=0)]
    if oracle == "least-squares":
        models += [PrivateFairClassifier(random_state=0), ExponentialFairClassifier(random_state=0)]
        models += [PrivateGameClassifier(rounds=3, random_state=0)]
    for model in models:
        model.fit(x, y, sensitive_features=group)
        assert all(rows not in array.shape for array in _arrays(vars(model), set()))
        assert {"guarantee_", "simulated_", "report_", "error_", "discrimination_"} <= set(vars(model))


def test_labels_that_are_no_classes_are_refused_without_them() -> None:
    x = np.zeros((20, 2))
    with pytest.raises(InputError, match="Unknown label type") as problem:
        PrivateLogisticRegression(random_state=0).fit(x, np.linspace(4242.25, 4243.5, 20))
    assert problem.value.path == "y"
    assert "4242" not in str(problem.value)


def test_a_name_that_is_nearly_right_is_suggested() -> None:
    with pytest.raises(SpecError, match="did you mean equal-opportunity") as problem:
        registry.build("learner", {"name": "private-fair", "epsilon": 1.0, "fairness": "equal-oportunity"}, "learner")
    assert problem.value.path == "learner.fairness"
