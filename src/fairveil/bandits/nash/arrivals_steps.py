"""What both engines of a run by arrival share: the next arm, the release of a pool, and the log of releases."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from fairveil.bandits.environments.arms import UNIT, below, binomial
from fairveil.bandits.nash.arrivals import Pools, Prior, Turns, _candidates, publish
from fairveil.bandits.nash.blocks import Place, Shape, doubled, nth, reward_sum
from fairveil.bandits.nash.waits import Waits
from fairveil.compiling import by_kind, inner, njit
from fairveil.privacy.noise import compiled_laplace
from fairveil.randomness import Generator

AT, ARM, SUM, COUNT, DRAWS, LOOKS, BEHIND = range(7)
"""Columns of the log: decided rounds, the arm, what is published of it then; from `BEHIND` on of every arm the rounds
that stand behind its number: those of its releases, and those that have no answer yet or never will."""
APART = 0.1
"""Reports that people have noised are learned one by one: the log has a row for every so much more of an arm."""


class Punctual(NamedTuple):
    """The streams of a run in which no arrival is drawn: to hand one over costs as much as many turns."""

    explore: Generator
    world: Generator
    noise: Generator


@by_kind
def _answers(sources: Any, seats: int, chance: float) -> Any:
    """How many of so many seats have an answer."""
    return binomial(sources.arrivals, seats, chance)


@_answers.of(Punctual)  # type: ignore[attr-defined]
def _all_answers(sources: Any, seats: int, chance: float) -> Any:
    return seats


@njit(nogil=True, inline="always")
def release(shape: Shape, pools: Pools, place: Place, waits: Waits, sources, arm, seats, n, total):
    """Publish the pool of an arm: its rewards are drawn now, as one number where the law allows it, and added to the
    ``total`` of those that are known.
    """
    if waits.in_order and waits.chance[arm] < 1.0:
        n = _answers(sources, seats, waits.chance[arm])
    if not waits.valued and place.ones[arm] >= 0.0:
        total += binomial(sources.world, n, place.ones[arm]) * UNIT
    elif waits.in_order and waits.chance[arm] < 1.0:
        total += reward_sum(place, arm, np.int64(0), n, sources.world)
    count = float(n)
    if waits.filled and not waits.valued:
        total += (seats - n) * waits.default
    if waits.filled:
        count = float(seats)
    draws = 0
    if shape.success > 0.0:
        draws = 2 if shape.private_counts else 1
        total += compiled_laplace(sources.noise, shape.success)
    if shape.private_counts:
        count += compiled_laplace(sources.noise, shape.success) / UNIT
    publish(shape, pools, arm, total, count, draws, seats)


@njit(nogil=True, inline="always")
def chosen(numbers, shape: Shape, prior: Prior, turns: Turns, pools: Pools, bounds, marked, explore, now):
    """The arm of the next turn: the best candidate, or one of several by a coin."""
    found = _candidates(numbers, shape, prior, turns, pools, bounds, marked, now)
    return nth(marked, below(explore, found) if shape.shuffle and found > 1 else 0)


@inner
def note(log, rows, turns: Turns, pools: Pools, arm, at, open_arm, undecided):
    """Write a release into the log and give the log, twice as long where it was full."""
    width = BEHIND + turns.given.size
    if (rows + 1) * width > log.size:
        log = doubled(log)
    row = log[rows * width : (rows + 1) * width]
    row[AT], row[ARM], row[SUM], row[COUNT] = at, arm, pools.sums[arm], pools.counts[arm]
    row[DRAWS], row[LOOKS] = pools.draws[arm], pools.looks[arm]
    for i in range(turns.given.size):
        row[BEHIND + i] = pools.seats[i] + turns.given[i] - turns.came[i]
    row[BEHIND + open_arm] -= undecided
    return log


@inner
def to_note(shape: Shape, seats, noted, arm):
    """Whether a release has a row in the log; ``noted``: seats of every arm at its last one."""
    if shape.success == 0.0 and seats < (1.0 + APART) * noted[arm]:
        return False
    noted[arm] = seats
    return True
