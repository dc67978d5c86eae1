from __future__ import annotations

import numpy as np
import pytest
from sklearn.tree import DecisionTreeClassifier

from fairveil import registry
from fairveil.classify.learner import Constant, fit, predict
from fairveil.errors import SpecError
from fairveil.fairness.metrics import demographic_parity_gap, equal_opportunity_gap
from fairveil.privacy.noise import SeededNoise
from fairveil.randomness import generator


def _sample(count: int = 800):
    rng = generator(2)
    group = np.where(rng.random(count) < 0.5, "a", "b")
    label = (rng.random(count) < np.where(group == "a", 0.65, 0.35)).astype(int)
    features = np.stack([label + 0.8 * rng.normal(size=count), (group == "a") + 0.5 * rng.normal(size=count)], axis=1)
    return features / 4, label, group


def _made(table):
    return registry.build("learner", table, "learner").estimator(SeededNoise(1), generator(1))


@pytest.mark.parametrize("name", ["logistic", "private-logistic", "fair-reductions"])
def test_every_built_in_learner_fits_and_decides(name) -> None:
    x, y, group = _sample()
    table = {"name": name, "epsilon": 3.0} if name == "private-logistic" else {"name": name}
    model = fit(_made(table), x, y, group)
    decided = predict(model, x, group, generator(4))
    assert set(np.unique(decided)) <= {0, 1}
    assert (decided == y).mean() > 0.65
    assert (predict(model, x, group, generator(4)) == decided).all()


def test_reductions_close_the_gap_they_are_asked_to_close() -> None:
    x, y, group = _sample()
    plain = predict(fit(_made({"name": "logistic"}), x, y, group), x, group, generator(0))
    for constraint, gap in (("dp", demographic_parity_gap), ("eqopt", equal_opportunity_gap)):
        model = fit(_made({"name": "fair-reductions", "constraint": constraint}), x, y, group)
        fair = predict(model, x, group, generator(0))
        assert gap(y, fair, group) < gap(y, plain, group) / 2
        assert gap(y, fair, group) < 0.12


def test_reductions_without_a_second_group_fit_plainly() -> None:
    x, y, group = _sample(100)
    only = _made({"name": "fair-reductions"}).fit(x, y, sensitive_features=np.full(100, "a"))
    assert set(only.predict(x)) <= {0, 1}
    y[group == "b"] = 0
    _made({"name": "fair-reductions", "constraint": "eqopt"}).fit(x, y, sensitive_features=group)


def test_one_label_gives_a_constant_but_never_for_a_private_learner() -> None:
    x, _, group = _sample(30)
    assert isinstance(fit(_made({"name": "logistic"}), x, np.ones(30, int), group), Constant)
    assert not isinstance(
        fit(_made({"name": "private-logistic", "epsilon": 1.0}), x, np.ones(30, int), group), Constant
    )
    assert predict(Constant(1), x, group, generator(0)).tolist() == [1] * 30


def test_any_estimator_fits_in_and_gets_the_groups_only_if_it_asks() -> None:
    x, y, group = _sample(50)

    class Curious:
        def fit(self, features, labels, sensitive_features):
            self.seen = sensitive_features
            return self

        def predict(self, features, sensitive_features):
            return (sensitive_features == "a").astype(float)

    model = fit(Curious(), x, y, group)
    assert (model.seen == group).all()
    assert (predict(model, x, group, generator(0)) == (group == "a")).all()
    assert predict(fit(DecisionTreeClassifier(), x, y, group), x, group, generator(0)).dtype == np.int64


def test_unknown_learners_and_keys_are_named() -> None:
    with pytest.raises(SpecError, match="private-logistic"):
        registry.build("learner", {"name": "private-logstic", "epsilon": 1.0}, "learner")
    with pytest.raises(SpecError, match=r"learner\.epsilno"):
        registry.build("learner", {"name": "private-logistic", "epsilon": 1.0, "epsilno": 1.0}, "learner")
