"""A whole run of a policy that releases by arrival, in compiled code: the rule of `arrivals` in a loop over rounds.

Two engines share the next arm, the release of a pool and the log of releases. `simulate`: every round has a wait of its
own, and a step. `simulate_in_order`: seats are given in the order of rounds (one fixed delay for all, or hidden
arrivals, which count when the window closes), so answers come in stretches: a run of T rounds costs one short turn for
every few rounds of the delay, opened in one go, and from then on a number of steps that grows with log T.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from fairveil.bandits.environments.arms import UNIT, below, binomial, draw
from fairveil.bandits.nash.arrivals import (
    Pools,
    Prior,
    Turns,
    _candidates,
    enough,
    is_due,
    no_bounds,
    no_pools,
    no_turns,
    publish,
    turn_length,
)
from fairveil.bandits.nash.blocks import Coins, Place, Shape, doubled, nth, reward_sum, sources_of
from fairveil.bandits.nash.late import Waits, compiled_waits, drawn_wait, held_up
from fairveil.bandits.nash.tally import Stretch
from fairveil.bandits.simulate import Case, Simulator, Streams
from fairveil.compiling import Kernel, by_kind, inner, njit
from fairveil.privacy.noise import compiled_laplace
from fairveil.randomness import Generator
from fairveil.state import State

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


FEW = 16
"""So many arms stand in one word, four bits each: to take one out of the middle is one step."""
IN_ORDER = 0xFEDCBA9876543210


@inner
def _ahead(shape: Shape, given, ends, codes, who, explore, length):
    """Turns that are opened before anything can come: all arms in a random order, again and again."""
    arms, four, one = given.size, np.uint64(4), np.uint64(1)
    few, word, left, rest = arms <= FEW, np.uint64(IN_ORDER), np.empty(arms, np.int64), arms
    for i in range(arms):
        left[i] = i
    for turn in range(ends.size):
        pick = below(explore, rest) if shape.shuffle and rest > 1 else np.int64(0)
        rest -= 1
        if few:
            at = np.uint64(pick) * four
            before = (one << at) - one
            arm = np.int64((word >> at) & np.uint64(FEW - 1))
            word = (word & before) | ((word >> four) & ~before)
        else:
            arm = left[pick]
            for i in range(pick, rest):
                left[i] = left[i + 1]
        who[turn] = arm
        given[arm] += length
        if rest == 0:
            rest, word = arms, np.uint64(IN_ORDER)
            for i in range(0 if few else arms):
                left[i] = i
    for turn in range(ends.size):
        ends[turn], codes[turn] = (turn + 1) * length, arms if shape.shuffle else who[turn]


@Kernel
def simulate_in_order(
    numbers, shape: Shape, prior: Prior, turns: Turns, pools: Pools, place, waits, sources, rounds, logged
):
    """The rounds of `simulate`, each seat ``delay`` decisions after its own round.

    Until the first can come every turn has the same length and the arms with the fewest rounds are next, so these
    turns are opened in one go. Arrays are taken out of their tuples once: see `blocks.simulate`.
    """
    given, came, _ = turns
    taken, seats, last, delay, ones, chance = (
        pools.taken,
        pools.seats,
        pools.last,
        waits.delay,
        place.ones,
        waits.chance,
    )
    arms, bounds, marked = given.size, no_bounds(given.size), np.zeros(given.size, np.bool_)
    raw, noted, summed = np.zeros(arms, np.int64), np.zeros(arms, np.int64), False
    length, arm = turn_length(shape, 0, 0), 0
    used = min(delay, rounds) // length
    now, size, releases, turn, seat, rows = used * length, used + 256, 0, 0, np.int64(0), 0
    ends, codes, who = np.empty(size, np.int64), np.empty(size, np.int32), np.empty(size, np.int64)
    log = np.empty(size if logged else 0)
    _ahead(shape, given, ends[:used], codes, who, sources.explore, length)
    pulls, goal, fewest = np.empty(arms, np.int64), np.empty(arms, np.int64), enough(shape, 0, 0)
    for i in range(arms):  # written out: NumPy's functions of whole arrays take a tenth of the time to compile this
        pulls[i], goal[i] = given[i], min(given[i], fewest)
        summed |= ones[i] < 0.0
    while True:
        while seat < now - delay:
            arm = who[turn]
            take = min(ends[turn], now - delay) - seat
            if shape.success > 0.0:
                take = min(take, goal[arm] - came[arm])
            if summed and ones[arm] < 0.0 and chance[arm] >= 1.0:
                raw[arm] += reward_sum(place, arm, seat, take, sources.world)
            came[arm] += take
            seat += take
            turn += seat == ends[turn]
            if came[arm] < goal[arm]:
                continue
            pool = came[arm] - taken[arm]
            release(shape, pools, place, waits, sources, arm, pool, pool, raw[arm])
            raw[arm], goal[arm] = 0, min(given[arm], taken[arm] + enough(shape, seats[arm], last[arm]))
            releases += take if shape.success == 0.0 else 1
            if logged and to_note(shape, seats[arm], noted, arm):
                at, open_turn = seat + delay, used - 1
                log = note(log, rows, turns, pools, arm, at, who[open_turn], max(0, ends[open_turn] - at))
                rows += 1
        if now >= rounds:
            break
        arm = chosen(numbers, shape, prior, turns, pools, bounds, marked, sources.explore, now)
        if used == size:
            ends, codes, who = doubled(ends), doubled(codes), doubled(who)
            size *= 2
        symmetric = shape.shuffle and (given[arm] == 0 or releases == 0)
        length = turn_length(shape, seats[arm], last[arm])
        ends[used], codes[used], who[used] = now + length, arms if symmetric else arm, arm
        used += 1
        given[arm] += length
        goal[arm] = min(given[arm], taken[arm] + enough(shape, seats[arm], last[arm]))
        pulls[arm] += min(length, rounds - now)
        now = min(now + length, rounds)
    if used > 0:
        ends[used - 1] = rounds
    return ends[:used], codes[:used], pulls, releases, who[:used], log[: rows * (BEHIND + arms)]


@by_kind
def _one_reward(place: Any, arm: int, round: int, world: Any) -> Any:
    """One reward, as its arm's law gives it."""
    kind, chance, low, high, rows, _ = place.laws
    return draw(kind, chance, low, high, rows, arm, round, world)


