"""Laws of policies: what one is and how it decides, the same whatever it protects."""

from __future__ import annotations

import dataclasses
import inspect

import numpy as np

from fairveil import registry
from fairveil.bandits.environments.base import Environment
from fairveil.bandits.laws.playing import play, turns
from fairveil.bandits.protocol import Feedback, Policy, settle
from fairveil.configuration import describe
from fairveil.laws import must
from fairveil.privacy.events import NothingEvent, event_from_dict
from fairveil.privacy.noise import SeededNoise
from fairveil.randomness import generator
from fairveil.state import copy_state, load_state, same_state, save_state


def table_round_trip(policy: Policy, world: Environment) -> None:
    """The complete table of its public configuration builds it again."""
    table = describe(policy)
    again = describe(registry.build("policy", table, "policy"))
    must(table == again, "describe and build are not inverse")


def cost_before_data(policy: Policy, world: Environment) -> None:
    """It says what it costs and promises before any data; a curator's established promise is paid for."""
    event, promise = policy.event(), policy.guarantee()
    must(event_from_dict(event.to_dict()) == event, "the event does not survive being written down")
    if promise is not None and promise.established:
        must(promise.epsilon is not None and promise.epsilon > 0, "an established guarantee has an epsilon")
        if promise.model.value != "local":
            must(not isinstance(event, NothingEvent), "a guarantee in this model is paid for by an event")


def documented(policy: Policy, world: Environment) -> None:
    """Its docstring says what is guaranteed and what it costs, with an example that runs; each field what it is."""
    fields = (field for field in dataclasses.fields(policy) if field.init)  # type: ignore[arg-type]
    bare = [field.name for field in fields if not field.metadata.get("description")]
    must(not bare, f"no description: {', '.join(bare)}", 'field: Count = described("what it is")')
    doc = inspect.getdoc(type(policy)) or ""
    for word in ("Guarantee", "Cost", ">>>"):
        must(word in doc, f"the docstring lacks {word!r}")


def pure_decide(policy: Policy, world: Environment) -> None:
    """Decide changes nothing but seals, repeats itself for the same generator, and works before any reward."""
    rng, noise = generator(1, "world"), SeededNoise(3)
    place, state = world.prepare(rng), policy.start()
    for index in range(20):
        state = policy.open(state, index, generator(2, "open", index))
        shown = place.show(index, rng)
        before = copy_state(state)
        first = policy.decide(state, shown, generator(2, "explore", index))
        second = policy.decide(state, shown, generator(2, "explore", index))
        must(first.arm == second.arm and first.propensity == second.propensity, "two equal calls decide differently")
        for name in policy.seals:
            before[name] = state[name]
        must(same_state(state, before), "decide changed the state")
        reward = place.reward(shown, first.arm, rng)
        state = policy.learn(state, policy.report(Feedback(index, first.arm, reward, shown), noise))
        state = settle(policy, state, index + 1, noise)


def same_seed_same_run(policy: Policy, world: Environment) -> None:
    """The same seeds give the same decisions, and probabilities are probabilities."""
    first, second = play(policy, world, SeededNoise(3)), play(policy, world, SeededNoise(3))
    must([s.decision.arm for s in first] == [s.decision.arm for s in second], "the same seed gave another run")
    for step in first:
        law = step.decision.probabilities
        must(0 < step.decision.propensity <= 1 + 1e-9, "a propensity is not a probability")
        if law is not None:
            must(law.min() >= 0 and abs(law.sum() - 1) < 1e-9, "probabilities do not sum to one")
            must(abs(law[step.decision.arm] - step.decision.propensity) < 1e-9, "the propensity is not the law's")


def state_is_a_value(policy: Policy, world: Environment) -> None:
    """State is plain arrays, survives saving at every round, and is never changed in place."""
    noise, arms = SeededNoise(3), []
    for turn in turns(policy, world, 60, noise):
        state = turn.state
        must(all(isinstance(v, np.ndarray) and v.dtype != object for v in state.values()), "state is not plain arrays")
        state = load_state(save_state(state))
        arms.append(turn.decision.arm)
        before = copy_state(state)
        after = policy.learn(state, turn.answer)
        must(same_state(state, before), "learn changed the given state", "copy_state first")
        state = after
        while policy.due(state, turn.index + 1) is not None:
            before = copy_state(state)
            after = policy.release(state, noise)
            must(same_state(state, before), "release changed the given state", "copy_state first")
            state = after
        turn.state = state
    walked = [step.decision.arm for step in play(policy, world, SeededNoise(3), rounds=60)]
    must(arms == walked, "saving and loading changed the run")


def bounded_memory(policy: Policy, world: Environment) -> None:
    """The state does not grow with rounds, unless the algorithm keeps the history by definition (keeps_history)."""
    if policy.keeps_history:
        return
    sizes = [
        sum(value.nbytes for value in step.state.values()) for step in play(policy, world, SeededNoise(3), rounds=300)
    ]
    must(sizes[-1] <= 2 * sizes[20] + 4096, "the state grows with the rounds")
