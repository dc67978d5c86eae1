"""What all exposure policies share: beliefs of many agents as one value, decisions, rows, synchronisations.

State is plain arrays with one slice per agent. A synchronisation adds what the agents publish to ``released`` (scaled
units of [x, y][x, y]^T) and derives every agent's prior belief from it; between synchronisations only ``leaf`` (rows
not published yet) and, for policies that use their own raw rows, ``local`` and the belief change.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import KW_ONLY
from functools import cached_property
from numbers import Real
from typing import Annotated, Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from pydantic import Strict

from fairveil.bandits.environments.exposure import decisions_until, last_rounds
from fairveil.bandits.exposure.belief import Beliefs, Facts, Quantiles, Radius, believe_plain, refresh, refresh_all
from fairveil.bandits.exposure.kernel import (
    EXACT,
    Merits,
    Releases,
    Rows,
    Rules,
    Trigger,
    add_row,
    choose_law,
    draw_arm,
    make_row,
    raw_row,
    scratch_for,
)
from fairveil.bandits.exposure.simulate import CompiledRun, simulator_of
from fairveil.bandits.protocol import Decision, Feedback, Policy, Report, Round, raw_feedback
from fairveil.bandits.simulate import Case, Streams
from fairveil.configuration import configuration
from fairveil.errors import HorizonError, InputError, SpecError
from fairveil.fairness.exposure import Merit, merit_codes, merits_from
from fairveil.federated.schedules import NEVER, Determinant, Schedule, schedule_from
from fairveil.fields import Count, NonNegative, OpenUnit, Positive, described
from fairveil.privacy.noise import Noise
from fairveil.randomness import Generator
from fairveil.state import State, copy_state, nest

Floats = NDArray[np.float64]
RADIUS = "radius"
RADIUS_NAMES = tuple(nest(RADIUS, dict.fromkeys(Radius._fields, np.empty(0))))


@configuration
class ExposurePolicy(Policy):
    """Common public configuration. ``agents``, ``dimension``, ``horizon`` (rounds) and ``merit`` come from the world
    in a spec.

    ``reward_std`` is R, ``parameter_bound`` S >= |theta*|, ``failure`` the chance that a confidence set may miss
    theta*, ``width`` multiplies its radius (0: no optimism).
    """

    family: ClassVar[str] = "exposure"
    horizon_free: ClassVar[bool] = False

    _: KW_ONLY
    agents: Count = described("number of agents")
    dimension: Count = described("number of features of an action")
    horizon: Count = described("rounds for which the policy is made")
    merit: Any = described("merit function, or one per agent", default=("exp", 10.0))
    schedule: Any = described("when agents synchronise", default="paper")
    agent_rounds: Annotated[tuple[Count, ...], Strict(False)] | None = described(
        "rounds after which every agent stops", default=None
    )
    reward_std: Positive = described("R, standard deviation of a reward", default=0.1)
    regularisation: Positive = described("lambda of the ridge", default=1.0)
    parameter_bound: Positive = described("S, bound on the length of the parameter", default=1.0)
    failure: OpenUnit = described("chance that a confidence set may miss the parameter", default=0.1)
    width: NonNegative = described("multiplies the radius of confidence sets; 0: no optimism", default=1.0)

    def __post_init__(self) -> None:
        merits = merits_from(self.merit, self.agents)
        same = all(merit == merits[0] for merit in merits)
        object.__setattr__(self, "merit", merits[0].to_list() if same else tuple(merit.to_list() for merit in merits))
        object.__setattr__(self, "schedule", schedule_from(self.schedule))
        if self.agent_rounds is not None and len(self.agent_rounds) != self.agents:
            raise SpecError(
                "there is not one number of rounds per agent",
                path="agent_rounds",
                given=len(self.agent_rounds),
                allowed=str(self.agents),
            )

    @classmethod
    def example(cls) -> Any:
        """A small instance for listings and contract tests."""
        return cls(agents=3, dimension=2, horizon=200)

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

    @cached_property
    def syncs(self) -> int:
        """The largest number of synchronisations."""
        times = self.times
        return len(times) if times is not None else self.protocol.size(self.horizon, self.agents, self.dimension)

    @cached_property
    def lasts(self) -> NDArray[np.int64]:
        return last_rounds(self.agents, self.horizon, self.agent_rounds)

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
    def facts(self) -> Facts:
        """The public numbers from which beliefs are made."""
        rows = self.rows()
        return Facts(
            gram=rows.context**2,
            moment=rows.context * rows.reward / rows.weight,
            regularisation=self.regularisation,
            variance=self.reward_std**2,
            bound=self.parameter_bound,
            confidence=2 * math.log(1 / self.failure) if self.uses_local else 0.0,
            width=self.width,
            personal=self.keeps_local,
        )

    @cached_property
    def compiled(self) -> Rules:
        """The configuration as the kernels read it; the trigger is in the state."""
        merits = Merits(*merit_codes(self.merits))
        return Rules(merits, self.rows(), self.facts, self.uses_local, Trigger(math.inf, 0.0))

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

    # The protocol -------------------------------------------------------------------------------------------------

    def start(self) -> State:
        agents, dimension, width = self.agents, self.dimension, self.dimension + 1
        state: State = {
            "syncs": np.zeros((), np.int64),
            "last": np.zeros((), np.int64),
            "next": np.zeros((), np.int64),
            "prior": np.tile(np.eye(dimension) * self.regularisation / self.reward_std**2, (agents, 1, 1)),
            "target": np.zeros((agents, dimension)),
            "centre": np.zeros((agents, dimension)),
            "root": np.zeros((agents, dimension, dimension)),
            "start_det": np.zeros(agents),
            "acted": np.zeros(agents, np.int64),
            "leaf": np.zeros((agents, width, width)),
            "local": np.zeros((agents, width, width)),
            "released": np.zeros((width, width)),
            "trigger": np.array([np.inf, 0.0]),
            **nest(RADIUS, self.first_radius()._asdict()),
        }
        self.refresh_beliefs(state)
        self.plan(state)
        return state

    def decide(self, state: State, round: Round, rng: Generator) -> Decision:
        contexts = self.contexts_of(round)
        law = self.law(state, round.agent, contexts)
        arm = int(draw_arm(law, rng.random()))
        return Decision(arm, float(law[arm]), law)

    def law(self, state: State, agent: int, contexts: Floats) -> Floats:
        """The probabilities with which an agent plays the actions it is shown."""
        scratch = scratch_for.py_func(*contexts.shape)._replace(contexts=np.ascontiguousarray(contexts))
        choose_law(agent, self.beliefs(state), self.compiled.merits, scratch)
        return scratch.law

    def learn(self, state: State, feedback: Feedback | Report) -> State:
        return self.learn_all(state, (feedback,))

    def learn_all(self, state: State, feedbacks: Iterable[Feedback | Report]) -> State:
        after = copy_state(state)
        for feedback in feedbacks:
            given = raw_feedback(feedback)
            shown = self.round_of(given)
            if self.takes(after, given):
                self.take(after, given, shown)
        return after

    def takes(self, state: State, feedback: Feedback) -> bool:
        """Is this round still to be learned? The drivers of the decided clock see to it that each comes once."""
        return True

    def take(self, state: State, feedback: Feedback, shown: Round) -> None:
        """Take one checked round in, in place; one that nobody answered for has no row."""
        contexts = self.contexts_of(shown)
        if not isinstance(feedback.arm, int | np.integer) or not 0 <= feedback.arm < len(contexts):
            raise InputError("this arm was not shown", path="feedback.arm", allowed=f"0..{len(contexts) - 1}")
        if feedback.reward is not None:
            self.check_reward(feedback.reward)
        state["acted"][shown.agent] += 1
        if feedback.reward is not None:
            self.take_row(state, shown.agent, contexts[feedback.arm], float(feedback.reward))

    def take_row(self, state: State, agent: int, context: Floats, reward: float) -> None:
        """Put one interaction into the agent's leaf and, where it uses them, among its own rows; in place."""
        row = np.empty(self.dimension + 1)
        make_row(context, reward, self.compiled.rows, row)
        add_row(row, state["leaf"][agent])
        if self.uses_local:
            raw_row(context, reward, self.compiled.rows, row)
            add_row(row, state["local"][agent])
            work, now = np.empty((2, self.dimension, self.dimension)), float(state["acted"][agent])
            refresh(agent, self.beliefs(state), state["local"][agent], self.facts, now, work)

    def round_of(self, feedback: Feedback) -> Round:
        if feedback.round is None:
            raise InputError(
                "exposure policies learn from contexts", path="feedback.round", fix="hand back the round shown"
            )
        if not isinstance(feedback.index, int | np.integer) or feedback.index < 0:
            raise InputError(
                "rounds are counted from 0", path="feedback.index", given=feedback.index, allowed="a whole number"
            )
        return feedback.round

    def number_of(self, round: int, agent: int) -> int:
        """The number of an agent's decision in a round, counted over all agents."""
        if self.agent_rounds is None:
            return round * self.agents + agent
        return decisions_until(round, self.lasts) + int((self.lasts[:agent] > round).sum())

    def decisions_after(self, rounds: int) -> int:
        """Decisions that all agents have made after so many rounds."""
        return rounds * self.agents if self.agent_rounds is None else decisions_until(rounds, self.lasts)

    def check_reward(self, reward: Any) -> None:
        """Refuse what is not a finite number, without repeating it."""
        number = isinstance(reward, Real) and not isinstance(reward, bool)
        if not number or not math.isfinite(reward):
            raise InputError("a reward is not a number", path="reward", allowed="a finite number")

    def due(self, state: State, settled: int) -> str | None:
        if int(state["syncs"]) >= self.syncs:
            return None
        time, now = int(state["next"]), settled
        whole = self._rounds_played(now)
        fired = math.isfinite(state["trigger"][0]) and whole is not None and self.triggered(state, whole)
        if fired or (time != NEVER and now >= self.decisions_after(time)):
            return f"sync-{int(state['syncs'])}"
        return None

    def release(self, state: State, noise: Noise) -> State:
        """Everybody publishes; without privacy exactly what was gathered."""
        self.check_room(state)
        after = copy_state(state)
        self.publish(after, after["leaf"])
        return after

    def lost(self, state: State, block: str) -> State:
        """A synchronisation that was charged and then lost: its rows are dropped, everybody goes on."""
        self.check_room(state)
        after = copy_state(state)
        self.close(after)
        return after

    # Simulation ---------------------------------------------------------------------------------------------------

    def simulator(self, case: Case, streams: Streams) -> CompiledRun | None:
        return simulator_of(self, case, streams)

    def planned(self, rounds: int, noise: Noise) -> Releases | None:
        """All synchronisations of a run in advance; None where they depend on more than sums and noise."""
        if self.times is None:
            return None
        times = np.array([time for time in self.times if time <= rounds], np.int64)
        nothing, nobody = np.empty(0), np.empty(0, np.intp)
        return Releases(
            kind=EXACT,
            times=times,
            total=np.zeros((self.dimension + 1, self.dimension + 1)),
            noise=np.empty((0, 0)),
            first=nobody,
            second=nobody,
            spread=nothing,
            radius=Radius(nothing, nothing, nothing, nothing, nothing),
            quantiles=Quantiles(nothing, nothing),
        )

    # Synchronisation ----------------------------------------------------------------------------------------------

    def publish(self, state: State, messages: Floats) -> None:
        """Take in what all agents published (first axis agents), in place."""
        state["released"] += messages.sum(axis=0)
        believe_plain(state["released"], 0.0, self.facts, self.beliefs(state))
        self.close(state)

    def close(self, state: State) -> None:
        """Empty the leaves, count the synchronisation, refresh beliefs and plan the next one, in place."""
        state["leaf"][:] = 0.0
        if not self.keeps_local:
            state["local"][:] = 0.0
        state["last"][...] = self.time_of(state)
        state["syncs"] += 1
        self.refresh_beliefs(state)
        self.plan(state)

    def time_of(self, state: State) -> int:
        """The round of the synchronisation that is being made; a raw trigger fires when the rows say so."""
        return int(state["next"]) if state["next"] != NEVER else int(state["acted"].max())

    def refresh_beliefs(self, state: State) -> None:
        """Every agent's belief from its prior and, where it uses them, its own rows; in place."""
        refresh_all(self.beliefs(state), state["local"], self.facts, float(state["last"]))

    def plan(self, state: State) -> None:
        """Set the time of the next synchronisation, or arm the raw trigger, in place."""
        made, protocol = int(state["syncs"]), self.protocol
        if made >= self.syncs:
            state["next"][...], state["trigger"][:] = NEVER, (np.inf, 0.0)
            return
        if self.times is not None:
            state["next"][...] = self.times[made]
            return
        assert isinstance(protocol, Determinant)
        limit = protocol.limit(self.horizon, self.agents, self.dimension)
        if protocol.raw:
            state["next"][...], state["trigger"][:] = NEVER, (limit, float(state["last"]))
        elif made == 0:
            state["next"][...] = 1  # nothing is known yet: the first round is published at once
        else:
            state["next"][...] = protocol.following(
                int(state["last"]), state["prior"][0], self.mean_gain(state), limit, self.horizon
            )

    def mean_gain(self, state: State) -> Floats:
        """The released precision that one round of one agent adds on average."""
        gram, _ = self.natural(state["released"])
        values, vectors = np.linalg.eigh(gram)
        mean = (vectors * np.maximum(values, 0.0)) @ vectors.T / (max(int(state["last"]), 1) * self.agents)
        return mean / self.reward_std**2

    def triggered(self, state: State, now: int) -> bool:
        """Has some agent's raw determinant passed the threshold after ``now`` rounds?"""
        work, beliefs = np.empty((2, self.dimension, self.dimension)), self.beliefs(copy_state(state))
        limit, last = state["trigger"]
        for i in range(self.agents):
            log_det = refresh(i, beliefs, state["local"][i], self.facts, float(now), work)
            if (now - last) * (log_det - state["start_det"][i]) > limit:
                return True
        return False

    def natural(self, total: Floats) -> tuple[Floats, Floats]:
        """The Gram matrix and the moment vector of [x, y] in the data's own units."""
        d = self.dimension
        return np.ascontiguousarray(total[:d, :d]) * self.facts.gram, total[:d, d] * self.facts.moment

    def check_room(self, state: State) -> None:
        if int(state["syncs"]) >= self.syncs:
            raise HorizonError(
                "all synchronisations this policy was sized for are made",
                path="policy.schedule",
                given=int(state["syncs"]) + 1,
                allowed=f"at most {self.syncs}",
                fix="give the schedule more room and start again",
            )

    def contexts_of(self, round: Round) -> Floats:
        """The contexts of a round as an array; a wrong shape or a number that is not finite is refused."""
        try:
            contexts = np.array([candidate.features for candidate in round.candidates], np.float64)
        except (TypeError, ValueError):
            contexts = np.empty(0)
        if contexts.ndim != 2 or contexts.shape[1] != self.dimension or not np.isfinite(contexts).all():
            raise InputError(
                "contexts must be finite and fit the dimension",
                path="round.candidates",
                given=contexts.shape,
                allowed=f"(actions, {self.dimension})",
            )
        if not 0 <= round.agent < self.agents:
            raise InputError(
                "this agent is unknown", path="round.agent", given=round.agent, allowed=f"0..{self.agents - 1}"
            )
        return contexts

    def _rounds_played(self, now: int) -> int | None:
        """Whole rounds after ``now`` decisions, None in the middle of a round."""
        if now % self.agents == 0 and self.agent_rounds is None:
            return now // self.agents
        low = int(np.searchsorted(self._decisions, now))
        return low if low < len(self._decisions) and self._decisions[low] == now else None

    @cached_property
    def _decisions(self) -> NDArray[np.int64]:
        return np.array([decisions_until(t, self.lasts) for t in range(int(self.lasts.max()) + 1)])
