"""What an environment is to the step simulator: it shows rounds and answers with rewards."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar

from fairveil.arrays import Floats
from fairveil.bandits.facts import Fact, horizon
from fairveil.bandits.feedback import AT_ONCE, Lateness
from fairveil.bandits.protocol import Round
from fairveil.configuration import unless
from fairveil.errors import HorizonError
from fairveil.randomness import Generator


class Environment(ABC):
    """Public configuration of a world. ``prepare`` draws whatever is fixed for one run (theta, means)."""

    name: ClassVar[str] = ""
    family: ClassVar[str] = ""

    compiled: ClassVar[bool] = True
    """Whether compiled simulators can play in this world; else the steps of a policy are played."""
    generated: ClassVar[bool] = False
    """It follows from its fields alone, no file is read: equal ones may be one object."""
    recorded: ClassVar[bool] = False
    """Its rounds are people's recorded rows: what is measured on them is not protected, and runs reuse the people."""

    @property
    def arm_names(self) -> tuple[str, ...] | None:
        """What the arms are called where they have names."""
        return None

    @property
    def group_names(self) -> tuple[str, ...]:
        """What the groups of its people are called where it has people in groups."""
        return ()

    arms: Any = unless(None)
    """Declared arms; None where the choices of a round are shown in it."""
    declared: Any = unless("public")

    @property
    def drafted(self) -> bool:
        """Its ranges and names were read off the data and not yet declared public."""
        return bool(self.declared == "drafted")

    @property
    def caveats(self) -> tuple[str, ...]:
        """What a reader of the guarantee must know about where its public numbers come from."""
        return ()

    def facts(self, rounds: int) -> dict[str, Fact]:
        """What a policy must agree with or assumes in a run of ``rounds`` rounds, by the names of its fields."""
        return horizon(rounds)

    @property
    def lateness(self) -> Lateness:
        """When rewards arrive where a spec has no ``feedback``; a world that delays them itself refuses that key."""
        return AT_ONCE

    @property
    def silent(self) -> bool:
        """Some rewards of this world never arrive, with or without ``feedback``."""
        return False

    def prepare(self, rng: Generator) -> Environment:
        """The world of one run; most environments return themselves."""
        return self

    def stage(self, rng: Generator) -> Environment:
        """The world of one run as a tally counts it, step by step: prepared, unless rounds are drawn in chunks."""
        return self.prepare(rng)

    def draw_ahead(self, first: int, count: int, rng: Generator) -> None:  # noqa: B027  (most draw round by round)
        """Draw the next rounds, where they are drawn in chunks."""

    def decisions(self, rounds: int) -> int:
        """Decisions that are made in so many rounds."""
        return rounds

    def nobody(self, round: Round) -> bool:
        """Nobody is there to be chosen in this round."""
        return False

    def show(self, index: int, rng: Generator) -> Round:
        """The round that is offered."""
        return Round(index)

    @abstractmethod
    def reward(self, round: Round, arm: int, rng: Generator) -> float:
        """The reward of the chosen arm."""

    def wait(self, round: Round, arm: int, lateness: Lateness, rng: Generator) -> int:
        """How many more decisions this reward takes; a world that knows (a log with delays) says so itself."""
        return lateness.wait(round, arm, rng)

    def counted(self) -> dict[str, float]:
        """Numbers that a prepared world counted during its run (rows of a log it used, say)."""
        return {}

    def measured(self, counted: Mapping[str, Floats]) -> dict[str, Any]:
        """Metrics of its own, from what was counted in every run."""
        return {}


def check_length(rows: str, rounds: int, most: int, otherwise: str) -> None:
    """Refuse more rounds than recorded rows serve; ``otherwise``: the order in which they never end."""
    if rounds > most:
        raise HorizonError(
            f"{rows} ends before the last round",
            path="rounds",
            given=rounds,
            allowed=f"at most {most}",
            fix=f'ask for fewer rounds, or order = "{otherwise}"',
        )
