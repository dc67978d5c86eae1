"""A ledger that is set back to an older copy, or deleted: its budget would be there to spend again."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

import numpy as np

from fairveil.errors import LedgerError
from fairveil.ledger import Ledger, Limit
from fairveil.privacy.mechanisms import Laplace
from fairveil.proof.attacks import Attack, guess_chance
from fairveil.randomness import Generator
from fairveil.registry import register

EPSILON = 0.5
TIMES = 40


@register("attack", "rollback")
class Rollback(Attack):
    """Restore yesterday's ledger after every release and ask again; without an anchor nobody notices.

    The twin is our own ledger without an anchor: whoever may write its file can set it back.
    """

    game = "guess whether a person's value is 0 or 1"
    words = "an anchor in a second place only moves forward: a ledger that is behind it is refused"
    chance = guess_chance(EPSILON)
    games = 120

    def play(self, protected: bool, rng: Generator) -> bool:
        secret = int(rng.integers(2))
        mechanism = Laplace(sensitivity=1.0, epsilon=EPSILON)
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            anchor = folder / "elsewhere" / "anchor.json" if protected else None
            if anchor is not None:
                anchor.parent.mkdir()
            live, copy = folder / "live", folder / "copy"
            live.mkdir()
            with Ledger.create(live / "ledger.db", limit=Limit.pure(EPSILON), anchor=anchor):
                pass
            shutil.copytree(live, copy)
            answers = []
            for _ in range(TIMES):
                try:
                    with Ledger.open(live / "ledger.db", anchor=anchor) as ledger:
                        answers.append(
                            ledger.release(
                                "count",
                                lambda noise: float(mechanism.release(float(secret), noise)),
                                event=mechanism.event(),
                            )
                        )
                except LedgerError:
                    break
                shutil.rmtree(live)
                shutil.copytree(copy, live)
        return int(float(np.mean(answers)) > 0.5) == secret
