"""What the private exposure policies share: clipped rows, one running sum per agent, noisy synchronisations, and what
their messages look like.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import KW_ONLY
from functools import cached_property

import numpy as np

from fairveil.arrays import Floats, Ints
from fairveil.bandits.estimates import CONFIDENCE, Estimates, check_confidence, check_established
from fairveil.bandits.exposure.base import ExposurePolicy
from fairveil.bandits.exposure.belief import Beliefs, Quantiles, believe
from fairveil.bandits.exposure.estimated import released_estimates
from fairveil.bandits.exposure.kernel import Releases, Rows
from fairveil.bandits.exposure.setting import RADIUS_NAMES
from fairveil.bandits.protocol import Feedback, Round
from fairveil.bandits.quotes import Noisy, gaussian_noise
from fairveil.configuration import configuration
from fairveil.errors import InputError, SpecError
from fairveil.federated import Form, Message
from fairveil.federated.schedules import Determinant
from fairveil.fields import Count, Delta, Epsilon, Positive, described
from fairveil.privacy.events import Event
from fairveil.privacy.guarantee import REFUSED, UNRELEASED, Neighbours
from fairveil.privacy.noise import Noise
from fairveil.privacy.sums.base import RunningSum
from fairveil.state import State, copy_state, nest, nested

QUANTILE_STEPS = 32
"""Quantiles are interpolated between so many points a degree of freedom: the error is below one in a thousand."""
FEW_DEGREES = 1e-3
"""Chi-square has no quantile at zero degrees; the curve starts at zero there."""
UNLIKELY = 100.0
"""Noise of so many standard deviations does not happen."""
EXACT_ROWS = 2**21
"""Rows on the grid are summed exactly in float64 up to this many in one leaf."""
SUM = "sum"
RAW = ("open", "raw")
"""The arrays of a sum that hold rows without noise."""
WIDE = ("open", "raw", "stack", "nodes", "published", "last")
"""The arrays of a sum whose last axis are the flat numbers of a matrix; the others only count."""


@configuration
class PrivatePolicy(ExposurePolicy):
    """Common fields of private policies.

    Rows are [x/L, w y/B] with |x| <= L (``context_bound``), |y| <= B (``reward_bound``) and w = ``reward_weight``:
    their norm is at most sqrt(1 + w^2) whatever happens. ``strict`` refuses a context above L; otherwise it is
    clipped, silently, because how often that happens is private. ``releases`` sizes the sum (by default from the
    schedule).
    """

    _: KW_ONLY
    epsilon: Epsilon = described("budget of one interaction", example=1.0)
    delta: Delta = described("chance that the budget may be exceeded", example=1e-5)
    context_bound: Positive = described("L, bound on the l2 norm of a context", default=1.0)
    reward_bound: Positive = described("B, bound on the size of a reward", default=1.0)
    reward_weight: Positive = described("w, weight of the reward in a row", default=1.0)
    strict: bool = described("refuse contexts above their bound instead of clipping them", default=False)
    releases: Count | None = described("releases for which the sum is made; by default the schedule's", default=None)

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

    @cached_property
    def running(self) -> RunningSum:
        """The running sum of every agent; each agent has the whole budget for its own rows."""
        raise NotImplementedError

    def noise_variance(self, release: int) -> float:
        if release not in self._variances:
            self._variances[release] = self.running.expected_std(release) ** 2
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

    def rows(self) -> Rows:
        return Rows(True, self.context_bound, self.reward_bound, self.reward_weight, 2.0**self.running.grid.bits)

    @cached_property
    def largest_number(self) -> float:
        """No number of a message is larger: every round's row adds at most its squared norm, and noise of a hundred
        standard deviations does not happen (a prefix of a tree sums at most one node a level)."""
        noise = UNLIKELY * math.sqrt(2 * int(self.room).bit_length()) * self.running.expected_std(1)
        return self.horizon * self.row_bound**2 + noise

    def event(self) -> Event:
        return self.running.event()

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
            UNRELEASED,
            *((REFUSED,) if self.strict else ()),
        )

    @property
    def released(self) -> tuple[str, ...]:
        """State that is a function of releases and the schedule; beliefs are not where they use own raw rows."""
        known = ["syncs", "last", "next", "trigger", "released", "variance", "counted", "prior", "target"]
        known += RADIUS_NAMES
        known += [] if self.uses_local else ["centre", "root", "start_det"]
        return (*known, *(f"{SUM}/{name}" for name in self.running.start() if name not in RAW))

    # State --------------------------------------------------------------------------------------------------------

    def start(self) -> State:
        sums = {name: np.stack([array] * self.agents) for name, array in self.running.start().items()}
        return super().start() | {"variance": np.zeros(self.agents), "counted": np.zeros(2)} | nest(SUM, sums)

    def release(self, state: State, noise: Noise) -> State:
        """Every agent draws its own noise; only noisy sums leave it. Each row is in exactly one leaf."""
        self.check_room(state)
        after = copy_state(state)
        self.privatise(after, range(self.agents), noise)
        self.publish(after, self.sent(after, range(self.agents)))
        return after

    def lost(self, state: State, block: str) -> State:
        self.check_room(state)
        after = copy_state(state)
        self.forget(after, range(self.agents))
        self.close(after)
        return after

    def privatise(self, state: State, agents: Sequence[int], noise: Noise) -> None:
        """Draw what these agents publish, each its own noise, one after the other. The only place where noise meets
        rows; in place."""
        sums, held = self.many_sums(state, agents)
        held["open"] = self._units(state["leaf"][list(agents)]).reshape(-1)
        self.put_many(state, agents, sums.release(held, noise)[0])
        state["leaf"][list(agents)] = 0.0

    def exact_units(self, state: State, agent: int) -> Ints:
        """The rows of one agent's open leaf as flat integers: raw, and never to be shown."""
        return self._units(state["leaf"][[agent]])[0]

    def forget(self, state: State, agents: Sequence[int]) -> None:
        """Drop the rows of these agents' open leaves: they were released before, or their release is lost; in place."""
        sums, held = self.many_sums(state, agents)
        self.put_many(state, agents, sums.lost(held))
        state["leaf"][list(agents)] = 0.0

    def sent(self, state: State, agents: Sequence[int]) -> Floats:
        """What these agents published last (first axis), out of their sums; nothing new after a lost release."""
        sums, held = self.many_sums(state, agents)
        return self.published_by(sums, held).reshape(len(agents), self.dimension + 1, -1)

    def published_by(self, sums: RunningSum, held: State) -> Floats:
        """What is published of a sum: everything so far."""
        return sums.estimate(held)

    def sum_of(self, state: State, agent: int) -> State:
        """The released part of one agent's sum: what a ledger may store."""
        return {name: array[agent].copy() for name, array in nested(state, SUM).items() if name not in RAW}

    def put_sum(self, state: State, agent: int, own: State) -> None:
        """Put (released) arrays of one agent's sum in, in place."""
        for name, array in nest(SUM, own).items():
            state[name][agent] = array

    def many_sums(self, state: State, agents: Sequence[int]) -> tuple[RunningSum, State]:
        """The sums of these agents side by side, as one sum and its state; all have made as many releases."""
        sums, single, held = self._side_by_side(len(agents)), self.running.start(), {}
        for name, array in nested(state, SUM).items():
            own = array[list(agents)]
            side_by_side = name in WIDE
            held[name] = (
                np.moveaxis(own, 0, -2).reshape(*single[name].shape[:-1], -1) if side_by_side else own[0].copy()
            )
        return sums, held

    def _side_by_side(self, count: int) -> RunningSum:
        if count not in self._many:
            self._many[count] = self.running.many(count)
        return self._many[count]

    @cached_property
    def _many(self) -> dict[int, RunningSum]:
        return {}

    def put_many(self, state: State, agents: Sequence[int], held: State) -> None:
        """The inverse of `many_sums`, in place."""
        for name, array in held.items():
            if name in WIDE:
                array = np.moveaxis(array.reshape(*array.shape[:-1], len(agents), -1), -2, 0)
            state[f"{SUM}/{name}"][list(agents)] = array

    def take(self, state: State, feedback: Feedback, shown: Round) -> None:
        if int(state["acted"].max()) - int(state["last"]) >= EXACT_ROWS:
            raise InputError(
                "too many rows since the last synchronisation",
                path="policy.schedule",
                allowed=f"at most {EXACT_ROWS} rows a synchronisation",
                fix="synchronise more often",
            )
        super().take(state, feedback, shown)

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

    def _units(self, leaves: Floats) -> Ints:
        """Leaves as flat integers of the sum: exact, because rows were put on the grid before they were added."""
        first, second = self.running.grid.upper
        return np.rint(np.ldexp(leaves[:, first, second], self.running.grid.sum_bits)).astype(np.int64)

    def planned(self, rounds: int, noise: Noise) -> Releases | None:
        return None  # releases are made by the policy itself

    def noises(self) -> tuple[Noisy, ...]:
        std = math.sqrt(self.noise_variance(1))
        sampling = self.reward_std * math.sqrt(1 / (12 * self.dimension)) / math.sqrt(self.noise_gain())
        return (gaussian_noise("a message of one agent", std, "products of scaled columns", sampling),)

    # Estimates ----------------------------------------------------------------------------------------------------

    def estimates(self, state: State, confidence: float = CONFIDENCE, items: Floats | None = None) -> Estimates:
        """The parameter, coordinate by coordinate, and the mean and merit of given items (rows of public features).

        From the released sums alone, whether or not agents use own rows besides: theta lies in an ellipsoid with this
        confidence, at all releases at once (`weighted_belief`), so all intervals hold together. Merits are those of
        the first agent's merit function.
        """
        check_established(self.promise, self.name)
        return released_estimates(self, state, check_confidence(confidence), items)

    # Beliefs ------------------------------------------------------------------------------------------------------

    def noise_gain(self) -> float:
        """Variance of a coordinate of h - H theta relative to the noise variance of one scaled entry, |theta| = S."""
        bent = (self.parameter_bound * self.facts.gram) ** 2 * (1 + 1 / self.dimension)
        return self.facts.moment**2 + bent

    def weighted_belief(self, beliefs: Beliefs, total: Floats, variance: float, share: float) -> None:
        """Prior belief and radius of these agents from released sums whose entries carry noise of this variance, in
        place. ``share`` is the part of the reward noise that stands behind a row of ``total``.

        theta - centre has three parts, measured in units of the precision P: the noise of the releases, which is
        normal, so its squared length is at most a chi-square quantile with as many degrees of freedom as the
        releases decide directions (one quantile for all releases, by the union bound); the pull of the prior, at most
        (lambda/R^2) S / sqrt(smallest eigenvalue); and, where own rows are used, their reward noise, at most
        2 ln(1/failure) + ln det P - ln det prior (Abbasi-Yadkori et al. 2011 with this prior). Noise in G itself
        makes the normal part approximate; coverage is tested. An agent that keeps all its own rows never uses a
        larger radius than it would alone.
        """
        believe(total, variance * self.noise_gain(), share, self.facts, self.quantiles, beliefs)

    @cached_property
    def quantiles(self) -> Quantiles:
        """Chi-square quantiles against (fractional) degrees of freedom, at a chance that covers all releases."""
        from scipy.special import chdtri

        degrees = np.linspace(0.0, self.dimension, QUANTILE_STEPS * self.dimension + 1)
        values = chdtri(np.maximum(degrees, FEW_DEGREES), self.failure / self.room)
        values[0] = 0.0
        return Quantiles(degrees, values)

    def check_raw_trigger(self, allowed: bool) -> None:
        raw = isinstance(self.protocol, Determinant) and self.protocol.raw
        if raw and not allowed:
            raise SpecError(
                "the raw determinant trigger shows everybody when unreleased rows crossed a threshold",
                path="schedule.raw",
                given=True,
                allowed="false",
                fix="use raw=false, or a printed variant of priv-fairx to study it",
            )


