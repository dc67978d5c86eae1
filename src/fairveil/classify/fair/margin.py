"""The margin: who is accepted, given the score, the blocks and a play of the game.

With multipliers l1, l0 (one per block) and released sizes P a person is accepted when m > 0,

    m = 2 eta - 1 - eta (sum_k l1_k q_k(x, 1) - c1) - (1 - eta) (sum_k l0_k q_k(x, 0) - c0),   c_y = sum_k l_yk P_yk/P_y
    m = 2 eta - 1 - sum_k l1_k (eta q_k(x, 1) + (1 - eta) q_k(x, 0)) + sum_k l1_k P_k/P         (demographic parity)

the pointwise minimiser of error + sum of multiplier times size-weighted violation. Aware, q_k is 1 for the person's own
block and this is a threshold per block; blind, q_k is a private model and the attribute is never read.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fairveil.classify.fair.notions import Notion

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
CHUNK = 2**18


@dataclass(frozen=True)
class Plays:
    """Plays of the game: multipliers (plays, constraints, blocks) and offsets c (plays, constraints)."""

    multipliers: Floats
    offsets: Floats

    def __len__(self) -> int:
        return len(self.offsets)

    def __getitem__(self, play: slice) -> Plays:
        return Plays(self.multipliers[play], self.offsets[play])

    def mean(self) -> Plays:
        """The one play with the mean multipliers."""
        return Plays(self.multipliers.mean(axis=0, keepdims=True), self.offsets.mean(axis=0, keepdims=True))


class AwareMargin:
    """Margins of people whose block is known: linear in eta, with coefficients by block."""

    def __init__(self, notion: Notion, score: Floats, member: Ints) -> None:
        self.notion, self.score, self.member = notion, score, member

    def accepts(self, plays: Plays, play: int) -> NDArray[np.bool_]:
        slope = np.full(plays.multipliers.shape[2], 2.0)
        start = np.full(plays.multipliers.shape[2], -1.0)
        for c, labels in enumerate(self.notion.labels):
            push = plays.multipliers[play, c] - plays.offsets[play, c]
            if labels == (0, 1):
                start -= push
            elif labels == (1,):
                slope -= push
            else:
                slope += push
                start -= push
        return self.score * slope[self.member] + start[self.member] > 0


class BlindMargin:
    """Margins of people whose block is not read: linear in eta q_k(x, 1) and (1 - eta) q_k(x, 0)."""

    def __init__(self, notion: Notion, score: Floats, chances: tuple[Floats, Floats]) -> None:
        positive, negative = score[:, None] * chances[1], (1 - score)[:, None] * chances[0]
        parts = []
        for labels in notion.labels:
            if labels == (0, 1):
                parts += [positive + negative, np.ones((len(score), 1))]
            elif labels == (1,):
                parts += [positive, score[:, None]]
            else:
                parts += [negative, 1 - score[:, None]]
        self.base, self.parts = 2 * score - 1, np.concatenate(parts, axis=1)

    def accepts(self, plays: Plays, play: int) -> NDArray[np.bool_]:
        both = np.concatenate([-plays.multipliers[play], plays.offsets[play][:, None]], axis=1)
        return self.base + self.parts @ both.ravel() > 0


Margin = AwareMargin | BlindMargin


def votes(margin: Margin, plays: Plays) -> Ints:
    """How many plays accept each person. O(rows x plays) time, O(rows) memory."""
    total = margin.accepts(plays, 0).astype(np.int64)
    for play in range(1, len(plays)):
        total += margin.accepts(plays, play)
    return total
