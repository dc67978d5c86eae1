"""Episodes in compiled code: the index of every episodic policy, the choice of the next episode, a whole run.

The step API calls `candidates`, `episode_length` and `publish` one at a time; `simulate` is the loop over them with
one draw for the rewards of an episode, so a run of T rounds costs a number of steps that grows with log T.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from fairveil.bandits.environments.laws import RECORDED, UNIT, Laws, draw_sum
from fairveil.bandits.nash.optimism import optimistic_mean

ADAP, ADAP_FIGURE, GDP, PRIVATE, LOCAL = range(5)
SLACK = 1.1
"""Bounds on an index are computed for rounds up to this factor later, so most arms need no fresh evaluation."""


class Published(NamedTuple):
    """Public arrays, one entry an arm.

    Sum in grid units, rewards it covers, noise draws in it, rounds of the last episode, rounds and number of all
    episodes, and what episodes are added to (``base_sums``, ``base_counts``: the uniform phase of GDP-NCB).
    """

    sums: NDArray[np.int64]
    counts: NDArray[np.float64]
    draws: NDArray[np.int64]
    lengths: NDArray[np.int64]
    played: NDArray[np.int64]
    episodes: NDArray[np.int64]
    base_sums: NDArray[np.int64]
    base_counts: NDArray[np.float64]


class Recipe(NamedTuple):
    """Public numbers of an episodic policy for compiled code.

    ``success``: parameter of the discrete Laplace law on a sum (0: none), ``raw_first``: the first reward of an arm is
    published as it is, ``private_counts``: the number of rewards is noised like the sum, ``keep``: episodes add up
    instead of replacing each other, ``shuffle``: random ties and a random first order, ``first``/``growth``: shortest
    episode, and length relative to the rounds an arm has had (0: twice its last episode).
    """

    rule: int
    par: NDArray[np.float64]
    success: float
    raw_first: bool
    private_counts: bool
    keep: bool
    shuffle: bool
    first: int
    growth: float


@njit(cache=True, nogil=True)
def block_index(rule, total, n, draws, played, arms, now, a, b, c):  # type: ignore[no-untyped-def]
    """The optimistic value of an arm; it never falls while ``now`` rises and nothing is published."""
    if rule >= PRIVATE:  # a: exploration, b: epsilon
        if played == 0:
            return np.inf
        level = a * math.log(max(1.0, (now + 1.0) / (arms * max(n, 1.0))))
        return optimistic_mean(total / UNIT, n, draws, b, level)
    if n <= 0:
        return np.inf
    mean, log_now = total / UNIT / n, math.log(now + 1.0)
    if rule == ADAP:  # a: alpha, b: epsilon
        return mean + math.sqrt(a * log_now / (2.0 * n)) + a * log_now / (b * n)
    if rule == ADAP_FIGURE:
        return mean + math.sqrt(a * log_now / n) + 2.0 * a * log_now / n
    mean = min(1.0, max(0.0, mean))  # GDP: factors of sqrt(mean / n), 1 / n, 1 / sqrt(n)
    return mean + a * math.sqrt(mean / n) + b / n + c / math.sqrt(n)


@njit(cache=True, nogil=True)
def candidates(recipe: Recipe, published: Published, now, bounds, until, marked):  # type: ignore[no-untyped-def]
    """Mark the arms with the largest index and return their number.

    ``bounds[i]`` is an index computed for round ``until[i]``; while now is before that it bounds the index from above.
    """
    rule, a, b, c = recipe.rule, recipe.par[0], recipe.par[1], recipe.par[2]
    sums, counts, draws, played = published.sums, published.counts, published.draws, published.played
    arms = counts.size
    first = 0
    for i in range(arms):
        marked[i] = False
        if now > until[i]:
            until[i] = int(now * SLACK)
            bounds[i] = block_index(rule, sums[i], counts[i], draws[i], played[i], arms, until[i], a, b, c)
        if bounds[i] > bounds[first]:
            first = i
    best, found = -np.inf, 0
    for step in range(arms + 1):
        i = first if step == 0 else step - 1
        if (step > 0 and i == first) or bounds[i] < best:
            continue
        value = block_index(rule, sums[i], counts[i], draws[i], played[i], arms, now, a, b, c)
        if value > best:
            if found > 0:
                for j in range(arms):
                    marked[j] = False
            best, found = value, 0
        if value == best:
            marked[i] = True
            found += 1
    return found


@njit(cache=True, nogil=True)
def nth(marked, pick):  # type: ignore[no-untyped-def]
    """The pick-th marked arm."""
    for i in range(marked.size):
        if marked[i]:
            if pick == 0:
                return i
            pick -= 1
    return 0


@njit(cache=True, nogil=True)
def episode_length(recipe: Recipe, published: Published, arm):  # type: ignore[no-untyped-def]
    """Rounds of the next episode of an arm; a function of public numbers."""
    if recipe.growth > 0:
        return max(recipe.first, math.ceil(recipe.growth * published.played[arm]))
    return max(recipe.first, 2 * published.lengths[arm])


@njit(cache=True, nogil=True)
def publish(recipe: Recipe, published: Published, arm, total, count, draws, length):  # type: ignore[no-untyped-def]
    """Take in an episode's noisy sum and number of rewards."""
    if recipe.keep:
        published.sums[arm] += total
        published.counts[arm] += count
        published.draws[arm] += draws
    else:
        published.sums[arm] = published.base_sums[arm] + total
        published.counts[arm] = published.base_counts[arm] + count
        published.draws[arm] = draws
    close(published, arm, length)


