"""Repeated retries: a client that asks again gets fresh noise, and averages it away."""

from __future__ import annotations

import tempfile

import numpy as np

from fairveil.ledger import Ledger, Limit
from fairveil.privacy.mechanisms import Laplace
from fairveil.privacy.noise import Noise, SecureNoise
from fairveil.proof.attacks import Attack, guess_chance
from fairveil.randomness import Generator
from fairveil.registry import register

EPSILON = 0.5
TIMES = 50


@register("attack", "retries")
class Retries(Attack):
    """Ask for the same release fifty times, as a broken connection would, and take the mean of the answers."""

    game = "guess whether a person's value is 0 or 1"
    words = "a block of the ledger has one value for ever: asking again returns the stored one and costs nothing"
    chance = guess_chance(EPSILON)

    def play(self, protected: bool, rng: Generator) -> bool:
        secret = int(rng.integers(2))
        mechanism = Laplace(sensitivity=1.0, epsilon=EPSILON)

        def draw(noise: Noise) -> float:
            return float(mechanism.release(float(secret), noise))

        if protected:
            with (
                tempfile.TemporaryDirectory() as folder,
                Ledger.create(f"{folder}/ledger.db", limit=Limit.pure(EPSILON)) as ledger,
            ):
                answers = [ledger.release("count", draw, event=mechanism.event()) for _ in range(TIMES)]
        else:
            answers = [draw(SecureNoise()) for _ in range(TIMES)]
        return int(float(np.mean(answers)) > 0.5) == secret
