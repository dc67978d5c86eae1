"""Weighted logistic regression by Newton's method: the trained classifier inside data-driven dynamics."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from fairveil.arrays import Floats
from fairveil.randomness import generator
from fairveil.registry import names

if TYPE_CHECKING:
    from fairveil.data import Dataset


def fit_logistic(
    features: np.ndarray, labels: np.ndarray, weights: np.ndarray, penalty: float = 1.0, start: np.ndarray | None = None
) -> np.ndarray:
    """Coefficients (intercept last) that minimise the weighted log loss plus penalty/2 times the squared norm.

    Weights are scaled to sum to the number of rows; the intercept is not penalised. ``start`` warms the search.

    >>> x = np.array([[0.0], [1.0], [2.0], [3.0]])
    >>> found = fit_logistic(x, np.array([0, 0, 1, 1]), np.ones(4))
    >>> bool(scores(found, x)[0] < 0.5 < scores(found, x)[3])
    True
    """
    rows, width = features.shape
    design = np.concatenate([features, np.ones((rows, 1))], axis=1)
    weight = weights * (rows / weights.sum())
    ridge = np.full(width + 1, float(penalty))
    ridge[-1] = 1e-9
    found = np.zeros(width + 1) if start is None else start.copy()
    for _ in range(50):
        chance = 1.0 / (1.0 + np.exp(-np.clip(design @ found, -40.0, 40.0)))
        slope = design.T @ (weight * (chance - labels)) + ridge * found
        curve = (design * (weight * chance * (1.0 - chance))[:, None]).T @ design
        curve[np.diag_indices(width + 1)] += ridge
        step = np.linalg.solve(curve, slope)
        found = found - step / max(1.0, float(np.abs(step).max()) / 5.0)
        if np.abs(step).max() < 1e-8:
            break
    return found


def scores(coefficients: np.ndarray, features: np.ndarray) -> np.ndarray:
    """Predicted chance of label 1."""
    return 1.0 / (1.0 + np.exp(-np.clip(features @ coefficients[:-1] + coefficients[-1], -40.0, 40.0)))


def dataset(name: str, seed: int, rows: int | None) -> tuple[Dataset, Floats, bool]:
    """A data set by name, or its generated stand-in (``synthetic-<name>``) when the files are not there.

    Returns the data, its labels (1 for the last category of the target) and whether it is real; ``rows`` keeps a fixed
    random part.
    """
    from fairveil.data import available, load

    real = name in names("dataset") and available(name)
    stand_in = name if name.startswith("synthetic-") else f"synthetic-{name}"
    data = load(name) if real else load(stand_in, seed=seed)
    if rows is not None and rows < len(data):
        data = data.take(np.sort(generator(seed, "rows", name).permutation(len(data))[:rows]))
    labels = np.asarray(data[data.target]) == data.column(data.target).categories[-1]
    return data, labels.astype(float), real
