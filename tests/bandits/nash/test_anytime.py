"""anytime: doubling windows, each a fresh inner policy."""

import numpy as np
import pytest

from fairveil import SeededNoise
from fairveil.bandits.environments.table import RecordedArms
from fairveil.bandits.nash.anytime import Anytime
from fairveil.bandits.protocol import Feedback, Round, settle
from fairveil.errors import SpecError
from fairveil.randomness import generator
from fairveil.state import nested


def test_windows_double_and_nothing_is_carried_over():
    policy = Anytime(arms=2, inner={"name": "gdp-ncb", "epsilon": 1.0})
    state, rng, noise, sizes = policy.start(), generator(1), SeededNoise(1), []
    for index in range(31):
        arm = policy.decide(state, Round(index), rng).arm
        state = policy.learn(state, Feedback(index, arm, 1.0))
        state = settle(policy, state, index + 1, noise)
        sizes.append(int(state["window"][0]))
    assert sorted(set(sizes)) == [2, 4, 8, 16, 32]
    assert not nested(state, "inner")["sums"].any()


def test_the_world_goes_on_through_the_windows():
    world = RecordedArms(rewards=tuple((float(row), 0.0) for row in np.linspace(0, 1, 8)))
    assert world.later(3).laws.rows[0, 0] == world.laws.rows[3, 0]
    assert world.later(3).true_means.tolist() == world.true_means.tolist()


@pytest.mark.parametrize("inner", [{"name": "ucb"}, {"name": "ncb", "arms": 3}, {"name": "oful"}], ids=str)
def test_an_inner_policy_needs_a_horizon_and_takes_it_from_its_window(inner):
    with pytest.raises(SpecError, match="inner"):
        Anytime(arms=2, inner=inner)