def form_of(policy: PrivatePolicy) -> Form:
    """What the messages of a policy's agents look like: sums in scaled rows [x/L, w y/B], and how many rows they hold
    where that is said."""
    d, guarantee = policy.dimension, policy.guarantee()
    assert guarantee is not None
    shapes: dict[str, tuple[int, ...]] = {"gram": (d, d), "moment": (d,)}
    largest = dict.fromkeys(shapes, policy.largest_number)
    if policy.counts_rows:
        shapes["rows"], largest["rows"] = (), float(policy.horizon)
    return Form(policy.agents, shapes, largest, guarantee.to_dict(), symmetric=("gram",), counts=("rows",))


def payload(policy: PrivatePolicy, matrix: Floats, rows: int) -> dict[str, Floats]:
    """A message's arrays; the y y entry of the matrix over [x, y] is not sent."""
    d = policy.dimension
    arrays = {"gram": matrix[:d, :d], "moment": matrix[:d, d]}
    return {**arrays, "rows": np.asarray(float(rows))} if policy.counts_rows else arrays


def matrix_of(message: Message) -> Floats:
    """The sums of a message as one matrix over [x, y]; the y y entry is not sent and is zero."""
    gram, moment = message.payload["gram"], message.payload["moment"]
    full = np.zeros((len(moment) + 1, len(moment) + 1))
    full[:-1, :-1] = gram
    full[:-1, -1] = full[-1, :-1] = moment
    return full
