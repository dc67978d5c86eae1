"""A family of bandits: policies and environments that share a fairness notion, a fast simulator and metrics.

The `bandit` task finds the family through the environment, cuts the runs into blocks and joins the parts; the family
says what it simulates at a time and what it measures. Policies without a compiled simulator (plug-ins, secure noise)
run through `fairveil.bandits.steps`.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from fairveil.bandits.protocol import Policy
from fairveil.bandits.simulate import Case, Simulator, Streams
from fairveil.state import State
from fairveil.task import Part

Series = dict[str, dict[str, list[float]]]


def noted_estimates(policy: Policy, state: State | None) -> NDArray[Any]:
    """What a run has published, as text that a part can hold; empty where there is nothing or nobody asks."""
    promise = policy.guarantee()
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
