"""Reconstruction from many queries (Dinur and Nissim 2003): small noise on each of them protects nobody."""

from __future__ import annotations

import tempfile
from functools import partial

import numpy as np

from fairveil.errors import BudgetError
from fairveil.ledger import Ledger, Limit
from fairveil.privacy.mechanisms import Laplace
from fairveil.privacy.noise import Noise
from fairveil.proof.attacks import Attack
from fairveil.randomness import Generator
from fairveil.registry import register

PEOPLE = 64
QUERIES = 1000
EPSILON = 1.0
#: The attacker wins when this share of the people is known.
KNOWN = 0.9


@register("attack", "reconstruction")
class Reconstruction(Attack):
    """Ask how many people of a random half have a property, 1,000 times, and solve for everybody.

    Each answer alone is noisy (epsilon 0.5). Without a budget 64 people are known after that; with a limit of
    1 the third question is refused.
    """

    game = f"know at least {KNOWN:.0%} of {PEOPLE} people's bits"
    words = "the ledger adds up what every answer costs and refuses the first one that does not fit"
    chance = 0.0
    games = 40

    def play(self, protected: bool, rng: Generator) -> bool:
        bits = rng.integers(0, 2, PEOPLE)
        chosen = rng.integers(0, 2, (QUERIES, PEOPLE))
        mechanism = Laplace(sensitivity=1.0, epsilon=0.5)
        answers: list[float] = []
        with (
            tempfile.TemporaryDirectory() as folder,
            Ledger.create(f"{folder}/ledger.db", limit=Limit.pure(EPSILON)) as ledger,
        ):
            for number, people in enumerate(chosen):
                count = float(people @ bits)
                if not protected:
                    answers.append(count + float(rng.laplace(0.0, 2.0)))
                    continue
                try:
                    draw = partial(_answer, mechanism, count)
                    answers.append(ledger.release(f"query-{number}", draw, event=mechanism.event()))
                except BudgetError:
                    break
        asked = chosen[: len(answers)] - 0.5
        solved = np.linalg.lstsq(asked, np.array(answers) - PEOPLE / 4, rcond=None)[0] > 0.5
        return float((solved.astype(int) == bits).mean()) >= KNOWN


def _answer(mechanism: Laplace, count: float, noise: Noise) -> float:
    return float(mechanism.release(count, noise))
