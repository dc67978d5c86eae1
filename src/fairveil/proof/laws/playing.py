"""How the laws of policies play: in which world, a walk with late rewards, or turns that a law learns itself."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from fairveil import registry
from fairveil.bandits.environments.base import Environment
from fairveil.bandits.feedback import AT_ONCE, NEVER, Lateness
from fairveil.bandits.protocol import Decision, Feedback, Policy, Report, Round
from fairveil.bandits.simulate import Step, Streams, walk
from fairveil.bandits.task import BanditTask
from fairveil.configuration import describe
from fairveil.errors import SpecError
from fairveil.privacy.noise import Noise
from fairveil.randomness import Generator, generator
from fairveil.state import State

ROUNDS, LONG, FEW_BLOCKS = 120, 400, 3
"""Rounds of a law's run, of one that waits for released blocks, and how many blocks it looks at."""


#: The world a family's policies are checked in.
WORLDS: dict[str, dict[str, Any]] = {
    "": {"name": "bernoulli"},
    "nash": {"name": "bernoulli"},
    "meritocratic": {"name": "gaussian", "weights": [1.0, 0.5], "means": [[0.0, 0.0], [1.0, 0.5], [0.5, 1.0]]},
    "exposure": {"name": "exposure", "agents": 1, "actions": 4, "dimension": 3},
}


def world_of(policy: Policy) -> Environment:
    """An environment that fits a policy: as many arms, agents or features as it has, where it has a number of them."""
    table, arms = WORLDS[policy.family], policy.arms
    if table["name"] == "bernoulli":
        table = {**table, "means": np.linspace(0.2, 0.8, 3 if arms is None else arms).tolist()}
    if table["name"] == "exposure":
        table = {**table, **{name: getattr(policy, name) for name in ("agents", "dimension") if hasattr(policy, name)}}
    made: Environment = registry.build("environment", table, "environment")
    return made


def placed(policy: Policy) -> tuple[Policy, Environment]:
    """A policy that can start and a world that fits it; facts that it lacks are completed as a spec would do it."""
    try:
        policy.start()
    except SpecError:
        defaults = {field.name: field.default for field in dataclasses.fields(policy)}  # type: ignore[arg-type]
        own = {key: value for key, value in describe(policy).items() if key in defaults}
        own = {key: value for key, value in own.items() if value is not None and value != defaults[key]}
        table = WORLDS[policy.family]
        spec = {"task": "bandit", "rounds": 1000, "policy": {"name": policy.name, **own}, "environment": table}
        full = BanditTask().complete(spec)
        policy = registry.build("policy", full["policy"], "policy")
    return policy, world_of(policy)


class Silent(Lateness):
    """Nobody ever answers."""

    def wait(self, round: Round, arm: int, rng: Generator) -> int:
        return NEVER


def play(
    policy: Policy,
    world: Environment,
    noise: Noise,
    lateness: Lateness = AT_ONCE,
    rounds: int = ROUNDS,
    arrivals: int = 5,
) -> list[Step]:
    streams = replace(Streams.of(5, 0, noise), coming=lambda: generator(arrivals, "arrivals"))
    return list(walk(policy, world, rounds, streams, lateness))


@dataclass
class Turn:
    """A round of a law that learns and releases itself: the state before learning, and the answer to be learned.

    ``before``: the state before its block was opened.
    """

    index: int
    before: State
    state: State
    shown: Round
    decision: Decision
    answer: Feedback | Report


def turns(policy: Policy, world: Environment, rounds: int, noise: Noise) -> Iterator[Turn]:
    """Decide one round after the other without delay; the law puts the state it goes on with into the turn."""
    streams, before = Streams.of(5, 0, noise), policy.start()
    place = world.prepare(streams.world)
    for index in range(rounds):
        state = policy.open(before, index, streams.explore)
        shown = place.show(index, streams.world)
        decision = policy.decide(state, shown, streams.explore)
        reward = place.reward(shown, decision.arm, streams.world)
        answer = policy.report(Feedback(index, decision.arm, reward, shown), noise)
        turn = Turn(index, before, state, shown, decision, answer)
        yield turn
        before = turn.state
