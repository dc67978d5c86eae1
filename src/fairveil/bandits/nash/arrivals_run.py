"""A whole run of a policy that releases by arrival, in compiled code: the rule of `arrivals` in a loop.

Where seats are given in the order of rounds (one fixed delay for all, or hidden arrivals, which count when the window
closes) answers come in stretches: a run of T rounds costs one short turn for every few rounds of the delay, opened in
one go, and from then on a number of steps that grows with log T. Otherwise every round has a wait of its own, and a
step.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from fairveil.arrays import Floats, Ints
from fairveil.bandits.environments.arms import UNIT, below, binomial, draw
from fairveil.bandits.lateness import Lateness
from fairveil.bandits.nash.arrivals import (
    Bounds,
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
from fairveil.bandits.nash.late import GEOMETRIC, LAWS, UNIFORM, compiled_lateness, regular
from fairveil.bandits.nash.tally import Stretch
from fairveil.bandits.simulate import Case, Simulator, Streams
from fairveil.compiling import Kernel, by_kind, inner, njit
from fairveil.privacy.noise import compiled_laplace
from fairveil.randomness import Generator
from fairveil.state import State


class Waits(NamedTuple):
    """A `Lateness` as numbers, one law an arm.

    ``in_order``: seats come in the order of rounds, each ``delay`` decisions after its own, and an answer is there with
    chance ``chance``; ``punctual``: in order, and nobody is missing; ``valued``: every reward is drawn by itself,
    because its delay or its place in a sum depends on it; ``outages``: rows (first, stop, more).
    """

    law: Ints
    low: Floats
    high: Floats
    missing: Floats
    chance: Floats
    outages: Ints
    factor: float
    window: int
    delay: int
    hidden: bool
    filled: bool
    default: int
    in_order: bool
    punctual: bool
    valued: bool


@lru_cache(maxsize=256)
def compiled_waits(lateness: Lateness, arms: int) -> Waits:
    """The same lateness for compiled code."""
    each = [lateness.of_arm(arm) for arm in range(arms)]
    numbers = compiled_lateness(lateness)
    valued = lateness.factor != 1.0 or (lateness.hidden and bool(lateness.outages))
    in_order = (lateness.hidden and not valued) or regular(lateness)
    chance = np.array([_chance(*one, lateness.window) for one in each])
    return Waits(
        law=np.array([LAWS[one.law] for one in each], np.int64),
        low=np.array([one.numbers[0] for one in each]),
        high=np.array([one.numbers[-1] for one in each]),
        missing=np.array([one.missing for one in each]),
        chance=chance,
        outages=np.array(lateness.outages, np.int64).reshape(-1, 3),
        factor=lateness.factor,
        window=lateness.window,
        delay=lateness.window if lateness.hidden else int(lateness.numbers[0]),
        hidden=lateness.hidden,
        filled=numbers.filled,
        default=numbers.default,
        in_order=in_order,
        punctual=in_order and bool((chance == 1.0).all()),
        valued=valued,
    )


def _chance(law: str, numbers: tuple[float, ...], missing: float, window: int) -> float:
    """That a reward is in when its window closes."""
    low, high = numbers[0], numbers[-1]
    inside = float(low <= window)
    if law == "geometric":
        inside = 1.0 - (low / (1.0 + low)) ** (window + 1)
    elif law == "uniform":
        inside = min(1.0, max(0.0, (window - low + 1.0) / (high - low + 1.0)))
    return (1.0 - missing) * inside


@inner
def _wait(waits: Waits, arm, round, reward, rng):
    """The wait of one reward, -1 when it misses its window; the draws of `Lateness.wait`, in their order."""
    wait = np.int64(waits.low[arm])
    if waits.law[arm] == GEOMETRIC:
        wait = rng.geometric(1.0 / (1.0 + waits.low[arm])) - 1
    elif waits.law[arm] == UNIFORM:
        wait = np.int64(waits.low[arm]) + below(rng, np.int64(waits.high[arm]) + 1 - np.int64(waits.low[arm]))
    if waits.factor != 1.0:
        wait = np.int64(np.floor(wait * (1.0 + (waits.factor - 1.0) * reward) + 0.5))
    for row in range(waits.outages.shape[0]):
        if waits.outages[row, 0] <= round < waits.outages[row, 1]:
            wait += waits.outages[row, 2]
    lost = wait > waits.window
    if waits.missing[arm] > 0.0:
        lost |= rng.random() < waits.missing[arm]
    return np.int64(-1) if lost else np.int64(wait)


class Raw(NamedTuple):
    """What is in the pools and nobody may see: of every arm the sum of rewards drawn so far, and how many answered."""

    sums: Ints
    here: Ints


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
def _release(shape: Shape, pools: Pools, place: Place, waits: Waits, sources, arm, seats, n, total):
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


class Slots(NamedTuple):
    """Rounds under way, in a ring: ``head[moment]`` leads to the rounds that are answered then, through ``after``."""

    head: Ints
    after: Ints
    arm: Ints
    value: Ints
    open: Ints


@by_kind
def _one_reward(place: Any, arm: int, round: int, world: Any) -> Any:
    """One reward, as its arm's law gives it."""
    kind, chance, low, high, rows, _ = place.laws
    return draw(kind, chance, low, high, rows, arm, round, world)


