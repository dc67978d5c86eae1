"""Rates, losses, utilities and manipulation at given thresholds, for whole batches."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fairveil.compiling import njit
from fairveil.dynamics.kernels import both, cdf
from fairveil.dynamics.population import Population


@dataclass(frozen=True)
class Measures:
    """Arrays (instances, groups). Rates refer to features before manipulation."""

    below0: np.ndarray
    below1: np.ndarray
    above0: np.ndarray
    above1: np.ndarray
    manipulation: np.ndarray
    utility: np.ndarray
    qualified: np.ndarray

    @property
    def accepted(self) -> np.ndarray:
        """Acceptance rate of the whole group."""
        return self.qualified * self.above1 + (1.0 - self.qualified) * self.above0

    @property
    def loss(self) -> np.ndarray:
        """Expected 0-1 loss."""
        return self.qualified * self.below1 + (1.0 - self.qualified) * self.above0

    def rate(self, criterion: str) -> np.ndarray:
        """The rate a criterion equalises: tpr (or eqopt), fpr, dp."""
        return {"tpr": self.above1, "eqopt": self.above1, "fpr": self.above0, "dp": self.accepted}[criterion]


@njit(cache=True, nogil=True)
def _measure(
    alpha: np.ndarray,
    which: np.ndarray,
    cost: np.ndarray,
    codes: np.ndarray,
    params: np.ndarray,
    gain: np.ndarray,
    loss: np.ndarray,
    theta: np.ndarray,
    out: np.ndarray,
) -> None:
    """Nine arguments, one by one: taking a tuple of arrays apart would cost a third of a call with one instance."""
    for k in range(theta.shape[0]):
        for s in range(theta.shape[1]):
            i, j, c = which[k, s, 0], which[k, s, 1], cost[k, s]
            below0, above0 = both(codes[i], params[i], theta[k, s])
            below1, above1 = both(codes[j], params[j], theta[k, s])
            gap = below0 - below1 if below0 < 0.5 else above1 - above0
            fraud = cdf(codes[c], params[c], gap) if c >= 0 else 0.0
            rest = 1.0 - alpha[k, s]
            out[0, k, s], out[1, k, s], out[2, k, s], out[3, k, s] = below0, below1, above0, above1
            out[4, k, s] = fraud
            out[5, k, s] = gain[k] * alpha[k, s] * above1 - loss[k] * rest * (above0 + gap * fraud)


def measure(people: Population, thresholds: np.ndarray) -> Measures:
    """Everything the models read off a set of thresholds; utility counts manipulation where a cost is given."""
    theta = np.ascontiguousarray(thresholds, dtype=float)
    out = np.empty((6, *theta.shape))
    _measure(
        people.qualified,
        people.which,
        people.cost,
        people.codes,
        people.params,
        people.gain,
        people.loss,
        theta,
        out,
    )
    below0, below1, above0, above1, manipulation, utility = out
    return Measures(below0, below1, above0, above1, manipulation, utility, people.qualified)
