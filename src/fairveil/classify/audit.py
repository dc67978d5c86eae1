"""Neighbouring worlds for audits of the private learner: one row turned against the crowd."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from fairveil.classify.learners import PrivateLogistic
from fairveil.privacy.audit import AuditPair
from fairveil.privacy.audit.bounds import CurveClaim, FinerClaim
from fairveil.privacy.calibration.fits import GRID_SIGMA, MAX_WIDTH, fit_mu, objective_delta
from fairveil.privacy.conversions import GRID_CONSTANT
from fairveil.privacy.noise import Noise
from fairveil.randomness import Generator
from fairveil.registry import register

CROWD = {"output": 4000, "objective": 60}
"""Rows that agree: they make the weights large, so that the row in question pulls with nearly its full norm.

Output perturbation solves once for all trials, objective perturbation once a trial.
"""
TILT = 0.25
EXCESS = 1e4
"""How much too long a row comes where clipping is part of what is audited."""
GROUP = 10
"""Equal rows that are taken out together where one row hides behind the slack of a curve."""
MANY = 100_000
"""Trials of the group, all solved at once."""


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
    claim = None
    if learner.method == "output" and learner.definition == "gaussian":
        grid = MAX_WIDTH * GRID_CONSTANT / GRID_SIGMA**2
        claim = FinerClaim("mu", fit_mu(learner.epsilon, learner.delta, learner.fits), grid)
    worlds_in_words = f"one of {crowd + 1} rows is there or {how}"
    return AuditPair(run, worlds_in_words, "the second weight", learner.spent(1), delta, claim)


@register("audit-pair", "learner:private-logistic/fit")
def fit_pair(learner: PrivateLogistic) -> AuditPair:
    """Whole fits of the estimator that people use; the row in question comes far longer than its bound."""
    crowd = CROWD["objective"]

    def run(world: int, trials: int, noise: Noise, rng: Generator) -> NDArray[np.float64]:
        rows, signs = worlds(learner, world, crowd)
        rows[crowd] *= EXCESS
        found = []
        for _ in range(trials):
            model = learner.estimator(noise, rng).fit(rows[:, :2], (signs > 0).astype(int))
            found.append([*model.coef_[0], *model.intercept_])
        return np.array(found)

    delta = 0.0 if learner.definition == "pure" else learner.delta
    words = f"one of {crowd + 1} rows, {EXCESS:g} times too long, points one way or the other (or is zero)"
    return AuditPair(run, words, "weights", learner.spent(1), delta, trials=120)


@register("audit-pair", "learner:private-logistic/group")
def group_pair(learner: PrivateLogistic) -> AuditPair:
    """A group of people with the same row is there or taken out, against the curve of Gaussian objective noise.

    k equal rows move the noise in the objective by k L along one direction, and the log determinant by k times what one
    row does: the curve of `objective_delta` at k roots. What one row costs at epsilon 1 hides behind the curve's own
    slack; what a group costs does not. Other variants have the pair of one row, which is tight for them.
    """
    if (learner.method, learner.definition) != ("objective", "gaussian"):
        return private_logistic_pair(learner)
    crowd = CROWD["objective"]
    features = np.zeros((crowd + GROUP, 2))
    features[:crowd, 0] = learner.bound_of_features * np.where(np.arange(crowd) % 2, -1.0, 1.0)
    features[crowd:, 0] = -learner.bound_of_features  # against the crowd
    signs = np.where(np.arange(crowd + GROUP) % 2, -1.0, 1.0)
    signs[crowd:] = 1.0
    rows = np.concatenate([features, np.ones((crowd + GROUP, 1))], axis=1) if learner.intercept else features
    known = [rows, np.where(np.arange(crowd + GROUP)[:, None] < crowd, rows, 0.0)]
    made = learner.perturbation(*rows.shape)
    scale = made.noise_std(rows.shape[1]) * made.strength

    def run(world: int, trials: int, noise: Noise, rng: Generator) -> NDArray[np.float64]:
        weights = made.release(known[world], signs, noise, copies=trials)
        size = [(pull(each, signs, weights) + made.strength * weights) ** 2 for each in known]
        return (size[1] - size[0]).sum(axis=1) / (2 * scale**2)

    root = learner.bound * GROUP / scale
    claim = CurveClaim("root", root, lambda value, epsilon: objective_delta(value, spread, epsilon))
    spread = GROUP * made.jacobian + made.tail_epsilon
    words = f"{GROUP} equal rows of {crowd + GROUP} are there or not"
    epsilon = GROUP * made.epsilon
    delta = min(1.0 - 1e-9, GROUP * math.exp(epsilon - made.epsilon) * made.delta)
    return AuditPair(run, words, "log-likelihood ratio of the weights", epsilon, delta, claim, MANY)


def pull(rows: NDArray[np.float64], signs: NDArray[np.float64], weights: NDArray[np.float64]) -> NDArray[np.float64]:
    """Gradients of the loss of all rows, one for each vector of weights."""
    return -(expit(-(weights @ rows.T) * signs) * signs) @ rows
