"""Blocks on the settled clock: opened one after the other, released in order, rewards handed over once."""

from itertools import pairwise

import numpy as np
import pytest

from fairveil import SeededNoise, ZeroNoise
from fairveil.bandits.environments.arms import UNIT
from fairveil.bandits.environments.bernoulli import Bernoulli
from fairveil.bandits.feedback import Lateness
from fairveil.bandits.nash.adap_ucb import AdapUcb
from fairveil.bandits.nash.local_nash import LocalNash
from fairveil.bandits.nash.private_nash import PrivateNash
from fairveil.bandits.protocol import Feedback, Report, Round, settle
from fairveil.bandits.simulate import Streams, walk
from fairveil.errors import InputError, PrivacyError
from fairveil.proof.laws.playing import Silent
from fairveil.randomness import generator
from fairveil.state import same_state

POLICIES = [
    AdapUcb(arms=3, epsilon=1.0),
    PrivateNash(arms=3, epsilon=1.0),
    PrivateNash(arms=3, epsilon=1.0, arrivals="private"),
    LocalNash(arms=3, epsilon=1.0),
]
LATE = {
    "late": Lateness("uniform", (0.0, 50.0), 50),
    "half": Lateness("uniform", (0.0, 5.0), 5, missing=0.5),
    "none": Silent(window=3),
}


@pytest.mark.parametrize("policy", POLICIES, ids=lambda p: f"{p.name}-{p.arrivals}")
@pytest.mark.parametrize("late", LATE)
def test_every_round_is_in_exactly_one_block_and_blocks_are_released_in_order(policy, late):
    world, seen = Bernoulli(means=(0.2, 0.5, 0.9)), {}
    for step in walk(policy, world, 300, Streams.of(1, 0, SeededNoise(1)), LATE[late]):
        rows = step.state["open"]
        assert (rows[1:, 1] == rows[:-1, 2]).all()  # no gap, no overlap
        assert step.state["ahead"][0] > step.round.index
        for arm, first, stop, *_ in rows.tolist():
            assert seen.setdefault(first, (arm, stop)) == (arm, stop)  # a block never changes
        assert len(rows) <= 40
    stops = sorted(seen.items())
    assert all(stop == following for (_, (_, stop)), (following, _) in pairwise(stops))


def opened(policy, rounds, seed=0):
    state, rng, arms = policy.start(), generator(seed), []
    for index in range(rounds):
        state = policy.open(state, index, rng)
        arms.append(policy.decide(state, Round(index), rng).arm)
    return state, arms


def test_a_delivery_counts_once_for_the_decided_arm_and_in_order():
    policy = AdapUcb(arms=2, epsilon=1.0)
    state, arms = opened(policy, 4)
    once = policy.learn(state, Feedback(0, arms[0], 1.0))
    assert same_state(policy.learn(once, Feedback(0, arms[0], 0.0)), once)
    with pytest.raises(InputError, match="another arm"):
        policy.learn(state, Feedback(0, 1 - arms[0], 1.0))
    with pytest.raises(InputError, match="later block"):
        policy.learn(state, Feedback(1, arms[1], 1.0))
    with pytest.raises(InputError, match="later block"):
        policy.learn(state, Feedback(99, 0, 1.0))
    after = settle(policy, once, 1, ZeroNoise())
    assert same_state(policy.learn(after, Feedback(0, arms[0], 1.0)), after)  # released: too late
    assert policy.learn(after, Feedback(1, arms[1], 1.0))["answered"][0] == 1


