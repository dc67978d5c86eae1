"""The closed loop against closed forms: with a fixed rule in place of a learner the dynamics are known exactly."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.tree import DecisionTreeClassifier

from fairveil.dynamics import participation, population
from fairveil.dynamics.longterm import Loop, Own, World, simulate
from fairveil.dynamics.population import measure
from fairveil.randomness import generator

GROUPS = {
    "a": {"arrivals": 8000, "qualified": 0.6, "features": {"0": ["normal", -1, 1], "1": ["normal", 1, 1]}},
    "b": {"arrivals": 8000, "qualified": 0.4, "features": {"0": ["normal", -0.2, 1.5], "1": ["normal", 1, 1]}},
}
TRANSITIONS = np.array([[[0.4, 0.5], [0.5, 0.9]], [[0.1, 0.5], [0.5, 0.7]]])


class Fixed:
    """Accept above a threshold of the raw feature, whatever the data say."""

    private = True  # so that it is asked even when only one label is present

    def __init__(self, world: World, threshold: float) -> None:
        low, high = world._range
        self.cut = (2 * (threshold - low) / (high - low) - 1)[0]

    def fit(self, features, labels):
        return self

    def predict(self, features):
        return (features[:, 0] >= self.cut).astype(int)


def _loop(model: str, persons: str, **more) -> Loop:
    world = World.of(GROUPS)
    arrivals = np.array([8000, 8000])
    return Loop(world, model, arrivals, 6, persons, evaluation=50_000, **more)  # type: ignore[arg-type]


@pytest.mark.parametrize("persons", ["stay", "fresh"])
def test_participation_with_a_fixed_rule_follows_the_recursion(persons) -> None:
    loop = _loop("participation", persons)
    history = simulate(loop, lambda: Fixed(loop.world, 0.3), generator(1))
    seen = measure(population(GROUPS), np.array([[0.3, 0.3]]))
    numbers = np.array([8000.0, 8000.0])
    for step in range(6):
        assert history.people[step] == pytest.approx(numbers, rel=0.02)
        assert history.loss[step] == pytest.approx(seen.loss[0], abs=0.015)
        assert history.accepted[step] == pytest.approx(seen.accepted[0], abs=0.015)
        assert history.qualified[step] == pytest.approx([0.6, 0.4], abs=0.015)
        numbers = numbers * (1 - seen.loss[0]) + 8000


@pytest.mark.parametrize("persons", ["stay", "fresh"])
def test_qualification_with_a_fixed_rule_follows_the_recursion(persons) -> None:
    loop = _loop("qualification", persons, transitions=TRANSITIONS)
    history = simulate(loop, lambda: Fixed(loop.world, 0.3), generator(2))
    seen = measure(population(GROUPS), np.array([[0.3, 0.3]]))
    rates = np.array([0.6, 0.4])
    for step in range(6):
        assert history.qualified[step] == pytest.approx(rates, abs=0.02)
        gain = TRANSITIONS[:, 0, 0] * seen.below0[0] + TRANSITIONS[:, 0, 1] * seen.above0[0]
        keep = TRANSITIONS[:, 1, 0] * seen.below1[0] + TRANSITIONS[:, 1, 1] * seen.above1[0]
        rates = gain * (1 - rates) + keep * rates
    assert (history.people == 8000).all()


def test_a_retrained_classifier_follows_the_optimal_common_threshold() -> None:
    """Logistic regression on one feature is a common threshold, so shares follow the 'simple' criterion's dynamics."""
    law = {"0": ["normal", -1, 1], "1": ["normal", 1, 1]}
    wide = {"0": ["normal", -1, 1.4], "1": ["normal", 1, 1.4]}
    groups = {
        "a": {"arrivals": 6000, "qualified": 0.5, "features": law},
        "b": {"arrivals": 6000, "qualified": 0.5, "features": wide},
    }
    loop = Loop(World.of(groups), "participation", np.array([6000, 6000]), 8, evaluation=20_000)
    history = simulate(loop, lambda: LogisticRegression(C=1e4), generator(3))
    exact = participation.simulate(participation.model(groups, "simple", "accuracy", check=False), 8)
    assert history.share == pytest.approx(exact.share[:8, 0], abs=0.01)
    assert history.loss == pytest.approx(exact.loss[:8, 0], abs=0.015)


def test_other_reasons_to_stay_come_from_the_participation_model() -> None:
    from fairveil.dynamics.participation.model import retention

    loop = _loop("participation", "stay", retention=retention({"driver": "false-negative", "response": ["power", 2]}))
    history = simulate(loop, lambda: Fixed(loop.world, 0.3), generator(4))
    below = measure(population(GROUPS), np.array([[0.3, 0.3]])).below1[0]
    assert history.people[1] == pytest.approx(8000 * (1 - below) ** 2 + 8000, rel=0.02)


def test_staying_by_ones_own_decision_leaves_those_who_are_easy_to_decide() -> None:
    loop = _loop("participation", "stay", retention=Own(right=1.0, wrong=0.0))
    history = simulate(loop, lambda: Fixed(loop.world, 0.3), generator(5))
    loss = measure(population(GROUPS), np.array([[0.3, 0.3]])).loss[0]
    assert history.loss[0] == pytest.approx(loss, abs=0.015)
    assert (history.loss[1] < 0.6 * history.loss[0]).all()
    assert history.people[1] == pytest.approx(8000 * (1 - loss) + 8000, rel=0.02)


def test_several_features_and_the_group_as_a_feature() -> None:
    both = {"0": [["normal", -1, 1], ["uniform", 0, 1]], "1": [["normal", 1, 1], ["beta", 5, 2]]}
    other = {"0": [["normal", 0, 1], ["uniform", 0, 1]], "1": [["normal", 2, 1], ["beta", 5, 2]]}
    world = World.of({"a": {"qualified": 0.5, "features": both}, "b": {"qualified": 0.5, "features": other}}, True)
    people = world.draw(np.array([500, 500]), world.qualified, generator(0))
    rows = world.inputs(people)
    assert rows.shape == (1000, 4)
    assert np.linalg.norm(rows, axis=1).max() <= 1 + 1e-12
    loop = Loop(world, "participation", np.array([500, 500]), 3)
    history = simulate(loop, lambda: DecisionTreeClassifier(max_depth=3), generator(0))
    assert (history.loss < 0.3).all()


def test_empty_groups_do_not_stop_the_loop() -> None:
    loop = Loop(
        World.of(GROUPS), "participation", np.array([30, 1]), 5, retention=lambda seen: np.zeros_like(seen.loss)
    )
    history = simulate(loop, LogisticRegression, generator(1))
    assert (history.people == [30, 1]).all()
    assert np.isfinite(history.loss).all()
