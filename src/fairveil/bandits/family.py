"""A family of bandits: policies and environments that share a fairness notion, a fast simulator and metrics.

The `bandit` task finds the family through the environment, cuts the runs into blocks and joins the parts; the family
says what it simulates at a time and what it measures. Policies without a compiled simulator (plug-ins, secure noise)
run through `fairveil.bandits.steps`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar

from fairveil.bandits.simulate import Case, Simulator, Streams
from fairveil.task import Part

Series = dict[str, dict[str, list[float]]]


class Family(ABC):
    """Registered under kind ``family`` with the family's name."""

    name: ClassVar[str] = ""

    def check(self, case: Case) -> dict[str, Any]:
        """Refuse a case whose policy, environment and rounds do not fit; returns keys that complete its spec."""
        return {}

    def runs_at_once(self, case: Case) -> int:
        """How many runs one block of work holds."""
        return 1

    def uniform(self, case: Case, streams: Streams) -> Simulator | None:
        """A simulator of the policy that chooses at random, None where the step API plays it."""
        return None

    @abstractmethod
    def simulate(self, case: Case, runs: range) -> Part:
        """Play these runs and measure them at the checkpoints."""
        raise NotImplementedError

    @abstractmethod
    def measure(self, case: Case, parts: list[Part]) -> tuple[dict[str, Any], Series]:
        """Metrics and series of all runs."""
        raise NotImplementedError
