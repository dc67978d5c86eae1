"""Priv-FairX: the numbers of its noise, sound and printed, and what the printed noise really gives."""

import math

import numpy as np
import pytest

from fairveil.bandits.exposure import PrivFairx, PrivFairxDubeyPentland, PrivFairxPrinted
from fairveil.bandits.protocol import Candidate, Feedback, Round
from fairveil.privacy.conversions import gdp_delta
from fairveil.privacy.noise import SeededNoise, ZeroNoise

FULL = {"agents": 10, "dimension": 5, "horizon": 100_000, "epsilon": 2.0, "delta": 0.1}
SMALL = {"agents": 2, "dimension": 2, "horizon": 4096, "epsilon": 1.0, "delta": 1e-5}


def test_published_numbers_of_the_printed_noise():
    printed = PrivFairxPrinted(**FULL)
    assert printed.running.expected_std(1) == pytest.approx(47.9, abs=0.1)
    assert printed.guarantee().mu == pytest.approx(0.162, abs=5e-4)
    assert PrivFairx(**FULL).running.sigma > 0
    sound = PrivFairx(**FULL)
    assert sound.running.expected_std(1) == pytest.approx(5.67, abs=0.01)
    assert printed.running.expected_std(16383) / sound.running.expected_std(16383) > 8


def radius_of_lemma_7(policy, t):
    """sqrt(beta) of the first release after t rounds, as the policy has it, and what lemma 7 says in numbers."""
    std = policy.running.expected_std(1)
    shift, radius = policy.published_sets(np.array([std]))
    d, m, failure = policy.dimension, policy.agents, policy.failure
    ours = radius.offset[0] + math.sqrt(radius.level[0] + d * math.log(radius.base[0] + radius.growth[0] * t))
    low = shift[0] / (2 * m)  # the shift is 2 m rho_min; rho_max is three times rho_min
    vector = std * (math.sqrt(d) + math.sqrt(2 * math.log(2 * policy.room * m / failure)))
    four = (
        2 * math.log(2 / failure),
        d * math.log(3 + t / (d * low)),
        m * math.sqrt(3 * low),
        m * vector / math.sqrt(low),
    )
    return policy.reward_std * ours, four


def test_lemma_7_has_all_four_terms_under_the_root_as_printed_and_two_outside_in_its_source():
    printed, four = radius_of_lemma_7(PrivFairxPrinted(**FULL), 1000)
    read, same = radius_of_lemma_7(PrivFairxDubeyPentland(**FULL), 1000)
    assert four == same
    assert printed == pytest.approx(0.1 * math.sqrt(sum(four)), rel=1e-12)
    assert read == pytest.approx(0.1 * math.sqrt(four[0] + four[1]) + four[2] + four[3], rel=1e-12)
    assert printed == pytest.approx(2.44, rel=0.02)
    assert read == pytest.approx(585.8, rel=0.03)


def test_both_readings_of_lemma_7_send_the_same_messages_and_promise_the_same():
    printed, read = PrivFairxPrinted(**FULL), PrivFairxDubeyPentland(**FULL)
    assert printed.guarantee() == read.guarantee()
    assert printed.running == read.running


def test_printed_priv_fairx_states_the_epsilon_that_its_noise_gives():
    promise = PrivFairxPrinted(agents=3, dimension=3, horizon=1000, epsilon=300.0, delta=0.1).guarantee()
    assert gdp_delta(promise.mu, promise.epsilon) <= 0.1
    assert gdp_delta(promise.mu, 300.0) > 0.1, "the asked epsilon would be a false promise"


def rows_of(policy, rounds):
    """A state in which every agent has answered ``rounds`` rounds, and the released statistics without noise."""
    state, rng = policy.start(), np.random.default_rng(1)
    for index in range(rounds * policy.agents):
        contexts = rng.normal(size=(2, 2))
        contexts /= 2 * np.linalg.norm(contexts, axis=1, keepdims=True)
        shown = Round(index, tuple(Candidate(0, row) for row in contexts), index % policy.agents)
        state = policy.learn(state, Feedback(index, index % 2, float(rng.uniform(-1, 1)), shown))
    return state


def test_a_release_is_the_sum_of_all_agents_rows_and_holds_each_row_once():
    policy = PrivFairx(**SMALL, schedule="doubling")
    state = rows_of(policy, 8)
    truth = state["leaf"].sum(axis=0)
    assert np.abs(truth).max() > 1
    shown = policy.release(state, ZeroNoise())
    np.testing.assert_allclose(shown["released"], truth, atol=1e-9)
    assert not shown["leaf"].any()
    again = policy.release(shown, ZeroNoise())
    np.testing.assert_allclose(again["released"], truth, atol=1e-9)  # a running sum: earlier rows stay, once


def test_agents_decide_by_released_statistics_alone():
    policy = PrivFairx(**SMALL, schedule="doubling")
    before = rows_of(policy, 8)
    fresh, contexts = policy.start(), np.eye(2)
    np.testing.assert_array_equal(policy.law(before, 0, contexts), policy.law(fresh, 0, contexts))
    after = policy.release(before, SeededNoise(1))
    assert not np.array_equal(policy.law(after, 0, contexts), policy.law(fresh, 0, contexts))