@_one_reward.of(Coins)  # type: ignore[attr-defined]
def _one_coin(place: Any, arm: int, round: int, world: Any) -> Any:
    return 1.0 if world.random() < place.laws.chance[arm] else 0.0


@inner
def _decide(waits, slots, place, sources, arm, round, rounds):
    """One round is decided: draw its reward where it must be known, and when it comes."""
    size, reward, value = slots.head.size, 0.0, np.int64(0)
    if waits.valued or place.ones[arm] < 0.0:
        reward = _one_reward(place, arm, round, sources.world)
        value = np.int64(reward * UNIT)
        if place.slope > 0.0:
            value = np.int64(sources.world.random() < place.low + place.slope * reward) * UNIT
    wait = _wait(waits, arm, round, reward, sources.arrivals)
    slot = round % size
    slots.arm[slot], slots.value[slot], slots.open[slot] = arm, value, 1
    if waits.hidden:
        if wait < 0:
            slots.value[slot], slots.open[slot] = waits.default if waits.filled else 0, 2
    elif wait >= 0 and round + wait < rounds:
        moment = (round + wait) % size
        slots.after[slot] = slots.head[moment]
        slots.head[moment] = slot


@inner
def _moment(shape, turns, pools, raw, place, waits, sources, slots, round):
    """After a round was decided: what comes and what closes then, and every pool that falls due. Gives the releases."""
    size, due, releases = slots.head.size, False, 0
    slot = slots.head[round % size]
    slots.head[round % size] = -1
    while slot >= 0:
        arm = slots.arm[slot]
        turns.came[arm] += 1
        raw.here[arm] += 1
        raw.sums[arm] += slots.value[slot]
        slots.open[slot] = 0
        due |= is_due(shape, turns.given[arm], turns.came[arm], turns.closed[arm], pools.taken[arm], pools.seats[arm],
                      pools.last[arm])  # fmt: skip
        slot = slots.after[slot]
    if round >= waits.window:
        slot = (round - waits.window) % size
        if slots.open[slot] > 0:
            arm = slots.arm[slot]
            if waits.hidden or shape.private_counts:
                turns.came[arm] += 1
                raw.here[arm] += 1 if waits.hidden and slots.open[slot] == 1 else 0
                raw.sums[arm] += slots.value[slot] if waits.hidden else 0
            else:
                turns.closed[arm] += 1
            slots.open[slot] = 0
            due |= is_due(shape, turns.given[arm], turns.came[arm], turns.closed[arm], pools.taken[arm],
                          pools.seats[arm], pools.last[arm])  # fmt: skip
    if due:
        for i in range(turns.given.size):
            given, came, taken = turns.given[i], turns.came[i], pools.taken[i]
            if is_due(shape, given, came, turns.closed[i], taken, pools.seats[i], pools.last[i]):
                _release(shape, pools, place, waits, sources, i, came - taken, raw.here[i], raw.sums[i])
                raw.sums[i], raw.here[i] = 0, 0
                releases += 1
    return releases


@inner
def _play(scene, slots, arm, now, stop, rounds):
    """Rounds now .. stop - 1 of one turn are decided, and what comes meanwhile is taken in. Gives the releases."""
    shape, turns, pools, raw, place, waits, sources = scene
    releases = 0
    for round in range(now, stop):
        _decide(waits, slots, place, sources, arm, round, rounds)
        releases += _moment(shape, turns, pools, raw, place, waits, sources, slots, round)
    return releases


@njit(nogil=True, inline="always")
def _chosen(numbers, shape: Shape, prior: Prior, turns: Turns, pools: Pools, bounds: Bounds, marked, explore, now):
    """The arm of the next turn: the best candidate, or one of several by a coin."""
    found = _candidates(numbers, shape, prior, turns, pools, bounds, marked, now)
    return nth(marked, below(explore, found) if shape.shuffle and found > 1 else 0)


