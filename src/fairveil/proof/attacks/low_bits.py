"""Low bits of floating-point noise (Mironov 2012): the grid on which a sum lies tells what was added."""

from __future__ import annotations

import math

from fairveil.privacy.mechanisms import Laplace
from fairveil.privacy.noise import SecureNoise
from fairveil.proof.attacks import Attack
from fairveil.randomness import Generator
from fairveil.registry import register

EPSILON = 1.0
#: 1 + x in floating point is a multiple of this for every x > -1; small x alone is not.
STEP = 2.0**-53


@register("attack", "low-bits")
class LowBits(Attack):
    """Read a noisy value bit by bit: floating-point noise names the value with certainty in a third of the releases.

    The value is 0 or 1. A released number that is no multiple of 2^-53 cannot be 1 plus anything.
    """

    game = "name a value of 0 with certainty, and be right"
    words = "data and noise are whole numbers on one grid, so every output is possible for every value"
    chance = 0.0
    games = 2000

    def play(self, protected: bool, rng: Generator) -> bool:
        if protected:
            shown = float(Laplace(sensitivity=1.0, epsilon=EPSILON).release(0.0, SecureNoise()))
            grid = 2.0 ** -Laplace(sensitivity=1.0, epsilon=EPSILON).bits
            return math.fmod(shown, min(STEP, grid)) != 0.0
        return math.fmod(float(rng.laplace(0.0, 1 / EPSILON)), STEP) != 0.0
