"""From noisy second moments to the direction of the score: shrinkage by public noise levels.

The moments are of rows [z, a e_g, w y]: scaled columns z, an indicator e_g of the candidate's group and the clipped
reward y. All of this is post-processing of what was released.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from fairveil.bandits.meritocratic.world import Floats


class Direction(NamedTuple):
    """Unit vector on the scaled columns and the spread of scores along it."""

    weights: Floats
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
    reward_weight: float,
    correlation: float,
) -> Direction:
    """Direction of the regression of the reward on the columns with one intercept per group.

    ``rows`` is the (weighted) number of rows and ``noise_std`` the standard deviation of an off-diagonal entry. Before
    any data the columns are taken to be uncorrelated with spread one, as the scaling declares; ``correlation`` is the
    typical squared correlation they may have nevertheless, and the ridge noise_std^2 / (rows * correlation) is what
    makes the moments and that belief equally credible. It vanishes like 1/rows.
    """
    groups = moments.shape[0] - 1 - columns
    gram, cross = moments[:columns, :columns], moments[:columns, columns:-1] / group_weight
    product = moments[:columns, -1] / reward_weight
    reward = moments[columns:-1, -1] / (group_weight * reward_weight)
    ridge = max(noise_std**2 / (rows * correlation), 1e-4 * rows)
    expected = 0.8 * rows / groups  # rows per group under parity, a little less for rows that were scaled down
    trust = 1 / (1 + 2 * (noise_std / group_weight**2) ** 2 / (0.25 * expected) ** 2)
    counts = trust * np.diagonal(moments)[columns:-1] / group_weight**2 + (1 - trust) * expected
    counts = np.maximum(counts, 0.02 * expected)
    belief = 1 / (1 + (noise_std / group_weight) ** 2 / (0.25 * expected) ** 2)
    means = belief * cross / counts
    within = gram - (means * counts) @ means.T
    values, vectors = np.linalg.eigh((within + within.T) / 2)
    slope = vectors @ ((vectors.T @ (product - means @ reward)) / np.maximum(values + ridge, max(ridge, 1e-3 * rows)))
    length = float(np.linalg.norm(slope))
    weights = slope / length if length > 0 else np.full(columns, 1 / math.sqrt(columns))
    # Spread of the scores around the declared centre, believed to be one until the moments are better than that.
    credit = 1 / (1 + noise_std**2 / (0.25 * rows) ** 2)
    square = credit * float(weights @ gram @ weights) / rows + (1 - credit)
    return Direction(weights, math.sqrt(min(max(square, 0.05), 9.0)))
