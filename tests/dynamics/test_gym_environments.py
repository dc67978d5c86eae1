from __future__ import annotations

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

from fairveil.dynamics import optimal_thresholds, participation
from fairveil.dynamics.gym import DEFAULT_GROUPS, ENVIRONMENTS, ParticipationEnv, QualificationEnv, StrategicEnv
from fairveil.dynamics.qualification.model import model, path
from fairveil.errors import FairveilError, SpecError

THREE = {**DEFAULT_GROUPS, "c": {**DEFAULT_GROUPS["a"], "qualified": 0.2}}


@pytest.mark.parametrize("name", list(ENVIRONMENTS))
@pytest.mark.parametrize(
    "options", [{}, {"random_start": True}, {"groups": THREE, "steps": 3}], ids=["plain", "random", "three"]
)
def test_gymnasium_accepts_it_without_a_warning(name, options) -> None:
    check_env(gymnasium.make(f"fairveil/{name}-v0", **options).unwrapped)


@pytest.mark.parametrize("kind", list(ENVIRONMENTS.values()))
def test_episodes_end_after_the_given_steps_and_repeat_with_a_seed(kind) -> None:
    env = kind(steps=3, random_start=True)
    first, _ = env.reset(seed=4)
    ends = [env.step(np.array([0.4, 0.6]))[3] for _ in range(3)]
    assert ends == [False, False, True]
    again, _ = env.reset(seed=4)
    assert (first == again).all()


def _action(env, thresholds):
    return (np.asarray(thresholds) - env.low) / (env.high - env.low)


def test_qualification_moves_as_the_model_does() -> None:
    env = QualificationEnv()
    env.reset()
    system = model(DEFAULT_GROUPS)
    exact = path(system, 10)
    for step in range(10):
        chosen = system.thresholds(exact[step])[0]
        seen, _, _, _, _ = env.step(_action(env, chosen))
        assert env.rates == pytest.approx(exact[step + 1, 0], abs=1e-9)
        assert seen[:2] == pytest.approx(exact[step + 1, 0], abs=1e-6)


def test_participation_moves_as_the_model_does() -> None:
    env = ParticipationEnv()
    env.reset()
    system = participation.model(DEFAULT_GROUPS, "simple", "accuracy")
    exact = participation.simulate(system, 6)
    for step in range(5):
        _, reward, _, _, info = env.step(_action(env, exact.thresholds[step, 0]))
        assert info["loss"] == pytest.approx(exact.loss[step, 0], abs=1e-9)
        assert reward == pytest.approx(-float(exact.share[step, 0] @ exact.loss[step, 0]), abs=1e-9)
        assert env._state() == pytest.approx(exact.share[step + 1, 0], abs=1e-9)


def test_strategic_reward_is_the_utility_under_manipulation() -> None:
    from fairveil.dynamics import Scene

    env = StrategicEnv()
    env.reset()
    scene = Scene(DEFAULT_GROUPS)
    best = np.array([scene.theta(s) for s in (0, 1)])
    naive = optimal_thresholds(scene.people)[0]
    _, at_best, _, _, info = env.step(_action(env, best))
    _, at_naive, _, _, _ = env.step(_action(env, naive))
    assert at_best >= at_naive
    assert at_best == pytest.approx(0.5 * sum(scene.utility(s, float(best[s])) for s in (0, 1)), abs=1e-9)
    assert info["manipulation"] == pytest.approx([scene.manipulation(s, float(best[s])) for s in (0, 1)], abs=1e-9)


def test_a_start_can_be_given() -> None:
    env = QualificationEnv()
    seen, _ = env.reset(options={"start": [0.2, 0.9]})
    assert seen[:2] == pytest.approx([0.2, 0.9])
    with pytest.raises(SpecError, match="start"):
        env.reset(options={"start": [0.2, 1.9]})


def test_a_missing_key_is_named() -> None:
    with pytest.raises(SpecError, match=r"groups\.a\.arrivals"):
        ParticipationEnv({"a": {"qualified": 0.5, "features": {"0": ["normal", 0, 1], "1": ["normal", 1, 1]}}})


@pytest.mark.parametrize(
    "kind, key, value, message",
    [
        (ParticipationEnv, "arrivals", 0.0, "arrive"),
        (ParticipationEnv, "qualified", 1.0, r"groups\.b\.qualified"),
        (QualificationEnv, "transitions", [[0.1, 0.5], [0.5, 1.5]], "T11 = 1.5"),
    ],
)
def test_impossible_groups_are_refused(kind, key, value, message) -> None:
    with pytest.raises(FairveilError, match=message):
        kind({**DEFAULT_GROUPS, "b": {**DEFAULT_GROUPS["b"], key: value}})


def test_actions_cover_the_features_and_little_else() -> None:
    env = StrategicEnv()
    laws = [env.people.feature(0, s, label) for s in (0, 1) for label in (0, 1)]
    assert all(law.cdf(env.low) <= 1e-6 and law.sf(env.high) <= 1e-6 for law in laws)
    assert env.high - env.low < 12 * 5.0


def test_retention_of_subgroups_is_refused_in_words_that_can_be_followed():
    with pytest.raises(SpecError, match="counts groups, not the labels") as refusal:
        ParticipationEnv(retention="subgroup")
    assert "subgroup" not in refusal.value.allowed
