"""Late feedback in compiled code: when a block is settled and how many of its rewards are there then, or how late every
reward is by itself, with one law an arm, outages and delays by reward.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import numpy as np

from fairveil.arrays import Floats, Ints
from fairveil.bandits.environments.arms import UNIT, below, binomial
from fairveil.bandits.lateness import Lateness
from fairveil.compiling import inner, njit

FIXED, GEOMETRIC, UNIFORM = range(3)
LAWS = {"fixed": FIXED, "geometric": GEOMETRIC, "uniform": UNIFORM}


class Late(NamedTuple):
    """A `Lateness` as numbers; ``hidden``: rounds settle at the window; ``filled``: a missing one counts default."""

    law: int
    low: float
    high: float
    window: int
    missing: float
    hidden: bool
    filled: bool
    default: int


@lru_cache(maxsize=256)
def compiled_lateness(lateness: Lateness) -> Late:
    """The same lateness for compiled code; the default reward in grid units, clipped as a reward is."""
    numbers = lateness.numbers
    default = int(min(1.0, max(0.0, lateness.default)) * UNIT)
    filled = lateness.treat == "default"
    law = LAWS[lateness.law]
    return Late(law, numbers[0], numbers[-1], lateness.window, lateness.missing, lateness.hidden, filled, default)


def regular(lateness: Lateness) -> bool:
    """Every reward comes, all after the same wait: which rows are missing need not be drawn."""
    return lateness.even and lateness.law == "fixed" and lateness.missing == 0


@njit(cache=True, nogil=True)
def _wait(late: Late, rng):
    """The wait of one reward, -1 when it misses the window."""
    wait = np.int64(late.low)
    if late.law == GEOMETRIC:
        wait = rng.geometric(1.0 / (1.0 + late.low)) - 1
    elif late.law == UNIFORM:
        wait = np.int64(late.low) + below(rng, np.int64(late.high) + 1 - np.int64(late.low))
    if wait > late.window or (late.missing > 0.0 and rng.random() < late.missing):
        return np.int64(-1)
    return np.int64(wait)


@njit(cache=True, nogil=True)
def settled_at(late: Late, first, stop, before, rng):
    """Decided rounds at which all rounds below ``stop`` are settled, and the waits drawn for it.

    ``before``: the same for ``first``. Where arrivals are public and waits differ, only rounds of the last window can
    hold the block up; for these (at most ``window`` + 1) the waits are drawn one by one: how many, how many answered.
    """
    drawn, came = np.int64(0), np.int64(0)
    if late.hidden:
        return np.int64(stop + late.window), drawn, came
    if late.law == FIXED and (late.missing == 0.0 or late.window == np.int64(late.low)):
        return np.int64(stop + np.int64(late.low)), drawn, came
    ready = max(np.int64(before), np.int64(stop))
    for i in range(max(first, stop - late.window - 1), stop):
        wait = _wait(late, rng)
        drawn += 1
        if wait >= 0:
            came += 1
        ready = max(ready, np.int64(i + 1 + (wait if wait >= 0 else late.window)))
    return ready, drawn, came


@njit(cache=True, nogil=True)
def answered(late: Late, length, drawn, came, rng):
    """How many rewards of a block are there when it is settled: those drawn one by one, a binomial for the rest."""
    if late.law == FIXED and late.missing == 0.0:
        return np.int64(length)
    rest = length - drawn
    if rest == 0:
        return came
    chance = 1.0 - late.missing
    if late.law == GEOMETRIC:
        chance *= 1.0 - (late.low / (1.0 + late.low)) ** (late.window + 1)
    elif late.law == UNIFORM:
        chance *= min(1.0, (late.window - late.low + 1.0) / (late.high - late.low + 1.0))
    return came + binomial(rng, rest, chance)


@njit(cache=True, nogil=True)
def fill(late: Late, absent):
    """What absent rewards add to a sum."""
    return absent * late.default if late.filled else np.int64(0)


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
def drawn_wait(law, low, high, slower, more, window, missing, rng):
    """The wait of one reward, ``slower`` times the one that its arm's law gives and ``more`` beyond; -1 when it misses
    its window. The draws of `Lateness.wait`, in their order.
    """
    wait = np.int64(low)
    if law == GEOMETRIC:
        wait = np.int64(rng.geometric(1.0 / (1.0 + low)) - 1)
    elif law == UNIFORM:
        wait = np.int64(low) + below(rng, np.int64(high) + 1 - np.int64(low))
    if slower != 1.0:
        wait = np.int64(np.floor(wait * slower + 0.5))
    lost = wait + more > window
    if missing > 0.0:
        lost |= rng.random() < missing
    return np.int64(-1) if lost else np.int64(wait + more)


@inner
def held_up(outages, round):
    """How much longer rewards of a round take that is decided in outages."""
    more = np.int64(0)
    for row in range(outages.shape[0]):
        if outages[row, 0] <= round < outages[row, 1]:
            more += outages[row, 2]
    return more
