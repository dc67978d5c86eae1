"""Late, missing and lost rewards: an episode closes on its schedule and nothing enters it afterwards."""

import numpy as np
import pytest

from fairveil import SeededNoise, ZeroNoise
from fairveil.bandits.contract import Silent
from fairveil.bandits.environments.bernoulli import Bernoulli
from fairveil.bandits.environments.laws import UNIT
from fairveil.bandits.feedback import Lateness
from fairveil.bandits.nash.adap_ucb import AdapUcb
from fairveil.bandits.nash.gdp_ncb import GdpNcb
from fairveil.bandits.nash.local_nash import LocalNash
from fairveil.bandits.nash.private_nash import PrivateNash
from fairveil.bandits.protocol import Feedback, Round, settle
from fairveil.bandits.simulate import Streams
from fairveil.bandits.steps import walk
from fairveil.errors import HorizonError, InputError, PrivacyError
from fairveil.privacy.events import ParallelEvent, PureEvent
from fairveil.randomness import generator

POLICIES = [
    AdapUcb(arms=3, epsilon=1.0),
    PrivateNash(arms=3, epsilon=1.0),
    PrivateNash(arms=3, epsilon=1.0, arrivals="private"),
    GdpNcb(arms=3, horizon=400, epsilon=1.0),
    GdpNcb(arms=3, horizon=400, epsilon=1.0, phase1="threshold", tau=10.0),
    GdpNcb(arms=3, horizon=400, epsilon=1.0, arrivals="private"),
    LocalNash(arms=3, epsilon=1.0),
]


@pytest.mark.parametrize("policy", POLICIES, ids=lambda p: f"{p.name}-{p.arrivals}")
@pytest.mark.parametrize(
    "delay",
    [Lateness("uniform", (0.0, 50.0), 50), Lateness("uniform", (0.0, 5.0), 5, missing=0.5), Silent()],
    ids=["late", "half", "none"],
)
def test_schedule_does_not_depend_on_arrivals(policy, delay):
    """Every round is decided inside an open block, and blocks follow each other: none reopens."""
    world, blocks = Bernoulli(means=(0.2, 0.5, 0.9)), [(0, 0)]
    for step in walk(policy, world, 300, Streams.of(1, 0, SeededNoise(1)), delay):
        opened, end = int(step.state["open"][1]), int(step.state["open"][2])
        assert end > step.round.index
        if (opened, end) != blocks[-1]:
            assert opened > blocks[-1][0] or len(blocks) == 1
            blocks.append((opened, end))
    assert len(blocks) > 2 or policy.name == "gdp-ncb"  # without rewards a threshold is never tested


def test_a_late_reward_is_never_used():
    policy = AdapUcb(arms=2, epsilon=1.0)
    state = settle(policy, policy.start(), 1, ZeroNoise())  # round 0 closed without its reward
    late = policy.learn(state, Feedback(0, 0, 1.0))
    assert all(np.array_equal(late[name], state[name]) for name in state)


def test_a_reward_of_another_arm_does_not_enter_the_open_episode():
    policy = AdapUcb(arms=2, epsilon=1.0)
    state = policy.start()
    after = policy.learn(state, Feedback(0, 1, 1.0))
    assert after["block"].tolist() == state["block"].tolist()


def test_means_divide_by_arrivals():
    policy = AdapUcb(arms=1, epsilon=1.0)
    state = policy.start()
    for index in range(3):  # episodes of 1 and 2 rounds, then 4 of which two arrive
        state = settle(policy, policy.learn(state, Feedback(index, 0, 1.0)), index + 1, ZeroNoise())
    assert state["open"][:3].tolist() == [0, 3, 7]
    state = policy.learn(policy.learn(state, Feedback(4, 0, 1.0)), Feedback(3, 0, 0.5))
    state = settle(policy, state, 7, ZeroNoise())
    assert state["counts"].tolist() == [2.0]
    assert state["sums"].tolist() == [UNIT + UNIT // 2]
    assert state["lengths"].tolist() == [4]


def test_private_arrivals_noise_the_count_inside_the_same_budget():
    policy = PrivateNash(arms=2, epsilon=1.0, arrivals="private")
    assert policy.scale == 2 * UNIT
    assert policy.event() == ParallelEvent(PureEvent(1.0))
    noise = SeededNoise(1)
    state = settle(policy, policy.learn(policy.start(), Feedback(0, 1, 1.0)), 1, noise)
    assert not state["played"].any()  # round 0 is not used, so that its arrival cannot show
    arm, closes = int(state["open"][0]), int(state["open"][2])
    state = settle(policy, policy.learn(state, Feedback(1, arm, 1.0)), closes, noise)
    assert state["counts"][arm] != round(state["counts"][arm])
    assert state["draws"][arm] == 2
    assert "protected" in policy.guarantee().notes[0]


def test_decide_refuses_a_round_outside_the_open_episode():
    policy = AdapUcb(arms=2, epsilon=1.0)
    with pytest.raises(PrivacyError, match="open episode"):
        policy.decide(policy.start(), Round(1), generator(0))


@pytest.mark.parametrize("policy", POLICIES[1:5], ids=["private-nash", "hidden", "gdp-ncb", "threshold"])
def test_a_lost_release_drops_its_block(policy):
    """Losing every release leaves nothing published, and the run goes on."""
    state, blocks, rng = policy.start(), set(), generator(2)
    for index in range(60):
        decision = policy.decide(state, Round(index), rng)
        state = policy.learn(state, Feedback(index, decision.arm, 1.0))
        while (block := policy.due(state, index + 1)) is not None:
            assert block not in blocks
            blocks.add(block)
            state = policy.lost(state, block)
    assert len(blocks) > 1
    assert not state["sums"].any()
    assert not state["counts"].any()


def test_horizon_is_refused():
    with pytest.raises(HorizonError):
        GdpNcb(arms=2, horizon=10, epsilon=1.0).decide({}, Round(10), generator(0))


@pytest.mark.parametrize("reward", [1.5, -0.1, float("inf")])
def test_rewards_out_of_range_are_clipped_or_refused(reward):
    loose, strict = PrivateNash(arms=2, epsilon=1.0), PrivateNash(arms=2, epsilon=1.0, strict=True)
    opened = settle(loose, loose.start(), 1, SeededNoise(0))
    state = loose.learn(opened, Feedback(1, int(opened["open"][0]), reward))
    assert state["block"].tolist() == [
        UNIT if reward > 1 else 0,
        1,
        1,
    ]  # the number of clipped rewards stays in the state
    with pytest.raises(InputError) as problem:
        strict.learn(strict.start(), Feedback(0, 0, reward))
    assert str(reward) not in str(problem.value)


def test_not_a_number_is_always_refused():
    for policy in (PrivateNash(arms=2, epsilon=1.0), LocalNash(arms=2, epsilon=1.0)):
        with pytest.raises(InputError):
            policy.learn(policy.start(), policy.report(Feedback(0, 0, float("nan")), SeededNoise(0)))


def test_a_local_learner_accepts_bits_only():
    policy = LocalNash(arms=2, epsilon=1.0)
    with pytest.raises(InputError, match="reports, not rewards"):
        policy.learn(policy.start(), Feedback(0, 0, 0.5))
