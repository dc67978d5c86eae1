"""GDP-NCB: its threshold phase."""

from fairveil import SeededNoise
from fairveil.bandits.nash.gdp_ncb import GdpNcb
from fairveil.bandits.protocol import Feedback


def test_a_lost_threshold_test_never_meets_the_same_rewards_again():
    policy = GdpNcb(arms=2, horizon=500, epsilon=1.0, phase1="threshold", tau=40.0)
    state = policy.learn(policy.start(), Feedback(0, 0, 1.0))
    block = policy.due(state, 1)
    assert block is not None
    tested = policy.release(state, SeededNoise(1))
    assert tested["threshold"][1] == 1
    after = policy.lost(state, block)
    assert not after["raw_sums"].any()
    assert not after["raw_counts"].any()
    assert not after["threshold"].any()
