"""How the laws of policies play: a walk with late rewards, or turns that the law learns and releases itself."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from fairveil.bandits.environments.base import Environment
from fairveil.bandits.feedback import AT_ONCE, NEVER, Lateness
from fairveil.bandits.protocol import Decision, Feedback, Policy, Report, Round
from fairveil.bandits.simulate import Streams
from fairveil.bandits.steps import Step, walk
from fairveil.errors import ContractError
from fairveil.privacy.noise import Noise
from fairveil.randomness import Generator, generator
from fairveil.state import State

ROUNDS, LONG, FEW_BLOCKS = 120, 400, 3
"""Rounds of a law's run, of one that waits for released blocks, and how many blocks it looks at."""


def must(holds: object, problem: str, fix: str = "") -> None:
    if not holds:
        raise ContractError(problem, fix=fix)


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
    """A round of a law that learns and releases itself: the state before learning, and the answer to be learned."""

    index: int
    state: State
    decision: Decision
    answer: Feedback | Report


def turns(policy: Policy, world: Environment, rounds: int, noise: Noise) -> Iterator[Turn]:
    """Decide one round after the other without delay; the law puts the state it goes on with into the turn."""
    streams, turn = Streams.of(5, 0, noise), Turn(0, policy.start(), Decision(0), Feedback(0, 0, None))
    place = world.prepare(streams.world)
    for index in range(rounds):
        state = policy.open(turn.state, index, streams.explore)
        shown = place.show(index, streams.world)
        decision = policy.decide(state, shown, streams.explore)
        reward = place.reward(shown, decision.arm, streams.world)
        turn = Turn(index, state, decision, policy.report(Feedback(index, decision.arm, reward, shown), noise))
        yield turn
