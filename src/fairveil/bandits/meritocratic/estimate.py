"""From noisy second moments to the direction of the score: shrinkage by public noise levels.

The moments are of rows [z, a e_g, w y]: scaled columns z, an indicator e_g of the candidate's group and the clipped
reward y. All of this is post-processing of what was released.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from scipy.special import ndtri

from fairveil.bandits.meritocratic.world import Floats

STABLE = 1.0
"""Least ridge relative to noise_std * sqrt(width): half of the typical operator norm of the noise."""


class Direction(NamedTuple):
    """Unit vector on the scaled columns, and the middle and the spread of scores along it."""

    weights: Floats
    middle: float
    deviation: float


def row_weight(rows: float, noise_variance: float) -> float:
    """Weight of one batch in the running moments.

    A batch of n rows estimates the mean product with variance about 1/n (rows differ, columns have spread one) plus
    noise_variance/n^2 (privacy). Weights inverse to that, applied to the batch's sum, are n/(n + noise_variance).
    """
    return rows / (rows + noise_variance) if rows > 0 else 0.0


def score_direction(
    moments: Floats,
    columns: int,
    rows: float,
    noise_std: float,
    group_weight: float,
    correlation: float,
) -> Direction:
    """Direction of the regression of the reward on the columns with one intercept per group.

    ``rows`` is the (weighted) number of rows and ``noise_std`` the standard deviation of an off-diagonal entry. Before
    any data the columns are taken to be uncorrelated with spread one, as the scaling declares; ``correlation`` is the
    typical squared correlation they may have nevertheless, and the ridge noise_std^2 / (rows * correlation) is what
    makes the moments and that belief equally credible; it never falls below the size of the noise as an operator,
    because a direction that nobody varies in (the chosen are alike there) would otherwise be filled with noise.
    """
    groups = moments.shape[0] - 1 - columns
    joint = (moments[:-1, :-1] + moments[:-1, :-1].T) / 2
    held = np.diagonal(joint)[columns:].copy()
    joint[columns:, columns:] = np.diag(held)  # nobody is in two groups
    ridge = max(noise_std**2 / (rows * correlation), STABLE * noise_std * math.sqrt(len(joint)), 1e-6 * rows)
    values, vectors = np.linalg.eigh(joint)
    slope = (vectors @ ((vectors.T @ moments[:-1, -1]) / (np.maximum(values, 0.0) + ridge)))[:columns]
    length = float(np.linalg.norm(slope))
    weights = slope / length if length > 0 else np.full(columns, 1 / math.sqrt(columns))
    gram, cross = joint[:columns, :columns], joint[:columns, columns:] / group_weight
    counts = np.maximum(held / group_weight**2, 0.02 * rows / groups)
    # Middle and spread of all scores, believed to be as declared (0 and 1) until the moments are better than that. The
    # chosen are the best of about one candidate per group: their mean lies above everybody's and their spread is less.
    credit = 1 / (1 + noise_std**2 / (0.25 * rows) ** 2)
    total = float(counts.sum())
    average = float(weights @ cross.sum(axis=1)) / total
    left = 1 / (1 + 0.75 * math.log(groups)) if groups > 1 else 1.0
    everybody = math.sqrt(max(float(weights @ gram @ weights) / total - average**2, 0.01) / left)
    best_of = float(ndtri((groups - 0.375) / (groups + 0.25)))
    spread = credit * min(everybody, 3.0) + (1 - credit)
    return Direction(weights, credit * (average - best_of * everybody), 1.2 * spread)


def rescaled(moments: Floats, columns: int, noise_std: float, group_weight: float) -> tuple[Floats, Floats] | None:
    """Middle and spread of the columns among the rows, if they are known well and far from 0 and 1; None otherwise.

    A column whose declared centre is far off makes the noise of the regression grow with the square of the distance,
    and one whose declared spread is far off wastes budget: later rows are better taken on the scale returned here. The
    moments are released, so this is post-processing and later batches may depend on it.
    """
    counts = float(np.diagonal(moments)[columns:-1].sum()) / group_weight**2
    groups = moments.shape[0] - 1 - columns
    if counts < 8 * noise_std * math.sqrt(groups):
        return None
    middle = moments[:columns, columns:-1].sum(axis=1) / group_weight / counts
    variance = np.diagonal(moments)[:columns] / counts - middle**2
    error = noise_std / counts * np.sqrt(2 + 4 * groups * middle**2)
    known = variance > 3 * error
    spread = np.where(known, np.sqrt(np.clip(variance, 0.25, 25.0)), 1.0)
    sure = np.abs(middle) > 3 * noise_std * math.sqrt(groups) / counts
    middle = np.where(sure, middle, 0.0)
    if np.abs(middle).max() <= 1.0 and spread.max() <= 2.5:
        return None
    return middle, spread
