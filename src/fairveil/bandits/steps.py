"""One round after the other: drives any policy in any environment through the protocol, with late or missing rewards.

The compiled simulators of the families are fast twins of this loop; plug-ins, secure noise and tests run here.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any

from fairveil.arrays import Floats
from fairveil.bandits.environments.base import Environment
from fairveil.bandits.feedback import AT_ONCE, NEVER, NOBODY, Lateness, Outstanding, hand_over
from fairveil.bandits.protocol import Decision, Feedback, Policy, Report, Round
from fairveil.bandits.simulate import Case, Simulator, Streams
from fairveil.state import State

NOBODY_CHOSEN = Decision(NOBODY)


@dataclass(frozen=True, slots=True)
class Step:
    """What happened in one round; ``state`` is the policy's state after it."""

    round: Round
    decision: Decision
    reward: float
    state: State
    releases: int = 0
    """Releases made until then."""


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
        if place.nobody(shown):
            decision, reward = NOBODY_CHOSEN, 0.0
        else:
            decision = policy.decide(state, shown, streams.explore)
            reward = place.reward(shown, decision.arm, world)
        outstanding.decided(decision.arm, shown)
        wait = place.wait(shown, decision.arm, lateness.given(reward), streams.arrivals)
        if wait != NEVER and decision is not NOBODY_CHOSEN:
            feedback = policy.report(Feedback(index, decision.arm, reward, shown), noise)
            heapq.heappush(under_way, (index + wait, index, feedback))
        while under_way and under_way[0][0] <= index:
            outstanding.arrive(heapq.heappop(under_way)[2])
        state = hand_over(policy, state, outstanding, noise)
        yield Step(shown, decision, reward, state, outstanding.releases)


class StepSimulator(Simulator[Any]):
    """Any policy in any world through its step API: plug-ins, secure noise, the reference for compiled simulators."""

    compiled = False

    def __init__(self, case: Case, streams: Streams) -> None:
        self.family, self.streams = case.family, streams
        self.world = case.environment.stage(streams.world)
        rounds = self.world.decisions(case.rounds)
        self.steps: Iterator[Step] = play(case.policy, self.world, rounds, streams, case.lateness)
        self.decided, self.state, self.seen = 0, State(), None
        promise = case.policy.promise
        self.spent = 0.0 if promise is None else promise.epsilon or 0.0

    def advance(self, stop: int) -> Any:
        until = self.world.decisions(stop)
        self.world.draw_ahead(self.decided, until - self.decided, self.streams.world)
        self.seen = self.family.seen(self.world, self._noted(until - self.decided), self.seen)
        self.decided = until
        return self.seen

    def _noted(self, count: int) -> Iterator[Step]:
        for step in islice(self.steps, count):
            self.state, self.releases = step.state, self.family.releases(step)
            yield step

    def published(self) -> State:
        return self.state

    def belief(self) -> Floats | None:
        return self.state.get("centre")
