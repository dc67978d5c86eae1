"""Private-Fair-Greedy: continual private regression and noisy rank counts in every round."""

from __future__ import annotations

import hashlib
import math
from functools import cached_property
from typing import Any, ClassVar, Literal

import numpy as np

from fairveil.bandits.feedback import AT_ONCE
from fairveil.bandits.meritocratic import wishart
from fairveil.bandits.meritocratic.calibration import Total, calibrated
from fairveil.bandits.meritocratic.exact import ExactRunner, HalvedHistory, uniform_decision
from fairveil.bandits.meritocratic.regression import weights_of
from fairveil.bandits.meritocratic.runner import Runner
from fairveil.bandits.meritocratic.world import Chunk, Floats, Ints
from fairveil.bandits.protocol import Decision, Round
from fairveil.bandits.simulate import Case, Streams
from fairveil.configuration import configuration
from fairveil.errors import HorizonError, InputError, PrivacyError, SpecError
from fairveil.fields import Count, Delta, Epsilon, OpenUnit, Positive
from fairveil.privacy.accounting import Accountant
from fairveil.privacy.events import FINE_GRID, ApproximateEvent, ComposedEvent, Event, GaussianEvent, ZcdpEvent
from fairveil.privacy.guarantee import Guarantee
from fairveil.privacy.noise import Noise, SeededNoise, ZeroNoise
from fairveil.privacy.sums import RunningSum, ToeplitzSum, TreeSum
from fairveil.randomness import Generator
from fairveil.registry import register
from fairveil.state import State

UNIT = 2.0**30
"""Grid units of one count: the noise of a count is then never below 2^20 units."""
SEAL = 32
"""Bytes of the digest of the question that the noise of a round has answered."""


