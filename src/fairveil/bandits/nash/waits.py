"""How late the rewards of every arm are, as numbers for compiled code: one law an arm, outages, delays by reward."""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import numpy as np

from fairveil.arrays import Floats, Ints
from fairveil.bandits.environments.arms import below
from fairveil.bandits.lateness import Lateness
from fairveil.bandits.nash.late import GEOMETRIC, LAWS, UNIFORM, compiled_lateness, regular
from fairveil.compiling import inner


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
