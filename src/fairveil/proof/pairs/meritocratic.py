"""Neighbouring worlds for audits: one candidate of one round changes, everything published about others is compared.

Every pair drives a policy through its public methods (`decide`, `learn`, `release`) with the noise it is given, and
reads what an observer sees: published arrays, release times, decisions of other rounds. Released arrays are compared by
likelihood ratios, so nothing is lost; decisions of all OTHER rounds are what joint privacy is about. Policies are
audited in a small world of their own, whatever environment they were built for.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.special import ndtr

from fairveil.arrays import Floats
from fairveil.bandits.environments.base import Environment
from fairveil.bandits.feedback import AT_ONCE, NEVER, Lateness
from fairveil.bandits.meritocratic.batched import BatchedPrivateFairGreedy
from fairveil.bandits.meritocratic.estimate import DOUBT, GROUP_WEIGHT
from fairveil.bandits.meritocratic.halved_history import UNIFORM_ROUNDS
from fairveil.bandits.meritocratic.noisy_history import NoisyHistory
from fairveil.bandits.meritocratic.scaling import Scaling
from fairveil.bandits.protocol import Candidate, Feedback, Policy, Round
from fairveil.bandits.simulate import Streams, walk
from fairveil.privacy.histograms.codes import encode
from fairveil.privacy.noise import Noise, ZeroNoise
from fairveil.privacy.sums import ToeplitzSum
from fairveil.proof import AuditPair
from fairveil.proof.engine.bounds import FinerClaim
from fairveil.proof.pairs import each
from fairveil.randomness import Generator
from fairveil.registry import register
from fairveil.state import State

FEATURES, GROUPS = 2, 2
BATCH = 24
"""Rounds of the first batch of an audited batched policy."""
SHIFTED, OFFSET = 8192, 2.0
"""Rounds of that batch where it must show that every column lies so far from its declared middle."""
RANKED = 2048
"""Rounds of that batch where its histograms are audited: many people, so that the projection to a cdf loses little."""
MANY, SOME, FEW = 9_000, 900, 60
"""Trials of a pair that reads one release (half of its noise shows at epsilon 1), of one that shows a clip left out,
and of one that plays whole runs."""
FINE = 1e-9
"""Total-variation distance of discrete noise to a Gaussian in these worlds is below this."""
WORLDS = "one candidate of round 0 lies along one axis or along the other, with the opposite reward"
RANK_WORLDS = "one candidate of round 0, who is not chosen, scores low or high"
LATE_WORLDS = "the reward of the last round of a batch is the largest and comes at once, or never comes"
EXCESS = 8.0
"""How much longer than its bound a row comes that must be clipped."""
EDGE = math.sqrt(2)
"""Features of norm one beside a reward of size one."""


def small(policy: Any, **changes: Any) -> Any:
    """The same budget and options on two groups with two features."""
    return replace(policy, groups=GROUPS, features=FEATURES, totals="public", **changes)


def small_batched(
    policy: BatchedPrivateFairGreedy, first_batch: int = BATCH, norm: float = 1.0
) -> BatchedPrivateFairGreedy:
    scaling = Scaling(
        columns=(0, 1), centre=(0.0, 0.0), spread=(1.0, 1.0), norm=norm, reward_centre=0.0, reward_bound=1.0
    )
    made: BatchedPrivateFairGreedy = small(policy, scaling=scaling, first_batch=first_batch)
    return made


@dataclass(frozen=True)
class Recorded(Environment):
    """Fixed rounds and fixed rewards of every candidate; candidate 0 of one round is the one that changes."""

    family = "meritocratic"

    features: Floats  # (rounds, groups, columns)
    rewards: Floats  # (rounds, groups)

    @classmethod
    def of(cls, rounds: int, world: int, bound: float = EDGE, at: int = 0) -> Recorded:
        rng = np.random.default_rng(8)
        features = rng.uniform(-0.5, 0.5, (rounds, GROUPS, FEATURES))
        corner = np.array([1.0, 0.0]) if world == 0 else np.array([0.0, 1.0])
        features[at, 0], features[at, 1] = corner * bound / math.sqrt(2), 0.0
        rewards = features.sum(axis=2)
        rewards[at, 0] = (1.0 if world == 0 else -1.0) * bound / math.sqrt(2)
        return cls(features, rewards)

    def show(self, index: int, rng: Generator | None = None) -> Round:
        return Round(index, tuple(Candidate(group, self.features[index, group]) for group in range(GROUPS)))

    def reward(self, round: Round, arm: int, rng: Generator | None = None) -> float:
        return float(self.rewards[round.index, arm])

    def feedback(self, arm: int, first: int = 0) -> list[Feedback]:
        """Every round with its reward, had this candidate always been chosen, numbered from ``first``."""
        return [
            Feedback(first + i, arm, self.reward(self.show(i), arm), replace(self.show(i), index=first + i))
            for i in range(len(self.rewards))
        ]

    def chosen(self, slots: list[int], first: int) -> Floats:
        """Sum of the chosen features from round ``first`` on: who is preferred shows the direction that was learned."""
        rows = np.arange(first, len(slots))
        return self.features[rows, np.array(slots)[first:]].sum(axis=0)


@register("audit-pair", "policy:batched-private-fair-greedy")
def batched_pair(policy: BatchedPrivateFairGreedy) -> AuditPair:
    """The noisy moments of one batch, projected on the difference of the two worlds."""
    made = small_batched(policy)
    states = [made.learn_all(made.start(), Recorded.of(BATCH, world).feedback(0)) for world in (0, 1)]
    return _moments_pair(made, states)


@register("audit-pair", "policy:batched-private-fair-greedy/clipped")
def batched_clipped(policy: BatchedPrivateFairGreedy) -> AuditPair:
    """The same where the changed row and its reward are far longer than allowed; served code shrinks the whole row."""
    made, states = small_batched(policy), []
    for world in (0, 1):
        recorded = Recorded.of(BATCH, world)
        recorded.features[0, 0] *= EXCESS
        recorded.rewards[0, 0] *= EXCESS
        states.append(made.learn_all(made.start(), recorded.feedback(0)))
    return replace(_moments_pair(made, states), trials=SOME)


@register("audit-pair", "policy:batched-private-fair-greedy/scale")
def batched_scale(policy: BatchedPrivateFairGreedy) -> AuditPair:
    """The scale that the first batch shows for later ones, when a candidate of it changes."""
    made, states = small_batched(policy, SHIFTED, OFFSET * EDGE), []
    for world in (0, 1):
        early = Recorded.of(SHIFTED, world)
        early.features[:] += OFFSET
        states.append(made.learn_all(made.start(), early.feedback(0)))

    def scale(world: int, noise: Noise, rng: Generator) -> Floats:
        after = made.release(states[world], noise)
        return np.concatenate([after["shift"], after["stretch"]])

    statistic = "middle and spread of the columns"
    return AuditPair(each(scale), WORLDS, statistic, made.epsilon, made.delta, None, FEW)


@register("audit-pair", "policy:batched-private-fair-greedy/rescaled")
def batched_rescaled(policy: BatchedPrivateFairGreedy) -> AuditPair:
    """The same of the second batch, whose rows are taken on the scale that the first one showed."""
    made = small_batched(policy, SHIFTED, OFFSET * EDGE)
    early = Recorded.of(SHIFTED, 0)
    early.features[:] += OFFSET
    begun = made.release(made.learn_all(made.start(), early.feedback(0)), ZeroNoise())
    # Rows as long as they may be on the new scale, with opposite rewards and at right angles: none are further apart.
    near = (made.reward_weight**2 - GROUP_WEIGHT**2) / made.ready.norm**2
    ends, states = np.array([[1.0, 0.0], [near, math.sqrt(1.0 - near**2)]]), []
    for world in (0, 1):
        late = Recorded.of(BATCH, world)
        late.features[0, 0] = made.ready.norm * ends[world]
        late.features[:] = begun["shift"] + begun["stretch"] * late.features
        states.append(made.learn_all(begun, late.feedback(0, SHIFTED)))
    return _moments_pair(made, states)


def _moments_pair(made: BatchedPrivateFairGreedy, states: list[State]) -> AuditPair:
    exact = [made.release(state, ZeroNoise())["sum/last"] for state in states]
    level = made.sums.sigma * made.sums.grid.spread
    aim = (exact[0] - exact[1]) / level**2

    def ratio(world: int, noise: Noise, rng: Generator) -> Any:
        return made.release(states[world], noise)["sum/last"] @ aim

    statistic = "likelihood ratio of the moments"
    return AuditPair(each(ratio), WORLDS, statistic, made.epsilon, made.delta, _finer(made), MANY)


@register("audit-pair", "policy:batched-private-fair-greedy/ranks")
def batched_ranks(policy: BatchedPrivateFairGreedy) -> AuditPair:
    """The noisy rank table of the changed candidate's group; the moments are the same in both worlds."""
    # Ranks get nearly all of the budget here: with their usual share seconds would not show half of their noise.
    made = replace(small_batched(policy, RANKED), rank_share=0.9)
    states, ends = [], np.array([[-1.0, -1.0], [1.0, 1.0]]) / math.sqrt(2)
    for end in ends:
        recorded = Recorded.of(RANKED, 0)
        recorded.features[0, 0] = end
        states.append(made.learn_all(made.start(), recorded.feedback(1)))
    people = np.concatenate([ends, recorded.features[1:, 0]])

    def ratio(world: int, noise: Noise, rng: Generator) -> float:
        """Coded counts beside the coded difference: the observer knows the direction, the others, and two places."""
        after = made.release(states[world], noise)
        places = made.histogram.bin_of(ndtr((people @ after["direction"] - after["middle"]) / after["deviation"]))
        known = np.bincount(places[2:], minlength=made.bins)
        low, high = (_code(np.bincount(place, minlength=made.bins)) for place in (places[:1], places[1:2]))
        trust = 1 - after["rank_std"][0] ** 2 / DOUBT**2  # the rest of a table is the public belief
        counts = (np.diff(after["tables"][0]) - (1 - trust) / made.bins) / trust * RANKED
        return float((low - high) @ (_code(counts - known) - (low + high) / 2))

    promise = made.guarantee()
    claim = None if promise.mu is None else FinerClaim("mu", promise.mu * math.sqrt(made.rank_share), FINE)
    statistic = "likelihood ratio of the rank table"
    return AuditPair(each(ratio), RANK_WORLDS, statistic, policy.epsilon, policy.delta, claim, MANY)


