"""One person's time stamp: where a row closes the steps before it, it throws away everybody who comes later."""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np

from fairveil.arrays import Floats
from fairveil.privacy.mechanisms import Laplace
from fairveil.privacy.noise import SecureNoise
from fairveil.proof.adapters.feed import counted
from fairveil.proof.attacks import Attack, guess_chance
from fairveil.randomness import Generator
from fairveil.registry import register

EPSILON, HOURS, OTHERS = 0.5, 24, 8
EARLY, LATE = 1, 22


@register("attack", "order")
class Order(Attack):
    """Send one row with a late time before all others, and look whether the hours before it are empty.

    The twin closes the hours before a row as it comes and drops rows of hours that are over, as 0.1.0 did.
    """

    game = "guess whether one person came early or late, from hourly counts"
    words = "a row counts in its own hour, whatever its order; hours close by public facts alone"
    chance = guess_chance(EPSILON)
    games = 200

    def play(self, protected: bool, rng: Generator) -> bool:
        late = bool(rng.integers(2))
        hours = [LATE if late else EARLY, *(hour for hour in range(HOURS) for _ in range(OTHERS))]
        counts = _served(hours) if protected else _bare(hours)
        # one person moves two counts by one each
        mechanism = Laplace(sensitivity=2.0, epsilon=EPSILON, dimension=HOURS)
        shown = np.asarray(mechanism.release(counts, SecureNoise()), np.float64)
        if not protected:
            return bool(shown[EARLY + 1 : LATE].sum() < OTHERS * (LATE - EARLY - 1) / 2) == late
        return bool(shown[LATE] > shown[EARLY]) == late  # all that is left to look at


def _bare(hours: list[int]) -> Floats:
    counts, now = np.zeros(HOURS), 0
    for hour in hours:
        if hour >= now:
            counts[hour] += 1
            now = hour
    return counts


def _served(hours: list[int]) -> Floats:
    rows = [(f"2024-01-01T{hour:02}:30", f"person-{place}") for place, hour in enumerate(hours)]
    with tempfile.TemporaryDirectory() as folder:
        return counted(Path(folder), rows, 1, HOURS)
