"""What both variants of Private-Fair-Greedy share: a noisy regression by leaves, and count noise that serves one round.

Two counts under one noise would show their exact difference. So every round has noise of its own, drawn by `release`;
`decide` refuses a round without it, and the first decision of a round seals the noise: another question in the same
round is refused. The seal is the one array of a state that `decide` writes. A seal that `decide` returned for the
caller to put in could not fail closed: a caller who asks twice before he does so has both answers already.
"""

from __future__ import annotations

import hashlib
from abc import abstractmethod
from functools import cached_property
from typing import ClassVar, Literal

import numpy as np

from fairveil.arrays import Floats, Ints
from fairveil.bandits.meritocratic.candidates import shown_in, uniform_decision
from fairveil.bandits.meritocratic.estimate import weights_of
from fairveil.bandits.meritocratic.halved_history import UNIFORM_ROUNDS, HalvedHistory
from fairveil.bandits.protocol import Decision, Round
from fairveil.bandits.quotes import REWARD_STD, Noisy, gaussian_noise
from fairveil.configuration import configuration
from fairveil.errors import HorizonError, InputError, PrivacyError, SpecError
from fairveil.fields import Count, Delta, Epsilon, OpenUnit, Positive, described
from fairveil.privacy.events import FINE_GRID, Event, GaussianEvent, ZcdpEvent
from fairveil.privacy.noise import Noise
from fairveil.privacy.sums import RunningSum
from fairveil.randomness import Generator
from fairveil.state import State, nest, nested

UNIT = 2.0**30
"""Grid units of one count: the noise of a count is then never below 2^20 units."""
SEAL = 32
"""Bytes of the digest of the question that the noise of a round has answered."""
PUBLIC = (
    "public: groups, who comes when, when rewards arrive, the configuration with its bound, and the largest number of "
    "candidates of one group in a round"
)
SHAPE = {"model": "joint", "unit": "one candidate of one round", "neighbours": "replace-tuple"}


def rank_event(mu: float, draws: int, sigma: float) -> Event:
    """Counts that cost one candidate mu, with at most this many draws of level ``sigma`` grid units or more."""
    return GaussianEvent(mu, draws, sigma) if sigma >= FINE_GRID else ZcdpEvent(mu * mu / 2)


