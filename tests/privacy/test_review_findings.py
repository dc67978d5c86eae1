"""Breaks that a review of the guarantees found once, kept closed."""

import numpy as np

from fairveil import SeededNoise
from fairveil.bandits.exposure.priv import PrivFairx
from fairveil.bandits.nash.gdp_ncb import GdpNcb
from fairveil.bandits.protocol import Feedback
from fairveil.privacy.conversions import gdp_delta
from fairveil.privacy.grid import clip_norm


def test_a_huge_row_is_clipped_to_a_tiny_bound():
    bound = 2.6e-16
    assert np.linalg.norm(clip_norm([[1e308, 0.0]], bound)) <= bound * (1 + 1e-12)


def test_printed_priv_fairx_states_the_epsilon_that_its_noise_gives():
    promise = PrivFairx(agents=3, dimension=3, horizon=1000, epsilon=300.0, delta=0.1, variant="printed").guarantee()
    assert gdp_delta(promise.mu, promise.epsilon) <= 0.1
    assert gdp_delta(promise.mu, 300.0) > 0.1, "the asked epsilon would be a false promise"


def test_a_lost_threshold_test_never_meets_the_same_rewards_again():
    policy = GdpNcb(arms=2, horizon=500, epsilon=1.0, phase1="threshold", tau=40.0)
    state = policy.learn(policy.start(), Feedback(0, 0, 1.0))
    block = policy.due(state, 1)
    assert block is not None
    tested = policy.release(state, SeededNoise(1))
    assert tested["threshold"][1] == 1
    after = policy.lost(state, block)
    assert not after["raw"].any()
    assert not after["threshold"].any()
