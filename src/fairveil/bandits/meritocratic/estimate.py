"""From noisy second moments to the direction of the score: shrinkage by public noise levels.

The moments are of rows [z, a e_g, w y]: scaled columns z, an indicator e_g of the candidate's group and the clipped
reward y. All of this is post-processing of what was released.

Noisy rank tables: one histogram per group of where its members' scores lie, averaged with a prior belief.

Weights from a Gram matrix that may carry noise.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from scipy.special import ndtri

from fairveil.arrays import Floats, Ints
from fairveil.compiling import njit
from fairveil.privacy.histograms import Histogram
from fairveil.privacy.noise import Noise

GROUP_WEIGHT = 1.0
"""Size a of the group indicator in a row; scaled columns have spread about one."""
STABLE = 1.0
"""Least ridge relative to noise_std * sqrt(width): half of the typical operator norm of the noise."""
RIDGE_FLOOR = 1e-6
"""Least ridge a row, without noise: keeps the regression defined where columns repeat each other."""
LEAST_SHARE = 0.02
"""No group is taken to have less than this part of an equal share of the rows, however its noisy count came out."""
KNOWN_SPREAD = 0.25
"""Middle and spread of the scores count as known when the noise of a moment is below this much a row."""
LEAST_VARIANCE = 0.01
"""Least variance of the scores of the chosen that is believed: noise may have made it negative."""
LARGEST_SPREAD = 3.0
"""Largest spread of all scores that is believed: columns have spread about one, the direction is a unit vector."""
ROOM = 1.2
"""Bins are laid a little wider than the scores are estimated to spread: too narrow loses people in the last bin."""
SELECTION = 0.75
"""The largest of k normal scores has about 1/(1 + SELECTION ln k) the variance of one: within 12 % for k up to 20."""
BLOM = 0.375
"""The largest of k normal scores lies on average near the quantile of (k - BLOM)/(k + 1 - 2 BLOM) (Blom 1958)."""
SURE = 3.0
"""Standard deviations of the noise by which something must differ from what was declared to be acted upon."""
ENOUGH = 8.0
"""Rows are enough to judge the declared scale when they are this many standard deviations of their noisy number."""
MOSTLY = 0.5
"""Counts fall short of rounds where rows are clipped (whole rows shrink) or unanswered: below half it is the latter."""
FEWEST = 1e-3
"""No fewer rows than this share of the rounds are believed, however the noise came out."""
SPREADS = (0.25, 25.0)
"""Variances of a column outside these bounds are taken as the bound."""
FAR_MIDDLE, FAR_SPREAD = 1.0, 2.5
"""The declared scale is far off when a column's middle is off by more than its spread, or spreads 2.5 times as much."""


class Direction(NamedTuple):
    """Unit vector on the scaled columns, and the middle and the spread of scores along it."""

    weights: Floats
    middle: float
    deviation: float


class Moments(NamedTuple):
    """Noisy second moments: how many columns come first, the (weighted) rows behind them, std off the diagonal."""

    values: Floats
    columns: int
    rows: float
    noise_std: float

    @property
    def groups(self) -> int:
        return len(self.values) - 1 - self.columns

    @property
    def counts(self) -> Floats:
        """Noisy numbers of rows by group."""
        return np.diagonal(self.values)[self.columns : -1] / GROUP_WEIGHT**2

    @property
    def count_std(self) -> float:
        """Standard deviation of the noise in the sum of `counts`: diagonal entries have sqrt 2 times the noise."""
        return self.noise_std * math.sqrt(2 * self.groups) / GROUP_WEIGHT**2


def row_weight(rows: float, noise_variance: float) -> float:
    """Weight of one batch in the running moments.

    A batch of n rows estimates the mean product with variance about 1/n (rows differ, columns have spread one) plus
    noise_variance/n^2 (privacy). Weights inverse to that, applied to the batch's sum, are n/(n + noise_variance).
    """
    return rows / (rows + noise_variance) if rows > 0 else 0.0


