"""Neighbouring logs of a private evaluation: one row counts for as little, or for as much, as a row can.

The weight of that row is at the clip or far above it, and the others stand at the clip: what follows the largest weight
of the log moves them all. An observer sees both sums; the statistic is their log-likelihood ratio.
"""

from __future__ import annotations

import numpy as np

from fairveil.arrays import Floats
from fairveil.evaluate.private import PrivateValue
from fairveil.privacy.noise import Noise
from fairveil.proof.pairs import AuditPair, finer_claim
from fairveil.randomness import Generator
from fairveil.registry import register

ROWS = 5
FAR = 100.0
"""The weight of the row that changes, in clips."""


def logs(value: PrivateValue, weight: float, outcome: float) -> tuple[Floats, Floats]:
    """Weights and outcomes of a log whose last row is the one that changes."""
    weights = np.append(np.full(ROWS - 1, value.clip), weight)
    return weights, np.append(np.full(ROWS - 1, 0.5), outcome)


@register("audit-pair", "evaluation:clipped-importance")
def weight_pair(value: PrivateValue) -> AuditPair:
    """A row with a weight far beyond the clip has the lowest or the highest outcome."""
    far = FAR * value.clip
    return _pair(value, ((far, 0.0), (far, 1.0)), "one row far beyond the clip has outcome 0 or 1")


@register("audit-pair", "evaluation:clipped-importance/outcome")
def outcome_pair(value: PrivateValue) -> AuditPair:
    """A row at the clip has the lowest or the highest outcome."""
    return _pair(value, ((value.clip, 0.0), (value.clip, 1.0)), "the outcome of one row at the clip is 0 or 1")


def _pair(value: PrivateValue, rows: tuple[tuple[float, float], tuple[float, float]], words: str) -> AuditPair:
    def run(world: int, trials: int, noise: Noise, rng: Generator) -> Floats:
        shown = value.releases(*logs(value, *rows[world]), noise, trials)  # the other rows add nothing to either sum
        told = np.clip(shown[:, 0], -0.5, 0.5) if value.price.laplace else shown[:, 0]
        return np.column_stack([told, shown])

    statistic = "log-likelihood ratio of the two noisy sums"
    promise, claim = value.guarantee(), finer_claim(value.event())
    return AuditPair(run, words, statistic, promise.epsilon or 0.0, promise.delta or 0.0, claim, trials=100_000)
