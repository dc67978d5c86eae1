"""What a loop publishes of its arms is what the policy's own estimates say, in the units of the reward."""

from types import SimpleNamespace

import pytest

from fairveil import registry
from fairveil.bandits.simulate import Streams, walk
from fairveil.loop.public import _arms


@pytest.mark.parametrize("name", ["private-nash", "local-nash"])
def test_arms_have_the_intervals_of_the_policy_in_the_reward_s_units(name):
    policy = registry.build("policy", {"name": name, "arms": 2, "epsilon": 2.0}, "policy")
    world = registry.build("environment", {"name": "bernoulli", "means": [0.2, 0.8]}, "environment")
    state = list(walk(policy, world, 400, Streams.of(1, 0)))[-1].state
    spec = SimpleNamespace(reward=SimpleNamespace(low=-1.0, high=3.0), actions=None)
    facts = SimpleNamespace(policy=policy, missing="public", spec=spec, began=())
    rows = _arms(facts, state, None)
    for row, item in zip(rows, policy.estimates(state).items):
        assert [row[key] for key in ("mean", "low", "high")] == pytest.approx(
            [4 * number - 1 for number in (item.value, item.low, item.high)]
        )
    assert -1 <= rows[1]["low"] <= 4 * 0.8 - 1 <= rows[1]["high"] <= 3
    assert rows[1]["high"] - rows[1]["low"] < 2
    fresh = _arms(facts, policy.start(), None)
    assert fresh[0]["mean"] is None
