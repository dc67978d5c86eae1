"""Participation with a trained classifier on many features: groups of a data set stay as long as it serves them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fairveil.dynamics.logistic import fit_logistic, scores

CRITERIA = ("simple", "fpr", "fnr", "eqloss")


@dataclass(frozen=True)
class LossTable:
    """Losses of both groups (criteria, shares, 2) when the classifier is trained with the first group at each share."""

    shares: np.ndarray
    criteria: tuple[str, ...]
    loss: np.ndarray

    def at(self, row: int, share: float) -> np.ndarray:
        return np.array([np.interp(share, self.shares, self.loss[row, :, s]) for s in (0, 1)])


def loss_table(
    features: np.ndarray,
    labels: np.ndarray,
    group: np.ndarray,
    criteria: tuple[str, ...] = CRITERIA,
    points: int = 11,
    penalty: float = 1.0,
) -> LossTable:
    """Train at ``points`` shares of the first group (``group`` == 0) and tune cut-offs of the score per criterion.

    ``simple`` uses one cut-off of one half; ``fpr`` and ``fnr`` cut-offs with equal rates of that error; ``eqloss``
    equal error rates, the better group served as badly as the other one's best.
    """
    shares = np.linspace(0.02, 0.98, points)
    counts = np.array([(group == s).sum() for s in (0, 1)], dtype=float)
    loss = np.empty((len(criteria), points, 2))
    found: np.ndarray | None = None
    for k, share in enumerate(shares):
        each = np.array([share, 1.0 - share]) / counts
        found = fit_logistic(features, labels, each[group], penalty, found)
        score = scores(found, features)
        parts = [
            (np.sort(score[(group == s) & (labels == 0)]), np.sort(score[(group == s) & (labels == 1)])) for s in (0, 1)
        ]
        for row, criterion in enumerate(criteria):
            loss[row, k] = _tuned(parts, (share, 1.0 - share), criterion)
    return LossTable(shares, tuple(criteria), loss)


def _errors(parts: tuple[np.ndarray, np.ndarray], cutoff: np.ndarray) -> np.ndarray:
    low, high = parts
    wrong = len(low) - np.searchsorted(low, cutoff) + np.searchsorted(high, cutoff)
    return wrong / (len(low) + len(high))


def _tuned(
    parts: list[tuple[np.ndarray, np.ndarray]], weight: tuple[float, float], criterion: str, points: int = 2001
) -> list[float]:
    if criterion == "simple":
        return [float(_errors(part, np.array([0.5]))[0]) for part in parts]
    levels = np.linspace(0.0, 1.0, points)
    if criterion == "eqloss":
        least = [float(_errors(part, levels).min()) for part in parts]
        return [max(least)] * 2
    label = 0 if criterion == "fpr" else 1
    errors = [_errors(part, np.quantile(part[label], levels)) for part in parts]
    best = int(np.argmin(weight[0] * errors[0] + weight[1] * errors[1]))
    return [float(error[best]) for error in errors]


def shares_over_time(table: LossTable, row: int, steps: int, arrivals: tuple[float, float] = (1.0, 1.0)) -> np.ndarray:
    """Share of the first group (steps,) when users stay with the accuracy of their group."""
    now = np.array(arrivals, dtype=float)
    out = []
    for _ in range(steps):
        share = now[0] / now.sum()
        out.append(share)
        now = now * (1.0 - table.at(row, share)) + np.array(arrivals)
    return np.array(out)
