"""A ledger file that is deleted: a new one would start with the whole budget."""

from __future__ import annotations

import tempfile
from pathlib import Path

from fairveil.errors import FairveilError
from fairveil.ledger import Ledger, Limit
from fairveil.privacy.mechanisms import Laplace
from fairveil.proof.attacks import Attack
from fairveil.randomness import Generator
from fairveil.registry import register

EPSILON = 0.5


@register("attack", "deletion")
class Deletion(Attack):
    """Delete the ledger between two releases of the same people and let the application start again.

    The twin starts with `Ledger.create`, as an application would that makes its ledger when there is none.
    """

    game = "get a second draw of a release that the budget allows once"
    words = "opening never creates: a ledger that is gone is an error, and with an anchor a new one in its place too"
    chance = 0.0
    games = 40

    def play(self, protected: bool, rng: Generator) -> bool:
        mechanism = Laplace(sensitivity=1.0, epsilon=EPSILON)
        answers = []
        with tempfile.TemporaryDirectory() as name:
            file = Path(name) / "ledger.db"
            limit = Limit.pure(EPSILON)
            for attempt in range(2):
                try:
                    fresh = attempt == 0 or not protected
                    opened = Ledger.create(file, limit=limit) if fresh else Ledger.open(file)
                    with opened as ledger:
                        answers.append(
                            ledger.release(
                                "count", lambda noise: float(mechanism.release(1.0, noise)), event=mechanism.event()
                            )
                        )
                except FairveilError:
                    break
                for part in Path(name).iterdir():
                    part.unlink()
        return len(answers) == 2
