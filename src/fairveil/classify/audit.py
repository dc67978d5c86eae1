"""Neighbouring worlds for audits of the private learner: one row turned against the crowd."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fairveil.classify.learners import PrivateLogistic
from fairveil.privacy.audit import AuditPair
from fairveil.privacy.noise import Noise
from fairveil.randomness import Generator
from fairveil.registry import register

CROWD = {"output": 4000, "objective": 60}
"""Rows that agree: they make the weights large, so that the row in question pulls with nearly its full norm.

Output perturbation solves once for all trials, objective perturbation once a trial.
"""
TILT = 0.25


def worlds(learner: PrivateLogistic, world: int, crowd: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Rows (clipped, with intercept) and signs. The last row disagrees with the crowd and points up or down.

    World 1 replaces it by its mirror image, or leaves a zero row where the guarantee is for rows added or removed.
    """
    reach = learner.bound_of_features
    features = np.zeros((crowd + 1, 2))
    features[:crowd, 0] = reach * np.where(np.arange(crowd) % 2, -1.0, 1.0)
    signs = np.where(np.arange(crowd + 1) % 2, -1.0, 1.0)
    signs[crowd] = 1.0
    side = -1.0 if world else 1.0
    features[crowd] = [-reach * np.sin(TILT), side * reach * np.cos(TILT)]
    rows = np.concatenate([features, np.ones((crowd + 1, 1))], axis=1) if learner.intercept else features
    if world and removes(learner):
        rows[crowd] = 0.0
    return rows, signs


def removes(learner: PrivateLogistic) -> bool:
    """Whether neighbours are rows added or removed (else: replaced)."""
    return learner.neighbours == "zero-out-row"


@register("audit-pair", "learner:private-logistic")
def private_logistic_pair(learner: PrivateLogistic) -> AuditPair:
    """The weight along which the two worlds differ, from many fits on the same rows."""
    crowd = CROWD[learner.method]

    def run(world: int, trials: int, noise: Noise, rng: Generator) -> NDArray[np.float64]:
        rows, signs = worlds(learner, world, crowd)
        return learner.perturbation(len(rows), rows.shape[1]).release(rows, signs, noise, copies=trials)[:, 1]

    how = "removed" if removes(learner) else "replaced by its mirror image"
    delta = 0.0 if learner.definition == "pure" else learner.delta
    return AuditPair(run, f"one of {crowd + 1} rows is there or {how}", "the second weight", learner.spent(1), delta)
