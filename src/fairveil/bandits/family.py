"""A family of bandits: policies and environments that share a fairness notion. It is a tally and its metrics.

The engine (`fairveil.bandits.simulate`) plays the runs; the family says what a tally keeps of them and measures it.
"""

from __future__ import annotations

import json
import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from typing import Any, ClassVar, Generic

import numpy as np
from numpy.typing import NDArray

from fairveil.arrays import Floats
from fairveil.bandits.protocol import Policy
from fairveil.bandits.quotes import TrialPlan
from fairveil.bandits.simulate import Case, Seen, Simulator, Step, StepSimulator, Streams
from fairveil.errors import SpecError
from fairveil.state import State
from fairveil.task import Part

Series = dict[str, dict[str, list[float]]]
BAND = 1.96
"""Bands are normal 95 % intervals."""


class Tally(ABC, Generic[Seen]):
    """What is kept of runs that are played side by side, in memory that does not grow with rounds.

    ``checkpoints``: rounds at which `mark` is called; ``rounds``: where the runs end; ``chunk``: rounds at a time.
    """

    threaded: ClassVar[bool] = False
    """Whether compiled runs may share threads."""

    checkpoints: list[int]
    rounds: int
    chunk: int

    def stops(self) -> Iterator[tuple[int, bool]]:
        """Rounds to advance to, at most a chunk further each, and whether that is a checkpoint: none is passed over."""
        now = 0
        for end in sorted({*self.checkpoints, self.rounds}):
            while now < end:
                now = min(now + self.chunk, end)
                yield now, now == end and end in self.checkpoints

    @abstractmethod
    def add(self, seen: list[Seen]) -> None:
        """Take in a stretch of all runs."""

    @abstractmethod
    def mark(self, played: list[Simulator[Seen]]) -> None:
        """A checkpoint is reached."""

    @abstractmethod
    def part(self, played: list[Simulator[Seen]]) -> Part:
        """All that metrics are made of."""


class Family(ABC, Generic[Seen]):
    """Registered under kind ``family`` with the family's name."""

    name: ClassVar[str] = ""
    uniform: ClassVar[bool] = False
    """Whether `at_random` plays the policy that chooses at random; else its steps are played."""

    def check(self, case: Case) -> dict[str, Any]:
        """Refuse a case whose policy, environment and rounds do not fit; returns keys that complete its spec."""
        return {}

    def plan(self, policy: Policy, guess: Any, runs: int, **asked: Any) -> TrialPlan:
        """What a policy's `plan` answers; refused by families that have none."""
        raise SpecError(
            "plans in people are for plain arms",
            path="policy.name",
            given=policy.name,
            allowed="private-nash, adap-ucb, local-nash, ldp-ucb",
            fix="quote says what other policies cost",
        )

    def runs_at_once(self, case: Case) -> int:
        """How many runs one block of work holds, from public numbers."""
        return 1

    def stepwise(self, case: Case, streams: Streams) -> Simulator[Any]:
        """A run that is played step by step."""
        return StepSimulator(case, streams)

    @abstractmethod
    def seen(self, world: Any, steps: Iterable[Step], before: Seen | None) -> Seen:
        """What the tally takes of the steps of a stretch; ``before``: of the stretch before it."""

    def releases(self, step: Step) -> int:
        """Releases made until a step; a family whose states count them asks the state."""
        return step.releases

    def at_random(self, world: Any, now: int, stop: int, streams: Streams, before: Seen | None) -> Seen:
        """What the tally takes of rounds now..stop-1 in which every arm is as likely as any other."""
        raise NotImplementedError

    @abstractmethod
    def tally(self, case: Case, runs: range) -> Tally[Seen]:
        """An empty tally of these runs."""

    @abstractmethod
    def measure(self, case: Case, parts: list[Part]) -> tuple[dict[str, Any], Series]:
        """Metrics and series of all runs."""


def noted_estimates(policy: Policy, state: State | None) -> NDArray[Any]:
    """What a run has published, as text that a part can hold; empty where there is nothing or nobody asks."""
    promise = policy.promise
    private = promise is not None and promise.established and not policy.keeps_history
    return np.array(json.dumps(policy.estimates(state).to_dict()) if private and state is not None else "")


def first_estimates(notes: Iterable[Any], names: dict[str, str] | None = None) -> dict[str, Any]:
    """``estimates`` of the first run that noted some; ``names`` says what its items are called."""
    for note in notes:
        if str(note):
            found = json.loads(str(note))
            for entry in (*found["items"], *found["tables"]):
                entry["name"] = (names or {}).get(entry["name"], entry["name"])
            return {"estimates": found}
    return {}


def band(x: list[int], y: list[float], std: list[float], runs: int) -> dict[str, list[float]]:
    """A series with its normal 95 % band from a standard deviation over runs."""
    reach = BAND / math.sqrt(runs)
    return {
        "x": [float(point) for point in x],
        "y": y,
        "low": [value - reach * error for value, error in zip(y, std)],
        "high": [value + reach * error for value, error in zip(y, std)],
    }


def spread(values: Floats) -> Floats:
    """Standard deviation over runs (first axis) of a sample; one run shows no spread."""
    return values.std(axis=0, ddof=1) if len(values) > 1 else np.zeros_like(values[0])


def curves(checkpoints: list[int], values: dict[str, Floats]) -> tuple[dict[str, Any], Series]:
    """Metrics (mean and ``_std`` over runs) and series of values (runs, checkpoints); undefined curves are left out.

    >>> metrics, series = curves([10], {"regret": np.array([[1.0], [3.0]]), "error": np.array([[np.nan], [1.0]])})
    >>> metrics["regret"], list(series)
    ([2.0], ['regret'])
    """
    metrics: dict[str, Any] = {}
    series: Series = {}
    for name, runs in values.items():
        if np.isnan(runs).any():
            continue
        metrics[name], metrics[f"{name}_std"] = runs.mean(axis=0).tolist(), spread(runs).tolist()
        series[name] = band(checkpoints, metrics[name], metrics[f"{name}_std"], len(runs))
    return metrics, series
