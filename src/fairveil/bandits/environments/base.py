"""What an environment is to the step simulator: it shows rounds and answers with rewards."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar

from fairveil.bandits.protocol import Round
from fairveil.randomness import Generator


class Environment(ABC):
    """Public configuration of a world. ``prepare`` draws whatever is fixed for one run (theta, means)."""

    name: ClassVar[str] = ""
    family: ClassVar[str] = ""

    def facts(self) -> dict[str, Any]:
        """What a policy must agree with (number of arms, ...); left out of its spec, it is filled in."""
        return {"arms": self.arms} if hasattr(self, "arms") else {}

    def hints(self) -> dict[str, Any]:
        """What a policy assumes about this world when its spec does not say otherwise."""
        return {}

    def prepare(self, rng: Generator) -> Environment:
        """The world of one run; most environments return themselves."""
        return self

    def show(self, index: int, rng: Generator) -> Round:
        """The round that is offered."""
        return Round(index)

    @abstractmethod
    def reward(self, round: Round, arm: int, rng: Generator) -> float:
        """The reward of the chosen arm."""
        raise NotImplementedError