@Kernel
def simulate(numbers, shape: Shape, prior: Prior, turns: Turns, pools: Pools, place, waits: Waits, sources, rounds):
    """Rounds 0 .. rounds - 1 as turns: their ends, arms (or the number of arms), pulls and number of releases."""
    arms, bounds = turns.given.size, no_bounds(turns.given.size)
    pulls, marked = np.zeros(arms, np.int64), np.zeros(arms, np.bool_)
    raw = Raw(np.zeros(arms, np.int64), np.zeros(arms, np.int64))
    ring = min(rounds, waits.window) + 1
    slots = Slots(np.full(ring, -1, np.int64), np.full(ring, -1, np.int64), np.zeros(ring, np.int64),
                  np.zeros(ring, np.int64), np.zeros(ring, np.int64))  # fmt: skip
    size, used, releases, now = 256, 0, 0, np.int64(0)
    ends, codes = np.empty(size, np.int64), np.empty(size, np.int32)
    scene = (shape, turns, pools, raw, place, waits, sources)
    while now < rounds:
        arm = _chosen(numbers, shape, prior, turns, pools, bounds, marked, sources.explore, now)
        fresh = releases == 0 and turns.closed.sum() == 0
        symmetric = shape.shuffle and (turns.given[arm] == 0 or fresh)
        length = turn_length(shape, pools.seats[arm], pools.last[arm])
        turns.given[arm] += length
        if used == size:
            ends, codes = doubled(ends), doubled(codes)
            size *= 2
        stop = min(now + length, rounds)
        ends[used], codes[used] = stop, arms if symmetric else arm
        used += 1
        pulls[arm] += stop - now
        releases += _play(scene, slots, arm, now, stop, rounds)
        now = stop
    return ends[:used], codes[:used], pulls, releases


@inner
def _ahead(shape: Shape, given, ends, codes, who, explore, length):
    """Turns that are opened before anything can come: all arms in a random order, again and again."""
    arms = given.size
    left, rest = np.arange(arms), arms
    for turn in range(ends.size):
        pick = below(explore, rest) if shape.shuffle and rest > 1 else np.int64(0)
        arm = left[pick]
        ends[turn], codes[turn], who[turn] = (turn + 1) * length, arms if shape.shuffle else arm, arm
        given[arm] += length
        rest -= 1
        for i in range(pick, rest):
            left[i] = left[i + 1]
        if rest == 0:
            rest = arms
            for i in range(arms):
                left[i] = i


@Kernel
def simulate_in_order(numbers, shape: Shape, prior: Prior, turns: Turns, pools: Pools, place, waits, sources, rounds):
    """The same where the seats come in the order of rounds, each ``delay`` decisions after its own.

    Until the first can come every turn has the same length and the arms with the fewest rounds are next, so these
    turns are opened in one go. Arrays are taken out of their tuples once: see `blocks.simulate`.
    """
    given, came, _ = turns
    taken, seats, last, delay = pools.taken, pools.seats, pools.last, waits.delay
    arms, bounds, marked = given.size, no_bounds(given.size), np.zeros(given.size, np.bool_)
    raw, length = np.zeros(arms, np.int64), turn_length(shape, 0, 0)
    used = min(delay, rounds) // length
    now, size, releases, turn, seat = used * length, used + 256, 0, 0, np.int64(0)
    ends, codes, who = np.empty(size, np.int64), np.empty(size, np.int32), np.empty(size, np.int64)
    _ahead(shape, given, ends[:used], codes, who, sources.explore, length)
    pulls = given.copy()
    while True:
        while seat < now - delay:
            arm = who[turn]
            pool, need = came[arm] - taken[arm], enough(shape, seats[arm], last[arm])
            take = min(ends[turn], now - delay) - seat
            if shape.success > 0.0:
                take = min(take, need - pool)
            if place.ones[arm] < 0.0 and waits.chance[arm] >= 1.0:
                raw[arm] += reward_sum(place, arm, seat, take, sources.world)
            came[arm] += take
            seat += take
            turn += seat == ends[turn]
            if pool + take >= need or given[arm] == came[arm]:
                _release(shape, pools, place, waits, sources, arm, pool + take, pool + take, raw[arm])
                raw[arm] = 0
                releases += take if shape.success == 0.0 else 1
        if now >= rounds:
            break
        arm = _chosen(numbers, shape, prior, turns, pools, bounds, marked, sources.explore, now)
        if used == size:
            ends, codes, who = doubled(ends), doubled(codes), doubled(who)
            size *= 2
        symmetric = shape.shuffle and (given[arm] == 0 or releases == 0)
        length = turn_length(shape, seats[arm], last[arm])
        ends[used], codes[used], who[used] = now + length, arms if symmetric else arm, arm
        used += 1
        given[arm] += length
        pulls[arm] += min(length, rounds - now)
        now = min(now + length, rounds)
    if used > 0:
        ends[used - 1] = rounds
    return ends[:used], codes[:used], pulls, releases


class ArrivalSimulator(Simulator[Stretch]):
    """A whole run as turns and pools."""

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
        ends, codes, pulls, self.releases = engine(
            policy._numbers, policy._shape, policy.prior, self.turns, self.pools, *world, stop
        )
        self.spent = policy.spent(self.releases)
        self.decided = pulls
        return Stretch(codes, pulls, 0, ends)

    def published(self) -> State:
        """The arrays of a state; rounds of the last turn that were not decided are not counted."""
        return {**self.turns._asdict(), **self.pools._asdict(), "given": self.decided.copy()}
