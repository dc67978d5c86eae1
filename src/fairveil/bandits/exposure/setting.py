"""The public configuration of exposure policies, and the numbers that follow from it."""

from __future__ import annotations

import math
from dataclasses import KW_ONLY
from functools import cached_property
from typing import Annotated, Any, ClassVar

import numpy as np
from pydantic import Strict

from fairveil.arrays import Ints
from fairveil.bandits.environments.exposure import check_agent_rounds, decisions_until, last_rounds
from fairveil.bandits.exposure.belief import BeliefFacts, Beliefs, PersonalFacts, Radius
from fairveil.bandits.exposure.kernel import LocalRules, Merits, Rows, Rules, Trigger
from fairveil.bandits.protocol import Policy
from fairveil.bandits.quotes import spread_in_words
from fairveil.configuration import configuration
from fairveil.fairness.exposure import Merit, merit_codes, merits_from, settled_merit
from fairveil.federated.schedules import Schedule, schedule_from
from fairveil.fields import Count, NonNegative, OpenUnit, Positive, described
from fairveil.state import State, nest

RADIUS = "radius"
RADIUS_NAMES = tuple(nest(RADIUS, dict.fromkeys(Radius._fields, np.empty(0))))


@configuration
class Setting(Policy):
    """Common public configuration. ``agents``, ``dimension``, ``horizon`` (rounds) and ``merit`` come from the world
    in a spec.

    ``reward_std`` is R, ``parameter_bound`` S >= |theta*|, ``failure`` the chance that a confidence set may miss
    theta*, ``width`` multiplies its radius (0: no optimism).
    """

    family: ClassVar[str] = "exposure"
    horizon_free: ClassVar[bool] = False

    _: KW_ONLY
    agents: Count = described("number of agents", example=3)
    dimension: Count = described("number of features of an action", example=2)
    horizon: Count = described("rounds for which the policy is made", example=200)
    merit: Any = described("merit function, or one per agent", default=("exp", 10.0))
    schedule: Any = described("when agents synchronise", default="paper")
    agent_rounds: Annotated[tuple[Count, ...], Strict(False)] | None = described(
        "rounds after which every agent stops", default=None
    )
    reward_std: Positive = described("R, standard deviation of a reward, in its own units", default=0.1)
    regularisation: Positive = described("lambda of the ridge", default=1.0)
    parameter_bound: Positive = described("S, bound on the length of the parameter", default=1.0)
    failure: OpenUnit = described("chance that a confidence set may miss the parameter", default=0.1)
    width: NonNegative = described("multiplies the radius of confidence sets; 0: no optimism", default=1.0)

    def __post_init__(self) -> None:
        object.__setattr__(self, "merit", settled_merit(self.merit, self.agents))
        object.__setattr__(self, "schedule", schedule_from(self.schedule))
        check_agent_rounds(self.agents, self.agent_rounds)

    # Public facts -------------------------------------------------------------------------------------------------

    @property
    def uses_local(self) -> bool:
        """Decisions use own rows that were not published."""
        return True

    @property
    def keeps_local(self) -> bool:
        """Own raw rows stay in use after they were published."""
        return False

    @cached_property
    def merits(self) -> tuple[Merit, ...]:
        return merits_from(self.merit, self.agents)

    @cached_property
    def protocol(self) -> Schedule:
        return schedule_from(self.schedule)

    @cached_property
    def times(self) -> list[int] | None:
        """Synchronisation times, None when they depend on statistics."""
        return self.protocol.times(self.horizon, self.agents, self.dimension)

    def releases_at(self, most: int) -> list[int]:
        return [int(time) for time in (self.times or ())[:most]]

    @cached_property
    def syncs(self) -> int:
        """The largest number of synchronisations."""
        times = self.times
        return len(times) if times is not None else self.protocol.size(self.horizon, self.agents, self.dimension)

    @cached_property
    def lasts(self) -> Ints:
        return last_rounds(self.agents, self.horizon, self.agent_rounds)

    def assumptions(self) -> tuple[str, ...]:
        return (spread_in_words(self.reward_std),)

    def rows(self) -> Rows:
        """How rows are made; without privacy as they come."""
        return Rows(False, 1.0, 1.0, 1.0, 1.0)

    def first_radius(self) -> Radius:
        """Radius before any synchronisation, in units of precision P (Abbasi-Yadkori et al. 2011):

        sqrt(lambda) S/R + sqrt(2 ln(1/failure) + ln det P - ln det (lambda/R^2) I).
        """
        prior = self.regularisation / self.reward_std**2
        level = 2 * math.log(1 / self.failure) - self.dimension * math.log(prior)
        offset = math.sqrt(prior) * self.parameter_bound
        return Radius(*(np.full(self.agents, number) for number in (offset, level, 1.0, 1.0, 0.0)))

    @cached_property
    def facts(self) -> BeliefFacts:
        """The public numbers from which beliefs are made."""
        rows = self.rows()
        return (PersonalFacts if self.keeps_local else BeliefFacts)(
            gram=rows.context**2,
            moment=rows.context * rows.reward / rows.weight,
            regularisation=self.regularisation,
            variance=self.reward_std**2,
            bound=self.parameter_bound,
            confidence=2 * math.log(1 / self.failure) if self.uses_local else 0.0,
            width=self.width,
        )

    @cached_property
    def compiled(self) -> Rules:
        """The configuration as the kernels read it; the trigger is in the state."""
        merits = Merits(*merit_codes(self.merits))
        kind = LocalRules if self.uses_local else Rules
        return kind(merits, self.rows(), self.facts, Trigger(math.inf, 0.0))

    def rules(self, state: State) -> Rules:
        limit, last = state["trigger"].tolist()
        return self.compiled._replace(trigger=Trigger(limit, last))

    @staticmethod
    def beliefs(state: State) -> Beliefs:
        """The beliefs that a state holds: the same arrays under names."""
        return Beliefs(
            state["prior"],
            state["target"],
            state["centre"],
            state["root"],
            state["start_det"],
            Radius(*[state[name] for name in RADIUS_NAMES]),
        )

    def number_of(self, round: int, agent: int) -> int:
        """The number of an agent's decision in a round, counted over all agents."""
        if self.agent_rounds is None:
            return round * self.agents + agent
        return decisions_until(round, self.lasts) + int((self.lasts[:agent] > round).sum())

    def decisions_after(self, rounds: int) -> int:
        """Decisions that all agents have made after so many rounds."""
        return rounds * self.agents if self.agent_rounds is None else decisions_until(rounds, self.lasts)

    def whole_rounds(self, now: int) -> int | None:
        """Whole rounds after ``now`` decisions, None in the middle of a round."""
        if now % self.agents == 0 and self.agent_rounds is None:
            return now // self.agents
        low = int(np.searchsorted(self._decisions, now))
        return low if low < len(self._decisions) and self._decisions[low] == now else None

    @cached_property
    def _decisions(self) -> Ints:
        return np.array([decisions_until(t, self.lasts) for t in range(int(self.lasts.max()) + 1)])
