"""local-nash: reports of one bit, and a bound on the mean of the bits."""

import math

import pytest

from fairveil.bandits.nash.local_nash import LocalNash
from fairveil.bandits.nash.optimism import optimistic_mean
from fairveil.bandits.nash.private_nash import index
from fairveil.privacy.events import NothingEvent


def test_the_index_is_the_kullback_leibler_bound_of_the_bits():
    policy = LocalNash(arms=4, epsilon=1.0)
    level = 0.7 * math.log(10_000 / (4 * 100))
    expected = optimistic_mean(0.6, 100.0, 0, 1.0, level)
    assert index(policy.numbers(), 0.6, 100.0, math.log(10_000), 0) == pytest.approx(expected)
    assert index(policy.numbers(), 0.6, 1e6, math.log(10_000), 0) == 0.6  # more than its share: no bonus


def test_nothing_is_spent_by_the_learner():
    policy = LocalNash(arms=4, epsilon=1.0)
    assert policy.event() == NothingEvent()
    assert policy.local
    assert policy.shape().draws == 0
