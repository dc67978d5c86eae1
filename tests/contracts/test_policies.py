"""Every registered policy keeps every law; broken policies are caught by the law they break."""

from functools import partial

import numpy as np
import pytest

from fairveil import ZeroNoise, registry
from fairveil.bandits.nash.adap_ucb import AdapUcb
from fairveil.bandits.protocol import Decision, Policy, Round
from fairveil.bandits.random import Random
from fairveil.configuration import configuration
from fairveil.errors import ContractError, PrivacyError
from fairveil.fields import Count, described
from fairveil.privacy.guarantee import Guarantee
from fairveil.proof import AuditPair
from fairveil.proof.laws.playing import world_of
from fairveil.proof.laws.policies import LAWS, check_policy, fitting
from fairveil.state import copy_state

POLICIES = [entry.name for entry in registry.entries("policy")]


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("name", POLICIES)
def test_policy_keeps_law(name, law):
    LAWS[law](*fitting(name))


@configuration
class Plain(Policy):
    """Play arm 0. Guarantee: none. Cost: none. >>> 1"""

    name = "plain-test-policy"
    family = "nash"
    arms: Count = described("number of arms", default=2)

    def start(self):
        return {"count": np.zeros(1)}

    def decide(self, state, round, rng):
        return Decision(0)

    def learn(self, state, feedback):
        new = copy_state(state)
        new["count"] += 1
        return new


class ChangesState(Plain):
    def learn(self, state, feedback):
        state["count"] += 1
        return state


class DecideCounts(Plain):
    def decide(self, state, round, rng):
        state["count"] += 1
        return Decision(0)


class Grows(Plain):
    def learn(self, state, feedback):
        return {"count": np.append(state["count"], np.zeros(50))}


class Impossible(Plain):
    def decide(self, state, round, rng):
        return Decision(0, 0.5, np.array([0.5, 0.6]))


class Unpaid(Plain):
    def guarantee(self):
        return Guarantee.pure(1.0, model="global", unit="one reward", neighbours="replace-reward")


class LocalInWordsOnly(Plain):
    def guarantee(self):
        return Guarantee.pure(1.0, model="local", unit="one reward", neighbours="replace-reward")


class ReachesNowhere(AdapUcb):
    def reach(self, state):
        return 0


class ReachFalls(AdapUcb):
    def reach(self, state):
        return max([block.stop for block in self.open_blocks(state)], default=0)


class NotArrays(Plain):
    def start(self):
        return {"count": np.array([None])}


class FollowsTheData(Unpaid):
    def start(self):
        return {"count": np.zeros(1), "largest": np.ones(1)}

    def learn(self, state, feedback):
        largest = np.maximum(state["largest"], abs(feedback.reward or 0.0))
        return {"count": state["count"] + (feedback.reward or 0.0) / largest, "largest": largest}


@pytest.mark.parametrize(
    ("kind", "law"),
    [
        (FollowsTheData, "rows_enter_by_themselves"),
        (ChangesState, "state_is_a_value"),
        (DecideCounts, "pure_decide"),
        (Grows, "bounded_memory"),
        (Impossible, "same_seed_same_run"),
        (Unpaid, "cost_before_data"),
        (LocalInWordsOnly, "cost_before_data"),
        (partial(ReachesNowhere, arms=2, epsilon=1.0), "blocks_reach_as_far_as_said"),
        (partial(ReachFalls, arms=2, epsilon=1.0), "blocks_reach_as_far_as_said"),
        (NotArrays, "state_is_a_value"),
    ],
)
def test_a_broken_policy_is_caught(kind, law):
    policy = kind()
    with pytest.raises(ContractError):
        LAWS[law](policy, world_of(policy))


def test_check_policy_names_the_broken_law():
    assert check_policy(registry.build("policy", {"name": "adap-ucb", "arms": 2, "epsilon": 1.0}, "policy")) == list(
        LAWS
    )
    registry.register("policy", "grows-test-policy")(Grows)
    with pytest.raises(ContractError, match="bounded_memory"):
        check_policy(Grows())


def test_base_policies_refuse_to_release():
    with pytest.raises(PrivacyError, match="releases nothing"):
        Random(arms=2).release({}, ZeroNoise())
    with pytest.raises(PrivacyError, match="releases nothing"):
        Random(arms=2).lost({}, "block")
    assert Random(arms=2).due({}, 3) is None
    assert Round(2).candidates == ()


class Unaudited(Plain):
    """Draws noise beside a promise, and nobody has written a pair of worlds. Guarantee: pure. Cost: one event. >>> 1"""

    name = "unaudited-test-policy"
    released = ("count",)

    def guarantee(self):
        return Guarantee.pure(1.0, model="global", unit="one reward", neighbours="replace-reward")

    def release(self, state, noise):
        return {"count": state["count"] + noise.laplace(1.0)}


def unaudited(pair):
    """What the contract suite says about a private policy with this pair of worlds (None: without one)."""
    with registry.isolated():
        registry.register("policy", Unaudited.name)(Unaudited)
        if pair is not None:
            registry.register("audit-pair", f"policy:{Unaudited.name}")(pair)
        LAWS["audited"](Unaudited(), world_of(Unaudited()))


def test_a_private_policy_without_worlds_or_with_worlds_of_its_own_making_fails():
    with pytest.raises(ContractError, match="no pair of worlds"):
        unaudited(None)

    def beside(policy):
        """It draws by itself instead of asking the policy."""
        return AuditPair(lambda world, n, noise, rng: world + noise.laplace(1.0, n), "0 or 1", "value", 1.0)

    def served(policy):
        def run(world, trials, noise, rng):
            return [policy.release({"count": np.array([float(world)])}, noise)["count"][0] for _ in range(trials)]

        return AuditPair(run, "0 or 1", "count", 1.0)

    with pytest.raises(ContractError, match="no audit notices no noise"):
        unaudited(beside)
    unaudited(served)


def test_a_private_policy_without_mutants_fails(monkeypatch):
    monkeypatch.setattr("fairveil.proof.engine.everything.mutants_of", lambda kind, thing, entries: [])
    with pytest.raises(ContractError, match="planted a mutant"):
        LAWS["audited"](*fitting("adap-ucb"))