def _code(counts: Any) -> Floats:
    """The code under which a histogram adds independent noise."""
    return np.asarray(encode(np.asarray(counts, np.float64)), np.float64)


@register("audit-pair", "policy:batched-private-fair-greedy/decisions")
def batched_decisions(policy: BatchedPrivateFairGreedy) -> AuditPair:
    """Decisions of the second batch, made with what the first batch released."""
    made = small_batched(policy)

    return _decided(made, [Recorded.of(60, world) for world in (0, 1)], BATCH, policy.epsilon)


def _decided(made: Any, worlds: list[Recorded], first: int, epsilon: float) -> AuditPair:
    """The features that were chosen from a round on."""

    def chosen(world: int, noise: Noise, rng: Generator) -> Floats:
        streams = Streams(rng, rng, noise, lambda: rng)
        steps = walk(made, worlds[world], len(worlds[world].rewards), streams, AT_ONCE)
        return worlds[world].chosen([step.decision.arm for step in steps], first)

    statistic = "features of the candidates chosen in other rounds"
    return AuditPair(each(chosen), WORLDS, statistic, epsilon, made.delta, None, FEW)


class Silence(Lateness):
    """Every reward comes at once, except that the last round of the first batch stays silent."""

    def wait(self, round: Round, arm: int, rng: Generator) -> int:
        return NEVER if round.index == BATCH - 1 else 0


