"""Neighbouring logs of private values and neighbouring tables of reports: one row is replaced by the furthest from it.

An observer sees all noisy sums; the statistic is their log-likelihood ratio. In a log the weight of that row is at the
clip or far above it, and the others stand at the clip: what follows the largest weight of the log moves them all.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from fairveil.arrays import Floats, Ints
from fairveil.evaluate.private import PrivateValue
from fairveil.privacy.noise import Noise
from fairveil.privacy.vectors import ONE, Price
from fairveil.proof.pairs import AuditPair, Run, finer_claim
from fairveil.randomness import Generator
from fairveil.registry import register
from fairveil.reports.evaluation import Evaluation
from fairveil.reports.fairness import FairnessReport
from fairveil.reports.rows import PlaceRows

ROWS = 5
FAR = 100.0
"""The weight of the row that changes, in clips."""


def _pair(thing: PrivateValue | FairnessReport | Evaluation, run: Run, words: str, sums: str) -> AuditPair:
    promise, claim = thing.guarantee(), finer_claim(thing.event())
    epsilon, delta = promise.epsilon or 0.0, promise.delta or 0.0
    return AuditPair(run, words, f"log-likelihood ratio of {sums}", epsilon, delta, claim, trials=100_000)


# Values ---------------------------------------------------------------------------------------------------------------


def logs(value: PrivateValue, weight: float, outcome: float) -> tuple[Floats, Floats]:
    """Weights and outcomes of a log whose last row is the one that changes."""
    weights = np.append(np.full(ROWS - 1, value.clip), weight)
    return weights, np.append(np.full(ROWS - 1, 0.5), outcome)


@register("audit-pair", "evaluation:clipped-importance")
def weight_pair(value: PrivateValue) -> AuditPair:
    """A row with a weight far beyond the clip has the lowest or the highest outcome."""
    return _outcome(value, FAR * value.clip, "one row far beyond the clip has outcome 0 or 1")


@register("audit-pair", "evaluation:clipped-importance/outcome")
def outcome_pair(value: PrivateValue) -> AuditPair:
    """A row at the clip has the lowest or the highest outcome."""
    return _outcome(value, value.clip, "the outcome of one row at the clip is 0 or 1")


def _outcome(value: PrivateValue, weight: float, words: str) -> AuditPair:
    def run(world: int, trials: int, noise: Noise, rng: Generator) -> Floats:
        shown = value.releases(*logs(value, weight, world), noise, trials)  # the others add nothing to either sum
        told = np.clip(shown[:, 0], -0.5, 0.5) if value.price.laplace else shown[:, 0]
        return np.column_stack([told, shown])

    return _pair(value, run, words, "the two noisy sums")


# Reports --------------------------------------------------------------------------------------------------------------


def winner(report: FairnessReport, world: int) -> PlaceRows:
    """Three places; the last winner is of the first group with outcome 0, or of the last one with outcome 1."""
    groups = len(report.names)
    last, shown = (groups - 1) * world, np.ones((3, groups), np.int64)
    rewards = np.array([0.5, 0.5, 7.0 * world - 3.0])  # far outside the range
    return PlaceRows(group=np.array([0, groups - 1, last]), shown=shown, arm=np.zeros(3, np.int64), reward=rewards)


def told(shown: Floats, apart: Ints, base: Ints, price: Price) -> Floats:
    """The log-likelihood ratio of noisy sums between two vectors in grid units, up to a factor."""
    moved = shown - base / ONE
    if not price.laplace:
        return np.asarray(moved @ (apart / ONE))
    return np.asarray((np.abs(moved) - np.abs(moved - apart / ONE)).sum(axis=1))


@register("audit-pair", "report:fairness")
def winner_pair(report: FairnessReport) -> AuditPair:
    """One winner is of another group, with another outcome."""
    words = "one winner is of the first group with the lowest outcome, or of the last with the highest"
    return _tables(report, [(winner(report, world),) for world in (0, 1)], words)


@register("audit-pair", "report:evaluation")
def reward_pair(report: Evaluation) -> AuditPair:
    """One place with the largest weights has the lowest or the highest reward."""
    weights = np.tile(report.largest_weights, (3, 1)) * np.array([[1.0], [1.0], [100.0]])
    tables = [(weights, np.array([0.5, 0.5, 3.0 * world - 1.0])) for world in (0, 1)]
    return _tables(report, tables, "the reward of one place with the largest weights is the lowest or the highest")


def _tables(report: Any, tables: Sequence[tuple[Any, ...]], words: str) -> AuditPair:
    """Two tables, each as what `units` and `draws` of the report take."""
    base, other = (report.units(*table) for table in tables)

    def run(world: int, trials: int, noise: Noise, rng: Generator) -> Floats:
        shown = report.draws(*tables[world], noise, trials)
        return np.column_stack([told(shown, other - base, base, report.price), shown])

    return _pair(report, run, words, "all noisy sums")
