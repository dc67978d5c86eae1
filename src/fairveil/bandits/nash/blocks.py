"""Blocks of rounds in compiled code: the choice of the next block, the intake of a released one, a whole run.

The step API calls `candidates`, `block_length` and `publish` one at a time; `simulate` is the loop over them with one
draw for the rewards of a block, so a run of T rounds costs a number of steps that grows with log T, whatever the delay
of rewards. Choices read published numbers, public coins and the open blocks, never a reward that is under way.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from fairveil.arrays import Bools, Floats, Ints
from fairveil.bandits.environments.arms import BERNOULLI, RECORDED, UNIT, Laws, below, binomial, draw_sum
from fairveil.bandits.nash.index import index
from fairveil.bandits.nash.late import Late, answered, fill, settled_at
from fairveil.bandits.nash.rounds import ANY
from fairveil.bandits.simulate import Streams
from fairveil.compiling import Kernel, by_kind, inner, njit
from fairveil.privacy.noise import compiled_laplace
from fairveil.randomness import Generator

SLACK = 1.1
"""Bounds on an index are computed for rounds up to this factor later, so most arms need no fresh evaluation."""


class Shape(NamedTuple):
    """How blocks are cut, noised and added up.

    ``success``: parameter of the discrete Laplace law on a sum (0: none), ``raw_first``: the first block of an arm is
    published as it is, ``private_counts``: the number of rewards is noised like the sum, ``keep``: blocks add up
    instead of replacing each other, ``shuffle``: random ties and a random first order, ``first``/``growth``: shortest
    block, and length relative to the rounds an arm has had (0: twice its last block), ``pace``: what time does to the
    index (`fairveil.bandits.nash.rounds`).
    """

    success: float
    raw_first: bool = False
    private_counts: bool = False
    keep: bool = False
    shuffle: bool = False
    first: int = 1
    growth: float = 0.0
    pace: int = ANY

    @property
    def draws(self) -> int:
        """Noise draws of one release."""
        return 0 if self.success == 0 else 2 if self.private_counts else 1


class Known(NamedTuple):
    """Public arrays, one entry an arm.

    Sum in grid units, rewards it covers, noise draws in it, rounds of the block opened last, rounds of all blocks
    opened, number of blocks closed, and what blocks are added to where they replace each other (the uniform phase of
    GDP-NCB).
    """

    sums: Ints
    counts: Floats
    draws: Ints
    lengths: Ints
    played: Ints
    closed: Ints
    base_sums: Ints
    base_counts: Floats


class Pending(NamedTuple):
    """What is under way for every arm: rounds in open blocks, and the noise draws their releases will make."""

    rounds: Ints
    draws: Ints


class Scratch(NamedTuple):
    """``bounds[i]`` is an index computed for round ``until[i]``; ``marked``: the arms that may come next."""

    bounds: Floats
    until: Ints
    marked: Bools


class Sources(NamedTuple):
    """The streams of one run, as compiled code takes them."""

    explore: Generator
    world: Generator
    arrivals: Generator
    noise: Generator


def sources_of(streams: Streams, regular: bool) -> Sources:
    """The streams of a run; ``regular``: no wait is drawn, so another stream stands where arrivals would."""
    noise: Any = streams.noise.stream
    return Sources(streams.explore, streams.world, streams.world if regular else streams.arrivals, noise)


class ReleaseLog(NamedTuple):
    """What a run published: the arm of every block in the order of releases (the last ones may not be released yet);
    of every released one after how many decided rounds, and what was published for its arm then: the sum in grid units
    and the number of rewards."""

    arms: Ints
    at: Ints
    sums: Ints
    counts: Floats


class Place(NamedTuple):
    """The arms of a world; ``slope`` above 0: users report one bit, which is 1 with chance low + slope reward.

    ``ones``: the chance that a reward (or report) is 1 where it is 0 otherwise, so that a sum is one binomial draw; -1
    for other arms.
    """

    laws: Laws
    ones: Floats
    low: float
    slope: float


class Coins(Place):
    """Bernoulli arms, all of them, so that every sum is a binomial number: no sampler of another law is compiled."""

    __slots__ = ()


def place_of(laws: Laws, means: Floats, low: float = 0.0, slope: float = 0.0) -> Place:
    """Arms with these laws and means, seen as they are or through one-bit reports."""
    if slope > 0.0:
        ones = np.where(laws.kind == RECORDED, -1.0, low + slope * means)
    else:
        ones = np.where(laws.kind == BERNOULLI, laws.chance, -1.0)
    return (Coins if (laws.kind == BERNOULLI).all() else Place)(laws, ones, low, slope)


def empty_known(arms: int) -> Known:
    sums, draws, lengths, played, closed, base_sums = np.zeros((6, arms), np.int64)
    return Known(sums, np.zeros(arms), draws, lengths, played, closed, base_sums, np.zeros(arms))


def nothing_pending(arms: int) -> Pending:
    return Pending(np.zeros(arms, np.int64), np.zeros(arms, np.int64))


def new_scratch(arms: int) -> Scratch:
    return Scratch(np.empty(arms), np.full(arms, -1, np.int64), np.zeros(arms, np.bool_))


@njit(nogil=True)
def doubled(array):
    """A copy with room for as much again."""
    longer = np.empty(2 * array.size, array.dtype)
    for i in range(array.size):
        longer[i] = array[i]
    return longer


@inner
def credited(numbers, total, count, under_way, log_now, draws):
    """The index of an arm with a published mean; rounds under way are credited as if they confirmed that mean."""
    return index(numbers, total / UNIT / count, count + under_way, log_now, draws)


@inner
def _without_count(known, pending, marked, now):
    """Mark the arms that come before any index: never played, then silent ones that have not had their equal share."""
    arms, found = known.counts.size, 0
    for i in range(arms):
        marked[i] = known.played[i] == 0
        found += marked[i]
    if found > 0:
        return found
    for i in range(arms):
        silent = known.counts[i] <= 0 and pending.rounds[i] == 0
        marked[i] = silent and known.played[i] * arms <= now
        found += marked[i]
    return found


@inner
def _fewest_pending(pending, marked):
    """Mark the arms with the fewest rounds under way among those that have any: nothing is published yet."""
    fewest, found = np.iinfo(np.int64).max, 0
    for i in range(marked.size):
        marked[i] = False
        if 0 < pending.rounds[i] < fewest:
            fewest = pending.rounds[i]
    for i in range(marked.size):
        marked[i] = pending.rounds[i] == fewest
        found += marked[i]
    return found


@inner
def _candidates(numbers, pace, known: Known, pending: Pending, scratch: Scratch, now):
    """Mark the arms that may come next and return their number.

    Arms never played come first; an arm without a published count waits for its open blocks, and once they are gone
    without an answer it comes first again until it has had its equal share; then the largest index with credit.
    """
    bounds, until, marked = scratch.bounds, scratch.until, scratch.marked
    sums, counts, rounds, draws, more = known.sums, known.counts, pending.rounds, known.draws, pending.draws
    arms, first, found, log_now = marked.size, -1, 0, math.log(now + 1.0)
    silent, highest = False, -np.inf
    for i in range(arms):
        marked[i] = False
        if counts[i] <= 0:
            silent = True
            continue
        if now > until[i]:
            until[i] = now if pace == ANY else int(now * SLACK)
            later = math.log(until[i] + 1.0)
            bounds[i] = credited(numbers, sums[i], counts[i], rounds[i], later, draws[i] + more[i])
        if first < 0 or bounds[i] > highest:
            first, highest = i, bounds[i]
    if silent:
        found = _without_count(known, pending, marked, now)
        if found > 0:
            return found
    if first < 0:
        return _fewest_pending(pending, marked)
    best = -np.inf
    for step in range(arms + 1):
        i = first if step == 0 else step - 1
        if (step > 0 and i == first) or counts[i] <= 0 or bounds[i] < best:
            continue
        value = credited(numbers, sums[i], counts[i], rounds[i], log_now, draws[i] + more[i])
        if value > best:
            if found > 0:
                for j in range(arms):
                    marked[j] = False
            best, found = value, 0
        if value == best:
            marked[i] = True
            found += 1
    return found


candidates = Kernel(_candidates.py_func)


@njit(cache=True, nogil=True)
def nth(marked, pick):
    """The pick-th marked arm."""
    for i in range(marked.size):
        if marked[i]:
            if pick == 0:
                return i
            pick -= 1
    return 0


@njit(cache=True, nogil=True)
def block_length(first, growth, played, last):
    """Rounds of the next block of an arm, from the rounds it has had and those of its last block."""
    if growth > 0:
        return max(first, math.ceil(growth * played))
    return max(first, 2 * last)


@njit(cache=True, nogil=True)
def joined(keep, before, base, new):
    """A published number once a block adds ``new``: blocks add up, or replace each other on top of a base."""
    return before + new if keep else base + new


def open_block(known: Known, arm: int, length: int) -> None:
    """Count a block as played, from the moment it is opened."""
    known.lengths[arm] = length
    known.played[arm] += length


def publish(keep: bool, known: Known, arm: int, total: int, count: float, draws: int) -> None:
    """Take in a block's noisy sum and number of rewards."""
    known.sums[arm] = joined(keep, known.sums[arm], known.base_sums[arm], total)
    known.counts[arm] = joined(keep, known.counts[arm], known.base_counts[arm], count)
    known.draws[arm] = joined(keep, known.draws[arm], 0, draws)
    known.closed[arm] += 1


