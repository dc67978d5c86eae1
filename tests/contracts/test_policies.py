"""Laws every registered policy keeps, plug-ins included: pure decisions, values as state, same seed same run."""

import inspect

import numpy as np
import pytest

from fairveil import SecureNoise, SeededNoise, ZeroNoise, generator, registry
from fairveil.bandits.protocol import Feedback, Policy, Round, load_state, save_state
from fairveil.bandits.steps import random_delay, walk
from fairveil.privacy.events import NothingEvent, event_from_dict
from fairveil.privacy.guarantee import Guarantee

ROUNDS = 150
POLICIES = [entry.name for entry in registry.entries("policy")]
WORLDS = {
    "nash": {"name": "bernoulli", "means": [0.2, 0.5, 0.8]},
    "meritocratic": {"name": "gaussian"},
    "exposure": {"name": "exposure", "agents": 1, "actions": 4, "dimension": 3},
}


def policy_and_world(name):
    policy = registry.example(registry.get("policy", name))
    assert policy is not None, "a policy needs an example(): required parameters that a listing cannot guess"
    family = policy.family or "nash"
    world = registry.example(registry.get("environment", WORLDS[family]["name"]))
    if world is None or family == "nash":
        world = registry.build("environment", WORLDS[family], "environment")
    return policy, world


def play(name, noise, delay=None, rounds=ROUNDS, seed=5):
    policy, world = policy_and_world(name)
    return list(walk(policy, world, rounds, generator(seed, "explore"), generator(seed, "world"), noise, delay))


@pytest.fixture(params=POLICIES)
def name(request):
    return request.param


def test_configuration_round_trips_through_its_table(name):
    policy, _ = policy_and_world(name)
    table = registry.describe(policy)
    assert table["name"] == name
    assert registry.describe(registry.build("policy", table, "policy")) == table


def test_it_says_what_it_costs_and_promises_before_any_data(name):
    policy, _ = policy_and_world(name)
    event, promise = policy.event(), policy.guarantee()
    assert event_from_dict(event.to_dict()) == event
    assert promise is None or isinstance(promise, Guarantee)
    if promise is None or not promise.established:
        return
    assert promise.epsilon is not None
    assert promise.epsilon > 0
    if promise.model.value in ("global", "joint", "federated"):
        assert not isinstance(event, NothingEvent), "a curator's guarantee is paid for by an event"


def test_the_docstring_is_complete(name):
    doc = inspect.getdoc(registry.get("policy", name)) or ""
    assert "Guarantee" in doc, "what is guaranteed"
    assert ">>>" in doc, "an example that runs"
    assert "Cost" in doc or "cost" in doc


def test_decide_is_pure_and_works_before_any_reward(name):
    policy, world = policy_and_world(name)
    rng = generator(1, "world")
    place = world.prepare(rng)
    state = policy.start()
    shown = place.show(0, rng)
    before = {key: value.copy() for key, value in state.items()}
    first = policy.decide(state, shown, generator(2, "explore"))
    second = policy.decide(state, shown, generator(2, "explore"))
    assert first.arm == second.arm
    assert first.propensity == second.propensity
    for key, value in before.items():
        np.testing.assert_array_equal(state[key], value)


def test_same_seed_same_run_and_probabilities_sum_to_one(name):
    first, second = play(name, SeededNoise(3)), play(name, SeededNoise(3))
    assert [step.decision.arm for step in first] == [step.decision.arm for step in second]
    for step in first:
        assert 0 < step.decision.propensity <= 1 + 1e-9
        law = step.decision.probabilities
        if law is not None:
            assert law.min() >= 0
            assert law.sum() == pytest.approx(1.0, abs=1e-9)
            assert step.decision.propensity == pytest.approx(law[step.decision.arm], abs=1e-9)


