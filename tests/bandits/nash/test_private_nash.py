"""private-nash: the scale of its noise."""

import math
from fractions import Fraction

import pytest

from fairveil import SeededNoise
from fairveil.bandits.environments.arms import UNIT
from fairveil.bandits.nash.base import laplace_scale
from fairveil.bandits.nash.gdp_ncb import GdpNcb
from fairveil.bandits.nash.optimism import optimistic_mean
from fairveil.bandits.nash.private_nash import PrivateNash, index
from fairveil.bandits.protocol import Feedback
from fairveil.privacy.events import ParallelEvent, PureEvent
from fairveil.randomness import generator


@pytest.mark.parametrize("epsilon", [0.1, 0.3, 0.7, 1.0, 1.1, 1.5, 3.0, 7.3])
def test_no_laplace_scale_of_a_nash_policy_is_rounded_down(epsilon):
    policies = [PrivateNash(arms=2, epsilon=epsilon), PrivateNash(arms=2, epsilon=epsilon, arrivals="private")]
    for policy in [*policies, GdpNcb(arms=2, horizon=100, epsilon=epsilon, phase1="threshold", tau=4.0)]:
        scale = policy.sum.sigma if policy.clock == "settled" else policy.scale
        assert Fraction(scale) * Fraction(policy.release_epsilon) >= UNIT
    assert all(Fraction(laplace_scale(k, epsilon)) * Fraction(epsilon) >= k * UNIT for k in (1, 2, 4))


def test_the_index_is_the_optimistic_mean_at_one_level_for_both_errors():
    policy = PrivateNash(arms=5, epsilon=0.5)
    level = 0.7 * math.log(10_000 / (5 * 100))
    expected = optimistic_mean(0.6, 100.0, 3, 0.5, level)
    assert index(policy.numbers(), 0.6, 100.0, math.log(10_000), 3) == pytest.approx(expected)


def test_private_arrivals_noise_the_count_inside_the_same_budget():
    policy = PrivateNash(arms=2, epsilon=1.0, arrivals="private")
    assert policy.sum.sigma == pytest.approx(2 * UNIT)
    assert policy.event() == ParallelEvent(PureEvent(1.0))
    state = policy.open(policy.start(), 0, generator(0))
    block = policy.block(state)
    value = policy.draw(policy.learn(state, Feedback(0, block.arm, 1.0)), SeededNoise(1))
    assert value["count"][0] != round(value["count"][0])
    assert policy.adopt(state, block.name, value)["draws"][block.arm] == 2
    assert "protected" in policy.guarantee().notes[0]


def test_the_first_block_is_where_noise_has_the_size_of_a_mean():
    firsts = [PrivateNash(arms=2, epsilon=epsilon).shape().first for epsilon in (10.0, 0.5, 0.1, 0.001)]
    assert firsts == [3, 4, 20, 128]
