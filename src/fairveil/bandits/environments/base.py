"""What an environment is to the step simulator: it shows rounds and answers with rewards."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar

from fairveil.bandits.facts import Fact, horizon
from fairveil.bandits.feedback import AT_ONCE, Lateness
from fairveil.bandits.protocol import Round
from fairveil.randomness import Generator


class Environment(ABC):
    """Public configuration of a world. ``prepare`` draws whatever is fixed for one run (theta, means)."""

    name: ClassVar[str] = ""
    family: ClassVar[str] = ""

    recorded: ClassVar[bool] = False
    """Its rounds are people's recorded rows: what is measured on them is not protected, and runs reuse the people."""

    def facts(self, rounds: int) -> dict[str, Fact]:
        """What a policy must agree with or assumes in a run of ``rounds`` rounds, by the names of its fields."""
        return horizon(rounds)

    @property
    def lateness(self) -> Lateness:
        """When rewards arrive where a spec has no ``feedback``; a world that delays them itself refuses that key."""
        return AT_ONCE

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
