"""Fed-FairX-LinUCB: after a synchronisation every agent has the ridge regression of all rows."""

import numpy as np
import pytest

from fairveil.bandits.exposure import FedFairx
from fairveil.bandits.protocol import Candidate, Feedback, Round
from fairveil.privacy.noise import SeededNoise

FACTS = {"agents": 3, "dimension": 2, "horizon": 200}


def played(policy, first, rounds, state, rows, rewards):
    for index in range(first, first + rounds):
        shown = Round(index, (Candidate(0, rows[index]),), index % policy.agents)
        state = policy.learn(state, Feedback(index, 0, float(rewards[index]), shown))
    return state


@pytest.fixture
def data():
    rng = np.random.default_rng(1)
    return rng.uniform(-0.5, 0.5, (90, 2)), rng.uniform(-1, 1, 90)


def ridge(policy, rows, rewards):
    return np.linalg.solve(rows.T @ rows + policy.regularisation * np.eye(2), rows.T @ rewards)


def test_a_synchronisation_gives_everybody_the_regression_of_all_rows(data):
    policy = FedFairx(**FACTS, schedule="doubling")
    state = policy.release(played(policy, 0, 60, policy.start(), *data), SeededNoise(1))
    expected = ridge(policy, data[0][:60], data[1][:60])
    for agent in range(3):
        np.testing.assert_allclose(state["centre"][agent], expected, rtol=1e-9)


def test_between_synchronisations_an_agent_adds_its_own_rows(data):
    policy = FedFairx(**FACTS, schedule="doubling")
    state = policy.release(played(policy, 0, 60, policy.start(), *data), SeededNoise(1))
    state = played(policy, 60, 30, state, *data)
    own = np.r_[np.arange(60), np.arange(60, 90, 3)]
    np.testing.assert_allclose(state["centre"][0], ridge(policy, data[0][own], data[1][own]), rtol=1e-9)


def test_a_frozen_federation_waits_for_the_next_synchronisation(data):
    policy = FedFairx(**FACTS, schedule="doubling", local_raw=False)
    state = policy.release(played(policy, 0, 60, policy.start(), *data), SeededNoise(1))
    later = played(policy, 60, 30, state, *data)
    np.testing.assert_array_equal(later["centre"], state["centre"])
    np.testing.assert_allclose(policy.release(later, SeededNoise(1))["centre"][2], ridge(policy, *data), rtol=1e-9)


def test_nothing_is_promised():
    assert FedFairx(**FACTS).guarantee() is None
