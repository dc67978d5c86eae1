"""Neighbouring worlds for audits: one candidate of one round changes, everything published about others is compared.

Two kinds of pairs: ``policy:<name>`` looks at the most telling linear statistic of what is released (a likelihood
ratio, so nothing is lost), and ``policy:<name>/decisions`` at the decisions of all OTHER rounds, which is what joint
privacy is about. Policies are audited in a small world of their own, whatever environment they were built for.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np

from fairveil.bandits.meritocratic.batched import BatchedPrivateFairGreedy
from fairveil.bandits.meritocratic.frozen import BatchedRunner
from fairveil.bandits.meritocratic.private_fair_greedy import UNIT, PrivateFairGreedy, PrivateRunner
from fairveil.bandits.meritocratic.scaling import Scaling
from fairveil.bandits.meritocratic.world import Chunk, Floats
from fairveil.bandits.protocol import Candidate, Feedback, Round
from fairveil.privacy.audit import AuditPair
from fairveil.privacy.audit.bounds import FinerClaim
from fairveil.privacy.noise import Noise, SeededNoise
from fairveil.privacy.sums import ToeplitzSum
from fairveil.randomness import Generator
from fairveil.registry import register

FEATURES, GROUPS = 2, 2
WORLDS = "one candidate of round 0 lies along one axis or along the other, with the opposite reward"
EDGE = math.sqrt(2)
"""Features of norm one beside a reward of size one."""


def small(policy: Any, **changes: Any) -> Any:
    """The same budget and options on two groups with two features."""
    return replace(policy, groups=GROUPS, features=FEATURES, totals="public", **changes)


def _small_batched(policy: BatchedPrivateFairGreedy) -> BatchedPrivateFairGreedy:
    scaling = Scaling(
        columns=(0, 1), centre=(0.0, 0.0), spread=(1.0, 1.0), norm=1.0, reward_centre=0.0, reward_bound=1.0
    )
    return small(policy, scaling=scaling, first_batch=24)


def _world(rounds: int, changed: int, bound: float = 1.0) -> Chunk:
    """Fixed candidates; candidate 0 of round 0 is the one that changes."""
    rng = np.random.default_rng(8)
    features = rng.uniform(-0.5, 0.5, (rounds, GROUPS, FEATURES))
    corner = np.array([1.0, 0.0]) if changed == 0 else np.array([0.0, 1.0])
    features[0, 0] = corner * bound / math.sqrt(2)
    features[0, 1] = 0.0
    score = features.sum(axis=2)
    score[0, 0] = (1.0 if changed == 0 else -1.0) * bound / math.sqrt(2)
    group = np.tile(np.arange(GROUPS), (rounds, 1))
    return Chunk(0, features, group, score, score, np.zeros(rounds), np.arange(1, rounds + 1))


@register("audit-pair", "policy:batched-private-fair-greedy")
def batched_pair(policy: BatchedPrivateFairGreedy) -> AuditPair:
    """The noisy moments and the noisy histograms of one batch, projected on the difference of the two worlds."""
    small_policy = _small_batched(policy)
    states = []
    for world in (0, 1):
        chunk, state = _world(24, world, EDGE), small_policy.start()
        for row in range(len(chunk)):
            people = tuple(Candidate(k, chunk.features[row, k]) for k in range(GROUPS))
            feedback = Feedback(row, 0, float(chunk.score[row, 0]), Round(row, people))
            state = small_policy.learn(state, feedback)
        states.append(state)
    direction = np.array([1.0, -1.0]) / math.sqrt(2)
    shape = small_policy.histogram
    counts = []
    for state in states:
        position = 0.5 + 0.5 * state["people"][state["people_group"] == 0] @ direction
        counts.append(shape.add(shape.start(), position))
    sums = small_policy.sums
    spread = sums.sigma * sums.grid.spread
    aim = (states[0]["sum_open"] - states[1]["sum_open"]) / spread**2

    def run(world: int, trials: int, noise: Noise, rng: Generator) -> Floats:
        moments = states[world]["sum_open"] + sums.grid.draw(noise, sums.sigma, trials)
        shown = shape.measure(counts[world], noise, trials)
        move = np.cumsum(counts[0]["open"] - counts[1]["open"])
        level = math.ldexp(shape.sigma, -shape.grid_bits)
        return moments @ aim + np.cumsum(shown, axis=1) @ move / level**2

    statistic = "likelihood ratio of the released moments and histogram"
    return AuditPair(run, WORLDS, statistic, policy.epsilon, policy.delta, _finer(small_policy))


@register("audit-pair", "policy:batched-private-fair-greedy/decisions")
def batched_decisions(policy: BatchedPrivateFairGreedy) -> AuditPair:
    """Decisions of the second batch, made with what the first batch released."""
    small_policy = _small_batched(policy)

    def run(world: int, trials: int, noise: Noise, rng: Generator) -> Floats:
        chunk = _world(60, world, EDGE)
        out = np.empty((trials, 2))
        for trial in range(trials):
            slots, _ = BatchedRunner(small_policy, rng, noise).play(chunk)
            out[trial] = _others(chunk, slots, 24)
        return out

    return AuditPair(run, WORLDS, "features of the candidates chosen in other rounds", policy.epsilon, policy.delta)


@register("audit-pair", "policy:private-fair-greedy")
def private_pair(policy: PrivateFairGreedy) -> AuditPair:
    """Noisy prefix sums that contain the changed row, and the noisy counts that contain the changed candidate."""
    rounds, entry = 32, 12
    small_policy = small(policy, rounds=rounds, candidates=None, regression="gaussian")
    sums, bound = small_policy.sums, policy.bound
    rows = np.zeros((2, FEATURES + 1))
    rows[0, 0] = rows[1, 1] = bound
    first, second = sums.grid.upper
    shift = [np.where(first == second, row[first] ** 2, row[first] * row[second]) for row in rows]
    aim = np.where(first == second, 1.0, 2.0) * (shift[0] - shift[1])
    # Every candidate of the group asks a count that holds the changed one.
    asked = np.repeat(np.arange(entry, min(2 * entry, rounds)), small_policy.queries)
    stds = np.array([small_policy.count_std(int(now)) for now in asked])

    def run(world: int, trials: int, noise: Noise, rng: Generator) -> Floats:
        out = np.empty(trials)
        for trial in range(trials):
            path = sums.noise_path(noise, small_policy.leaves) + shift[world]
            out[trial] = _projection(sums, path @ aim)
        out /= 2 * bound**4
        draws = np.stack([noise.gaussian(std * UNIT, trials) / UNIT + (1 - world) for std in stds], axis=1)
        return out * sums.budget.first_mu() ** 2 + (draws / stds**2).sum(axis=1)

    statistic, claim = "likelihood ratio of prefix sums and counts", _claim(small_policy)
    return AuditPair(run, WORLDS, statistic, claim, policy.delta, _finer(small_policy))


def _projection(sums: Any, prefixes: Floats) -> float:
    """Best linear statistic for a change of leaf 1, scaled so that the change itself has size one."""
    if isinstance(sums, ToeplitzSum):
        code = sums.coefficients / sums.coefficients[0]
        coded = np.convolve(code, np.diff(prefixes, prepend=0.0))[: len(prefixes)]
        return float(code[: len(coded)] @ coded / (code @ code))
    ends = 2 ** np.arange(len(prefixes).bit_length()) - 1  # prefixes that are one block holding leaf 1
    return float(prefixes[ends[ends < len(prefixes)]].mean())


@register("audit-pair", "policy:private-fair-greedy/decisions")
def private_decisions(policy: PrivateFairGreedy) -> AuditPair:
    """Decisions of every other round of a short run."""
    small_policy = small(policy, rounds=40, candidates=None)

    def run(world: int, trials: int, noise: Noise, rng: Generator) -> Floats:
        chunk = _world(40, world, policy.bound)
        seeded = noise if isinstance(noise, SeededNoise) else SeededNoise(int(rng.integers(2**62)))
        out = np.empty((trials, 2))
        for trial in range(trials):
            slots, _ = PrivateRunner(small_policy, chunk.group[0], rng, seeded).play(chunk)
            out[trial] = _others(chunk, slots, 1)
        return out

    statistic = "features of the candidates chosen in other rounds"
    return AuditPair(run, WORLDS, statistic, _claim(small_policy), policy.delta)


def _claim(policy: PrivateFairGreedy) -> float:
    """What the audited policy promises: for the printed noise that is less than the paper claims."""
    promised = policy.guarantee().epsilon
    return policy.epsilon if promised is None else max(promised, 1e-6)


def _finer(policy: BatchedPrivateFairGreedy | PrivateFairGreedy) -> FinerClaim | None:
    """The mu or rho that stands beside the promise; the distance of discrete noise is below 1e-9 in these worlds."""
    promise = policy.guarantee()
    if promise.mu is not None:
        return FinerClaim("mu", promise.mu, 1e-9)
    return None if promise.rho is None else FinerClaim("rho", promise.rho)


def _others(chunk: Chunk, slots: Any, first: int) -> Floats:
    """Sum of the chosen features over the other rounds: who is preferred shows the direction that was learned."""
    rows = np.arange(first, len(chunk))
    return chunk.features[rows, slots[first:]].sum(axis=0)