def believed_rows(moments: Moments) -> float:
    """How many rows there are: as many as rounds, unless the noisy counts show that most were never answered.

    The exact number is never used, so whether and for whom a reward arrived stays inside the noise.
    """
    most = float(moments.counts.sum()) + SURE * moments.count_std
    return moments.rows if most > MOSTLY * moments.rows else max(most, FEWEST * moments.rows)


def score_direction(moments: Moments, correlation: float) -> Direction:
    """Direction of the regression of the reward on the columns with one intercept per group.

    Before any data the columns are taken to be uncorrelated with spread one, as the scaling declares; ``correlation``
    is the typical squared correlation they may have nevertheless, and the ridge noise_std^2 / (rows * correlation) is
    what makes the moments and that belief equally credible; it never falls below the size of the noise as an operator,
    because a direction that nobody varies in (the chosen are alike there) would otherwise be filled with noise.
    """
    values, columns, rows, noise_std = moments
    joint = (values[:-1, :-1] + values[:-1, :-1].T) / 2
    joint[columns:, columns:] = np.diag(np.diagonal(joint)[columns:])  # nobody is in two groups
    ridge = max(noise_std**2 / (rows * correlation), STABLE * noise_std * math.sqrt(len(joint)), RIDGE_FLOOR * rows)
    eigenvalues, vectors = np.linalg.eigh(joint)
    slope = (vectors @ ((vectors.T @ values[:-1, -1]) / (np.maximum(eigenvalues, 0.0) + ridge)))[:columns]
    length = float(np.linalg.norm(slope))
    weights = slope / length if length > 0 else np.full(columns, 1 / math.sqrt(columns))
    return Direction(weights, *_scores_along(weights, moments, joint))


def _scores_along(weights: Floats, moments: Moments, joint: Floats) -> tuple[float, float]:
    """Middle and spread of all scores, believed to be as declared (0 and 1) until the moments are better than that.

    The chosen are the best of about one candidate per group: their mean lies above everybody's and their spread is
    less.
    """
    columns, rows, groups = moments.columns, moments.rows, moments.groups
    credit = 1 / (1 + moments.noise_std**2 / (KNOWN_SPREAD * rows) ** 2)
    total = float(np.maximum(moments.counts, LEAST_SHARE * rows / groups).sum())
    average = float(weights @ joint[:columns, columns:].sum(axis=1)) / GROUP_WEIGHT / total
    variance = float(weights @ joint[:columns, :columns] @ weights) / total - average**2
    left = 1 / (1 + SELECTION * math.log(groups)) if groups > 1 else 1.0
    everybody = math.sqrt(max(variance, LEAST_VARIANCE) / left)
    best_of = float(ndtri((groups - BLOM) / (groups + 1 - 2 * BLOM)))
    spread = credit * min(everybody, LARGEST_SPREAD) + (1 - credit)
    return credit * (average - best_of * everybody), ROOM * spread


def rescaled(moments: Moments) -> tuple[Floats, Floats] | None:
    """Middle and spread of the columns among the rows, if they are known well and far from 0 and 1; None otherwise.

    A column whose declared centre is far off makes the noise of the regression grow with the square of the distance,
    and one whose declared spread is far off wastes budget: later rows are better taken on the scale returned here. The
    moments are released, so this is post-processing and later batches may depend on it.
    """
    columns, groups, noise_std = moments.columns, moments.groups, moments.noise_std
    counts = float(moments.counts.sum())
    if counts < ENOUGH * noise_std * math.sqrt(groups):
        return None
    middle = moments.values[:columns, columns:-1].sum(axis=1) / GROUP_WEIGHT / counts
    variance = np.diagonal(moments.values)[:columns] / counts - middle**2
    error = noise_std / counts * np.sqrt(2 + 4 * groups * middle**2)
    spread = np.where(variance > SURE * error, np.sqrt(np.clip(variance, *SPREADS)), 1.0)
    sure = np.abs(middle) > SURE * noise_std * math.sqrt(groups) / counts
    middle = np.where(sure, middle, 0.0)
    if np.abs(middle).max() <= FAR_MIDDLE and spread.max() <= FAR_SPREAD:
        return None
    return middle, spread


