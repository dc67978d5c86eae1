"""The game between a learner that minimises a margin and an auditor that sees noisy counts.

In round t the rule of that round is applied to the training rows and accepted and declined people are released by label
and block. The learner only reads what was released, so the auditor's counts are the only data access. Each count has
noise of std sqrt(R) sigma, but the rule that is handed out is the mixture of the plays: its gap is the mean of theirs,
and the noise of a mean over R rounds is sigma whatever R is.

The margin: who is accepted, given the score, the blocks and a play of the game.

With multipliers l1, l0 (one per block) and released sizes P a person is accepted when m > 0,

    m = 2 eta - 1 - eta (sum_k l1_k q_k(x, 1) - c1) - (1 - eta) (sum_k l0_k q_k(x, 0) - c0),   c_y = sum_k l_yk P_yk/P_y
    m = 2 eta - 1 - sum_k l1_k (eta q_k(x, 1) + (1 - eta) q_k(x, 0)) + sum_k l1_k P_k/P         (demographic parity)

the pointwise minimiser of error + sum of multiplier times size-weighted violation. Aware, q_k is 1 for the person's own
block and this is a threshold per block; blind, q_k is a private model and the attribute is never read.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from fairveil.arrays import Bools, Floats, Ints
from fairveil.classify.fair.zones import Blocks, Zones
from fairveil.fairness.groups import Counter
from fairveil.fairness.notions import Notion
from fairveil.privacy.noise import Noise

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

    def accepts(self, plays: Plays, play: int) -> Bools:
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

    def accepts(self, plays: Plays, play: int) -> Bools:
        both = np.concatenate([-plays.multipliers[play], plays.offsets[play][:, None]], axis=1)
        return self.base + self.parts @ both.ravel() > 0


Margin = AwareMargin | BlindMargin


def votes(margin: Margin, plays: Plays) -> Ints:
    """How many plays accept each person. O(rows x plays) time, O(rows) memory."""
    total = margin.accepts(plays, 0).astype(np.int64)
    for play in range(1, len(plays)):
        total += margin.accepts(plays, play)
    return total


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


def release_audit(counter: Counter, accepted: Bools, sigma: float, noise: Noise) -> Floats:
    """Accepted and declined by block and label, with noise: one row is in one of these cells."""
    exact = counter.count(accepted)
    return exact + noise.gaussian(sigma, exact.size).reshape(exact.shape)


def gaps(counted: Floats, people: Floats, labels: tuple[int, ...]) -> tuple[Floats, Floats]:
    """How far each block's acceptance rate is above the overall one, clipped; and the sizes it rests on."""
    chosen = list(labels)
    accepted, sizes = counted[:, chosen, 1].sum(axis=1), people[:, chosen].sum(axis=1)
    gap = (accepted - sizes * accepted.sum() / sizes.sum()) / sizes
    return np.clip(gap, -LARGEST_GAP, LARGEST_GAP), sizes
