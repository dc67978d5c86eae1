"""Columns that begin one after the other: a person who changes columns meets each at its finest release."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.stats import norm

from fairveil.errors import SpecError
from fairveil.privacy.noise import SecureNoise
from fairveil.proof.attacks import Attack
from fairveil.randomness import Generator
from fairveil.registry import register
from fairveil.streams.columns import Columns

MU, COLUMNS = 2.0, 10
FALLING: dict[str, Any] = {
    "name": "baseline-gaussian", "mu": MU, "neighbours": "add-remove", "horizon": COLUMNS,
    "schedule": {"kind": "geometric", "ratio": 0.5},
}  # fmt: skip
EVEN = {**FALLING, "schedule": "even"}
NAMES = [f"column {place}" for place in range(COLUMNS)]


@register("attack", "staggered-columns")
class StaggeredColumns(Attack):
    """Be in one column a step, always in the one that begins there: its budget falls by its own counter from then on.

    The twin gives every column the falling schedule of a whole stream, because nobody is in two columns at once. Ours
    refuses that, and the attacker is left with the same noise at every release of all columns.
    """

    game = "guess whether somebody was in ten columns, one a step, or in none"
    words = "columns per person have the same noise at every release, and one clock counts them together"
    chance = float(norm.cdf(MU / 2))
    games = 400

    def play(self, protected: bool, rng: Generator) -> bool:
        secret = int(rng.integers(2))
        values = np.where(np.tri(COLUMNS, dtype=bool), 0.0, np.nan)  # column j begins at step j
        values[np.diag_indices(COLUMNS)] = float(secret)
        columns = served() if protected else Columns(NAMES, [Columns.build(FALLING, ["n"]).whole] * COLUMNS)
        tracks = columns.advance(columns.start(), values, SecureNoise())
        shown = np.array([track.plain[place] for place, track in enumerate(tracks)])
        return int(shown.mean() > 0.5) == secret


def served() -> Columns:
    """What the product makes of a person in one column a step."""
    try:
        return Columns.build(FALLING, NAMES, columns_per_person=1)
    except SpecError:
        return Columns.build(EVEN, NAMES, columns_per_person=1)
