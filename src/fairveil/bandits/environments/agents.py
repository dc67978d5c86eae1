"""What every world of exposure shares: agents that take turns, items with features, one linear reward parameter."""

from __future__ import annotations

from abc import abstractmethod
from functools import cached_property
from typing import Any

import numpy as np

from fairveil.arrays import Ints
from fairveil.bandits.environments.base import Environment
from fairveil.bandits.facts import Assumed, Fact, Same
from fairveil.errors import SpecError
from fairveil.fairness.exposure import Merit, merits_from
from fairveil.randomness import Generator


class ExposureEnvironment(Environment):
    """Worlds give ``agents``, ``actions``, ``dimension``, ``merit``, ``theta``, and what they show and pay.

    Decisions are counted over all agents: in every round the agents that still play decide one after the other. A world
    that is not an `ExposureWorld` has no compiled twin; policies are then played step by step.
    """

    family = "exposure"
    agents: Any
    actions: Any
    dimension: Any
    merit: Any
    theta: Any
    agent_rounds: Any = None

    @property
    def feature_names(self) -> tuple[str, ...]:
        """What the numbers of a context are called where they have names."""
        return ()

    @abstractmethod
    def longest_context(self) -> float:
        """The largest l2 norm that a context can have, up to rounding."""

    def prepare(self, rng: Generator) -> ExposureEnvironment:
        return self

    def fits(self, rounds: int) -> None:
        """Raise when this world cannot run that long."""

    def facts(self, rounds: int) -> dict[str, Fact]:
        lasts = None if self.agent_rounds is None else list(self.agent_rounds)
        return {
            **super().facts(rounds),
            "agents": Same(self.agents),
            "dimension": Same(self.dimension),
            "agent_rounds": Same(lasts),
            "merit": Assumed(self.merit),
        }

    def settle_merit(self) -> None:
        """Check the merit of a configuration and write it in one way: one for all agents where they are the same."""
        if not isinstance(self.merit, list | tuple | dict | str | Merit):
            raise SpecError("a merit is a list", path="merit", given=self.merit, allowed='["exp", 10]')
        merits = merits_from(self.merit, self.agents)
        same = all(merit == merits[0] for merit in merits)
        object.__setattr__(self, "merit", merits[0].to_list() if same else tuple(merit.to_list() for merit in merits))

    def merits(self) -> tuple[Merit, ...]:
        """The merit function of every agent."""
        return self._merits

    @cached_property
    def _merits(self) -> tuple[Merit, ...]:
        return merits_from(self.merit, self.agents)

    def last_rounds(self, rounds: int) -> Ints:
        """How many rounds every agent plays."""
        return last_rounds(self.agents, rounds, self.agent_rounds)

    def decisions(self, rounds: int) -> int:
        return decisions_until(rounds, self.last_rounds(rounds))

    def turn(self, index: int) -> tuple[int, int]:
        """The round and the agent of a decision."""
        if self.agent_rounds is None:
            return divmod(index, self.agents)
        lasts = np.array(self.agent_rounds)
        low, high = 0, int(lasts.max())
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if decisions_until(middle, lasts) <= index else (low, middle)
        playing = np.flatnonzero(lasts > low)
        return low, int(playing[index - decisions_until(low, lasts)])


def check_agent_rounds(agents: int, given: tuple[int, ...] | None) -> None:
    """Refuse rounds that are not one number an agent."""
    if given is not None and len(given) != agents:
        raise SpecError(
            "there is not one number of rounds per agent", path="agent_rounds", given=len(given), allowed=str(agents)
        )


def last_rounds(agents: int, rounds: int, agent_rounds: tuple[int, ...] | None) -> Ints:
    """How many of the ``rounds`` every agent plays."""
    return np.minimum(np.full(agents, rounds) if agent_rounds is None else np.array(agent_rounds), rounds)


def decisions_until(round: int, lasts: Ints) -> int:
    """Decisions made when everybody has played ``round`` rounds, or all of theirs."""
    return int(np.minimum(round, lasts).sum())
