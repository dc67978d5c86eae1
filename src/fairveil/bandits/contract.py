"""Laws every policy keeps, built in or plugged in. `check_policy` runs them all and names the one that is broken.

>>> from fairveil import registry
>>> len(check_policy(registry.build("policy", {"name": "ucb", "arms": 3}, "policy"))) >= 8
True
"""

from __future__ import annotations

import inspect
import tempfile
from collections.abc import Callable
from typing import Any

import numpy as np

from fairveil import registry
from fairveil.bandits.environments.base import Environment
from fairveil.bandits.ledgered import drive
from fairveil.bandits.protocol import Feedback, Policy, State, load_state, save_state, settle
from fairveil.bandits.steps import Delay, Step, random_delay, walk
from fairveil.bandits.task import BanditTask
from fairveil.configuration import describe
from fairveil.errors import ContractError
from fairveil.privacy.events import NothingEvent, event_from_dict
from fairveil.privacy.ledger import Ledger
from fairveil.privacy.limits import Limit
from fairveil.privacy.noise import Noise, SecureNoise, SeededNoise, ZeroNoise
from fairveil.randomness import generator

ROUNDS = 120
Law = Callable[[Policy, Environment], None]

#: The world a family's policies are checked in.
WORLDS: dict[str, dict[str, Any]] = {
    "": {"name": "bernoulli"},
    "nash": {"name": "bernoulli"},
    "meritocratic": {"name": "gaussian", "weights": [1.0, 0.5], "means": [[0.0, 0.0], [1.0, 0.5], [0.5, 1.0]]},
    "exposure": {"name": "exposure", "agents": 1, "actions": 4, "dimension": 3},
}
ARMS = {"name": "bernoulli", "means": [0.2, 0.5, 0.8]}


def check_policy(policy: Policy, environment: Environment | None = None) -> list[str]:
    """Run every law; returns their names, raises ContractError at the first that is broken."""
    world = environment if environment is not None else world_of(policy)
    for name, law in LAWS.items():
        try:
            law(policy, world)
        except ContractError as problem:
            raise ContractError(f"{name}: {problem.problem}", path=policy.name, fix=problem.fix) from None
    return list(LAWS)


def world_of(policy: Policy) -> Environment:
    """An environment that fits a policy: as many arms as it has, where it has a number of arms."""
    table, arms = WORLDS[policy.family], getattr(policy, "arms", None)
    if table["name"] == "bernoulli":
        table = {**table, "means": np.linspace(0.2, 0.8, 3 if arms is None else arms).tolist()}
    made: Environment = registry.build("environment", table, "environment")
    return made


def fitting(name: str) -> tuple[Policy, Environment]:
    """A registered policy and a world of its family, completed against each other as a spec would be."""
    target = registry.get("policy", name)
    spec = {
        "task": "bandit",
        "rounds": 1000,
        "policy": {"name": name, **registry.sample(target)},
        "environment": WORLDS[target.family] if target.family not in ("", "nash") else ARMS,
    }
    full = BanditTask().complete(spec)
    return registry.build("policy", full["policy"], "policy"), registry.build(
        "environment", full["environment"], "environment"
    )


def _must(holds: object, problem: str, fix: str = "") -> None:
    if not holds:
        raise ContractError(problem, fix=fix)


def _play(
    policy: Policy, world: Environment, noise: Noise, delay: Delay | None = None, rounds: int = ROUNDS
) -> list[Step]:
    return list(walk(policy, world, rounds, generator(5, "explore"), generator(5, "world"), noise, delay))


def _copy(state: State) -> State:
    return {key: value.copy() for key, value in state.items()}


def _equal(first: State, second: State) -> bool:
    return set(first) == set(second) and all(
        np.array_equal(first[key], second[key], equal_nan=first[key].dtype.kind == "f") for key in first
    )


def table_round_trip(policy: Policy, world: Environment) -> None:
    """The complete table of its public configuration builds it again."""
    table = describe(policy)
    again = describe(registry.build("policy", table, "policy"))
    _must(table == again, "describe and build are not inverse")


def cost_before_data(policy: Policy, world: Environment) -> None:
    """It says what it costs and promises before any data; a curator's established promise is paid for."""
    event, promise = policy.event(), policy.guarantee()
    _must(event_from_dict(event.to_dict()) == event, "the event does not survive being written down")
    if promise is not None and promise.established:
        _must(promise.epsilon is not None and promise.epsilon > 0, "an established guarantee has an epsilon")
        if promise.model.value != "local":
            _must(not isinstance(event, NothingEvent), "a guarantee in this model is paid for by an event")


def documented(policy: Policy, world: Environment) -> None:
    """Its docstring says what is guaranteed and what it costs, with an example that runs."""
    doc = inspect.getdoc(type(policy)) or ""
    for word in ("Guarantee", "Cost", ">>>"):
        _must(word in doc, f"the docstring lacks {word!r}")


def pure_decide(policy: Policy, world: Environment) -> None:
    """Decide changes nothing but seals, repeats itself for the same generator, and works before any reward."""
    rng, noise = generator(1, "world"), SeededNoise(3)
    place, state = world.prepare(rng), policy.start()
    for index in range(20):
        shown = place.show(index, rng)
        before = _copy(state)
        first = policy.decide(state, shown, generator(2, "explore", index))
        second = policy.decide(state, shown, generator(2, "explore", index))
        _must(first.arm == second.arm and first.propensity == second.propensity, "two equal calls decide differently")
        for name in policy.seals:
            before[name] = state[name]
        _must(_equal(state, before), "decide changed the state")
        reward = place.reward(shown, first.arm, rng)
        state = policy.learn(state, policy.report(Feedback(index, first.arm, reward, shown), noise))
        state = settle(policy, state, index + 1, noise)


