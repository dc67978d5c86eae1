"""A whole run of a policy that releases by arrival, in compiled code: the rule of `arrivals` in a loop over rounds.

Every round has a wait of its own here, and a step. Where seats are given in the order of rounds a run is cheaper:
`fairveil.bandits.nash.arrivals_in_order`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from fairveil.bandits.environments.arms import UNIT, draw
from fairveil.bandits.nash.arrivals import Pools, Prior, Turns, is_due, no_bounds, no_pools, no_turns, turn_length
from fairveil.bandits.nash.arrivals_in_order import simulate_in_order
from fairveil.bandits.nash.arrivals_steps import BEHIND, Punctual, chosen, note, release, to_note
from fairveil.bandits.nash.blocks import Coins, Shape, doubled, sources_of
from fairveil.bandits.nash.tally import Stretch
from fairveil.bandits.nash.waits import Waits, compiled_waits, drawn_wait, held_up
from fairveil.bandits.simulate import Case, Simulator, Streams
from fairveil.compiling import Kernel, by_kind, inner
from fairveil.state import State


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
    """A whole run as turns and pools; ``logged``: with a row of ``log`` for every release (`arrivals_steps`)."""

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
