"""A family of bandits: policies and environments that share a fairness notion, a fast simulator and metrics.

The `bandit` task finds the family through the environment and lets it do the work. A family's compiled simulator calls
the same kernels as its policies' step API. Policies without a kernel (plug-ins) run through `fairveil.bandits.steps`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar

from fairveil.bandits.environments.base import Environment
from fairveil.bandits.protocol import Policy
from fairveil.task import Outcome, Part


class Family(ABC):
    """Registered under kind ``family`` with the family's name."""

    name: ClassVar[str] = ""

    def complete(self, spec: dict[str, Any], policy: Policy, environment: Environment) -> dict[str, Any]:
        """Last chance to check that policy, environment, rounds and checkpoints fit together and fill defaults."""
        return spec

    @abstractmethod
    def blocks(self, spec: dict[str, Any]) -> list[dict[str, Any]]:
        raise NotImplementedError

    @abstractmethod
    def work(self, spec: dict[str, Any], block: dict[str, Any]) -> Part:
        raise NotImplementedError

    @abstractmethod
    def finish(self, spec: dict[str, Any], parts: list[Part]) -> Outcome:
        raise NotImplementedError
