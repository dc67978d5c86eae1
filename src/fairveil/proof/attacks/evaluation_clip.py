"""A clip below the largest weight: a private value that is too low, with an interval that leaves the truth out."""

from __future__ import annotations

import numpy as np

from fairveil.evaluate.private import PrivateValue, with_laplace
from fairveil.privacy.noise import SecureNoise
from fairveil.proof.attacks import Attack
from fairveil.randomness import Generator
from fairveil.registry import register

EPSILON, CLIP, LARGEST, ROWS, LEVEL = 5.0, 2.185, 4.0, 2000, 0.95


@register("attack", "evaluation-clip")
class EvaluationClip(Attack):
    """Choose a clip that makes a rule look bad: what its largest weights carry is cut off, and nobody is told.

    One of four arms is valued from uniform logging: weights are 0 or 4, the truth is between .1 and .3. The twin makes
    the usual interval around the clipped mean.
    """

    game = "make a 95 % interval leave out the true value of a rule"
    words = "both ends make room for what a public largest weight says may be cut off; without one they are the range"
    games = 100
    chance = 1 - LEVEL

    def play(self, protected: bool, rng: Generator) -> bool:
        truth = float(rng.uniform(0.1, 0.3))
        weights = np.where(rng.random(ROWS) < 1 / LARGEST, LARGEST, 0.0)
        outcomes = (rng.random(ROWS) < truth).astype(float)
        value = PrivateValue(EPSILON, clip=CLIP, largest_weight=LARGEST if rng.random() < 0.5 else None)
        sums = value.release(weights, outcomes, SecureNoise())
        if protected:
            found = value.estimate(sums, ROWS, LEVEL)
            return not found.low <= truth <= found.high
        mean, moment = sums / ROWS
        half = with_laplace(float(np.sqrt(max(moment - mean**2, 0.0) / ROWS)), value.mechanism.std / ROWS, LEVEL)
        return bool(abs((truth - 0.5) / CLIP - mean) > half)