@register("audit-pair", "policy:batched-private-fair-greedy/seats")
def batched_seats(policy: BatchedPrivateFairGreedy) -> AuditPair:
    """The same where a batch holds the rounds that settle next: hidden arrivals get their seat at the window."""
    return batched_late(replace(policy, released_by="arrivals"))


@register("audit-pair", "policy:batched-private-fair-greedy/late")
def batched_late(policy: BatchedPrivateFairGreedy) -> AuditPair:
    """Moments and release times under a window, where one reward never comes: arrivals are hidden."""
    made, last = small_batched(policy), BATCH - 1
    laws = (Lateness(window=4, treat="private"), Silence(window=4, treat="private"))
    recorded = Recorded.of(BATCH + 8, 0, at=last)
    answers = recorded.feedback(0)[:BATCH]
    silent = [*answers[:last], replace(answers[last], reward=None)]
    exact = [made.release(made.learn_all(made.start(), each), ZeroNoise())["sum/last"] for each in (answers, silent)]
    aim = (exact[0] - exact[1]) / (made.sums.sigma * made.sums.grid.spread) ** 2

    def shown(world: int, noise: Noise, rng: Generator) -> tuple[float, int]:
        streams = Streams(np.random.default_rng(1), rng, noise, lambda: rng)  # the same coins
        steps = list(walk(made, recorded, BATCH + 6, streams, laws[world]))
        released = next(i for i, step in enumerate(steps) if step.state["batch"] == 1)
        return float(steps[-1].state["sum/last"] @ aim), released

    statistic = "likelihood ratio of the moments, and when they were released"
    return AuditPair(each(shown), LATE_WORLDS, statistic, policy.epsilon, policy.delta, None, FEW)


