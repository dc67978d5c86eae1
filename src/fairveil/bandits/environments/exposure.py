"""Worlds of exposure: agents that take turns and see contexts of actions, one linear reward parameter for all.

What every such world shares, and the simulated one.
"""

from __future__ import annotations

import copy
import math
from abc import abstractmethod
from functools import cached_property
from typing import Annotated, Any, ClassVar

import numpy as np
from pydantic import Strict

from fairveil.arrays import Ints
from fairveil.bandits.environments.base import Environment
from fairveil.bandits.facts import Assumed, Fact, Same
from fairveil.bandits.protocol import Candidate, Round
from fairveil.compiling import njit
from fairveil.configuration import configuration
from fairveil.errors import SpecError
from fairveil.fairness.exposure import Merit, merits_from, settled_merit
from fairveil.fields import Count, NonNegative, Vector, described
from fairveil.randomness import Generator
from fairveil.registry import register


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
        """Check the merit of a configuration and write it in one way."""
        if not isinstance(self.merit, list | tuple | dict | str | Merit):
            raise SpecError("a merit is a list", path="merit", given=self.merit, allowed='["exp", 10]')
        object.__setattr__(self, "merit", settled_merit(self.merit, self.agents))

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


CONTEXTS = {"uniform": 0, "raw": 1, "sphere": 2}


@njit(cache=True, nogil=True)
def draw_contexts(rng, kind, contexts):
    """Fill contexts (actions, dimension): uniform in the cube over sqrt(d), the cube itself, or the positive sphere."""
    actions, dimension = contexts.shape
    if kind == 2:
        for a in range(actions):
            norm = 0.0
            for k in range(dimension):
                contexts[a, k] = abs(rng.standard_normal())
                norm += contexts[a, k] ** 2
            norm = math.sqrt(norm)
            for k in range(dimension):
                contexts[a, k] /= norm
    else:
        scale = 1.0 if kind == 1 else 1.0 / math.sqrt(dimension)
        for a in range(actions):
            for k in range(dimension):
                contexts[a, k] = rng.random() * scale


@register("environment", "exposure")
@configuration
class ExposureWorld(ExposureEnvironment):
    """Linear rewards <theta*, x> + N(0, noise^2) for ``agents`` agents that each see ``actions`` contexts a round.

    ``contexts``: "uniform" ([0,1]^d over sqrt d, norms <= 1), "raw" ([0,1]^d, norms up to sqrt d), "sphere" (positive
    part of the unit sphere); one name, or one per agent. ``theta``: fixed, or uniform on the positive part of the unit
    sphere, drawn anew for every run. ``merit``: one, or one per agent. ``agent_rounds``: agents that stop early.
    """

    generated: ClassVar[bool] = True

    agents: Count = described("number of agents that learn together", default=10, example=3)
    actions: Count = described("number of items shown each round", default=10, example=4)
    dimension: Count = described("number of features of an item", default=5, example=2)
    noise: NonNegative = described("standard deviation of a reward", default=0.1)
    merit: Any = described("how the value of an item becomes its merit", default=("exp", 10.0))
    contexts: Any = described("how items are drawn", default="uniform")
    theta: Vector | None = described("true weights of the features; drawn when left out", default=None)
    agent_rounds: Annotated[tuple[Count, ...], Strict(False)] | None = described(
        "rounds of each agent; shared equally when left out", default=None
    )

    def __post_init__(self) -> None:
        self.settle_merit()
        names = (self.contexts,) * self.agents if isinstance(self.contexts, str) else tuple(self.contexts)
        if len(names) != self.agents or any(name not in CONTEXTS for name in names):
            raise SpecError(
                "contexts are one name, or one per agent",
                path="contexts",
                given=self.contexts,
                allowed=", ".join(CONTEXTS),
            )
        if self.theta is not None and (len(self.theta) != self.dimension or not np.isfinite(self.theta).all()):
            raise SpecError(
                "theta has another dimension", path="theta", given=len(self.theta), allowed=str(self.dimension)
            )
        check_agent_rounds(self.agents, self.agent_rounds)

    def facts(self, rounds: int) -> dict[str, Fact]:
        return {**super().facts(rounds), "reward_std": Assumed(float(self.noise) if self.noise > 0 else 0.01)}

    def context_codes(self) -> Ints:
        names = (self.contexts,) * self.agents if isinstance(self.contexts, str) else self.contexts
        return np.array([CONTEXTS[name] for name in names])

    def longest_context(self) -> float:
        """The largest l2 norm that a context can have, up to rounding."""
        return math.sqrt(self.dimension) if CONTEXTS["raw"] in self.context_codes() else 1.0

    def prepare(self, rng: Generator) -> ExposureWorld:
        direction = np.abs(rng.standard_normal(self.dimension))
        if self.theta is not None:
            return self
        self.merits()  # once for all runs
        world = copy.copy(self)  # checked already: only the parameter is new
        object.__setattr__(world, "theta", tuple((direction / np.linalg.norm(direction)).tolist()))
        return world

    def show(self, index: int, rng: Generator) -> Round:
        contexts = np.empty((self.actions, self.dimension))
        agent = self.turn(index)[1]
        draw_contexts(rng, self.context_codes()[agent], contexts)
        return Round(index, tuple(Candidate(0, row) for row in contexts), agent)

    def reward(self, round: Round, arm: int, rng: Generator) -> float:
        assert self.theta is not None
        return float(np.dot(self.theta, round.candidates[arm].features) + self.noise * rng.standard_normal())