@by_kind
def reward_sum(place: Any, arm: int, now: Any, count: int, world: Any) -> Any:
    """The sum of ``count`` rewards in grid units, or of their one-bit reports, where it is not a binomial number."""
    if place.slope == 0.0:
        return draw_sum(place.laws, arm, now, count, world)
    ones = np.int64(0)
    for step in range(count):
        ones += world.random() < place.low + place.slope * place.laws.rows[now + step, arm]
    return ones * UNIT


@reward_sum.of(Coins)  # type: ignore[attr-defined]
def _no_sum(place: Any, arm: int, now: Any, count: int, world: Any) -> Any:
    """Nobody asks."""
    return np.int64(0)


@Kernel
def simulate(numbers, shape: Shape, known: Known, place: Place, late: Late, sources: Sources, now, rounds):
    """Rounds now .. rounds - 1 as blocks: their ends, arms (or the number of arms), pulls and the log of releases.

    Arrays are taken out of their tuples once, and functions in the loop take numbers where they can: handing a tuple of
    arrays to a function costs two atomic operations an array, which would be half of the time. For the same reason the
    intake of a block stands in the loop.
    """
    sums, counts, draws, lengths, played, closed, base_sums, base_counts = known
    explore, world, arrivals, noise = sources
    arms, ones = counts.size, place.ones
    pulls, per_release = np.zeros(arms, np.int64), 0 if shape.success == 0.0 else 2 if shape.private_counts else 1
    size, used, oldest = 256, 0, 0
    ends, codes, who = np.empty(size, np.int64), np.empty(size, np.int32), np.empty(size, np.int64)
    due, came = np.empty(size, np.int64), np.empty(size, np.int64)
    shown, heard = np.empty(size, np.int64), np.empty(size)
    under_way, to_draw = np.zeros(arms, np.int64), np.zeros(arms, np.int64)
    until, marked = np.full(arms, -1, np.int64), np.zeros(arms, np.bool_)
    pending, scratch = Pending(under_way, to_draw), Scratch(np.empty(arms), until, marked)
    begin, stop, settled = now, now, now
    while True:
        while oldest < used and due[oldest] <= now:
            arm, first, n = who[oldest], begin if oldest == 0 else ends[oldest - 1], came[oldest]
            length = ends[oldest] - first
            total = fill(late, length - n)
            if ones[arm] >= 0.0:
                total += binomial(world, n, ones[arm]) * UNIT
            else:
                total += reward_sum(place, arm, first, n, world)
            count = float(length if late.filled else n)
            if per_release > 0 and not (shape.raw_first and closed[arm] == 0):
                total += compiled_laplace(noise, shape.success)
            if shape.private_counts:
                count += compiled_laplace(noise, shape.success) / UNIT
            sums[arm] = joined(shape.keep, sums[arm], base_sums[arm], total)
            counts[arm] = joined(shape.keep, counts[arm], base_counts[arm], count)
            draws[arm] = joined(shape.keep, draws[arm], 0, per_release)
            closed[arm] += 1
            shown[oldest], heard[oldest] = sums[arm], counts[arm]
            under_way[arm] -= length
            to_draw[arm] -= per_release
            until[arm] = -1
            oldest += 1
        if now >= rounds:
            break
        found = _candidates(numbers, shape.pace, known, pending, scratch, now)
        arm = nth(marked, below(explore, found) if shape.shuffle and found > 1 else 0)
        symmetric = shape.shuffle and (played[arm] == 0 or oldest == 0)
        length = block_length(shape.first, shape.growth, played[arm], lengths[arm])
        lengths[arm] = length
        played[arm] += length
        under_way[arm] += length
        to_draw[arm] += per_release
        until[arm] = -1
        if used == size:
            ends, codes, who, due, came = doubled(ends), doubled(codes), doubled(who), doubled(due), doubled(came)
            shown, heard = doubled(shown), doubled(heard)
            size *= 2
        stop = now + length
        settled, drawn, sure = settled_at(late, now, stop, settled, arrivals)
        due[used], came[used] = settled, answered(late, length, drawn, sure, arrivals)
        ends[used], codes[used], who[used] = stop, arms if symmetric else arm, arm
        used += 1
        pulls[arm] += min(stop, rounds) - now
        now = min(stop, rounds)
    if used > 0:
        ends[used - 1] = rounds
    log = ReleaseLog(who[:used], due[:oldest], shown[:oldest], heard[:oldest])
    return ends[:used], codes[:used], pulls, log
