"""FairX-LinUCB: a ridge regression of the agent's own rows, and exposure in proportion to optimistic merit."""

import numpy as np
import pytest

from fairveil.bandits.exposure import FairxLinUcb
from fairveil.bandits.protocol import Candidate, Feedback, Round
from fairveil.errors import InputError, SpecError
from fairveil.fairness.exposure import fair_law
from fairveil.randomness import generator

FACTS = {"agents": 2, "dimension": 2, "horizon": 200}


def learned(policy, rounds, seed=1, agent=0):
    """The state after an agent's rounds, with the contexts and rewards that it saw."""
    state, rng = policy.start(), np.random.default_rng(seed)
    rows, rewards = rng.uniform(-0.5, 0.5, (rounds, 2)), rng.uniform(-1, 1, rounds)
    for index, (row, reward) in enumerate(zip(rows, rewards)):
        state = policy.learn(state, Feedback(index, 0, float(reward), Round(index, (Candidate(0, row),), agent)))
    return state, rows, rewards


def test_the_centre_is_the_ridge_regression_of_the_rows():
    policy = FairxLinUcb(**FACTS)
    state, rows, rewards = learned(policy, 40)
    gram = rows.T @ rows + policy.regularisation * np.eye(2)
    np.testing.assert_allclose(state["centre"][0], np.linalg.solve(gram, rows.T @ rewards), rtol=1e-9)


def test_rows_of_another_agent_change_nothing():
    policy = FairxLinUcb(**FACTS)
    state, _, _ = learned(policy, 40, agent=1)
    contexts = np.eye(2)
    np.testing.assert_array_equal(policy.law(state, 0, contexts), policy.law(policy.start(), 0, contexts))
    assert not np.array_equal(policy.law(state, 1, contexts), policy.law(policy.start(), 1, contexts))


def test_without_a_confidence_set_exposure_is_in_proportion_to_merit():
    policy = FairxLinUcb(**FACTS, width=0.0)
    state, _, _ = learned(policy, 40)
    contexts = np.random.default_rng(3).uniform(-1, 1, (5, 2))
    expected = fair_law(contexts @ state["centre"][0], policy.merits[0])
    shown = Round(0, tuple(Candidate(0, row) for row in contexts))
    drawn = policy.decide(state, shown, generator(1))
    np.testing.assert_allclose(drawn.probabilities, expected, rtol=1e-9)
    assert drawn.propensity == drawn.probabilities[drawn.arm]


@pytest.mark.parametrize("context, reward", [(1e9, 0.5), (0.5, 1e9), (-1e200, 0.0)])
def test_a_row_that_would_drown_everything_is_refused_and_leaves_no_trace(context, reward):
    policy = FairxLinUcb(**FACTS)
    state, _, _ = learned(policy, 10)
    before = {name: array.copy() for name, array in state.items()}
    with pytest.raises(InputError, match="far longer"):
        policy.learn(state, Feedback(10, 0, reward, Round(10, (Candidate(0, np.array([context, 0.1])),))))
    assert all(np.array_equal(before[name], state[name]) for name in before)
    assert np.isfinite(
        policy.learn(state, Feedback(10, 0, 1e5, Round(10, (Candidate(0, np.ones(2)),))))["centre"]
    ).all()


def test_nothing_is_sent_and_nothing_promised():
    policy = FairxLinUcb(**FACTS)
    assert policy.due(policy.start(), 100) is None
    assert policy.guarantee() is None
    with pytest.raises(SpecError, match="do not synchronise"):
        FairxLinUcb(**FACTS, schedule="doubling")
