"""Greedy and OFUL: the ridge regression kept as an inverse, and the confidence bonus."""

import math

import numpy as np
import pytest

from fairveil.bandits.meritocratic import Greedy, Oful
from fairveil.bandits.meritocratic.oful import confidence_width
from fairveil.bandits.protocol import Candidate, Feedback, Round
from fairveil.randomness import generator


def shown(index, contexts):
    return Round(index, tuple(Candidate(0, row) for row in contexts))


def learned(policy, rounds=30):
    state, rng = policy.start(), np.random.default_rng(1)
    rows, rewards = rng.normal(size=(rounds, 3)), rng.normal(size=rounds)
    for index in range(rounds):
        contexts = [np.zeros(3), rows[index]]
        state = policy.learn(state, Feedback(index, 1, float(rewards[index]), shown(index, contexts)))
    return state, rows, rewards


@pytest.mark.parametrize("kind", [Greedy, Oful])
def test_the_weights_are_the_ridge_regression_of_what_was_chosen(kind):
    policy = kind(features=3, ridge=0.5)
    state, rows, rewards = learned(policy)
    gram = rows.T @ rows + 0.5 * np.eye(3)
    np.testing.assert_allclose(state["inverse"], np.linalg.inv(gram), rtol=1e-9)
    np.testing.assert_allclose(state["theta"], np.linalg.solve(gram, rows.T @ rewards), rtol=1e-9)
    np.testing.assert_allclose(state["log_det"], np.linalg.slogdet(gram / 0.5)[1], rtol=1e-9)


def test_greedy_takes_the_largest_estimate_and_the_first_of_equals():
    policy = Greedy(features=3)
    state, _, _ = learned(policy)
    contexts = np.random.default_rng(2).normal(size=(6, 3))
    assert policy.decide(state, shown(30, contexts), generator(0)).arm == int(np.argmax(contexts @ state["theta"]))
    assert policy.decide(policy.start(), shown(0, contexts), generator(0)).arm == 0


@pytest.mark.parametrize("exploration", [0.0, 0.01, 1.0])
def test_oful_adds_its_bonus(exploration):
    policy = Oful(features=3, exploration=exploration)
    state, _, _ = learned(policy)
    width = exploration * math.sqrt(2 * float(state["log_det"]) * math.log(32))
    assert confidence_width(exploration, float(state["log_det"]), 31) == pytest.approx(width)
    for seed in range(20):
        contexts = np.random.default_rng(seed).normal(size=(6, 3))
        bonus = np.sqrt(np.einsum("ai,ij,aj->a", contexts, state["inverse"], contexts))
        expected = int(np.argmax(contexts @ state["theta"] + width * bonus))
        assert policy.decide(state, shown(30, contexts), generator(0)).arm == expected


def test_a_larger_bonus_turns_to_what_is_less_known():
    policy = Oful(features=2, exploration=1.0)
    state = policy.start()
    for index in range(50):
        state = policy.learn(state, Feedback(index, 0, 0.5, shown(index, [np.array([1.0, 0.0])])))
    contexts = np.eye(2)
    assert policy.decide(state, shown(50, contexts), generator(0)).arm == 1
    assert Greedy(features=2).decide(state, shown(50, contexts), generator(0)).arm == 0
