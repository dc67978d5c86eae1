"""Neighbouring worlds of this family's policies, for audits: one user's reward is 1 or 0.

Global policies are replayed on a recorded table with noise drawn from the audit's own source: the choice of episodes,
the intake of noisy sums and the index are the functions that serve people. Local policies are audited at the report.
The uniform phase is replayed with one fixed outcome of its coins, which do not depend on data.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from fairveil import registry
from fairveil.bandits.environments.laws import UNIT
from fairveil.bandits.nash.adap_ucb import AdapUcb
from fairveil.bandits.nash.anytime import Anytime
from fairveil.bandits.nash.base import laplace_scale, unit_reward
from fairveil.bandits.nash.blocks import Published, Recipe, candidates, episode_length, nth, publish
from fairveil.bandits.nash.episodes import EpisodePolicy, published
from fairveil.bandits.nash.gdp_ncb import GdpNcb
from fairveil.bandits.nash.ldp_ncb import LdpNcb
from fairveil.bandits.nash.ldp_ucb import LdpUcb
from fairveil.bandits.nash.local_nash import LocalNash
from fairveil.bandits.nash.private_nash import PrivateNash
from fairveil.privacy.audit import AuditPair
from fairveil.privacy.mechanisms.one_bit import OneBit
from fairveil.privacy.noise import Noise
from fairveil.randomness import Generator
from fairveil.registry import register

EPISODES = 5
DECISIONS = 24


@njit(cache=True, nogil=True)
def replay(recipe: Recipe, start: Published, first_reward, noise, coins, out):  # type: ignore[no-untyped-def]
    """Play the first episodes with the given noise: every reward is 1 but the first, which may be absent (-1).

    Columns of ``out``: what each episode published (sum of rewards, their number) and its arm.
    """
    arms = start.counts.size
    for trial in range(out.shape[0]):
        known = Published(
            start.sums.copy(),
            start.counts.copy(),
            start.draws.copy(),
            start.lengths.copy(),
            start.played.copy(),
            start.episodes.copy(),
            start.base_sums.copy(),
            start.base_counts.copy(),
        )
        bounds, until, marked = np.empty(arms), np.full(arms, -1, np.int64), np.zeros(arms, np.bool_)
        arm, length, now = 0, 1, 0
        if recipe.shuffle:  # round 0 is not used: user 0 is the first person of the next episode
            arm, length = int(coins[trial, out.shape[1] // 3] * arms), recipe.first
        for episode in range(out.shape[1] // 3):
            total, size = length * UNIT + noise[trial, 2 * episode], float(length)
            if episode == 0:
                total -= UNIT - max(0, first_reward)
                size -= first_reward < 0
            if recipe.private_counts:
                size += noise[trial, 2 * episode + 1] / UNIT
            out[trial, 3 * episode] = total / UNIT
            out[trial, 3 * episode + 1], out[trial, 3 * episode + 2] = size, arm
            publish(recipe, known, arm, total, size, 2 if recipe.private_counts else 1, length)
            now += length
            until[arm] = -1
            found = candidates(recipe, known, now, bounds, until, marked)
            arm = nth(marked, int(coins[trial, episode] * found) if recipe.shuffle else 0)
            length = episode_length(recipe, known, arm)


def episodes_pair(policy: EpisodePolicy) -> AuditPair:
    """User 0 is the first person of the first episode; where arrivals are private, the reward may be missing."""
    hidden = policy.arrivals == "private"

    def run(world: int, trials: int, noise: Noise, rng: Generator) -> NDArray[np.float64]:
        drawn = noise.laplace(policy.scale, trials * 2 * EPISODES).reshape(trials, -1)
        coins, out = rng.random((trials, EPISODES + 1)), np.empty((trials, 3 * EPISODES))
        changed = -1 if hidden else 0
        replay(policy.plan, published(policy.start()), changed if world else UNIT, drawn, coins, out)
        return out

    worlds = "user 0's reward is 1 or missing" if hidden else "user 0's reward is 1 or 0"
    return AuditPair(run, worlds, "published sums, counts and arms", policy.epsilon)


@njit(cache=True, nogil=True)
def replay_uniform(recipe: Recipe, rule, window, first_reward, noise, out):  # type: ignore[no-untyped-def]
    """GDP-NCB after a uniform phase that went round the arms: every reward is 1 but that of round 0 (arm 0).

    ``rule``: 0, one noisy sum an arm is the base of what follows; 1, the raw sum is (printed); 2, so it is, and all
    means start at 0 (figure). Columns of ``out``: arm 0's published sum minus its count after the phase, and how many
    decisions it won in a row, at most the number found there.
    """
    arms = noise.shape[1] - DECISIONS
    for trial in range(out.shape[0]):
        sums, counts = np.empty(arms, np.int64), np.empty(arms)
        base_sums, base_counts = np.empty(arms, np.int64), np.empty(arms)
        for arm in range(arms):
            pulls = window // arms + (1 if arm < window % arms else 0)
            raw = pulls * UNIT - (UNIT - first_reward if arm == 0 and pulls > 0 else 0)
            noisy = raw + noise[trial, arm]
            sums[arm], counts[arm] = 0 if rule == 2 else noisy, pulls
            base_sums[arm], base_counts[arm] = noisy if rule == 0 else raw, pulls
        known = Published(
            sums,
            counts,
            np.ones(arms, np.int64),
            np.ones(arms, np.int64),
            np.zeros(arms, np.int64),
            np.zeros(arms, np.int64),
            base_sums,
            base_counts,
        )
        out[trial, 0] = sums[0] / UNIT - counts[0]
        bounds, until, marked = np.empty(arms), np.full(arms, -1, np.int64), np.zeros(arms, np.bool_)
        won, now = 0, window
        while won < out[trial, 1]:
            until[0] = -1
            candidates(recipe, known, now, bounds, until, marked)
            if nth(marked, 0) != 0:
                break
            length = episode_length(recipe, known, 0)
            publish(recipe, known, 0, length * UNIT + noise[trial, arms + won], length, 1, length)
            now += length
            won += 1
        out[trial, 1] = won


def uniform_pair(policy: GdpNcb) -> AuditPair:
    """User 0 is a person of the uniform phase, whose arm then wins as often as the horizon has decisions."""
    window = min(policy.horizon, policy.phase_rounds or math.isqrt(policy.horizon) + 1)
    decisions = 0
    while decisions < DECISIONS and window + 2 ** (decisions + 1) - 2 < policy.horizon:
        decisions += 1
    rule = {"sound": 0, "printed": 1, "figure": 2}[policy.variant]
    first_scale = laplace_scale(1, policy.sum_epsilon) if policy.sound else policy.scale

    def run(world: int, trials: int, noise: Noise, rng: Generator) -> NDArray[np.float64]:
        drawn = np.empty((trials, policy.arms + DECISIONS), np.int64)
        drawn[:, : policy.arms] = noise.laplace(first_scale, trials * policy.arms).reshape(trials, -1)
        drawn[:, policy.arms :] = noise.laplace(policy.scale, trials * DECISIONS).reshape(trials, -1)
        out = np.empty((trials, 2))
        out[:, 1] = decisions
        replay_uniform(policy.plan, rule, window, 0 if world else UNIT, drawn, out)
        return out

    return AuditPair(run, "user 0's reward is 1 or 0", "arm 0's noisy deficit and decisions won", policy.epsilon)


def report_pair(policy: Any) -> AuditPair:
    """What one user sends, for a reward of 0 or far above 1 (the device clips it)."""

    def run(world: int, trials: int, noise: Noise, rng: Generator) -> NDArray[np.float64]:
        reward = unit_reward(7.0, False) if world else 0.0
        return OneBit(epsilon=policy.epsilon).encode(np.full(trials, reward), noise).astype(np.float64)

    return AuditPair(run, "the user's reward is 0 or 7 (clipped to 1)", "the report", policy.epsilon)


@register("audit-pair", "policy:adap-ucb")
def adap_ucb_pair(policy: AdapUcb) -> AuditPair:
    """A reward of the first episode is 1 or 0."""
    return episodes_pair(policy)


@register("audit-pair", "policy:private-nash")
def private_nash_pair(policy: PrivateNash) -> AuditPair:
    """A reward of the first episode is 1 or 0."""
    return episodes_pair(policy)


@register("audit-pair", "policy:gdp-ncb")
def gdp_ncb_pair(policy: GdpNcb) -> AuditPair:
    """A reward of the uniform phase is 1 or 0, then its arm wins again and again."""
    return uniform_pair(policy)


@register("audit-pair", "policy:ldp-ncb")
def ldp_ncb_pair(policy: LdpNcb) -> AuditPair:
    """What one user sends for a reward of 0 or 1."""
    return report_pair(policy)


@register("audit-pair", "policy:ldp-ucb")
def ldp_ucb_pair(policy: LdpUcb) -> AuditPair:
    """What one user sends for a reward of 0 or 1."""
    return report_pair(policy)


@register("audit-pair", "policy:local-nash")
def local_nash_pair(policy: LocalNash) -> AuditPair:
    """What one user sends for a reward of 0 or 1."""
    return report_pair(policy)


@register("audit-pair", "policy:anytime")
def anytime_pair(policy: Anytime) -> AuditPair:
    """The inner policy in one window: a user is in exactly one."""
    return registry.get("audit-pair", f"policy:{policy.inner['name']}")(policy.window(1024))
