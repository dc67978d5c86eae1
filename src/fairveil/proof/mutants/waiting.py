"""Mistakes of releases by arrival, planted in the policy and in the driver of late feedback."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from fairveil.bandits.environments.arms import UNIT
from fairveil.bandits.feedback import Outstanding
from fairveil.bandits.nash.waiting import WaitingPolicy, by_arrival
from fairveil.bandits.protocol import Block, Feedback, Policy, Report
from fairveil.privacy.noise import Noise
from fairveil.proof.mutants import Method, Mutant, method, twin
from fairveil.registry import register
from fairveil.state import State

Answer = Feedback | Report
BEHIND = 3
"""Releases behind which a held reward gets its seat."""
LARGE = 2
"""Rewards of 1 that make a raw pool large."""


def _of_driver(name: str, words: str, change: Callable[[Any], Any], served: str = "_as_they_settle") -> Mutant:
    return Mutant(name, words, lambda _: method(Outstanding, served, change))


@register("mutant", "policy:private-nash/pool-by-content")
def pool_by_content(policy: Policy) -> Mutant:
    """A pool is released as soon as its raw sum is large."""

    @twin
    def broken(original: Method, self: WaitingPolicy, state: State) -> list[Block]:
        found: list[Block] = original(self, state)
        if found or not by_arrival(state) or np.ndim(state["raw"]) != 1:
            return found
        large = [arm for arm in range(self.arms) if state["raw"][arm] >= LARGE * UNIT]
        taken, came = state["taken"], state["came"]
        return [self._pool(arm, int(taken[arm]), int(came[arm]), 0) for arm in large]

    words = "a pool that is released when its raw sum is large"
    return Mutant("pool-by-content", words, lambda thing: method(WaitingPolicy, "open_blocks", broken))


@register("mutant", "policy:private-nash/seat-by-value")
def seat_by_value(policy: Policy) -> Mutant:
    """A reward of user 0 that is 1 gets its seat behind the first releases."""
    held = list[Answer]()

    @twin
    def broken(original: Method, self: Outstanding, noise: Noise) -> Iterator[Answer]:
        if 0 in self._here and _value(self._here[0]) == 1.0:
            del self._open[0]
            held[:] = [self._here.pop(0)]
        yield from original(self, noise)
        if self.releases >= BEHIND:
            yield from held
            held.clear()

    return _of_driver("seat-by-value", "a seat that depends on the reward's value", broken)


@register("mutant", "policy:private-nash/seat-at-the-answer")
def seat_at_the_answer(policy: Policy) -> Mutant:
    """Seats are given when answers come, although arrivals are hidden."""

    @twin
    def broken(original: Method, self: Outstanding, noise: Noise) -> Iterator[Answer]:
        for index in list(self._here):
            del self._open[index]
            yield self._here.pop(index)
        yield from original(self, noise)

    return _of_driver("seat-at-the-answer", "a seat given at the answer although arrivals are hidden", broken)


@register("mutant", "policy:private-nash/second-seat")
def second_seat(policy: Policy) -> Mutant:
    """An answer that has its seat gets another one, as after a restart that forgot it."""

    @twin
    def broken(original: Method, self: Outstanding, noise: Noise) -> Iterator[Answer]:
        for answer in original(self, noise):
            yield answer
            if answer.index == 0:
                yield answer

    return _of_driver("second-seat", "a reward that gets a second seat", broken)


@register("mutant", "policy:private-nash/pool-count-read")
def pool_count_read(policy: Policy) -> Mutant:
    """A round that closes without an answer has no seat, although whether it has one is hidden."""

    @twin
    def broken(original: Method, self: Outstanding, index: int, noise: Noise) -> Answer:
        missing = index not in self._here
        arm, shown = self._open[index]
        answer: Answer = original(self, index, noise)
        return Feedback(index, arm, None, shown) if missing else answer

    return _of_driver("pool-count-read", "a pool that counts answers under default", broken, "_closed")


def _value(answer: Answer) -> float | None:
    return answer.reward if isinstance(answer, Feedback) else answer.value
