"""Late feedback keeps the promise of batched messages: the served driver is audited, broken twins are caught."""

import numpy as np
import pytest

from fairveil.bandits.exposure import BatchedPrivFairx
from fairveil.bandits.exposure.audit import CROWD, late_feedback, late_pair
from fairveil.bandits.feedback import Outstanding
from fairveil.bandits.protocol import Block
from fairveil.errors import InputError
from fairveil.privacy.audit import audit, find_pair
from fairveil.privacy.noise import SeededNoise
from fairveil.randomness import generator

TABLE = {"agents": 2, "dimension": 2, "horizon": 64, "delta": 0.1}


def policy(epsilon=1.0, kind=BatchedPrivFairx):
    return kind(**TABLE, epsilon=epsilon)


@pytest.mark.parametrize("epsilon", [0.5, 1.0])
@pytest.mark.parametrize("hidden", [True, False])
def test_the_driver_of_late_rewards_is_consistent(hidden, epsilon):
    made = policy(epsilon)
    found = audit(late_pair(made, late_feedback(made, hidden)), trials=4000, seed=2)
    assert found.verdict == "consistent"
    assert found.finer.lower > 0.3 * found.finer.claimed  # the pair sees the message of the first interaction


def test_the_late_pair_is_found_by_name():
    _, pair = find_pair({"kind": "policy", "name": "batched-priv-fairx", **TABLE, "epsilon": 1.0, "pair": "late"})
    assert "never" in pair.worlds


class ClosesByContent(BatchedPrivFairx):
    """Broken: a batch is closed as soon as the raw sum of agent 0 is large along the first axis."""

    def block(self, state):
        open_batch = super().block(state)
        if open_batch is not None and self.large(state):
            return Block(open_batch.name, open_batch.first, int(state["taken"]))
        return open_batch

    def large(self, state):
        return state["leaf"][0, 0, 0] > 0.5 * self.context_bound**2

    def learn_all(self, state, feedbacks):
        try:
            return super().learn_all(state, feedbacks)
        except InputError:  # rounds that it has cut off are of no batch any more
            return state


class MovesByValue(Outstanding):
    """Broken: the largest reward that comes late is not counted with its round."""

    def _in_order(self, noise):
        for answer in super()._in_order(noise):
            moved = answer.index < CROWD and (answer.reward or 0.0) > 0
            yield type(answer)(answer.index, answer.arm, None, answer.round) if moved else answer


class ClosesEarly(Outstanding):
    """Broken: a round counts as settled when its reward is in, although arrivals are hidden."""

    def _is_settled(self, index):
        return self._over(index) or index in self._here


TWINS = {
    "a batch that closes when its raw sum is large": (ClosesByContent, False, Outstanding),
    "a reward that moves because of its value": (BatchedPrivFairx, False, MovesByValue),
    "an early close although arrivals are hidden": (BatchedPrivFairx, True, ClosesEarly),
}


@pytest.mark.parametrize("epsilon", [0.5, 1.0])
@pytest.mark.parametrize("twin", TWINS)
def test_broken_twins_are_caught(twin, epsilon):
    kind, hidden, made = TWINS[twin]
    broken = policy(epsilon, kind)
    found = audit(late_pair(broken, late_feedback(broken, hidden), made), trials=1000, seed=2)
    assert found.verdict == "violated"
    assert found.epsilon_lower > 2 * epsilon


@pytest.mark.parametrize("hidden", [True, False])
def test_what_an_observer_sees_but_for_one_message_is_the_same_in_both_worlds(hidden):
    pair = late_pair(policy(), late_feedback(policy(), hidden))
    zero, one = (pair.run(world, 50, SeededNoise(4), generator(1)) for world in (0, 1))
    assert zero.shape == (50, 9)
    assert np.isclose(zero, one).all(axis=0).tolist() == [True, True, False, *[True] * 6]