@register("audit-pair", "policy:private-fair-greedy")
def private_pair(policy: NoisyHistory) -> AuditPair:
    """Noisy prefix sums that contain the changed row, and the noisy counts that contain the changed candidate."""
    rounds, entry = 8, 0
    made = small(policy, rounds=rounds, candidates=None)
    sums, bound = made.sums, policy.bound
    states = []
    for world in (0, 1):
        recorded = Recorded.of(rounds, world, bound)
        recorded.features[entry, 0] *= math.sqrt(2) * EXCESS  # longer than allowed: served code clips it to the bound
        recorded.rewards[entry, 0] = 0.0
        states.append(made.learn_all(made.start(), recorded.feedback(0)))
    exact = [_prefixes(made, state, ZeroNoise())[0][0] for state in states]
    weights = np.where(sums.grid.upper[0] == sums.grid.upper[1], 1.0, 2.0)
    aim = weights * (exact[0] - exact[1])
    asked = np.repeat(np.arange(rounds), made.queries)
    stds = np.array([made.count_std(int(now)) for now in asked])

    def ratio(world: int, noise: Noise, rng: Generator) -> float:
        prefixes, counts = _prefixes(made, states[world], noise)
        of_sums = _projection(sums, prefixes @ aim) / (2 * bound**4) * sums.budget.first_mu() ** 2
        return float(of_sums + ((counts + 1 - world) / stds**2)[counted].sum())

    # A candidate of round s is counted in rounds s+1..2s: the longest stay that this horizon allows.
    counted = (asked >= rounds // 2) & (asked < rounds)
    statistic, claim = "likelihood ratio of prefix sums and counts", _claim(made)
    return AuditPair(each(ratio), WORLDS, statistic, claim, policy.delta, _finer(made), MANY)


def _prefixes(policy: Any, state: State, noise: Noise) -> tuple[Floats, Floats]:
    """Noisy prefix sums by leaf, and the noise of every count that a round could ask, from releases one by one."""
    prefixes, counts = [], [np.zeros(policy.queries)] * UNIFORM_ROUNDS
    for now in range(1, policy.last_round):
        state = policy.release(state, noise)
        if now >= UNIFORM_ROUNDS:
            counts.append(state["count_noise"][: policy.queries])
            if now % 2 == 0:
                prefixes.append(np.ldexp(np.asarray(state["sum/published"], float), -policy.sums.grid.sum_bits))
    return np.stack(prefixes), np.concatenate(counts)


def _projection(sums: Any, prefixes: Floats) -> float:
    """Best linear statistic for a change of leaf 1, scaled so that the change itself has size one."""
    if isinstance(sums, ToeplitzSum):
        code = sums.coefficients / sums.coefficients[0]
        coded = np.convolve(code, np.diff(prefixes, prepend=0.0))[: len(prefixes)]
        return float(code[: len(coded)] @ coded / (code @ code))
    ends = 2 ** np.arange(len(prefixes).bit_length()) - 1  # prefixes that are one block holding leaf 1
    return float(prefixes[ends[ends < len(prefixes)]].mean())


@register("audit-pair", "policy:private-fair-greedy/decisions")
def private_decisions(policy: NoisyHistory) -> AuditPair:
    """Decisions of every other round of a short run."""
    made = small(policy, rounds=40, candidates=None)

    return _decided(made, [Recorded.of(40, world, policy.bound) for world in (0, 1)], 1, _claim(made))


def _claim(policy: NoisyHistory) -> float:
    """What the audited policy promises: for the printed noise that is less than the paper claims."""
    promise = policy.guarantee()
    promised = None if promise is None else promise.epsilon
    return policy.epsilon if promised is None else max(promised, 1e-6)


def _finer(policy: Policy) -> FinerClaim | None:
    """The mu or rho that stands beside the promise."""
    promise = policy.guarantee()
    if promise is None:
        return None
    if promise.mu is not None:
        return FinerClaim("mu", promise.mu, FINE)
    return None if promise.rho is None else FinerClaim("rho", promise.rho)
