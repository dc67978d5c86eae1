"""One round after the other: drives any policy in any environment through the protocol, with late or missing rewards.

The compiled simulators of the families are fast twins of this loop; plug-ins, secure noise and tests run here.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from dataclasses import dataclass

from fairveil.bandits.environments.base import Environment
from fairveil.bandits.feedback import AT_ONCE, NEVER, Lateness, Outstanding, hand_over
from fairveil.bandits.protocol import Decision, Feedback, Policy, Report, Round
from fairveil.bandits.simulate import Streams
from fairveil.state import State


@dataclass(frozen=True, slots=True)
class Step:
    """What happened in one round; ``state`` is the policy's state after it."""

    round: Round
    decision: Decision
    reward: float
    state: State


def walk(
    policy: Policy, environment: Environment, rounds: int, streams: Streams, lateness: Lateness = AT_ONCE
) -> Iterator[Step]:
    """Yield every round of one run in the world that the environment prepares for it: see `play`."""
    return play(policy, environment.prepare(streams.world), rounds, streams, lateness)


def play(
    policy: Policy, place: Environment, rounds: int, streams: Streams, lateness: Lateness = AT_ONCE
) -> Iterator[Step]:
    """Yield every round of one run in a prepared world.

    Rewards pass through ``policy.report`` when they are drawn (on the user's side), arrive after their delay, and reach
    ``learn`` by the policy's clock; releases are made as soon as they are due.
    """
    world, noise = streams.world, streams.noise
    outstanding = Outstanding(policy, lateness)
    state = hand_over(policy, policy.start(), outstanding, noise)
    under_way: list[tuple[int, int, Feedback | Report]] = []
    for index in range(rounds):
        state = policy.open(state, index, streams.explore)
        shown = place.show(index, world)
        decision = policy.decide(state, shown, streams.explore)
        reward = place.reward(shown, decision.arm, world)
        outstanding.decided(decision.arm, shown)
        wait = place.wait(shown, decision.arm, lateness, streams.arrivals)
        if wait != NEVER:
            feedback = policy.report(Feedback(index, decision.arm, reward, shown), noise)
            heapq.heappush(under_way, (index + wait, index, feedback))
        while under_way and under_way[0][0] <= index:
            outstanding.arrive(heapq.heappop(under_way)[2])
        state = hand_over(policy, state, outstanding, noise)
        yield Step(shown, decision, reward, state)
