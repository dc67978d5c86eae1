"""Late feedback in compiled code: when a block is settled, and how many of its rewards are there then."""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import numpy as np

from fairveil.bandits.environments.arms import UNIT, below, binomial
from fairveil.bandits.feedback import Lateness
from fairveil.compiling import njit

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