@register("policy", "private-fair-greedy")
@configuration
class PrivateFairGreedy(HalvedHistory):
    """Fair-Greedy with joint privacy: every round a noisy rank per candidate, every second round a noisy regression.

    Guarantee (``variant="sound"``): (epsilon, delta) joint privacy, with mu^2 = mu_reg^2 + mu_rank^2,
    for one candidate of one round; ``alpha_eps`` is the share of mu^2 that the regression gets. Regression: rows [x, y]
    clipped to the public ``bound`` L, prefix sums of outer products by the square-root Toeplitz factorisation, one
    replaced leaf of Frobenius sensitivity sqrt(2) L^2. Ranks: count noise of variance t ln 2 / mu_rank^2 in round t;
    a candidate of round s is counted in rounds s+1..2s only and pays sum mu_rank^2/(t ln 2) <= mu_rank^2, without a
    horizon. Every candidate of a group asks a count of its own: with at most ``per_group`` of them in a round (public,
    1 unless given; more are refused) the noise grows by sqrt(per_group). With noisy totals each query is a pair (count,
    total) and both noises grow by sqrt 2. Noise is discrete, so where delta cannot pay for that (large epsilon) the
    budget is rho = mu^2/2 of zCDP. ``bound`` has no default.

    Each round has count noise of its own, drawn by `release`: `decide` refuses a round without it and rounds past the
    horizon, and a round whose release was lost is played uniformly at random. The noise serves one question: the first
    decision seals it, and another one of the same round, with other candidates or after more people became known, is
    refused. The seal is the one array of a state that `decide` writes.

    ``variant="printed"`` draws what the paper prints: tree noise from the (eps alpha_eps, delta alpha_delta) budget by
    advanced composition, a positive-definite shift, rank noise for T queries (``ranks``: zcdp or approx). It is private
    for a fixed public L and far noisier than it need be; its `guarantee` states the mu that the noise really gives.
    ``shift``: once per prefix, or in every node as in the authors' runs. Noise ``wishart`` and ``shifted-wishart``:
    printed only, not established.

    Cost: one event for the horizon ``rounds``. Time and memory as Fair-Greedy, and O(features^2) numbers a leaf.

    >>> policy = PrivateFairGreedy(epsilon=15.0, delta=0.1, bound=5.0, rounds=50_000, variant="printed")
    >>> policy.guarantee().epsilon < 2
    True

    Reference: An, Palacci and Paschalidis 2025; corrections in docs/errata/private-fair-greedy.md.
    """

    seals: ClassVar[tuple[str, ...]] = ("sealed",)

    epsilon: Epsilon
    delta: Delta
    bound: Positive
    rounds: Count | None = None
    candidates: Count | None = None
    variant: Literal["sound", "printed"] = "sound"
    regression: Literal["gaussian", "wishart", "shifted-wishart"] = "gaussian"
    ranks: Literal["zcdp", "approx"] = "zcdp"
    shift: Literal["prefix", "node"] = "node"
    alpha_eps: OpenUnit = 0.9
    alpha_delta: OpenUnit = 0.9
    totals: Literal["public", "noisy"] | None = None
    per_group: Count | None = None

    def __post_init__(self) -> None:
        if self.variant == "sound" and (self.regression != "gaussian" or self.ranks != "zcdp"):
            raise SpecError(
                "this noise has no established guarantee",
                path="regression" if self.regression != "gaussian" else "ranks",
                given=self.regression if self.regression != "gaussian" else self.ranks,
                allowed="gaussian noise and zcdp ranks, or variant printed",
            )

    # Public numbers --------------------------------------------------------------------------------------------------

    @cached_property
    def _horizon(self) -> int:
        if self.rounds is None:
            raise SpecError("the number of rounds is not known", path="policy.rounds", fix="give rounds")
        return self.rounds

    @cached_property
    def leaves(self) -> int:
        """How many rows can enter the regression."""
        return max(1, (self._horizon - 1) // 2)

    @cached_property
    def total(self) -> Total:
        """Budget of the sound variant: what its own event allows at (epsilon, delta)."""
        return calibrated(self.epsilon, self.delta, self._event_of)

    @property
    def mu(self) -> float:
        return self.total.mu

    @property
    def queries(self) -> int:
        """Counts that one round can ask of one group."""
        return self.per_group or 1

    @property
    def _width(self) -> int:
        return (self.features or 1) + 1

    @property
    def printed_levels(self) -> int:
        return 1 + math.ceil(math.log2(max(self.leaves, 2)))

    @property
    def printed_node_std(self) -> float:
        """Off-diagonal standard deviation of a node in the printed calibration."""
        epsilon, delta = self.epsilon * self.alpha_eps, self.delta * self.alpha_delta
        return 4 * math.sqrt(self.printed_levels) * self.bound**2 * math.log(4 / delta) / epsilon

    @cached_property
    def sums(self) -> RunningSum:
        """The running sum of outer products. For the printed noise its mu is what that noise really costs."""
        if self.variant == "sound":
            return self._sound_sums(self.total)
        levels = int(self.leaves).bit_length()
        return TreeSum(self.leaves, mu=self.bound**2 * math.sqrt(levels) / self.printed_node_std, **self._shape)

    @property
    def _shape(self) -> dict[str, Any]:
        return {"shape": "symmetric", "dimension": self._width, "bound": self.bound}

    def _sound_sums(self, total: Total) -> ToeplitzSum:
        return ToeplitzSum(self.leaves, **total.share(self.alpha_eps), **self._shape)

    @cached_property
    def _rank_rho(self) -> float:
        """The printed zCDP budget of the ranks."""
        epsilon, delta = self.epsilon * (1 - self.alpha_eps), self.delta * (1 - self.alpha_delta)
        return (math.sqrt(math.log(1 / delta) + epsilon) - math.sqrt(math.log(1 / delta))) ** 2

    @cached_property
    def rank_mu(self) -> float:
        """What the rank noise costs one candidate, who is counted in at most half of the rounds."""
        if self.variant == "sound":
            return self.mu * math.sqrt(1 - self.alpha_eps)
        worst = math.sqrt(self.queries * max(self._horizon // 2, 1)) / self._printed_count_std
        return worst * (math.sqrt(2) if self.totals == "noisy" else 1.0)

    @property
    def _printed_count_std(self) -> float:
        if self.ranks == "zcdp":
            return math.sqrt(self._horizon / (2 * self._rank_rho))
        # Advanced composition over T queries, each by the classical Gaussian mechanism.
        epsilon, delta = self.epsilon * (1 - self.alpha_eps), self.delta * (1 - self.alpha_delta)
        each = epsilon / math.sqrt(8 * self._horizon * math.log(2 / delta))
        return math.sqrt(2 * math.log(1.25 * 2 * self._horizon / delta)) / each

    def count_std(self, now: int) -> float:
        """Standard deviation of the count noise in round ``now`` (from 0)."""
        if self.variant == "printed":
            return self._printed_count_std
        pair = 2.0 if self.totals == "noisy" else 1.0
        return math.sqrt(pair * self.queries * (now + 1) * math.log(2)) / self.rank_mu

    @property
    def _bound(self) -> float:
        return self.bound

    def _ridges(self, leaves: int) -> Floats:
        if self.variant == "sound":
            assert isinstance(self.sums, ToeplitzSum)
            # Std of a prefix grows with the square root of the decoder's squares; beyond the horizon nothing is asked.
            growth = np.sqrt(np.cumsum(self.sums.decoder**2))
            std = self.sums.expected_std(1) * growth[np.minimum(np.arange(leaves), self.leaves - 1)]
            # Twice the typical operator norm 2 sqrt(width) std of the noise: less leaves spurious directions.
            return self.ridge + 4 * math.sqrt(self._width) * std
        if self.regression == "wishart":
            return np.full(leaves, self.ridge)
        if self.regression == "shifted-wishart":
            degrees, levels = self._degrees, self.printed_levels
            return np.full(
                leaves, self.ridge - wishart.prefix_shift(self._width, levels, degrees, self.bound, self._horizon)
            )
        gamma = self.printed_node_std * math.sqrt(2 * self.printed_levels)
        gamma *= 4 * math.sqrt(self._width - 1) + 2 * math.log(2 * self._horizon)
        nodes = np.bitwise_count(np.arange(1, leaves + 1)) if self.shift == "node" else np.ones(leaves)
        return 2 * gamma * nodes.astype(np.float64)

    @property
    def _degrees(self) -> int:
        epsilon, delta = self.epsilon * self.alpha_eps, self.delta * self.alpha_delta
        return wishart.degrees_of_freedom(self._width, self.printed_levels, epsilon, delta)

    # Privacy ---------------------------------------------------------------------------------------------------------

    def event(self) -> Event:
        if self.variant == "printed" and self.regression != "gaussian":
            return ApproximateEvent(self.epsilon, self.delta)
        if self.variant == "sound":
            return self._event_of(self.total)
        draws = (2 if self.totals == "noisy" else 1) * self.queries * max(self._horizon // 2, 1)
        ranks = self._rank_event(self.rank_mu, draws, self._printed_count_std * UNIT)
        return ComposedEvent((self.sums.event(), ranks))

    def _event_of(self, total: Total) -> Event:
        """Regression and counts (with totals) of the sound variant.

        Variances grow with the round and with the number of queries: together the discreteness of the noises that a
        candidate meets weighs no more than that of one draw (one pair of draws) of variance 1/mu_rank^2.
        """
        mu = total.mu * math.sqrt(1 - self.alpha_eps)
        if total.concentrated:
            ranks: Event = ZcdpEvent(mu * mu / 2)
        else:
            ranks = self._rank_event(mu, 2 if self.totals == "noisy" else 1, UNIT / mu)
        return ComposedEvent((self._sound_sums(total).event(), ranks))

    @staticmethod
    def _rank_event(mu: float, draws: int, sigma: float) -> Event:
        return GaussianEvent(mu, draws, sigma) if sigma >= FINE_GRID else ZcdpEvent(mu * mu / 2)

    def guarantee(self) -> Guarantee:
        facts = {"model": "joint", "unit": "one candidate of one round", "neighbours": "replace-tuple"}
        if self.variant == "sound":
            stated = {} if self.rounds is None else self.total.stated
            return Guarantee.approximate(self.epsilon, self.delta, **stated, **facts)
        if self.regression != "gaussian":
            return Guarantee.approximate(
                self.epsilon,
                self.delta,
                established=False,
                notes=("Wishart noise on a tree: the published claim was not re-proved.",),
                **facts,
            )
        if self.rounds is None:
            note = "the printed noise depends on the number of rounds, which is not given"
            return Guarantee.approximate(self.epsilon, self.delta, established=False, notes=(note,), **facts)
        total = math.hypot(self.sums.budget.first_mu(), self.rank_mu)
        claim = f"the paper claims ({self.epsilon:g}, {self.delta:g}); its noise gives mu = {total:.4g}"
        accountant = Accountant()
        accountant.compose(self.event())
        return Guarantee.approximate(
            accountant.at_delta(self.delta).epsilon,
            self.delta,
            mu=total,
            notes=(claim, "holds for a fixed public bound only"),
            **facts,
        )

    # Step interface --------------------------------------------------------------------------------------------------

    def start(self) -> State:
        slots = self.candidates or (self.groups or 1) * self.queries
        return {
            **super().start(),
            **{f"sum_{name}": array for name, array in self.sums.start().items()},
            "count_noise": np.zeros(slots),
            "total_noise": np.zeros(slots),
            "noise_lost": np.zeros((), np.bool_),
            "sealed": np.zeros(SEAL, np.uint8),
        }

    def decide(self, state: State, round: Round, rng: Generator) -> Decision:
        """Decide with the noise that was drawn for this round and for no other; the same question again is free."""
        if round.index >= self._horizon:
            raise HorizonError(
                "the policy has decided all the rounds it was built for",
                path="rounds",
                given=round.index,
                allowed=f"rounds 0 to {self._horizon - 1}",
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
        group = np.array([candidate.group for candidate in round.candidates], np.int64)
        self._check_queries(group, len(state["count_noise"]))
        if state["noise_lost"]:
            return uniform_decision(group, rng)
        if round.index >= 2:  # the first two rounds are uniform and use no noise
            self._seal(state, round)
        return super().decide(state, round, rng)

    @staticmethod
    def _seal(state: State, round: Round) -> None:
        """Two counts under one noise would show their exact difference: let the noise answer one question only.

        A question is the candidates and the people they are compared with, of whom only more become known.
        """
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

    def _check_queries(self, group: Ints, slots: int) -> None:
        """Groups are public, and so is this refusal."""
        if len(group) > slots:
            raise InputError(
                "the round has too many candidates",
                path="round.candidates",
                given=len(group),
                allowed=f"at most {slots}",
                fix="give candidates",
            )
        if len(group) and np.bincount(group).max() > self.queries:
            raise InputError(
                "the round has too many candidates of one group",
                path="round.candidates",
                given=int(np.bincount(group).max()),
                allowed=f"at most {self.queries} of each group",
                fix="give per_group, the public maximum",
            )

    def release(self, state: State, noise: Noise) -> State:
        """Close a leaf in every second round, and draw the noise of the next round's counts."""
        now = int(state["ready_for"]) + 1
        if now >= self._horizon:  # nothing is decided after the last round, so nothing is released for it
            return {**state, "ready_for": np.asarray(now)}
        after = super().release(state, noise)
        after["noise_lost"] = np.zeros((), np.bool_)
        after["sealed"] = np.zeros(SEAL, np.uint8)
        if now >= 2:
            size, sigma = len(state["count_noise"]), self.count_std(now) * UNIT
            after["count_noise"] = noise.gaussian(sigma, size) / UNIT
            after["total_noise"] = noise.gaussian(sigma, size) / UNIT if self.totals == "noisy" else np.zeros(size)
        return after

    def lost(self, state: State, block: str) -> State:
        """The round has no noise, so it is played blindly; a leaf that would have closed is dropped with its rows."""
        now = int(state["ready_for"]) + 1
        after = {**state, "ready_for": np.asarray(now), "noise_lost": np.ones((), np.bool_)}
        if 2 <= now < self._horizon and now % 2 == 0:
            after["entered"] = state["entered"] | (state["rows_round"] < now // 2)
            sums = self.sums.lost({name[4:]: array for name, array in state.items() if name.startswith("sum_")})
            after |= {f"sum_{name}": array for name, array in sums.items()}
        return after

    def _close_leaf(self, state: State, fresh: Floats, leaf: int, noise: Noise) -> State:
        if self.regression != "gaussian":
            raise SpecError("Wishart noise runs in the simulator only", path="regression", given=self.regression)
        sums = {name[4:]: array for name, array in state.items() if name.startswith("sum_")}
        if len(fresh):
            sums = self.sums.add(sums, fresh)
        sums, moments = self.sums.release(sums, noise)
        changed: State = {f"sum_{name}": array for name, array in sums.items()}
        changed["theta"] = weights_of(moments, float(self._ridges(leaf)[-1]), self._floor)
        return changed

    def _noise_of_ranks(self, state: State, slots: int) -> tuple[Floats, Floats]:
        return state["count_noise"][:slots], state["total_noise"][:slots]

    # Simulation ------------------------------------------------------------------------------------------------------

    def simulator(self, case: Case, streams: Streams) -> Runner | None:
        if case.lateness != AT_ONCE or not isinstance(streams.noise, SeededNoise | ZeroNoise):
            return None
        return PrivateRunner(self, case.environment.slots(), streams.explore, streams.noise)  # type: ignore[attr-defined]


class PrivateRunner(ExactRunner):
    """The compiled run with seeded (or no) noise: all prefix noise is drawn at once, counts get theirs by chunk."""

    def __init__(self, policy: PrivateFairGreedy, slots: Ints, rng: Generator, noise: SeededNoise | ZeroNoise) -> None:
        super().__init__(policy, slots, rng)
        policy._check_queries(slots, len(slots))
        self.private, self.noise = policy, noise
        self.path = self._draw_path()

    def _draw_path(self) -> Floats:
        policy = self.private
        if not isinstance(self.noise, SeededNoise):
            return np.zeros((policy.leaves, 0))
        if policy.regression == "gaussian":
            return policy.sums.noise_path(self.noise, policy.leaves)
        source = self.noise.stream
        return wishart.noise_path(source, policy.leaves, policy._width, policy._degrees, policy.bound)

    def play(self, chunk: Chunk) -> tuple[Ints, Floats]:
        if chunk.first + len(chunk) > self.private._horizon:
            raise HorizonError(
                "the run is longer than the policy's horizon",
                path="rounds",
                given=chunk.first + len(chunk),
                allowed=f"at most {self.private._horizon}",
            )
        return super().play(chunk)

    def moment_noise(self, leaves: int) -> Floats:
        self.releases = leaves
        return self.path

    def rank_noise(self, first: int, shape: tuple[int, ...]) -> tuple[Floats, Floats]:
        sigmas = [self.private.count_std(now) * UNIT for now in range(first, first + shape[0])]
        noise = np.stack([self.noise.gaussian(sigma, shape[1]) for sigma in sigmas]) / UNIT
        if self.private.totals != "noisy":
            return noise, np.zeros(shape)
        return noise, np.stack([self.noise.gaussian(sigma, shape[1]) for sigma in sigmas]) / UNIT

    def rank_uncertainty(self) -> Floats | None:
        seen = np.maximum(self.store.end - self.store.start, 1)
        now = int(self.store.end.max())
        return np.sqrt(0.25 / seen + (self.private.count_std(min(now, self.private._horizon)) / seen) ** 2)
