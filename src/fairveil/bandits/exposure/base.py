"""What all exposure policies share: beliefs of many agents as one value, decisions, rows, synchronisations.

State is plain arrays with one slice per agent. A synchronisation adds what the agents publish to ``released`` (scaled
units of [x, y][x, y]^T) and derives every agent's prior belief from it; between synchronisations only ``leaf`` (rows
not published yet) and, for policies that use their own raw rows, ``local`` and the belief change.
"""

from __future__ import annotations

import math
from dataclasses import KW_ONLY
from functools import cached_property
from numbers import Real
from typing import Annotated, Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from pydantic import Strict

from fairveil.bandits.environments.exposure import decisions_until, last_rounds
from fairveil.bandits.exposure.belief import ELLIPTIC, RULE, believe_plain, refresh, refresh_all
from fairveil.bandits.exposure.kernel import Rules, add_row, choose_law, draw_arm, make_row, raw_row
from fairveil.bandits.protocol import Decision, Feedback, Policy, Report, Round, raw_feedback
from fairveil.configuration import configuration
from fairveil.errors import HorizonError, InputError, SpecError
from fairveil.fairness.exposure import Merit, merit_codes, merits_from
from fairveil.federated.schedules import NEVER, Determinant, Schedule, schedule_from
from fairveil.fields import Count, NonNegative, OpenUnit, Positive
from fairveil.privacy.noise import Noise
from fairveil.randomness import Generator
from fairveil.state import State, copy_state

