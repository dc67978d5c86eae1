"""The game between a learner that minimises a margin and an auditor that sees noisy counts.

In round t the rule of that round is applied to the training rows and accepted and declined people are released by label
and block. The learner only reads what was released, so the auditor's counts are the only data access. Each count has
noise of std sqrt(R) sigma, but the rule that is handed out is the mixture of the plays: its gap is the mean of theirs,
and the noise of a mean over R rounds is sigma whatever R is.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fairveil.classify.fair.blocks import Blocks
from fairveil.classify.fair.margin import Margin, Plays
from fairveil.classify.fair.notions import Notion
from fairveil.classify.fair.zones import Zones
from fairveil.fairness.counting import Counter
from fairveil.privacy.noise import Noise

Floats = NDArray[np.float64]
STEP, SLOWER, TRUST, LARGEST_GAP = 0.6, 4.0, 0.15, 0.5
"""First step, how fast steps shrink, how many people per noise make a full step, and where a noisy gap is clipped."""


@dataclass(frozen=True)
class Sizes:
    """People by block and label: the inverse-variance mean of all released counts so far."""

    total: Floats
    precision: Floats

    @classmethod
    def of(cls, zones: Zones, blocks: Blocks) -> Sizes:
        groups = np.bincount(blocks.of, minlength=blocks.count).astype(np.float64)[:, None]
        precision = 1 / (3 * zones.sigma**2 * groups) * np.ones((1, 2))
        return cls(blocks.summed(zones.sizes) * precision, precision)

    def with_audit(self, counted: Floats, sigma: float) -> Sizes:
        more = 1 / (2 * sigma**2)
        return Sizes(self.total + counted.sum(axis=2) * more, self.precision + more)

    @property
    def people(self) -> Floats:
        return np.maximum(self.total / self.precision, 1.0)


@dataclass(frozen=True)
class Steps:
    """Public numbers of the game."""

    rounds: int
    slack: float
    cap: float
    sigma: float


def play(
    margin: Margin, counter: Counter, zones: Zones, blocks: Blocks, notion: Notion, steps: Steps, noise: Noise
) -> Plays:
    """All rounds; returns every play. O(rounds x rows) time, O(rows) memory."""
    kinds = len(notion.labels)
    up, down = np.zeros((kinds, blocks.count)), np.zeros((kinds, blocks.count))
    sizes = Sizes.of(zones, blocks)
    reaches = [(2 if notion.parity else 4) / zones.density(labels) for labels in notion.labels]
    made = Plays(np.zeros((steps.rounds, kinds, blocks.count)), np.zeros((steps.rounds, kinds)))
    for t in range(steps.rounds):
        made.multipliers[t] = up - down
        for c, labels in enumerate(notion.labels):
            people = sizes.people[:, list(labels)].sum(axis=1)
            made.offsets[t, c] = made.multipliers[t, c] @ people / people.sum()
        counted = release_audit(counter, margin.accepts(made, t), steps.sigma, noise)
        sizes = sizes.with_audit(counted, steps.sigma)
        for c, labels in enumerate(notion.labels):
            gap, people = gaps(counted, sizes.people, labels)
            blur = steps.sigma * math.sqrt(len(labels))
            size = STEP / math.sqrt(1 + t / SLOWER) * reaches[c] * np.minimum(1, TRUST * people / blur)
            if steps.slack > 0:
                up[c] = np.clip(up[c] + size * (gap - steps.slack / 2), 0, steps.cap)
                down[c] = np.clip(down[c] + size * (-gap - steps.slack / 2), 0, steps.cap)
            else:
                up[c] = np.clip(up[c] + size * gap, -steps.cap, steps.cap)
    return made


def release_audit(counter: Counter, accepted: NDArray[np.bool_], sigma: float, noise: Noise) -> Floats:
    """Accepted and declined by block and label, with noise: one row is in one of these cells."""
    exact = counter.count(accepted)
    return exact + noise.gaussian(sigma, exact.size).reshape(exact.shape)


def gaps(counted: Floats, people: Floats, labels: tuple[int, ...]) -> tuple[Floats, Floats]:
    """How far each block's acceptance rate is above the overall one, clipped; and the sizes it rests on."""
    chosen = list(labels)
    accepted, sizes = counted[:, chosen, 1].sum(axis=1), people[:, chosen].sum(axis=1)
    gap = (accepted - sizes * accepted.sum() / sizes.sum()) / sizes
    return np.clip(gap, -LARGEST_GAP, LARGEST_GAP), sizes