@_one_reward.of(Coins)  # type: ignore[attr-defined]
def _one_coin(place: Any, arm: int, round: int, world: Any) -> Any:
    return 1.0 if world.random() < place.laws.chance[arm] else 0.0


@inner
def _drawn(place, arm, round, world):
    """One reward that must be known, and what it adds to a sum: in grid units, or as its one-bit report."""
    reward = _one_reward(place, arm, round, world)
    if place.slope > 0.0:
        return reward, np.int64(world.random() < place.low + place.slope * reward) * UNIT
    return reward, np.int64(reward * UNIT)


@inner
def _ring(size):
    """Of every round under way: its place among those of one moment, arm, value, and whether it waits (2: in vain)."""
    head, after = np.full(size, -1, np.int64), np.full(size, -1, np.int64)
    return head, after, np.zeros(size, np.int64), np.zeros(size, np.int64), np.zeros(size, np.int64)


@inner
def _release_due(shape: Shape, turns: Turns, pools: Pools, place, waits, sources, raw, journal, moment):
    """Publish every pool that is due; gives the log, its rows, and how many. ``raw``: of every arm the sum of rewards
    that came and how many; ``moment``: the arm whose turn it is, rounds decided, and the end of the turn.
    """
    given, came, closed = turns
    (sums, here), (log, rows, noted), (arm, at, end) = raw, journal, moment
    made = 0
    for i in range(given.size):
        if is_due(shape, given[i], came[i], closed[i], pools.taken[i], pools.seats[i], pools.last[i]):
            release(shape, pools, place, waits, sources, i, came[i] - pools.taken[i], here[i], sums[i])
            sums[i], here[i] = 0, 0
            made += 1
            if log.size > 0 and to_note(shape, pools.seats[i], noted, i):
                log = note(log, rows, turns, pools, i, at, arm, end - at)
                rows += 1
    return log, rows, made


