"""Batched-Priv-FairX: its rows and batches, and late feedback, whose served driver is audited with broken twins."""

import math
from dataclasses import replace

import numpy as np
import pytest

import fairveil
from fairveil.bandits.exposure import BatchedPrivFairx
from fairveil.bandits.exposure.kernel import make_row
from fairveil.bandits.feedback import Outstanding
from fairveil.bandits.protocol import Block, Candidate, Feedback, Round
from fairveil.errors import InputError, SpecError
from fairveil.privacy.noise import SeededNoise, ZeroNoise
from fairveil.proof import audit, find_pair
from fairveil.proof.pairs.exposure import CROWD, late_feedback, late_pair
from fairveil.randomness import generator

TABLE = {"agents": 2, "dimension": 2, "horizon": 64, "delta": 0.1}
SMALL = {"agents": 2, "dimension": 2, "horizon": 4096, "epsilon": 1.0, "delta": 1e-5}


def interaction(policy, index, reward=0.5):
    shown = Round(index, tuple(Candidate(0, context) for context in np.eye(policy.dimension)), index % policy.agents)
    return Feedback(index, 0, reward, shown)


def test_rows_never_exceed_their_bound_whatever_comes_in():
    policy = BatchedPrivFairx(**SMALL, context_bound=2.0, reward_bound=3.0)
    rng, row = np.random.default_rng(1), np.empty(3)
    for scale in (0.1, 1.0, 10.0, 1e6, 1e200):
        for _ in range(200):
            make_row(scale * rng.normal(size=2), scale * rng.normal(), policy.compiled.rows, row)
            assert row @ row <= policy.row_bound**2
            units = row * 2.0**policy.running.grid.bits
            assert np.array_equal(units, np.trunc(units))
    make_row(np.array([1.0, 0.5]), 0.75, policy.compiled.rows, row)
    np.testing.assert_allclose(row, [0.5, 0.25, 0.25 * policy.reward_weight], atol=2**-14)
    make_row(np.array([4.0, 0.0]), 1.0, policy.compiled.rows, row)  # clipped together with its reward: same direction
    np.testing.assert_allclose(row, [1.0, 0.0, 0.5 / 3.0 * policy.reward_weight], atol=2**-14)


def test_one_leaf_has_room_for_a_limited_number_of_rows():
    policy = BatchedPrivFairx(**SMALL)
    state = policy.start()
    state["acted"][:] = 2**21
    shown = Round(0, (Candidate(0, np.zeros(2)),))
    with pytest.raises(InputError, match="too many rows"):
        policy.learn(state, Feedback(0, 0, 0.5, shown))


def test_budgets_that_make_no_sense_are_refused():
    for change in ({"epsilon": 0.0}, {"epsilon": -1.0}, {"epsilon": math.nan}, {"delta": 0.0}, {"delta": 1.0}):
        with pytest.raises(SpecError, match=next(iter(change))):
            BatchedPrivFairx(**{**SMALL, **change})
    with pytest.raises(SpecError, match="local_raw"):
        BatchedPrivFairx(**SMALL, personal=True, local_raw=True)


def test_a_reward_of_an_open_batch_reaches_nothing_before_its_release():
    policy = BatchedPrivFairx(**SMALL)
    states = [policy.start(), policy.start()]
    for index in range(31):
        for world, state in enumerate(states):
            reward = (0.9 if world else -0.9) if index == 3 else 0.1
            states[world] = policy.learn(state, interaction(policy, index, reward))
        shown = interaction(policy, index + 1).round
        laws = [policy.decide(state, shown, generator(1, index)).probabilities for state in states]
        assert np.array_equal(*laws)
        for name in policy.released:
            assert np.array_equal(states[0][name], states[1][name]), name
    after = [policy.release(state, SeededNoise(1)) for state in states]
    assert not np.array_equal(after[0]["released"], after[1]["released"])


def test_batches_are_weighed_by_the_rows_they_hold():
    policy = BatchedPrivFairx(**{**SMALL, "agents": 1})
    full, half = policy.start(), policy.start()
    for index in range(16):
        full = policy.learn(full, interaction(policy, index))
        half = policy.learn(half, interaction(policy, index, 0.5 if index % 2 else None))
    assert (full["rows"].tolist(), half["rows"].tolist()) == ([16], [8])
    assert full["taken"] == half["taken"] == 16
    full, half = (policy.release(state, ZeroNoise()) for state in (full, half))
    heavy, light = policy.batch_weights(np.array([16, 8]))
    assert full["released"][0, 0] == pytest.approx(16 * heavy)
    assert half["released"][0, 0] == pytest.approx(8 * light)
    silent = policy.start()
    for index in range(16):
        silent = policy.learn(silent, interaction(policy, index, None))
    silent = policy.release(silent, SeededNoise(1))  # nobody answered: noise alone weighs nothing
    assert not silent["released"].any()
    assert np.array_equal(silent["prior"], policy.start()["prior"])


def test_rounds_of_later_batches_and_wrong_feedback_are_refused():
    policy = BatchedPrivFairx(**{**SMALL, "agents": 1})
    state = policy.learn(policy.start(), interaction(policy, 5))
    assert policy.learn(state, interaction(policy, 5)).keys() == state.keys()
    assert policy.learn(state, interaction(policy, 2))["rows"] == 1
    with pytest.raises(InputError, match="later batch"):
        policy.learn(state, interaction(policy, 16))
    for wrong in (replace(interaction(policy, 6), index=-1), replace(interaction(policy, 6), index="6")):
        with pytest.raises(InputError, match="counted from 0"):
            policy.learn(state, wrong)
    for arm in (2, -1, "first", 0.5):
        with pytest.raises(InputError, match="not shown"):
            policy.learn(state, replace(interaction(policy, 6), arm=arm))
    for reward in (math.nan, math.inf, "much", True):
        with pytest.raises(InputError, match="not a number"):
            policy.learn(state, interaction(policy, 6, reward))
    with pytest.raises(SpecError, match="private"):
        fairveil.run(
            {
                "task": "bandit",
                "policy": {"name": "batched-priv-fairx", "epsilon": 1.0, "delta": 1e-5},
                "environment": {"name": "exposure", "agents": 1},
                "rounds": 20,
                "feedback": {"delay": 3, "treat": "private"},
            }
        )


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
