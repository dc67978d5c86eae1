"""Synchronisation protocols as objects: when all agents send what they have gathered.

A schedule that ignores the data knows all its times in advance, which sizes the private sum. The determinant rule looks
at statistics; its `size` is a public bound, and after that many synchronisations it stays silent.
"""

from __future__ import annotations

import math
from dataclasses import KW_ONLY
from typing import Annotated, Any, ClassVar

import numpy as np
from pydantic import Field, Strict
from scipy.linalg import eigh

from fairveil import registry
from fairveil.arrays import Floats
from fairveil.configuration import configuration
from fairveil.errors import SpecError
from fairveil.fields import Count, Positive, described
from fairveil.registry import register

NEVER = 0
"""The time of a synchronisation that does not come."""


class Schedule:
    """Base of all synchronisation protocols. Times are counted in rounds played by everybody."""

    name: ClassVar[str] = ""

    def times(self, rounds: int, agents: int, dimension: int) -> list[int] | None:
        """All times at or before ``rounds``, rising; None when they depend on statistics."""
        raise NotImplementedError

    def size(self, rounds: int, agents: int, dimension: int) -> int:
        """The largest number of synchronisations, known before any data."""
        times = self.times(rounds, agents, dimension)
        assert times is not None
        return len(times)


@register("schedule", "never")
@configuration
class Never(Schedule):
    """Everybody learns alone (the single-agent baseline B0)."""

    def times(self, rounds: int, agents: int, dimension: int) -> list[int]:
        return []


@register("schedule", "every-round")
@configuration
class EveryRound(Schedule):
    """Everybody sends after every round: the most collaboration, and the most noise under privacy."""

    def times(self, rounds: int, agents: int, dimension: int) -> list[int]:
        return list(range(1, rounds + 1))


@register("schedule", "doubling")
@configuration
class Doubling(Schedule):
    """After rounds 1, 2, 4, 8, ... (baseline B2, Solanki et al. 2022).

    >>> Doubling().times(20, 10, 5)
    [1, 2, 4, 8, 16]
    """

    def times(self, rounds: int, agents: int, dimension: int) -> list[int]:
        return [2**power for power in range(rounds.bit_length()) if 2**power <= rounds]


@register("schedule", "paper")
@configuration
class Paper(Schedule):
    """Doubling until the gap q = ceil(T / (m d^2 ln^2(1 + T/d))), then every q rounds.

    At T = 100,000, m = 10, d = 5 this is every fifth round, 20,002 times; from m = 41 on it is every round.

    >>> schedule = Paper()
    >>> schedule.times(100_000, 10, 5)[:6], schedule.size(100_000, 10, 5), schedule.gap(100_000, 41, 5)
    ([1, 2, 4, 8, 13, 18], 20002, 1)

    Reference: Solanki, Jain and Gujar, algorithm 1, lines 10 to 17.
    """

    def gap(self, rounds: int, agents: int, dimension: int) -> int:
        return math.ceil(rounds / (agents * dimension**2 * math.log(1 + rounds / dimension) ** 2))

    def times(self, rounds: int, agents: int, dimension: int) -> list[int]:
        gap, time, found = self.gap(rounds, agents, dimension), 1, []
        while time <= rounds:
            found.append(time)
            time = 2 * time if time < gap else time + gap
        return found


@register("schedule", "growing")
@configuration
class Growing(Schedule):
    """At ``first``, then whenever the number of rounds has grown by ``factor``; and at no other time.

    >>> Growing(factor=2.0, first=4).times(40, 10, 5)
    [4, 8, 16, 32]
    """

    factor: Annotated[float, Strict(), Field(gt=1.0, le=1e6, allow_inf_nan=False)] = described(
        "how much longer each pause is than the one before", default=1.5
    )
    first: Count = described("rounds until the first synchronisation", default=1)

    def times(self, rounds: int, agents: int, dimension: int) -> list[int]:
        time, found = self.first, []
        while time <= rounds:
            found.append(time)
            time = max(time + 1, math.ceil(time * self.factor))
        return found


@register("schedule", "determinant")
@configuration
class Determinant(Schedule):
    """When (rounds since the last one) x log(det(V + S)/det V) passes a threshold (baseline B1, Dubey and Pentland
    2020).

    ``raw=False``: S is the rounds since the last synchronisation times the released mean Gram matrix of a round, so
    the time is a function of what everybody knows already. ``raw=True``: S is an agent's own unreleased rows; the
    time then leaks them, so private policies allow it only as ``printed``, with a guarantee that is not established.
    At most ``max_syncs`` synchronisations. Without a threshold: T ln(m T)/(d m), the choice of Wang et al. 2020.
    """

    _: KW_ONLY
    threshold: Positive | None = described(
        "what must be passed for the next synchronisation; the paper's when left out", default=None
    )
    max_syncs: Count = described("most synchronisations of a run", default=256)
    raw: bool = described("whether agents look at raw rows to decide (then the guarantee says so)", default=False)

    def times(self, rounds: int, agents: int, dimension: int) -> None:
        return None

    def size(self, rounds: int, agents: int, dimension: int) -> int:
        return self.max_syncs

    def limit(self, rounds: int, agents: int, dimension: int) -> float:
        if self.threshold is not None:
            return self.threshold
        return rounds * math.log(max(agents * rounds, 2)) / (dimension * agents)

    def following(self, now: int, precision: Floats, gained: Floats, limit: float, rounds: int) -> int:
        """The next time, from the released precision and the released mean gain of one agent's round.

        delta -> delta log det(I + delta P^-1 M) rises, so the first time past the threshold is found by bisection.
        """
        rates = np.maximum(eigh(gained, precision, eigvals_only=True), 0.0)

        def passed(delta: int) -> bool:
            return delta * float(np.log1p(delta * rates).sum()) > limit

        low, high = 0, rounds - now
        if high < 1 or not passed(high):
            return NEVER
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if passed(middle) else (middle, high)
        return now + high


def schedule_from(given: Any, path: str = "schedule") -> Schedule:
    """A schedule from an object, a name or a table ``{"name": "growing", "factor": 1.5}``."""
    if isinstance(given, Schedule):
        return given
    if isinstance(given, str):
        return registry.build("schedule", {"name": given}, path)
    if isinstance(given, dict):
        return registry.build("schedule", given, path)
    raise SpecError(
        "a schedule is a name or a table", path=path, given=given, allowed=", ".join(registry.names("schedule"))
    )