def same_seed_same_run(policy: Policy, world: Environment) -> None:
    """The same seeds give the same decisions, and probabilities are probabilities."""
    first, second = _play(policy, world, SeededNoise(3)), _play(policy, world, SeededNoise(3))
    _must([s.decision.arm for s in first] == [s.decision.arm for s in second], "the same seed gave another run")
    for step in first:
        law = step.decision.probabilities
        _must(0 < step.decision.propensity <= 1 + 1e-9, "a propensity is not a probability")
        if law is not None:
            _must(law.min() >= 0 and abs(law.sum() - 1) < 1e-9, "probabilities do not sum to one")
            _must(abs(law[step.decision.arm] - step.decision.propensity) < 1e-9, "the propensity is not the law's")


def state_is_a_value(policy: Policy, world: Environment) -> None:
    """State is plain arrays, survives saving at every round, and is never changed in place."""
    explore, rng, noise = generator(5, "explore"), generator(5, "world"), SeededNoise(3)
    place, state = world.prepare(rng), policy.start()
    arms = []
    for index in range(60):
        _must(all(isinstance(v, np.ndarray) and v.dtype != object for v in state.values()), "state is not plain arrays")
        state = load_state(save_state(state))
        shown = place.show(index, rng)
        decision = policy.decide(state, shown, explore)
        arms.append(decision.arm)
        before = _copy(state)
        reward = place.reward(shown, decision.arm, rng)
        after = policy.learn(state, policy.report(Feedback(index, decision.arm, reward, shown), noise))
        _must(_equal(state, before), "learn changed the given state", "copy_state first")
        state = after
        while policy.due(state, index + 1) is not None:
            before = _copy(state)
            after = policy.release(state, noise)
            _must(_equal(state, before), "release changed the given state", "copy_state first")
            state = after
    walked = [step.decision.arm for step in _play(policy, world, SeededNoise(3), rounds=60)]
    _must(arms == walked, "saving and loading changed the run")


def late_and_missing_rewards(policy: Policy, world: Environment) -> None:
    """Rewards may come late, out of order, or never."""
    _must(len(_play(policy, world, SeededNoise(3), random_delay(20, 0.2))) == ROUNDS, "late rewards stop it")
    _must(len(_play(policy, world, SeededNoise(3), lambda index, rng: None)) == ROUNDS, "missing rewards stop it")


def any_noise(policy: Policy, world: Environment) -> None:
    """Zero and secure noise run through the same code."""
    for noise in (ZeroNoise(), SecureNoise()):
        _must(len(_play(policy, world, noise, rounds=40)) == 40, f"{type(noise).__name__} stops it")


def lost_releases(policy: Policy, world: Environment) -> None:
    """A release that was charged and lost is survived; block ids never repeat."""
    explore, rng, noise = generator(5, "explore"), generator(5, "world"), SeededNoise(3)
    place, state = world.prepare(rng), policy.start()
    blocks: list[str] = []
    for index in range(80):
        shown = place.show(index, rng)
        decision = policy.decide(state, shown, explore)
        reward = place.reward(shown, decision.arm, rng)
        state = policy.learn(state, policy.report(Feedback(index, decision.arm, reward, shown), noise))
        while (block := policy.due(state, index + 1)) is not None:
            blocks.append(block)
            state = policy.lost(state, block) if len(blocks) % 2 else policy.release(state, noise)
    _must(len(blocks) == len(set(blocks)), "a block id came twice")


def under_a_ledger(policy: Policy, world: Environment) -> None:
    """A curator's private policy runs under a ledger: charged once, and after a crash the stored value comes back."""
    promise = policy.guarantee()
    if promise is None or not promise.established or isinstance(policy.event(), NothingEvent):
        return
    if policy.keeps_history:
        return  # decisions read the raw history: no part of such a state may be stored, and `drive` refuses it
    _must(policy.released, "it does not say which state arrays hold released values only", "released = (...)")
    explore, rng, noise = generator(5, "explore"), generator(5, "world"), SeededNoise(3)
    place, state = world.prepare(rng), policy.start()
    with tempfile.TemporaryDirectory() as folder:
        limit = Limit.covering(policy.event())
        with Ledger.open(f"{folder}/ledger.db", limit=limit, simulated=True) as ledger:
            for index in range(40):
                shown = place.show(index, rng)
                decision = policy.decide(state, shown, explore)
                reward = place.reward(shown, decision.arm, rng)
                state = policy.learn(state, policy.report(Feedback(index, decision.arm, reward, shown), noise))
                after = drive(policy, state, index + 1, ledger, noise=noise)
                again = drive(
                    policy, state, index + 1, ledger, noise=noise
                )  # as after a crash before the state was saved
                for name in policy.released:
                    _must(np.array_equal(after[name], again[name]), "a crash gave another value", "see released")
                state = after


def bounded_memory(policy: Policy, world: Environment) -> None:
    """The state does not grow with rounds, unless the algorithm keeps the history by definition (keeps_history)."""
    if policy.keeps_history:
        return
    sizes = [
        sum(value.nbytes for value in step.state.values()) for step in _play(policy, world, SeededNoise(3), rounds=300)
    ]
    _must(sizes[-1] <= 2 * sizes[20] + 4096, "the state grows with the rounds")


LAWS: dict[str, Law] = {
    law.__name__: law
    for law in (
        table_round_trip,
        cost_before_data,
        documented,
        pure_decide,
        same_seed_same_run,
        state_is_a_value,
        late_and_missing_rewards,
        any_noise,
        lost_releases,
        under_a_ledger,
        bounded_memory,
    )
}
