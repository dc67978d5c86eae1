"""Neighbouring tables of reports: one place's row is replaced by the one that is furthest from it.

An observer sees all noisy sums; the statistic is their log-likelihood ratio.
"""

from __future__ import annotations

import numpy as np

from fairveil.arrays import Floats, Ints
from fairveil.privacy.noise import Noise
from fairveil.privacy.vectors import ONE, Price
from fairveil.proof.pairs import AuditPair, Run, finer_claim
from fairveil.randomness import Generator
from fairveil.registry import register
from fairveil.reports.evaluation import Evaluation
from fairveil.reports.fairness import FairnessReport
from fairveil.reports.rows import PlaceRows

TRIALS = 100_000


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
    rows = [winner(report, world) for world in (0, 1)]
    exact = [report.units(one) for one in rows]

    def run(world: int, trials: int, noise: Noise, rng: Generator) -> Floats:
        shown = report.draws(rows[world], noise, trials)
        return np.column_stack([told(shown, exact[1] - exact[0], exact[0], report.price), shown])

    words = "one winner is of the first group with the lowest outcome, or of the last with the highest"
    return _pair(run, words, report)


@register("audit-pair", "report:evaluation")
def reward_pair(report: Evaluation) -> AuditPair:
    """One place with the largest weights has the lowest or the highest reward."""
    weights = np.tile(report.largest_weights, (3, 1)) * np.array([[1.0], [1.0], [100.0]])
    rewards = [np.array([0.5, 0.5, 3.0 * world - 1.0]) for world in (0, 1)]
    exact = [report.units(weights, one) for one in rewards]

    def run(world: int, trials: int, noise: Noise, rng: Generator) -> Floats:
        shown = report.draws(weights, rewards[world], noise, trials)
        return np.column_stack([told(shown, exact[1] - exact[0], exact[0], report.price), shown])

    return _pair(run, "the reward of one place with the largest weights is the lowest or the highest", report)


def _pair(run: Run, words: str, report: FairnessReport | Evaluation) -> AuditPair:
    promise, claim = report.guarantee(), finer_claim(report.event())
    epsilon, delta = promise.epsilon or 0.0, promise.delta or 0.0
    return AuditPair(run, words, "log-likelihood ratio of all noisy sums", epsilon, delta, claim, trials=TRIALS)