@configuration
class NoisyHistory(HalvedHistory):
    """Base of both variants: state, seal, leaves and count noise; a variant says how large its noises are."""

    seals: ClassVar[tuple[str, ...]] = ("sealed",)

    epsilon: Epsilon = described("budget of one candidate of one round", example=1.0)
    delta: Delta = described("chance that the promise may fail", example=1e-5)
    bound: Positive = described("public bound of the norm of a row [x, y]; longer rows are clipped", example=2.0)
    rounds: Count | None = described("number of rounds", default=None)
    candidates: Count | None = described("most candidates of a round", default=None)
    alpha_eps: OpenUnit = described("share of the budget for the regression", default=0.9)
    totals: Literal["public", "noisy"] | None = described(
        "whether numbers of candidates by group are public; noisy when left out", default=None
    )
    per_group: Count | None = described("most candidates of one group in a round; 1 when left out", default=None)

    # What a variant says ----------------------------------------------------------------------------------------------

    @property
    @abstractmethod
    def sums(self) -> RunningSum:
        """The running sum of outer products."""

    @abstractmethod
    def count_std(self, now: int) -> float:
        """Standard deviation of the count noise in round ``now`` (from 0)."""

    # Public numbers ---------------------------------------------------------------------------------------------------

    @cached_property
    def last_round(self) -> int:
        """The number of rounds it was built for."""
        if self.rounds is None:
            raise SpecError("the number of rounds is not known", path="policy.rounds", fix="give rounds")
        return self.rounds

    @cached_property
    def leaves(self) -> int:
        """How many rows can enter the regression."""
        return max(1, (self.last_round - 1) // 2)

    @property
    def queries(self) -> int:
        """Counts that one round can ask of one group."""
        return self.per_group or 1

    @property
    def draws_a_count(self) -> int:
        """Noises of one query: its count and, unless totals are declared public, the total beside it."""
        return 1 if self.totals == "public" else 2

    @property
    def width(self) -> int:
        """Numbers in a row [x, y]."""
        return (self.features or 1) + 1

    def rows_of(self, features: Floats, reward: Floats) -> Floats:
        """Rows clipped to the public bound and put on the integer grid of the sum, in the data's own units."""
        plain = super().rows_of(features, reward)
        units = self.sums.grid.rows(plain.reshape(-1, plain.shape[-1]))
        return np.ldexp(units.astype(np.float64), -self.sums.grid.bits).reshape(plain.shape)

    def noises(self) -> tuple[Noisy, ...]:
        last = self.last_round - 1
        return (
            gaussian_noise("the running regression sum", self.sums.expected_std(self.leaves), "products of columns"),
            gaussian_noise("a rank count in the last round", self.count_std(last), "people", REWARD_STD),
        )

    # Step interface ---------------------------------------------------------------------------------------------------

    def start(self) -> State:
        slots = self.candidates or (self.groups or 1) * self.queries
        return {
            **super().start(),
            **nest("sum", self.sums.start()),
            "count_noise": np.zeros(slots),
            "total_noise": np.zeros(slots),
            "noise_lost": np.zeros((), np.bool_),
            "sealed": np.zeros(SEAL, np.uint8),
        }

    def decide(self, state: State, round: Round, rng: Generator) -> Decision:
        """Decide with the noise that was drawn for this round and for no other; the same question again is free."""
        shown = shown_in(round, self.features, self.groups)
        if round.index >= self.last_round:
            raise HorizonError(
                "the policy has decided all the rounds it was built for",
                path="rounds",
                given=round.index,
                allowed=f"rounds 0 to {self.last_round - 1}",
                fix="build it with more rounds",
            )
        if int(state["ready_for"]) != round.index:
            raise PrivacyError(
                "there is no fresh noise for this round",
                path="round.index",
                given=round.index,
                allowed=f"round {int(state['ready_for'])}",
                fix="call release while due names a block",
            )
        self.check_queries(shown.group, len(state["count_noise"]))
        if state["noise_lost"]:
            return uniform_decision(len(shown.group), rng)
        if round.index >= UNIFORM_ROUNDS:  # the first rounds are uniform and use no noise
            _seal(state, round)
        return super().decide(state, round, rng)

    def check_queries(self, group: Ints, slots: int) -> None:
        """No round may ask more counts than there is noise for. Groups are public, and so is this refusal."""
        if len(group) > slots:
            raise InputError(
                "the round has too many candidates",
                path="round.candidates",
                given=len(group),
                allowed=f"at most {slots}",
                fix="give candidates",
            )
        most = int(np.bincount(group).max())
        if most > self.queries:
            raise InputError(
                "the round has too many candidates of one group",
                path="round.candidates",
                given=most,
                allowed=f"at most {self.queries} of each group",
                fix="give per_group, the public maximum",
            )

    def release(self, state: State, noise: Noise) -> State:
        """Close a leaf in every second round, and draw the noise of the next round's counts."""
        now = int(state["ready_for"]) + 1
        if now >= self.last_round:  # nothing is decided after the last round, so nothing is released for it
            return {**state, "ready_for": np.asarray(now)}
        after = super().release(state, noise)
        after["noise_lost"] = np.zeros((), np.bool_)
        after["sealed"] = np.zeros(SEAL, np.uint8)
        if now >= UNIFORM_ROUNDS:
            slots = len(state["count_noise"])
            drawn = noise.gaussian(self.count_std(now) * UNIT, self.draws_a_count * slots) / UNIT
            after["count_noise"] = drawn[:slots]
            after["total_noise"] = drawn[slots:] if self.draws_a_count == 2 else np.zeros(slots)
        return after

    def lost(self, state: State, block: str) -> State:
        """The round has no noise, so it is played blindly; a leaf that would have closed is dropped with its rows."""
        now = int(state["ready_for"]) + 1
        after = {**state, "ready_for": np.asarray(now), "noise_lost": np.ones((), np.bool_)}
        if UNIFORM_ROUNDS <= now < self.last_round and now % 2 == 0:
            after["entered"] = state["entered"] | (state["rows_round"] < now // 2)
            after |= nest("sum", self.sums.lost(nested(state, "sum")))
        return after

    def close_leaf(self, state: State, fresh: Floats, leaf: int, noise: Noise) -> State:
        sums = nested(state, "sum")
        if len(fresh):
            sums = self.sums.add(sums, fresh)
        sums, moments = self.sums.release(sums, noise)
        return {**nest("sum", sums), "theta": weights_of(moments, float(self.ridges(leaf)[-1]), self.ridge)}

    def noise_of_ranks(self, state: State, slots: int) -> tuple[Floats, Floats]:
        return state["count_noise"][:slots], state["total_noise"][:slots]


def _seal(state: State, round: Round) -> None:
    """A question is the candidates and the people they are compared with, of whom only more become known."""
    question = hashlib.sha256(np.array([round.index, len(state["people"])], np.int64).tobytes())
    for candidate in round.candidates:
        question.update(np.int64(candidate.group).tobytes())
        question.update(np.ascontiguousarray(candidate.features, np.float64).tobytes())
    digest = np.frombuffer(question.digest(), np.uint8)
    if not state["sealed"].any():
        state["sealed"][:] = digest
    if not np.array_equal(state["sealed"], digest):
        raise PrivacyError(
            "the noise of this round has answered another question",
            path="round.candidates",
            given=f"round {round.index} again, with other candidates or more people known",
            allowed="one decision a round",
            fix="decide each round once and keep the decision",
        )
