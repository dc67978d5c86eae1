"""What the private exposure policies share: clipped rows, one running sum per agent, noisy synchronisations."""

from __future__ import annotations

import math
from dataclasses import KW_ONLY
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairveil.bandits.exposure.base import ExposurePolicy
from fairveil.bandits.exposure.belief import believe
from fairveil.bandits.protocol import Feedback, Report, Round
from fairveil.configuration import configuration
from fairveil.errors import InputError, SpecError
from fairveil.federated.schedules import Determinant
from fairveil.fields import Count, Delta, Epsilon, Positive
from fairveil.privacy.events import Event
from fairveil.privacy.guarantee import Neighbours
from fairveil.privacy.noise import Noise
from fairveil.privacy.sums.base import RunningSum
from fairveil.state import State, copy_state

Floats = NDArray[np.float64]
EXACT_ROWS = 2**21
"""Rows on the grid are summed exactly in float64 up to this many in one leaf."""
SUM = "sum/"
RAW = ("open", "raw")
"""The arrays of a sum that hold rows without noise."""


@configuration
class PrivatePolicy(ExposurePolicy):
    """Common fields of private policies.

    Rows are [x/L, w y/B] with |x| <= L (``context_bound``), |y| <= B (``reward_bound``) and w = ``reward_weight``:
    their norm is at most sqrt(1 + w^2) whatever happens. ``strict`` refuses a context above L; otherwise it is
    clipped, silently, because how often that happens is private. ``releases`` sizes the sum (by default from the
    schedule).
    """

    _: KW_ONLY
    epsilon: Epsilon
    delta: Delta
    context_bound: Positive = 1.0
    reward_bound: Positive = 1.0
    reward_weight: Positive = 1.0
    strict: bool = False
    releases: Count | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.releases is not None and self.protocol.size(self.horizon, self.agents, self.dimension) > self.releases:
            raise SpecError(
                "the schedule synchronises more often than the sum is sized for",
                path="releases",
                given=self.releases,
                allowed=f"at least {self.protocol.size(self.horizon, self.agents, self.dimension)}",
                fix="leave releases out, or choose a schedule with fewer synchronisations",
            )

    @classmethod
    def example(cls) -> Any:
        return cls(agents=3, dimension=2, horizon=200, epsilon=1.0, delta=1e-5)

    @cached_property
    def sums(self) -> RunningSum:
        """The running sum of every agent; each agent has the whole budget for its own rows."""
        raise NotImplementedError

    def noise_variance(self, release: int) -> float:
        """Variance of the off-diagonal numbers of one agent's estimate at a release (from 1)."""
        if release not in self._variances:
            self._variances[release] = self.sums.expected_std(release) ** 2
        return self._variances[release]

    @cached_property
    def _variances(self) -> dict[int, float]:
        return {}

    @property
    def row_bound(self) -> float:
        return math.sqrt(1.0 + self.reward_weight**2)

    @property
    def room(self) -> int:
        """Releases that the sum is sized for."""
        return self.releases if self.releases is not None else max(self.syncs, 1)

    def rows_rule(self) -> Floats:
        units = 2.0**self.sums.grid.bits
        return np.array([1.0, self.context_bound, self.reward_bound, self.reward_weight, units])

    @cached_property
    def largest_number(self) -> float:
        """No number of a message is larger: every round's row adds at most its squared norm, and noise of a hundred
        standard deviations does not happen (a prefix of a tree sums at most one node a level)."""
        noise = 100 * math.sqrt(2 * int(self.room).bit_length()) * self.sums.expected_std(1)
        return self.horizon * self.row_bound**2 + noise

    def event(self) -> Event:
        return self.sums.event()

    @property
    def neighbours(self) -> Neighbours:
        """A frozen policy protects an interaction and all that follows; raw rows only with other rows fixed."""
        return Neighbours.REPLACE_INTERACTION_ROWS_FIXED if self.uses_local else Neighbours.REPLACE_INTERACTION

    def notes(self) -> tuple[str, ...]:
        """What the guarantee protects, in words."""
        if self.uses_local:
            scope = (
                "protects all messages of an agent and all actions of the other agents against a change of one row "
                "[context, reward] of that agent while its other rows stay fixed; the agent's own later actions use "
                "its raw rows, are not protected, and the rows they lead to are taken as fixed"
            )
        else:
            scope = (
                "protects all messages of an agent, all actions of the other agents and the agent's own actions in all "
                "other rounds against a change of one interaction (contexts and reward), with all that follows from it"
            )
        return (
            scope,
            "every agent is its own curator and spends this budget on its own rows; messages may be seen by anybody",
        )

    @property
    def released(self) -> tuple[str, ...]:  # type: ignore[override]
        """State that is a function of releases and the schedule; beliefs are not where they use own raw rows."""
        known = ["syncs", "last", "next", "trigger", "released", "variance", "counted", "prior", "target", "rule"]
        known += [] if self.uses_local else ["centre", "root", "start_det"]
        known += ["own"] if self.keeps_local else []
        return (*known, *(SUM + name for name in self.sums.start() if name not in RAW))

    # State --------------------------------------------------------------------------------------------------------

    def start(self) -> State:
        state = super().start() | {"variance": np.zeros(()), "counted": np.zeros(2)}
        one = self.sums.start()
        return state | {SUM + name: np.stack([array] * self.agents) for name, array in one.items()}

    def release(self, state: State, noise: Noise) -> State:
        """Every agent draws its own noise; only noisy sums leave it. Each row is in exactly one leaf."""
        self.check_room(state)
        after = copy_state(state)
        batches = np.empty_like(after["leaf"])
        for i in range(self.agents):
            batches[i] = self.privatise(after, i, noise)
        self.publish(after, batches.sum(axis=0), batches)
        return after

    def privatise(self, state: State, agent: int, noise: Noise) -> Floats:
        """The message of one agent: what `publish` adds for it. The only place where noise meets rows; in place."""
        own = self._own_sum(state, agent) | {"open": self._units(state["leaf"][agent])}
        self._put(state, agent, self.sums.release(own, noise)[0])
        state["leaf"][agent] = 0.0
        return self.sent(state, agent)

    def forget(self, state: State, agent: int) -> None:
        """Drop the rows of one agent's open leaf: they were released before, or their release is lost; in place."""
        self._put(state, agent, self.sums.lost(self._own_sum(state, agent)))
        state["leaf"][agent] = 0.0

    def sent(self, state: State, agent: int) -> Floats:
        """What an agent published last, out of its sum; nothing new after a lost release."""
        return self.sums.estimate(self._own_sum(state, agent))

    def sum_of(self, state: State, agent: int) -> State:
        """The released part of one agent's sum: what a ledger may store."""
        return {name: array.copy() for name, array in self._own_sum(state, agent).items() if name not in RAW}

    def put_sum(self, state: State, agent: int, stored: State) -> None:
        """Put what `sum_of` gave back in, in place."""
        self._put(state, agent, stored)

    def _own_sum(self, state: State, agent: int) -> State:
        return {name.removeprefix(SUM): array[agent] for name, array in state.items() if name.startswith(SUM)}

    def _put(self, state: State, agent: int, own: State) -> None:
        for name, array in own.items():
            state[SUM + name][agent] = array

    def lost(self, state: State, block: str) -> State:
        self.check_room(state)
        after = copy_state(state)
        for i in range(self.agents):
            self.forget(after, i)
        self.close(after)
        return after

    def learn(self, state: State, feedback: Feedback | Report) -> State:
        if int(state["acted"].max()) - int(state["last"]) >= EXACT_ROWS:
            raise InputError(
                "too many rows since the last synchronisation",
                path="policy.schedule",
                allowed=f"at most {EXACT_ROWS} rows a synchronisation",
                fix="synchronise more often",
            )
        return super().learn(state, feedback)

    def contexts_of(self, round: Round) -> Floats:
        contexts = super().contexts_of(round)
        if self.strict and (np.linalg.norm(contexts, axis=1) > self.context_bound * (1 + 1e-12)).any():
            raise InputError(
                "a context is longer than its bound",
                path="round.candidates",
                allowed=f"l2 norm at most {self.context_bound}",
                fix="rescale contexts, raise context_bound, or use strict=False",
            )
        return contexts

    def _units(self, leaf: Floats) -> NDArray[np.int64]:
        """A leaf as the flat integers of the sum: exact, because rows were put on the grid before they were added."""
        first, second = self.sums.grid.upper
        return np.rint(np.ldexp(leaf[first, second], self.sums.grid.sum_bits)).astype(np.int64)

    # Beliefs ------------------------------------------------------------------------------------------------------

    def noise_gain(self) -> float:
        """Variance of a coordinate of h - H theta relative to the noise variance of one scaled entry, |theta| = S."""
        _, context, reward, weight, _ = self.compiled.rows
        bent = (self.parameter_bound * context**2) ** 2 * (1 + 1 / self.dimension)
        return float((context * reward / weight) ** 2 + bent)

    def weighted_belief(self, state: State, who: slice, total: Floats, variance: float, share: float) -> None:
        """Prior belief and radius of some agents from released sums whose entries carry noise of this variance, in
        place.

        theta - centre has three parts, measured in units of the precision P: the noise of the releases, which is
        normal, so its squared length is at most a chi-square quantile with as many degrees of freedom as the
        releases decide directions (one quantile for all releases, by the union bound); the pull of the prior, at most
        (lambda/R^2) S / sqrt(smallest eigenvalue); and, where own rows are used, their reward noise, at most
        2 ln(1/failure) + ln det P - ln det prior (Abbasi-Yadkori et al. 2011 with this prior). Noise in G itself
        makes the normal part approximate; coverage is tested. An agent that keeps all its own rows never uses a
        larger radius than it would alone.
        """
        believe(
            total, variance * self.noise_gain(), share, self.facts, *self.quantiles,
            state["prior"][who], state["target"][who], state["rule"][who],
        )  # fmt: skip

    @cached_property
    def quantiles(self) -> tuple[Floats, Floats]:
        """Chi-square quantiles against (fractional) degrees of freedom, at a chance that covers all releases."""
        from scipy.stats import chi2

        degrees = np.linspace(0.0, self.dimension, 32 * self.dimension + 1)
        values = chi2.isf(self.failure / self.room, np.maximum(degrees, 1e-3))
        values[0] = 0.0
        return degrees, values

    def check_raw_trigger(self, allowed: bool) -> None:
        raw = isinstance(self.protocol, Determinant) and self.protocol.raw
        if raw and not allowed:
            raise SpecError(
                "the raw determinant trigger shows everybody when unreleased rows crossed a threshold",
                path="schedule.raw",
                given=True,
                allowed="false",
                fix="use raw=false, or variant='printed' of priv-fairx to study it",
            )