def test_state_is_plain_arrays_and_survives_saving_at_every_round(name):
    policy, world = policy_and_world(name)
    explore, rng, noise = generator(5, "explore"), generator(5, "world"), SeededNoise(3)
    place = world.prepare(rng)
    state = policy.start()
    arms = []
    for index in range(60):
        restored = load_state(save_state(state))
        assert set(restored) == set(state)
        for key, value in state.items():
            assert isinstance(value, np.ndarray)
            assert value.dtype != object
            np.testing.assert_array_equal(restored[key], value)
        state = restored
        shown = place.show(index, rng)
        decision = policy.decide(state, shown, explore)
        arms.append(decision.arm)
        feedback = policy.report(Feedback(index, decision.arm, place.reward(shown, decision.arm, rng), shown), noise)
        state = policy.learn(state, feedback)
        while policy.due(state, index + 1) is not None:
            state = policy.release(state, noise)
    walked = play(name, SeededNoise(3), rounds=60)
    assert arms == [step.decision.arm for step in walked], "saving changes nothing"


def test_learn_and_release_do_not_touch_the_given_state(name):
    policy, world = policy_and_world(name)
    explore, rng, noise = generator(5, "explore"), generator(5, "world"), SeededNoise(3)
    place = world.prepare(rng)
    state = policy.start()
    for index in range(40):
        shown = place.show(index, rng)
        decision = policy.decide(state, shown, explore)
        before = {key: value.copy() for key, value in state.items()}
        feedback = policy.report(Feedback(index, decision.arm, place.reward(shown, decision.arm, rng), shown), noise)
        after = policy.learn(state, feedback)
        for key, value in before.items():
            np.testing.assert_array_equal(state[key], value)
        state = after
        while policy.due(state, index + 1) is not None:
            before = {key: value.copy() for key, value in state.items()}
            after = policy.release(state, noise)
            for key, value in before.items():
                np.testing.assert_array_equal(state[key], value)
            state = after


def test_rewards_may_be_late_out_of_order_or_missing(name):
    steps = play(name, SeededNoise(3), delay=random_delay(20, missing=0.2))
    assert len(steps) == ROUNDS
    steps = play(name, SeededNoise(3), delay=lambda index, rng: None)
    assert len(steps) == ROUNDS, "it goes on when no reward ever arrives"


def test_zero_and_secure_noise_run_the_same_code(name):
    assert len(play(name, ZeroNoise(), rounds=60)) == 60
    assert len(play(name, SecureNoise(), rounds=60)) == 60


def test_a_lost_release_is_survived(name):
    policy, world = policy_and_world(name)
    explore, rng, noise = generator(5, "explore"), generator(5, "world"), SeededNoise(3)
    place = world.prepare(rng)
    state = policy.start()
    blocks = []
    for index in range(80):
        shown = place.show(index, rng)
        decision = policy.decide(state, shown, explore)
        feedback = policy.report(Feedback(index, decision.arm, place.reward(shown, decision.arm, rng), shown), noise)
        state = policy.learn(state, feedback)
        while (block := policy.due(state, index + 1)) is not None:
            blocks.append(block)
            state = policy.lost(state, block) if len(blocks) % 2 else policy.release(state, noise)
    assert len(blocks) == len(set(blocks)), "block ids are unique"


def test_memory_of_the_state_does_not_grow_with_rounds(name):
    policy, _ = policy_and_world(name)
    if getattr(policy, "keeps_history", False):
        pytest.skip("keeps the history by definition")
    steps = play(name, SeededNoise(3), rounds=300)
    sizes = [sum(value.nbytes for value in step.state.values()) for step in steps]
    assert sizes[-1] <= 2 * sizes[20] + 4096


def test_base_policies_refuse_to_release():
    from fairveil.errors import PrivacyError

    with pytest.raises(PrivacyError, match="releases nothing"):
        Policy().release({}, ZeroNoise())
    with pytest.raises(PrivacyError, match="releases nothing"):
        Policy().lost({}, "block")
    assert Policy().due({}, 3) is None
    assert Round(2).candidates == ()
