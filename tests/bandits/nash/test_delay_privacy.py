"""Late feedback keeps the promise: the served driver is audited, and twins that break it are caught."""

import numpy as np
import pytest

from fairveil.bandits.feedback import Lateness, Outstanding
from fairveil.bandits.nash.private_nash import PrivateNash
from fairveil.bandits.protocol import Block
from fairveil.errors import InputError
from fairveil.proof import audit, find_pair
from fairveil.proof.pairs.nash import late_pair

WINDOW = 7


def late(treat):
    return Lateness(numbers=(float(WINDOW),), window=WINDOW, treat=treat)


@pytest.mark.parametrize("epsilon", [0.5, 1.0])
@pytest.mark.parametrize("treat", ["public", "default", "private"])
def test_the_driver_of_late_rewards_is_consistent(treat, epsilon):
    policy = PrivateNash(arms=3, epsilon=epsilon, arrivals="private" if treat == "private" else "public")
    found = audit(late_pair(policy, late(treat)), trials=40_000, seed=2)
    assert found.verdict == "consistent"
    assert found.epsilon_lower > (0.25 if treat == "private" else 0.6) * epsilon


@pytest.mark.parametrize("epsilon", [0.5, 1.0])
@pytest.mark.parametrize(
    ("name", "pair"), [("private-nash", "seats"), ("private-nash", "hidden-seats"), ("adap-ucb", "seats")]
)
def test_releases_by_arrival_are_consistent(name, pair, epsilon):
    _, found = find_pair({"kind": "policy", "name": name, "arms": 3, "epsilon": epsilon, "pair": pair})
    result = audit(found, trials=20_000, seed=2)
    assert result.verdict == "consistent"
    assert result.epsilon_lower > 0.6 * epsilon


def test_the_late_pair_is_found_by_name():
    _, pair = find_pair({"kind": "policy", "name": "private-nash", "arms": 3, "epsilon": 1.0, "pair": "late"})
    assert "never" in pair.worlds


class ClosesByContent(PrivateNash):
    """Broken: a block is closed as soon as its raw sum is large."""

    def block(self, state):
        oldest = super().block(state)
        if oldest is not None and state["sum/open"][0] >= 2 * 2**20:
            return Block(oldest.name, oldest.first, int(state["handed"][0]), oldest.arm)
        return oldest

    def learn_all(self, state, feedbacks):
        try:
            return super().learn_all(state, feedbacks)
        except InputError:  # rounds that it has cut off are of no block any more
            return state


class MovesByValue(Outstanding):
    """Broken: a reward of 1 that comes late is counted with a later round."""

    def _in_order(self, noise):
        for answer in super()._in_order(noise):
            moved = answer.index == 0 and answer.reward == 1.0
            yield type(answer)(answer.index, answer.arm, None, answer.round) if moved else answer


class ClosesEarly(Outstanding):
    """Broken: a round counts as settled when its reward is in, although arrivals are hidden."""

    def _is_settled(self, index):
        return self._over(index) or index in self._here


TWINS = {
    "a block that closes when its raw sum is large": (
        ClosesByContent(arms=3, epsilon=1.0),
        late("public"),
        Outstanding,
    ),
    "a reward that moves because of its value": (PrivateNash(arms=3, epsilon=1.0), late("public"), MovesByValue),
    "an early close although arrivals are hidden": (PrivateNash(arms=3, epsilon=1.0), late("default"), ClosesEarly),
}


@pytest.mark.parametrize("twin", TWINS)
def test_broken_twins_are_caught(twin):
    policy, lateness, made = TWINS[twin]
    found = audit(late_pair(policy, lateness, made), trials=4000, seed=2)
    assert found.verdict == "violated"
    assert found.epsilon_lower > 2 * policy.epsilon


def test_what_an_observer_sees_before_the_release_is_the_same_in_both_worlds():
    """Rounds and ends of blocks do not depend on the world; only the noisy sum of the first block may."""
    from fairveil import SeededNoise
    from fairveil.randomness import generator

    pair = late_pair(PrivateNash(arms=3, epsilon=1.0), late("public"))
    zero, one = (pair.run(world, 50, SeededNoise(4), generator(1)) for world in (0, 1))
    same = np.isclose(zero, one).all(axis=0)
    assert same.tolist() == [True, True, False, *[True] * 9]
    assert (zero[:, 2] - one[:, 2] == 1.0).all()
