"""AdaP-UCB: its index, doubling blocks that replace each other, and what the figures show."""

import math

import pytest

from fairveil import ZeroNoise, registry
from fairveil.bandits.nash import adap_ucb_figure
from fairveil.bandits.nash.adap_ucb import AdapUcb, Numbers, index
from fairveil.bandits.protocol import Feedback, settle
from fairveil.randomness import generator


def test_the_index_is_mean_plus_sampling_width_plus_privacy_width():
    level = 3.1 * math.log(500)
    assert index(Numbers(3.1, 0.5), 0.4, 64.0, math.log(500), 1) == pytest.approx(
        0.4 + math.sqrt(level / 128) + level / (0.5 * 64)
    )


def test_blocks_double_and_the_last_one_stands():
    policy, state, rng = AdapUcb(arms=1, epsilon=1.0), AdapUcb(arms=1, epsilon=1.0).start(), generator(0)
    lengths = []
    for index_ in range(15):
        if index_ == state["ahead"][0]:
            state = policy.open(state, index_, rng)
            lengths.append(int(state["lengths"][0]))
        state = policy.learn(state, Feedback(index_, 0, 1.0 if index_ >= 7 else 0.0))
        state = settle(policy, state, index_ + 1, ZeroNoise())
    assert lengths == [1, 2, 4, 8]
    assert state["counts"].tolist() == [8.0]
    assert state["sums"].tolist() == [8 * 2**20]
    assert state["draws"].tolist() == [1]


def test_the_figure_lacks_its_epsilon_and_noises_no_first_reward():
    policy = registry.build("policy", {"name": "adap-ucb", "arms": 2, "epsilon": 0.1, "variant": "figure"}, "policy")
    level = 3.1 * 2.0
    expected = 0.5 + math.sqrt(level / 10) + 2 * level / 10
    assert adap_ucb_figure.index(policy.numbers(), 0.5, 10.0, 2.0, 1) == pytest.approx(expected)
    assert policy.shape().raw_first
    assert not policy.guarantee().established
    assert math.isnan(policy.spent(3))
