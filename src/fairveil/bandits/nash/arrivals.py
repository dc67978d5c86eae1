"""Release by arrival: turns say who decides, pools say what is released, and neither waits for the slowest answer.

A *turn* is a stretch of rounds with one arm; it is opened from published numbers, public counts and coins. A *pool*
holds the rewards of one arm that have come and are not released. A reward gets a *seat*, the public number of its
arrival among those of its arm, and joins whatever pool is open then; a pool is released as seats [from, to) once it is
large enough, or once nothing more can come. Arms do not wait for each other, and one missing answer holds up nobody.

Why the guarantee stays: the arm of a round is a function of the public past; so is its seat (earlier arrivals of that
arm), when a release falls due and which seats it takes (counts). Hence the rewards of a release are a function of what
is public, the intervals of an arm are disjoint, and one changed reward changes one release: all other conditional laws
coincide. Assumption A: arrivals, and who comes, do not read rewards (or features) that are not released. Where arrivals
are hidden, "arrival" is the closing of the window, and everything is a function of decision times and releases alone.
Credit for what is under way, the cap and the level read published numbers and public counts: post-processing.

The step API (`fairveil.bandits.nash.waiting`) and `simulate` call the same functions, one at a time and in a loop.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from fairveil.arrays import Floats, Ints
from fairveil.bandits.environments.arms import UNIT
from fairveil.bandits.nash.blocks import Shape
from fairveil.bandits.nash.index import ceiling, index, rising
from fairveil.compiling import Kernel, inner, njit

POOL = 2
"""A first pool is released with this many times the shortest turn; smaller ones carry more noise than they tell."""
CAP = 8
"""An arm may have this many times its published rounds under way beyond an equal share of all that is."""
PRIOR = 1.0 / 12.0
"""Variance of a mean before anything is published: uniform on the range, around one half."""

ROUNDING = 1e-6
"""An index is a root, found to about 1e-8 at the smallest levels; what stands for it has room to spare."""


class Turns(NamedTuple):
    """Who decides. Of every arm: rounds allotted to turns, those whose reward has a seat, those that never will."""

    given: Ints
    came: Ints
    closed: Ints


class Pools(NamedTuple):
    """What is released. Of every arm: the published sum (grid units), rewards and noise draws in it; seats behind all
    its releases, seats released or lost (where its next pool begins), seats of its last release, number of releases.
    """

    sums: Ints
    counts: Floats
    draws: Ints
    seats: Ints
    taken: Ints
    last: Ints
    looks: Ints


class Prior(NamedTuple):
    """What is believed of a mean (or of a mean of bits) before anything is published, and the cost of one noisy sum."""

    variance: float
    epsilon: float


def no_turns(arms: int) -> Turns:
    return Turns(*np.zeros((3, arms), np.int64))


def no_pools(arms: int) -> Pools:
    sums, draws, seats, taken, last, looks = np.zeros((6, arms), np.int64)
    return Pools(sums, np.zeros(arms), draws, seats, taken, last, looks)


# Pools: what is released ----------------------------------------------------------------------------------------------


@njit(cache=True, nogil=True)
def enough(shape: Shape, seats, last):
    """Seats at which a pool falls due: reports are private already and wait for nothing."""
    if shape.success == 0.0:
        return 1
    if shape.growth > 0:
        return max(POOL * shape.first, math.ceil(shape.growth * seats))
    return max(shape.first, 2 * last)


@njit(cache=True, nogil=True)
def is_due(shape: Shape, given, came, closed, taken, seats, last):
    """Whether the pool of an arm is released now: it is large enough, or nothing more can come for its turns."""
    pool = came - taken
    return pool >= enough(shape, seats, last) or (pool > 0 and given == came + closed)


@njit(cache=True, nogil=True)
def publish(shape: Shape, pools: Pools, arm, total, count, draws, seats):
    """Take in the noisy sum of a pool: releases add up, or a large enough one replaces what was published before."""
    adds = shape.keep or seats < enough(shape, pools.seats[arm], pools.last[arm])
    pools.sums[arm] = total + (pools.sums[arm] if adds else 0)
    pools.counts[arm] = count + (pools.counts[arm] if adds else 0.0)
    pools.draws[arm] = draws + (pools.draws[arm] if adds else 0)
    pools.seats[arm] += seats
    pools.taken[arm] += seats
    pools.last[arm] = seats
    pools.looks[arm] += 1


def give_up(pools: Pools, arm: int, seats: int) -> None:
    """A release that was charged and lost: its seats are gone, what was published before stays."""
    pools.taken[arm] += seats
    pools.looks[arm] += 1


# Turns: who decides ---------------------------------------------------------------------------------------------------


@njit(cache=True, nogil=True)
def turn_length(shape: Shape, seats, last):
    """Rounds of the next turn of an arm, from what is published of it, not from what it was given."""
    if shape.growth > 0:
        return max(shape.first, math.ceil(shape.growth * seats))
    return max(shape.first, 2 * last)


@njit(cache=True, nogil=True)
def retry(first, arms, now):
    """Rounds that an arm may have had for which nobody ever answers: it grows with the logarithm of all rounds."""
    return 2.0 * first * (1.0 + math.log2(max(1.0, (now + 1.0) / (2.0 * first * arms))))


@inner
def expected(prior: Prior, mean, n, draws):
    """What a reward under way is expected to be: the published mean, shrunk by how little is known of it."""
    noise = 2.0 * draws / (prior.epsilon * n) ** 2 if draws > 0 else 0.0
    weight = prior.variance / (prior.variance + 0.25 / n + noise)
    return 0.5 + weight * (min(1.5, max(-0.5, mean)) - 0.5)


@inner
def to_come(shape: Shape, n, under):
    """Noise draws of the releases that what is under way will make."""
    if under == 0 or shape.success == 0.0:
        return 0
    growth = shape.growth if shape.growth > 0 else 1.0
    more = max(1, math.ceil(math.log((n + under) / max(n, float(shape.first))) / math.log1p(growth)))
    return more * (2 if shape.private_counts else 1)


@inner
def credited(shape: Shape, prior: Prior, total, n, draws, under):
    """Mean, rounds and noise draws of an arm; what is under way counts as what it is expected to be."""
    mean, known = 0.5, max(n, 0.0)
    if n > 0:
        mean = total / UNIT / n
        if under > 0:
            mean = (n * mean + under * expected(prior, mean, n, draws)) / (n + under)
    return mean, known + under, draws + to_come(shape, known, under)


VALUE, THEN, RISE, MEAN, ROUNDS, DRAWS, UNDER, LOOKED, MOST, EXACT = range(10)
"""Columns of what is kept of every arm between two turns, so that most need no evaluation: its index when it was
evaluated last, or a number above it; at which ln of all rounds, and how much it may gain until that has grown by one;
the mean, rounds and noise draws that it was made of, which hold as long as so much is under way behind so many
releases; at most what the arm is worth now, and what it is worth where that was evaluated. One array, because compiled
code counts who holds an array whenever it takes it out of a tuple, or a row out of it."""


@inner
def no_bounds(arms):
    bounds = np.zeros((arms, EXACT + 1))
    for i in range(arms):
        bounds[i, UNDER] = bounds[i, LOOKED] = -1.0
    return bounds


@njit(nogil=True, inline="always")
def _candidates(numbers, shape: Shape, prior: Prior, turns: Turns, pools: Pools, bounds, marked, now):
    """Mark the arms that may have the next turn and return their number; ties are for a coin.

    (a) arms never played; (b) silent arms, up to their equal share and `retry`; (c) while nothing is published, the
    arms with the fewest rounds given; (d) the largest index, arms with too much under way behind all others.
    """
    given, _, closed = turns
    counts, seats, taken, arms, found = pools.counts, pools.seats, pools.taken, marked.size, 0
    new, published, fewest, under_all, all_rounds = False, False, given[0], 0, 1
    for i in range(arms):
        under = given[i] - closed[i] - taken[i]
        new |= given[i] == 0
        published |= counts[i] > 0
        fewest = min(fewest, given[i])
        under_all += under
        all_rounds += seats[i] + under
    again = 0.0 if new else retry(shape.first, arms, now)
    for i in range(arms):
        silent = counts[i] <= 0 and given[i] == closed[i] + taken[i] and given[i] * arms <= now and given[i] <= again
        marked[i] = given[i] == 0 if new else silent  # (a), (b)
        found += marked[i]
    if found == 0 and not published:
        for i in range(arms):  # (c)
            marked[i] = given[i] == fewest
            found += marked[i]
    if found > 0:
        return found
    return _largest(numbers, shape, prior, turns, pools, bounds, marked, again, under_all, all_rounds, now)  # (d)


@njit(nogil=True, inline="always")
def _largest(numbers, shape, prior, turns, pools, bounds, marked, again, under_all, all_rounds, now):
    """Mark the arms with the largest index among those that are not bound, of bound ones those with the least share."""
    given, came, closed = turns
    sums, counts, draws, seats, taken, _, looks = pools
    arms, free, best, log_now = marked.size, False, -np.inf, math.log(all_rounds)
    for i in range(arms):
        under = given[i] - closed[i] - taken[i]
        if counts[i] > 0:
            marked[i] = under <= CAP * seats[i] + (under_all + shape.first) / arms
        else:
            unanswered = closed[i] >= 2 * shape.first and came[i] == 0 and given[i] > again
            marked[i] = under > 0 and given[i] * arms <= now and not unanswered
        bounds[i, MOST], bounds[i, EXACT] = -np.inf, -np.inf
        if not marked[i]:
            continue
        free = True
        if bounds[i, UNDER] != under or bounds[i, LOOKED] != looks[i]:
            bounds[i, UNDER], bounds[i, LOOKED], bounds[i, VALUE] = under, looks[i], np.inf
            made_of = credited(shape, prior, sums[i], counts[i], draws[i], under)
            bounds[i, MEAN], bounds[i, ROUNDS], bounds[i, DRAWS] = made_of
        most = bounds[i, VALUE] + bounds[i, RISE] * max(0.0, log_now - bounds[i, THEN])
        if not most < 1.0:
            most = ceiling(numbers, bounds[i, MEAN], bounds[i, ROUNDS], log_now, bounds[i, DRAWS])
            bounds[i, VALUE], bounds[i, THEN] = most, log_now
            bounds[i, RISE] = rising(numbers, bounds[i, MEAN], bounds[i, ROUNDS], log_now, most)
        bounds[i, MOST] = most + ROUNDING if most < 1.0 else np.inf
    for i in range(0 if free else arms):
        if counts[i] > 0:
            bounds[i, EXACT] = -(given[i] - closed[i] - taken[i]) / seats[i]
            best = max(best, bounds[i, EXACT])
    while True:
        front, highest = -1, -np.inf
        for i in range(arms):
            if bounds[i, MOST] > highest:
                front, highest = i, bounds[i, MOST]
        if front < 0 or highest < best:
            break
        value = index(numbers, bounds[front, MEAN], bounds[front, ROUNDS], log_now, bounds[front, DRAWS])
        bounds[front, VALUE], bounds[front, THEN], bounds[front, MOST], bounds[front, EXACT] = (
            value,
            log_now,
            -np.inf,
            value,
        )
        bounds[front, RISE] = rising(numbers, bounds[front, MEAN], bounds[front, ROUNDS], log_now, value)
        best = max(best, value)
    found = 0
    for i in range(arms):
        marked[i] = bounds[i, EXACT] == best
        found += marked[i]
    return found


@Kernel
def candidates(numbers, shape: Shape, prior: Prior, turns: Turns, pools: Pools, marked, now):
    """The same for one turn, of which no bounds are kept."""
    return _candidates(numbers, shape, prior, turns, pools, no_bounds(marked.size), marked, now)