def test_means_divide_by_the_rewards_that_came():
    policy = AdapUcb(arms=1, epsilon=1.0)
    state, rng = policy.start(), generator(0)
    rewards = [1.0, 1.0, 1.0, 0.5, None, 1.0, None]  # blocks of 1, 2 and 4 rounds
    for index, reward in enumerate(rewards):
        state = policy.open(state, index, rng)
        state = settle(policy, policy.learn(state, Feedback(index, 0, reward)), index + 1, ZeroNoise())
    assert state["counts"].tolist() == [2.0]
    assert state["sums"].tolist() == [UNIT + UNIT // 2]
    assert state["lengths"].tolist() == [4]
    assert state["played"].tolist() == [7]


def test_decide_needs_an_open_block_and_rounds_open_in_order():
    policy = AdapUcb(arms=2, epsilon=1.0)
    with pytest.raises(PrivacyError, match="open block"):
        policy.decide(policy.start(), Round(0), generator(0))
    with pytest.raises(InputError, match="one after the other"):
        policy.open(policy.start(), 3, generator(0))


@pytest.mark.parametrize("policy", POLICIES[:3], ids=lambda p: f"{p.name}-{p.arrivals}")
def test_losing_every_release_leaves_nothing_published_and_the_run_goes_on(policy):
    state, blocks, rng = policy.start(), set(), generator(2)
    for index in range(60):
        state = policy.open(state, index, rng)
        arm = policy.decide(state, Round(index), rng).arm
        state = policy.learn(state, Feedback(index, arm, 1.0))
        while (block := policy.due(state, index + 1)) is not None:
            assert block not in blocks
            blocks.add(block)
            state = policy.lost(state, block)
    assert len(blocks) > 1
    assert not state["sums"].any()
    assert not state["counts"].any()
    assert state["played"].min() >= 60 // (2 * policy.arms)  # every arm comes first until it has had its share


def test_propensities_are_those_of_the_coin():
    """Among m arms that are tied the propensity is 1/m; later choices are certain."""
    policy = PrivateNash(arms=4, epsilon=1.0)
    steps = list(walk(policy, Bernoulli(means=(0.1, 0.3, 0.6, 0.9)), 400, Streams.of(3, 0)))
    first = [steps[3 * block].decision for block in range(4)]
    assert [decision.propensity for decision in first] == [1 / 4, 1 / 3, 1 / 2, 1.0]
    assert all(decision.symmetric for decision in first)
    assert steps[-1].decision.propensity == 1.0
    assert not steps[-1].decision.symmetric


def test_blocks_under_way_before_any_release_are_shared_out_evenly():
    state, arms = opened(PrivateNash(arms=5, epsilon=1.0), 200)
    played = state["played"]
    assert played.max() <= 2 * played.min()
    assert state["open"][:, 4].all()  # every round so far counts at the mean over arms
    assert sorted(set(arms)) == list(range(5))


@pytest.mark.parametrize("reward", [1.5, -0.1, float("inf")])
def test_rewards_out_of_range_are_clipped_or_refused(reward):
    loose, strict = PrivateNash(arms=2, epsilon=1.0), PrivateNash(arms=2, epsilon=1.0, strict=True)
    state, arms = opened(loose, 1)
    learned = loose.learn(state, Feedback(0, arms[0], reward))
    assert learned["sum/open"].tolist() == [UNIT if reward > 1 else 0]
    with pytest.raises(InputError) as problem:
        strict.learn(state, Feedback(0, arms[0], reward))
    assert str(reward) not in str(problem.value)


def test_not_a_number_is_always_refused():
    for policy in (PrivateNash(arms=2, epsilon=1.0), LocalNash(arms=2, epsilon=1.0)):
        state, arms = opened(policy, 1)
        with pytest.raises(InputError):
            policy.learn(state, policy.report(Feedback(0, arms[0], float("nan")), SeededNoise(0)))


def test_a_local_learner_takes_reports_of_one_bit_only():
    policy = LocalNash(arms=2, epsilon=1.0)
    state, arms = opened(policy, 1)
    with pytest.raises(InputError, match="reports, not rewards"):
        policy.learn(state, Feedback(0, arms[0], 1.0))
    with pytest.raises(InputError, match="not a report"):
        policy.learn(state, Report(0, arms[0], 0.5))
    assert policy.learn(state, Report(0, arms[0], 1.0))["sum/open"].tolist() == [UNIT]
    assert policy.learn(state, policy.report(Feedback(0, arms[0], None), SeededNoise(0)))["answered"][0] == 0


def test_many_rounds_at_once_are_learned_as_one_by_one():
    policy = PrivateNash(arms=2, epsilon=0.05)  # first block of 40 rounds
    state, arms = opened(policy, 40)
    rows = [Feedback(index, arms[index], None if index % 7 == 0 else index / 40) for index in range(40)]
    folded = state
    for row in rows:
        folded = policy.learn(folded, row)
    assert same_state(policy.learn_all(state, iter(rows)), folded)
    assert folded["sum/open"][0] == sum(int(row.reward * UNIT) for row in rows if row.reward is not None)
    assert isinstance(np.asarray(folded["handed"]), np.ndarray)