@njit(cache=True, nogil=True)
def close(published: Published, arm, length):  # type: ignore[no-untyped-def]
    """Count an episode as played."""
    published.lengths[arm] = length
    published.played[arm] += length
    published.episodes[arm] += 1


@njit(cache=True, nogil=True)
def noised(recipe: Recipe, published: Published, arm, noise):  # type: ignore[no-untyped-def]
    """One noise draw on the grid for an episode of this arm."""
    if recipe.success == 0.0 or (recipe.raw_first and published.episodes[arm] == 0):
        return np.int64(0)
    return noise.geometric(recipe.success) - noise.geometric(recipe.success)


@njit(cache=True, nogil=True)
def block_sum(recipe: Recipe, laws: Laws, means, arm, now, count, world):  # type: ignore[no-untyped-def]
    """The sum of an episode in grid units; for local reports the number of ones, drawn at once."""
    if recipe.rule != LOCAL:
        return draw_sum(laws, arm, now, count, world)
    low, slope = recipe.par[2], recipe.par[3]
    if laws.kind[arm] == RECORDED:
        ones = np.int64(0)
        for step in range(count):
            ones += world.random() < low + slope * laws.rows[now + step, arm]
        return ones * UNIT
    return world.binomial(count, low + slope * means[arm]) * UNIT


@njit(cache=True, nogil=True)
def simulate(recipe: Recipe, published: Published, laws: Laws, means, explore, world, noise, now, rounds):  # type: ignore[no-untyped-def]
    """Rounds now .. rounds - 1 as episodes: their ends, arms (or the number of arms), pulls and number of releases."""
    arms = published.counts.size
    pulls = np.zeros(arms, np.int64)
    ends, codes = np.empty(256, np.int64), np.empty(256, np.int32)
    bounds, until, marked = np.empty(arms), np.full(arms, -1, np.int64), np.zeros(arms, np.bool_)
    used, releases, arm, length, coin = 0, 0, 0, 1, False
    if recipe.shuffle:
        arm, coin = explore.integers(0, arms), True
    else:
        candidates(recipe, published, now, bounds, until, marked)
        arm = nth(marked, 0)
        length = episode_length(recipe, published, arm)
    while now < rounds:
        count = min(length, rounds - now)
        total = block_sum(recipe, laws, means, arm, now, count, world)
        pulls[arm] += count
        now += count
        if used == ends.size:
            ends, codes = np.append(ends, np.empty(used, np.int64)), np.append(codes, np.empty(used, np.int32))
        ends[used], codes[used] = now, arms if coin else arm
        used += 1
        if count < length:
            break
        if used > 1 or recipe.rule != PRIVATE:  # the curator does not know the arm of a shuffled round 0
            total += noised(recipe, published, arm, noise)
            size, draws = float(count), 1 if recipe.success > 0 else 0
            if recipe.private_counts:
                size += noised(recipe, published, arm, noise) / UNIT
                draws = 2
            publish(recipe, published, arm, total, size, draws, length)
        releases += 1
        until[arm] = -1
        found = candidates(recipe, published, now, bounds, until, marked)
        arm = nth(marked, noise.integers(0, found) if recipe.shuffle and found > 1 else 0)
        coin = recipe.shuffle and published.played[arm] == 0
        length = episode_length(recipe, published, arm)
    return ends[:used], codes[:used], pulls, releases
