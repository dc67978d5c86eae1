"""Live input: whatever is wrong with a round or a feedback gets the project's own error, and no state is touched."""

import numpy as np
import pytest

from fairveil.bandits.meritocratic import (
    BatchedPrivateFairGreedy,
    FairGreedy,
    Greedy,
    Oful,
    PrivateFairGreedy,
    PrivateFairGreedyPrinted,
    Scaling,
)
from fairveil.bandits.protocol import Candidate, Feedback, Report, Round
from fairveil.errors import InputError

SCALING = Scaling(columns=(0, 1), centre=(0.0, 0.0), spread=(1.0, 1.0), norm=1.4, reward_centre=0.0, reward_bound=1.0)
BUDGET = {"epsilon": 1.0, "delta": 1e-5, "groups": 2, "features": 2}
EVERY = [
    BatchedPrivateFairGreedy(**BUDGET, scaling=SCALING),
    PrivateFairGreedy(**BUDGET, bound=2.0, rounds=20),
    PrivateFairGreedyPrinted(**BUDGET, bound=2.0, rounds=20),
    FairGreedy(groups=2, features=2),
    Greedy(features=2),
    Oful(features=2),
]
GROUPED = EVERY[:4]
GOOD = Candidate(0, np.array([0.1, 0.2]))
NAMED = pytest.mark.parametrize("policy", EVERY, ids=lambda policy: type(policy).__name__)

WRONG = {
    "a third feature": (Candidate(1, np.array([0.1, 0.2, 0.7777])), r"candidates\[1\]\.features"),
    "one feature": (Candidate(1, np.array([0.7777])), r"candidates\[1\]\.features"),
    "no vector": (Candidate(1, np.array([[0.1, 0.7777]])), r"candidates\[1\]\.features"),
    "not a number": (Candidate(1, np.array([np.nan, 0.7777])), "not finite"),
    "infinite": (Candidate(1, np.array([np.inf, 0.7777])), "not finite"),
    "words": (Candidate(1, np.array(["tall", "0.7777x"])), "not numbers"),
    "group -1": (Candidate(-1, np.array([0.1, 0.7777])), r"candidates\[1\]\.group"),
    "a group name": (Candidate("north", np.array([0.1, 0.7777])), r"group.*number"),
    "half a group": (Candidate(0.5, np.array([0.1, 0.7777])), r"group.*number"),
    "true": (Candidate(True, np.array([0.1, 0.7777])), r"group.*number"),
}


def rejected(call, match):
    with pytest.raises(InputError, match=match) as caught:
        call()
    assert "0.7777" not in str(caught.value), "private values are not repeated"
    assert caught.value.path


@NAMED
@pytest.mark.parametrize("wrong,match", WRONG.values(), ids=WRONG.keys())
def test_a_wrong_candidate_is_refused_by_decide_and_learn(policy, wrong, match):
    state, shown = policy.start(), Round(0, (GOOD, wrong))
    rejected(lambda: policy.decide(state, shown, np.random.default_rng(1)), match)
    rejected(lambda: policy.learn(state, Feedback(0, 0, 0.5, shown)), match)


@pytest.mark.parametrize("policy", GROUPED, ids=lambda policy: type(policy).__name__)
def test_a_group_that_was_not_declared_is_refused(policy):
    shown = Round(0, (GOOD, Candidate(2, np.array([0.1, 0.2]))))
    rejected(lambda: policy.decide(policy.start(), shown, np.random.default_rng(1)), "group")
    rejected(lambda: policy.learn(policy.start(), Feedback(0, 0, 0.5, shown)), "group")


@NAMED
def test_a_round_without_candidates_and_an_arm_that_is_not_there(policy):
    state, shown = policy.start(), Round(0, (GOOD,))
    rejected(lambda: policy.decide(state, Round(0), np.random.default_rng(1)), "no candidates")
    for arm in (1, -1, "0", 0.0, True):
        rejected(lambda arm=arm: policy.learn(state, Feedback(0, arm, 0.5, shown)), "arm")
    rejected(lambda: policy.learn(state, Feedback(0, 0, 0.5)), "round")
    rejected(lambda: policy.learn(state, Feedback(1, 0, 0.5, shown)), "another round")
    rejected(lambda: policy.learn(state, Report(0, 0, 0.5, shown)), "report")
    for reward in (np.nan, np.inf, "0.7777", [0.7777, 1.0], 1j):
        rejected(lambda reward=reward: policy.learn(state, Feedback(0, 0, reward, shown)), "reward")


@NAMED
def test_good_rounds_pass_and_an_unanswered_one_leaves_no_row(policy):
    state, shown = policy.start(), Round(0, (GOOD, Candidate(np.int64(1), [0.3, 0.4])))
    assert policy.decide(state, shown, np.random.default_rng(1)).arm in (0, 1)
    after = policy.learn(state, Feedback(0, 1, None, shown))
    for name in ("rows", "sum/rows", "moment"):
        if name in after:
            assert np.array_equal(after[name], state[name])
