"""KL-UCB: its index solves n kl(mean, q) = ln t + c ln ln t."""

import math

import pytest
from scipy.optimize import brentq

from fairveil.bandits.nash.kl_ucb import KlUcb, Numbers, index
from fairveil.bandits.protocol import Feedback, Round
from fairveil.randomness import generator


def kl(p, q):
    ends = (0.0 if p == 0 else p * math.log(p / q)), (0.0 if p == 1 else (1 - p) * math.log((1 - p) / (1 - q)))
    return sum(ends)


@pytest.mark.parametrize("loglog", [0.0, 3.0])
@pytest.mark.parametrize("mean", [0.0, 0.02, 0.4, 0.9])
@pytest.mark.parametrize("n", [10.0, 30.0, 4000.0])
def test_the_index_solves_its_equation(mean, n, loglog):
    level = math.log(1000) + loglog * math.log(math.log(1000))
    expected = brentq(lambda q: n * kl(mean, q) - level, mean + 1e-12, 1 - 1e-15, xtol=1e-14)
    assert index(Numbers(loglog), mean, n, math.log(1000), 0) == pytest.approx(expected, abs=1e-6)


def test_a_mean_of_one_has_the_index_one():
    assert index(Numbers(0.0), 1.0, 50.0, math.log(1000), 0) == 1.0


def test_it_turns_to_the_less_known_of_equal_arms():
    policy = KlUcb(arms=2)
    state = policy.start()
    for place, (arm, reward) in enumerate([(0, 1.0), (1, 1.0), (0, 0.0), (1, 0.0), (0, 1.0), (0, 0.0)]):
        state = policy.learn(state, Feedback(place, arm, reward))
    assert policy.decide(state, Round(6), generator(0)).arm == 1
    assert policy.guarantee() is None