Floats = NDArray[np.float64]
NOTHING = np.empty(0)


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
    agents: Count
    dimension: Count
    horizon: Count
    merit: Any = ("exp", 10.0)
    schedule: Any = "paper"
    agent_rounds: Annotated[tuple[Count, ...], Strict(False)] | None = None
    reward_std: Positive = 0.1
    regularisation: Positive = 1.0
    parameter_bound: Positive = 1.0
    failure: OpenUnit = 0.1
    width: NonNegative = 1.0

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

    def rows_rule(self) -> Floats:
        """How rows are made: (private, context bound, reward bound, reward weight, grid units)."""
        return np.array([0.0, 1.0, 1.0, 1.0, 1.0])

    def scales(self) -> Floats:
        """From scaled sums to units of precision: Gram block, moment column."""
        _, context, reward, weight, _ = self.rows_rule()
        return np.array([context**2, context * reward / weight]) / self.reward_std**2

    def elliptic_rule(self) -> Floats:
        """Radius of Abbasi-Yadkori et al. 2011 in units of precision."""
        prior = self.regularisation / self.reward_std**2
        offset = math.sqrt(prior) * self.parameter_bound
        confidence = 2 * math.log(1 / self.failure)
        start = self.dimension * math.log(prior)
        return np.array([ELLIPTIC, self.width, offset, confidence, start, 0.0, 0.0, 0.0, 0.0])

    @cached_property
    def compiled(self) -> Rules:
        """The configuration as the kernels read it; the radius rule and the trigger are in the state."""
        kinds, numbers, tables = merit_codes(self.merits)
        return Rules(
            kinds, numbers, tables, self.rows_rule(), self.scales(), np.zeros((0, RULE)), self.uses_local, np.zeros(2)
        )

    @cached_property
    def facts(self) -> Floats:
        """The public numbers from which `believe` and `believe_plain` make beliefs."""
        _, context, reward, weight, _ = self.compiled.rows
        own = 2 * math.log(1 / self.failure) if self.uses_local else 0.0
        units = (context**2, context * reward / weight)
        prior = (self.regularisation, self.reward_std**2, self.parameter_bound)
        return np.array([*units, *prior, own, self.width, float(self.keeps_local)])

    def rules(self, state: State) -> Rules:
        return self.compiled._replace(rule=state["rule"], trigger=state["trigger"])

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
            "rule": np.tile(self.elliptic_rule(), (agents, 1)),
            "trigger": np.array([np.inf, 0.0]),
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
        actions, dimension = contexts.shape
        base, means, law, slopes = np.empty(actions), np.empty(actions), np.empty(actions), np.empty(contexts.shape)
        work = np.empty((6, max(actions, 2 * dimension)))
        kinds, numbers, tables, *_ = self.compiled
        choose_law(
            contexts, state["centre"][agent], state["root"][agent], kinds[agent], numbers[agent], tables[agent],
            base, slopes, means, law, work,
        )  # fmt: skip
        return law

    def learn(self, state: State, feedback: Feedback | Report) -> State:
        feedback = raw_feedback(feedback)
        if feedback.round is None:
            raise InputError(
                "exposure policies learn from contexts", path="feedback.round", fix="hand back the round shown"
            )
        if feedback.reward is None:
            return state  # nobody answered: there is no row
        self.check_reward(feedback.reward)
        agent, contexts = feedback.round.agent, self.contexts_of(feedback.round)
        if not 0 <= feedback.arm < len(contexts):
            raise InputError("this arm was not shown", path="feedback.arm", allowed=f"0..{len(contexts) - 1}")
        after = copy_state(state)
        row = np.empty(self.dimension + 1)
        make_row(contexts[feedback.arm], float(feedback.reward), self.compiled.rows, row)
        add_row(row, after["leaf"][agent])
        after["acted"][agent] += 1
        if self.uses_local:
            raw_row(contexts[feedback.arm], float(feedback.reward), self.compiled.rows, row)
            add_row(row, after["local"][agent])
            work = np.empty((2, self.dimension, self.dimension))
            refresh(
                after["prior"][agent], after["target"][agent], after["local"][agent], self.compiled.scales,
                after["rule"][agent], float(after["acted"][agent]), after["centre"][agent], after["root"][agent], work,
            )  # fmt: skip
        return after

    def check_reward(self, reward: Any) -> None:
        """Refuse what is not a finite number, without repeating it."""
        number = isinstance(reward, Real) and not isinstance(reward, bool)
        if not number or not math.isfinite(reward):
            raise InputError("a reward is not a number", path="reward", allowed="a finite number")

    def due(self, state: State, now: int) -> str | None:
        if int(state["syncs"]) >= self.syncs:
            return None
        time = int(state["next"])
        whole = self._rounds_played(now)
        fired = math.isfinite(state["trigger"][0]) and whole is not None and self.triggered(state, whole)
        if fired or (time != NEVER and now >= decisions_until(time, self.lasts)):
            return f"sync-{int(state['syncs'])}"
        return None

    def release(self, state: State, noise: Noise) -> State:
        """Everybody publishes; without privacy exactly what was gathered."""
        self.check_room(state)
        after = copy_state(state)
        self.publish(after, after["leaf"].sum(axis=0), None)
        return after

    def lost(self, state: State, block: str) -> State:
        """A synchronisation that was charged and then lost: its rows are dropped, everybody goes on."""
        self.check_room(state)
        after = copy_state(state)
        self.close(after)
        return after

    # Synchronisation ----------------------------------------------------------------------------------------------

    def publish(self, state: State, total: Floats, own: Floats | None) -> None:
        """Take in what all agents published (``total`` over agents, ``own`` per agent where needed), in place."""
        state["released"] += total
        believe_plain(state["released"], 0.0, self.facts, NOTHING, state["prior"], state["target"], state["rule"])
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
        refresh_all(
            state["prior"], state["target"], state["local"], self.compiled.scales, state["rule"], float(state["last"]),
            state["centre"], state["root"], state["start_det"],
        )  # fmt: skip

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
        work = np.empty((2, self.dimension, self.dimension))
        centre, root = np.empty(self.dimension), np.empty((self.dimension, self.dimension))
        limit, last = state["trigger"]
        for i in range(self.agents):
            log_det = refresh(
                state["prior"][i], state["target"][i], state["local"][i], self.compiled.scales, state["rule"][i],
                float(now), centre, root, work,
            )  # fmt: skip
            if (now - last) * (log_det - state["start_det"][i]) > limit:
                return True
        return False

    def natural(self, total: Floats) -> tuple[Floats, Floats]:
        """The Gram matrix and the moment vector of [x, y] in the data's own units."""
        _, context, reward, weight, _ = self.compiled.rows
        d = self.dimension
        return np.ascontiguousarray(total[:d, :d]) * context**2, total[:d, d] * (context * reward / weight)

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
