"""Thompson sampling: draws from Beta posteriors, and the chance of an arm that a decision states."""

import numpy as np
import pytest
from scipy.stats import beta

from fairveil.bandits.nash.thompson import Numbers, Thompson, drawn_arm
from fairveil.bandits.protocol import Feedback, Round
from fairveil.randomness import generator

DRAWS = 40_000


def test_the_chance_of_an_arm_is_how_often_its_draw_is_the_largest():
    sums, counts = np.array([3.0, 8.5, 1.0]), np.array([10, 20, 2])
    rng = generator(1)
    found = np.bincount([drawn_arm(Numbers(1.0, 1.0), sums, counts, rng) for _ in range(DRAWS)], minlength=3) / DRAWS
    draws = beta.rvs(1 + sums, 1 + counts - sums, size=(DRAWS, 3), random_state=2)
    expected = np.bincount(draws.argmax(axis=1), minlength=3) / DRAWS
    # Two samples of 40,000: four standard errors of a difference of shares are at most .0142.
    np.testing.assert_allclose(found, expected, atol=0.0142)
    policy = Thompson(arms=3)
    state = {**policy.start(), "sums": sums, "counts": counts}
    stated = {}
    for seed in range(60):
        decision = policy.decide(state, Round(32), generator(seed))
        stated[decision.arm] = decision.propensity
    assert len(stated) == 3
    assert sum(stated.values()) == pytest.approx(1.0, abs=0.01)
    np.testing.assert_allclose([stated[arm] for arm in range(3)], expected, atol=0.011)


def test_the_prior_counts_as_rewards():
    rng = generator(3)
    kind = Numbers(30.0, 1.0)
    arms = [drawn_arm(kind, np.array([0.0, 0.0]), np.array([0, 400]), rng) for _ in range(200)]
    assert set(arms) == {0}


def test_parts_of_a_success_and_rounds_in_order():
    policy = Thompson(arms=2)
    state = policy.learn(policy.start(), Feedback(0, 1, 0.25))
    assert (state["sums"].tolist(), state["counts"].tolist()) == ([0.0, 0.25], [0, 1])
    assert policy.guarantee() is None
