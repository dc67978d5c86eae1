"""UCB1: its formula, and arms without rewards first."""

import math

from fairveil.bandits.nash.ucb import Numbers, Ucb, index
from fairveil.bandits.protocol import Feedback, Round
from fairveil.randomness import generator


def test_the_index_is_mean_plus_root_of_two_log_t_over_n():
    assert index(Numbers(2.0), 0.4, 50.0, math.log(1000), 0) == 0.4 + math.sqrt(2 * math.log(1000) / 50)


def test_the_arm_with_the_largest_index_is_chosen_and_new_arms_come_first():
    policy, state = Ucb(arms=3), Ucb(arms=3).start()
    for index_, reward in enumerate((0.0, 1.0, 0.0)):
        arm = policy.decide(state, Round(index_), generator(0)).arm
        assert arm == index_
        state = policy.learn(state, Feedback(index_, arm, reward))
    assert policy.decide(state, Round(3), generator(0)).arm == 1
    assert policy.guarantee() is None