@Kernel
def simulate(
    numbers, shape: Shape, prior: Prior, turns: Turns, pools: Pools, place, waits: Waits, sources, rounds, logged
):
    """Rounds 0 .. rounds - 1 as turns: ends, arms (or their number), pulls, releases, arms played, and the log.

    Rounds under way are slots of a ring: ``head[moment]`` leads to those that are answered then, through ``after``.
    Arrays are taken out of tuples once, and the loop over rounds hands over numbers: a tuple costs ten rounds.
    """
    given, came, closed = turns
    taken, seats, last, outages = pools.taken, pools.seats, pools.last, waits.outages
    arms, bounds, ones, missing, window = given.size, no_bounds(given.size), place.ones, waits.missing, waits.window
    hidden, settles = waits.hidden, waits.hidden or shape.private_counts
    world, arrivals, law, low, high = sources.world, sources.arrivals, waits.law, waits.low, waits.high
    pulls, marked, noted = np.zeros(arms, np.int64), np.zeros(arms, np.bool_), np.zeros(arms, np.int64)
    sums, here = np.zeros(arms, np.int64), np.zeros(arms, np.int64)
    ring, default = min(rounds, window) + 1, waits.default if waits.filled else 0
    head, after, who, values, opened = _ring(ring)
    size, used, releases, rows, now = 256, 0, 0, 0, np.int64(0)
    ends, codes, played = np.empty(size, np.int64), np.empty(size, np.int32), np.empty(size, np.int64)
    log = np.empty(size if logged else 0)
    while now < rounds:
        arm = chosen(numbers, shape, prior, turns, pools, bounds, marked, sources.explore, now)
        symmetric = shape.shuffle and (given[arm] == 0 or (releases == 0 and closed.sum() == 0))
        length = turn_length(shape, seats[arm], last[arm])
        given[arm] += length
        if used == size:
            ends, codes, played = doubled(ends), doubled(codes), doubled(played)
            size *= 2
        stop = min(now + length, rounds)
        ends[used], codes[used], played[used] = stop, arms if symmetric else arm, arm
        used += 1
        pulls[arm] += stop - now
        for round in range(now, stop):
            slot, reward, due = round % ring, 0.0, False
            who[slot], values[slot], opened[slot] = arm, 0, 1
            if waits.valued or ones[arm] < 0.0:
                reward, values[slot] = _drawn(place, arm, round, world)
            more, slower = held_up(outages, round) if outages.size > 0 else 0, 1.0 + (waits.factor - 1.0) * reward
            wait = drawn_wait(law[arm], low[arm], high[arm], slower, more, window, missing[arm], arrivals)
            if hidden and wait < 0:
                values[slot], opened[slot] = default, 2
            elif not hidden and wait >= 0 and round + wait < rounds:
                moment = (round + wait) % ring
                after[slot], head[moment] = head[moment], slot
            # what comes and what closes once this round is decided, and every pool that falls due
            slot = head[round % ring]
            head[round % ring] = -1
            while slot >= 0:
                i = who[slot]
                came[i] += 1
                here[i] += 1
                sums[i] += values[slot]
                opened[slot] = 0
                due |= is_due(shape, given[i], came[i], closed[i], taken[i], seats[i], last[i])
                slot = after[slot]
            slot = (round - window) % ring
            if round >= window and opened[slot] > 0:
                i = who[slot]
                came[i] += settles
                closed[i] += not settles
                here[i] += hidden and opened[slot] == 1
                sums[i] += values[slot] if hidden else 0
                opened[slot] = 0
                due |= is_due(shape, given[i], came[i], closed[i], taken[i], seats[i], last[i])
            if due:
                log, rows, made = _release_due(shape, turns, pools, place, waits, sources, (sums, here),
                                               (log, rows, noted), (arm, round + 1, now + length))  # fmt: skip
                releases += made
        now = stop
    return ends[:used], codes[:used], pulls, releases, played[:used], log[: rows * (BEHIND + arms)]


class ArrivalSimulator(Simulator[Stretch]):
    """A whole run as turns and pools; ``logged``: with a row of ``log`` for every release."""

    logged = False

    def __init__(self, policy: Any, case: Case, streams: Streams) -> None:
        self.policy, self.world, self.place = policy, case.environment, policy.place(case)
        self.waits = compiled_waits(case.lateness, policy.arms)
        sources = sources_of(streams, self.waits.punctual)
        punctual = Punctual(sources.explore, sources.world, sources.noise)
        self.sources = punctual if self.waits.punctual else sources
        self.turns, self.pools = no_turns(policy.arms), no_pools(policy.arms)

    def advance(self, stop: int) -> Stretch:
        policy, world = self.policy, (self.place, self.waits, self.sources)
        engine = simulate_in_order if self.waits.in_order else simulate
        ends, codes, pulls, self.releases, self.played, log = engine(
            policy._numbers, policy._shape, policy.prior, self.turns, self.pools, *world, stop, self.logged
        )
        self.log = log.reshape(-1, BEHIND + policy.arms)
        self.spent = policy.spent(self.releases)
        self.decided = pulls
        return Stretch(codes, pulls, 0, ends)

    def published(self) -> State:
        """The arrays of a state; rounds of the last turn that were not decided are not counted."""
        return {**self.turns._asdict(), **self.pools._asdict(), "given": self.decided.copy()}
