"""What all exposure policies share: beliefs of many agents as one value, decisions, rows, synchronisations.

State is plain arrays with one slice per agent. A synchronisation adds what the agents publish to ``released`` (scaled
units of [x, y][x, y]^T) and derives every agent's prior belief from it; between synchronisations only ``leaf`` (rows
not published yet) and, for policies that use their own raw rows, ``local`` and the belief change.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from numbers import Real
from typing import Any, ClassVar

import numpy as np

from fairveil.arrays import Floats
from fairveil.bandits.exposure.belief import believe_plain, refresh, refresh_all
from fairveil.bandits.exposure.kernel import (
    EXACT,
    Releases,
    add_row,
    choose_law,
    draw_arm,
    make_row,
    raw_row,
    scratch_for,
)
from fairveil.bandits.exposure.setting import RADIUS, Setting
from fairveil.bandits.exposure.simulate import CompiledRun, simulator_of
from fairveil.bandits.protocol import Decision, Feedback, Report, Round, raw_feedback
from fairveil.bandits.simulate import Case, Streams
from fairveil.configuration import configuration
from fairveil.errors import HorizonError, InputError
from fairveil.fairness.exposure import fair_law
from fairveil.federated.schedules import NEVER, Determinant
from fairveil.privacy.noise import Noise
from fairveil.randomness import Generator
from fairveil.state import State, copy_state, nest

RAW_LIMIT = 1e6
"""Entries of a raw row, in units of its bound: beyond it the regression of one row drowns its ridge in rounding."""


@configuration
class ExposurePolicy(Setting):
    """Agents that decide, learn and synchronise; subclasses say what they publish and what they believe then."""

    counts_rows: ClassVar[bool] = False
    """Messages say how many rows they hold, which is public."""

    @property
    def secure(self) -> bool:
        """Whether agents see the sum of all only."""
        return False

    def noise_variance(self, release: int) -> float:
        """Variance of the off-diagonal numbers of one agent's estimate at a release (from 1): none in exact sums."""
        return 0.0

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
        self.set_next_sync(state)
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

    def deserved(self, state: State, agent: int, contexts: Floats) -> Floats:
        """Exposure in proportion to merit at the parameter that is published, without optimism."""
        return fair_law(contexts @ self.beliefs(state).centre[agent], self.merits[agent])

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
            if np.abs(row).max() > RAW_LIMIT:
                raise InputError(
                    "a context or reward is far longer than a row that is used raw may be",
                    path="feedback",
                    allowed=f"at most {RAW_LIMIT:g} times the bound",
                    fix="scale features and rewards to about 1",
                )
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

    def check_reward(self, reward: Any) -> None:
        """Refuse what is not a finite number, without repeating it."""
        number = isinstance(reward, Real) and not isinstance(reward, bool)
        if not number or not math.isfinite(reward):
            raise InputError("a reward is not a number", path="reward", allowed="a finite number")

    def due(self, state: State, settled: int) -> str | None:
        if int(state["syncs"]) >= self.syncs:
            return None
        time, now = int(state["next"]), settled
        whole = self.whole_rounds(now)
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
        return Releases(EXACT, times, np.zeros((self.dimension + 1, self.dimension + 1)))

    # Synchronisation ----------------------------------------------------------------------------------------------

    def publish(self, state: State, messages: Floats, present: Sequence[int] | None = None) -> None:
        """Take in what these agents published (first axis, all unless told), in place. The others keep their rows."""
        state["released"] += messages.sum(axis=0)
        believe_plain(state["released"], 0.0, self.facts, self.beliefs(state))
        self.close(state, present)

    def close(self, state: State, present: Sequence[int] | None = None) -> None:
        """Empty the leaves of these agents (of all), count the synchronisation, refresh beliefs and plan the next one,
        in place."""
        here = self.who(present)
        state["leaf"][here] = 0.0
        if not self.keeps_local:
            state["local"][here] = 0.0
        state["last"][...] = self.time_of(state)
        state["syncs"] += 1
        self.refresh_beliefs(state)
        self.set_next_sync(state)

    def who(self, present: Sequence[int] | None) -> list[int]:
        """The agents that take part in a synchronisation: all, where nobody is named."""
        return list(range(self.agents)) if present is None else sorted(present)

    def time_of(self, state: State) -> int:
        """The round of the synchronisation that is being made; a raw trigger fires when the rows say so."""
        return int(state["next"]) if state["next"] != NEVER else int(state["acted"].max())

    def refresh_beliefs(self, state: State) -> None:
        """Every agent's belief from its prior and, where it uses them, its own rows; in place."""
        refresh_all(self.beliefs(state), state["local"], self.facts, float(state["last"]))

    def set_next_sync(self, state: State) -> None:
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
