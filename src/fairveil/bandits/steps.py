"""One round after the other: drives any policy in any environment through the protocol, with late or missing rewards.

The compiled simulators of the families are fast twins of this loop; plug-ins, secure noise and tests run here.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from fairveil.bandits.environments.base import Environment
from fairveil.bandits.protocol import Decision, Feedback, Policy, Round, State, settle
from fairveil.privacy.noise import Noise
from fairveil.randomness import Generator

Delay = Callable[[int, Generator], int | None]
"""Rounds until the reward of a round is delivered (0: at once), or None if it never arrives."""


@dataclass(frozen=True, slots=True)
class Step:
    """What happened in one round; ``state`` is the policy's state after it."""

    round: Round
    decision: Decision
    reward: float
    state: State


def walk(
    policy: Policy,
    environment: Environment,
    rounds: int,
    explore: Generator,
    world: Generator,
    noise: Noise,
    delay: Delay | None = None,
) -> Iterator[Step]:
    """Yield every round of one run. ``explore`` serves the policy, ``world`` the environment, ``noise`` privacy.

    Rewards pass through ``policy.report`` when they are drawn (on the user's side) and reach ``learn`` when they
    arrive; releases are made as soon as they are due, whether or not all rewards of their block have arrived.
    """
    place = environment.prepare(world)
    state = settle(policy, policy.start(), 0, noise)
    waiting: list[tuple[int, int, Feedback]] = []
    for index in range(rounds):
        shown = place.show(index, world)
        decision = policy.decide(state, shown, explore)
        reward = place.reward(shown, decision.arm, world)
        wait = 0 if delay is None else delay(index, world)
        if wait is not None:
            feedback = policy.report(Feedback(index, decision.arm, reward, shown), noise)
            heapq.heappush(waiting, (index + wait, index, feedback))
        while waiting and waiting[0][0] <= index:
            state = policy.learn(state, heapq.heappop(waiting)[2])
        state = settle(policy, state, index + 1, noise)
        yield Step(shown, decision, reward, state)


def random_delay(longest: int, missing: float = 0.0) -> Delay:
    """Uniform delays up to ``longest`` rounds; a share ``missing`` of the rewards never arrives."""

    def wait(index: int, rng: Generator) -> int | None:
        if missing > 0 and rng.random() < missing:
            return None
        return int(rng.integers(0, longest + 1))

    return wait
