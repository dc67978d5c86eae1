"""The private score and the private block models: everything the margin knows about a person, from private weights.

Rows are z = (clipped features, 1). The score is eta(z) = P(y = 1 | z) of a private logistic regression. A blind rule
also needs q_k(z, y), the chance that a person with these features and this label is in block k: one private logistic
regression a block but the largest, on rows (z, 2y - 1) with the target "in this block".
"""

from __future__ import annotations

import numpy as np
from scipy.special import expit

from fairveil.arrays import Floats, Ints
from fairveil.classify.fair.accounting import Plan
from fairveil.privacy.grid import clip_norm
from fairveil.privacy.noise import Noise

LEAST_CHANCE = 1e-3


def extended(features: Floats, norm_bound: float) -> Floats:
    """Rows clipped to the public bound, with the intercept entry."""
    rows = np.empty((features.shape[0], features.shape[1] + 1))
    rows[:, :-1] = clip_norm(features, norm_bound)
    rows[:, -1] = 1.0
    return rows


def fit_score(plan: Plan, rows: Floats, labels: Ints, public_rows: int, noise: Noise) -> Floats:
    """Weights of the score. One release; its cost is the score's part of `Plan.curve`."""
    made = plan.perturbation(public_rows, rows.shape[1])
    return made.release(rows, np.where(labels == 1, 1.0, -1.0), noise)


def fit_blocks(
    plan: Plan, rows: Floats, labels: Ints, member: Ints, models: list[int], public_rows: int, noise: Noise
) -> Floats:
    """Weights of one model for each block in ``models``. Targets are a function of the row and released blocks."""
    wide = np.concatenate([rows, (2.0 * labels - 1.0)[:, None]], axis=1)
    made = plan.perturbation(public_rows, wide.shape[1], block=True)
    found = [made.release(wide, np.where(member == block, 1.0, -1.0), noise) for block in models]
    return np.array(found).reshape(len(models), wide.shape[1])


def eta(weights: Floats, rows: Floats) -> Floats:
    """P(y = 1) of every row."""
    return expit(rows @ weights)


def memberships(weights: Floats, models: list[int], blocks: int, rows: Floats, label: int) -> Floats:
    """q_k(z, label) of shape (rows, blocks); the block without a model gets what is left, at least a thousandth."""
    chances = np.empty((len(rows), blocks))
    if models:
        chances[:, models] = expit(rows @ weights[:, :-1].T + (2 * label - 1) * weights[:, -1])
    [rest] = set(range(blocks)) - set(models)
    chances[:, rest] = np.maximum(1 - chances[:, models].sum(axis=1), LEAST_CHANCE)
    return chances / chances.sum(axis=1, keepdims=True)
