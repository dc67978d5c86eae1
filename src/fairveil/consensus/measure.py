"""What an experimenter measures on raw data: losses, gaps, errors. Real nodes compute none of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_factor, cho_solve

from fairveil.consensus.losses import Logistic, Loss
from fairveil.consensus.rows import Rows, add_curvature, add_gradient, mean_losses, scores

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Problem:
    """Obj(f) = sum_i (C/B_i) sum_n L(y f.x) + (rho/2)|f|^2 over all nodes: the optimum that consensus should reach."""

    nodes: Sequence[Rows]
    loss: Loss
    C: float
    rho: float

    def objectives(self, candidates: Floats) -> Floats:
        """Obj of every candidate (one a row)."""
        total = 0.5 * self.rho * (candidates**2).sum(axis=1)
        for rows in self.nodes:
            total = total + self.C * mean_losses(
                rows.values, rows.columns, rows.signs, candidates, self.loss.code, self.loss.number
            )
        return total

    def optimum(self, tolerance: float = 1e-11) -> Floats:
        """The minimiser by Newton's method, to a gradient of ``tolerance`` C."""
        weights = np.zeros(self.nodes[0].width)
        gradient, matrix = self._derivatives(weights)
        for _ in range(200):
            step = cho_solve(cho_factor(matrix), gradient)
            length = float(np.linalg.norm(gradient))
            if length <= tolerance * self.C:
                break
            size = 1.0
            while True:
                found = self._gradient(weights - size * step)
                if float(np.linalg.norm(found)) < length or size < 1e-9:
                    break
                size /= 2
            if size < 1e-9:
                break
            weights = weights - size * step
            gradient, matrix = self._derivatives(weights)
        return weights

    def _gradient(self, weights: Floats) -> Floats:
        total = self.rho * weights
        for rows in self.nodes:
            out = np.zeros(len(weights))
            add_gradient(rows.values, rows.columns, rows.signs, weights, self.loss.code, self.loss.number, out)
            total = total + self.C / len(rows) * out
        return total

    def _derivatives(self, weights: Floats) -> tuple[Floats, Floats]:
        total, matrix = self.rho * weights, self.rho * np.eye(len(weights))
        for rows in self.nodes:
            gradient, upper = np.zeros(len(weights)), np.zeros(matrix.shape)
            add_curvature(
                rows.values, rows.columns, rows.signs, weights, self.loss.code, self.loss.number, gradient, upper
            )
            total = total + self.C / len(rows) * gradient
            matrix = matrix + self.C / len(rows) * (upper + np.triu(upper, 1).T)
        return total, matrix


def train_loss(nodes: Sequence[Rows], weights: Floats) -> float:
    """L(t): the mean over nodes of the mean plain logistic loss of each node's own classifier on its own rows."""
    plain = Logistic()
    each = [
        mean_losses(rows.values, rows.columns, rows.signs, weights[i : i + 1], plain.code, plain.number)[0]
        for i, rows in enumerate(nodes)
    ]
    return float(np.mean(each))


def error(rows: Rows, weights: Floats) -> float:
    """Share of wrong decisions; a score of zero counts as the negative class. NaN without rows."""
    if len(rows) == 0:
        return float("nan")
    decided = np.where(scores(rows.values, rows.columns, weights) > 0, 1.0, -1.0)
    return float((decided != rows.signs).mean())