DOUBT = 0.15
"""How far a rank read off the standard normal law is typically wrong; the histogram takes over when it is better."""
WIDEST = 0.25
"""Variance of one person's contribution to a middle rank: the largest there is."""


class RankTables(NamedTuple):
    """Estimated distribution functions at the edges of equal bins of [0, 1], and how unsure each group's ranks are."""

    tables: Floats  # (groups, bins + 1)
    std: Floats  # (groups,)


def rank_tables(histogram: Histogram, position: Floats, group: Ints, groups: int, noise: Noise) -> RankTables:
    """Release one histogram per group, each person in one of them, and average it with the uniform law of positions.

    Positions are scores through the normal law that all scores are believed to have, so a group that nobody was seen
    of keeps that belief. Weights are inverse to variances that are public: the noise, the (noisy) total, the doubt.
    """
    believed = np.linspace(0.0, 1.0, histogram.bins + 1)
    noise_std = histogram.expected_std(histogram.bins // 2)
    tables, stds = [], []
    for number in range(groups):
        _, shown = histogram.release(histogram.add(histogram.start(), position[group == number]), noise)
        total = max(shown.total, 1.0)  # itself noisy for groups that may be absent
        variance = (noise_std / total) ** 2 + WIDEST / total
        trust = DOUBT**2 / (DOUBT**2 + variance) if not shown.empty else 0.0
        tables.append(trust * shown.levels + (1 - trust) * believed)
        stds.append(math.sqrt(trust**2 * variance + (1 - trust) ** 2 * DOUBT**2))
    return RankTables(np.stack(tables), np.array(stds))


@njit(cache=True, nogil=True)
def solve_positive(matrix, right):
    """Solve by Cholesky; the second value is False (and the first useless) when the matrix is not positive definite."""
    size = right.shape[0]
    lower = np.zeros((size, size))
    out = np.zeros(size)
    for i in range(size):
        for j in range(i + 1):
            total = matrix[i, j]
            for k in range(j):
                total -= lower[i, k] * lower[j, k]
            if i == j:
                if not total > 1e-12 * abs(matrix[i, i]):
                    return out, False
                lower[i, i] = math.sqrt(total)
            else:
                lower[i, j] = total / lower[j, j]
    for i in range(size):
        total = right[i]
        for k in range(i):
            total -= lower[i, k] * out[k]
        out[i] = total / lower[i, i]
    for i in range(size - 1, -1, -1):
        total = out[i]
        for k in range(i + 1, size):
            total -= lower[k, i] * out[k]
        out[i] = total / lower[i, i]
    return out, True


@njit(cache=True, nogil=True)
def weights_of(moments, ridge, floor):
    """Ridge weights from moments of [x, y]; eigenvalues of Gram + ridge are floored when noise has made it indefinite.

    Everything happens after the noise, so it is post-processing; without noise it is plain ridge regression.
    """
    size = moments.shape[0] - 1
    gram = moments[:size, :size].copy()
    for i in range(size):
        gram[i, i] += ridge
    right = moments[:size, size].copy()
    weights, good = solve_positive(gram, right)
    if good:
        return weights
    values, vectors = np.linalg.eigh(gram)
    return vectors @ ((vectors.T @ right) / np.maximum(values, floor))


@njit(cache=True, nogil=True)
def add_outer(moments, row):
    """moments += row row^T."""
    for i in range(row.shape[0]):
        for j in range(row.shape[0]):
            moments[i, j] += row[i] * row[j]


@njit(cache=True, nogil=True)
def unpack_symmetric(flat, size, out):
    """A flat symmetric matrix (diagonal first, then above it row by row) in full."""
    for i in range(size):
        out[i, i] = flat[i]
    at = size
    for i in range(size):
        for j in range(i + 1, size):
            out[i, j] = flat[at]
            out[j, i] = flat[at]
            at += 1
