"""A run by arrival where seats are given in the order of rounds: one fixed delay for all, or hidden arrivals, which
count when the window closes. Answers come in stretches then: a run of T rounds costs one short turn for every few
rounds of the delay, opened in one go, and from then on a number of steps that grows with log T.
"""

from __future__ import annotations

import numpy as np

from fairveil.bandits.environments.arms import below
from fairveil.bandits.nash.arrivals import Pools, Prior, Turns, enough, no_bounds, turn_length
from fairveil.bandits.nash.arrivals_steps import BEHIND, chosen, note, release, to_note
from fairveil.bandits.nash.blocks import Shape, doubled, reward_sum
from fairveil.compiling import Kernel, inner

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
    """The rounds of `arrivals_run.simulate`, each seat ``delay`` decisions after its own round.

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
