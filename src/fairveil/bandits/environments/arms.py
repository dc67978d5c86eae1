"""What all environments of plain arms share: laws, true means (also as logarithms) and the drawn instance."""

from __future__ import annotations

from abc import abstractmethod
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairveil.bandits.environments.base import Environment
from fairveil.bandits.environments.laws import Laws, draw_one
from fairveil.bandits.facts import Fact, Same
from fairveil.bandits.protocol import Round
from fairveil.errors import ContractError, InputError, SpecError
from fairveil.randomness import Generator


class ArmEnvironment(Environment):
    """k arms with rewards in [0, 1]; the mean of an arm is the same in every round.

    A world of one's own gives ``arms``, ``true_means`` and ``reward``. With ``laws`` policies are simulated by compiled
    code; without them their steps are played one by one, with the same decisions.
    """

    family = "nash"
    arms: Any

    @cached_property
    def laws(self) -> Laws:
        """The reward law of every arm, as arrays for compiled code."""
        raise ContractError("this world has no laws of rewards", path="environment", fix="define reward, or laws")

    @property
    def compiled(self) -> bool:
        """Whether there are laws for compiled code; without them the steps of a policy are played."""
        return type(self).laws is not ArmEnvironment.laws

    @property
    def arm_names(self) -> tuple[str, ...] | None:
        """What the arms are called where they have names."""
        return None

    @cached_property
    @abstractmethod
    def true_means(self) -> NDArray[np.float64]:
        """The mean of every arm's own law; regret is measured with these."""
        raise NotImplementedError

    @cached_property
    def log_means(self) -> NDArray[np.float64]:
        """Logarithms of the true means, exact where the means themselves underflow."""
        with np.errstate(divide="ignore"):
            return np.log(self.true_means)

    def facts(self, rounds: int) -> dict[str, Fact]:
        return {**super().facts(rounds), "arms": Same(self.arms)}

    def reward(self, round: Round, arm: int, rng: Generator) -> float:
        if not 0 <= arm < self.arms:
            raise InputError("there is no such arm", path="arm", given=arm, allowed=f"0 to {self.arms - 1}")
        return float(draw_one(self.laws, arm, round.index, rng))

    def later(self, start: int) -> Later:
        """The same world seen by a policy whose round 0 is round ``start``."""
        return Later(self, start)

    def fits(self, rounds: int, strict: bool) -> None:
        """Raise when this world cannot run that long, or would hand out rewards that a strict policy refuses."""


class Later(ArmEnvironment):
    """A world from one of its rounds on."""

    def __init__(self, world: ArmEnvironment, start: int) -> None:
        self.world, self.begins, self.arms = world, start, world.arms

    @cached_property
    def laws(self) -> Laws:
        laws = self.world.laws
        if not len(laws.rows):
            return laws
        return laws._replace(rows=laws.rows[self.begins :], prefix=laws.prefix[self.begins :])

    @cached_property
    def true_means(self) -> NDArray[np.float64]:
        return self.world.true_means


def drawn_means(arms: int, low: float, high: float, seed: int) -> NDArray[np.float64]:
    """Means uniform in [low, high] from numpy's legacy stream: seed 42, 50 arms is the published instance."""
    if not low < high:
        raise SpecError("the interval of means is empty", path="low", given=[low, high], allowed="low < high")
    return np.random.RandomState(seed).uniform(low, high, arms)


def given_means(means: tuple[float, ...]) -> NDArray[np.float64]:
    """Means from a spec: at least one, each in [0, 1]."""
    values = np.array(means, np.float64)
    if values.size == 0:
        raise SpecError("there are no arms", path="means", given=list(means), allowed="at least one mean")
    if not ((values >= 0) & (values <= 1)).all():
        raise SpecError(
            "a mean is out of range",
            path="means",
            given=list(means),
            allowed="numbers in [0, 1]",
            fix="write shares, not percentages: 0.2 for 20 %",
        )
    return values


def settle_arms(environment: Any, default: int = 50) -> None:
    """Fill in and check the number of arms of an environment whose means are given or drawn."""
    if environment.means is not None:
        given_means(environment.means)
        if environment.arms not in (None, len(environment.means)):
            raise SpecError(
                "the number of arms differs from the number of means",
                path="arms",
                given=environment.arms,
                allowed=str(len(environment.means)),
            )
        object.__setattr__(environment, "arms", len(environment.means))
    elif environment.arms is None:
        object.__setattr__(environment, "arms", default)
    if not environment.low < environment.high:
        raise SpecError(
            "the interval of means is empty",
            path="low",
            given=[environment.low, environment.high],
            allowed="low < high",
        )
