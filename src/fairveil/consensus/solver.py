"""The local problem of one node, solved to a public gradient tolerance.

    J(f) = q sum_n L(y f.x) + (kappa/2) |f|^2 + linear.f

Newton's method with a frozen Hessian: an iteration of the outer algorithm moves the linear term a little, so the data
part of the Hessian is kept from step to step (only kappa is exchanged) and computed again when the gradient shrinks by
less than a factor of six. J is kappa-strongly convex: a gradient of at most ``tolerance`` puts the solution within
tolerance/kappa of the minimiser. Rounding errors of the gradient are bounded and counted against the tolerance. The
solver never refuses a data set, because a refusal would be seen: where Newton's method gets no certificate, gradient
descent takes a public number of steps.
"""

from __future__ import annotations

import math

import numpy as np
from scipy.linalg import cho_factor, cho_solve

from fairveil.arrays import Floats
from fairveil.consensus.losses import Loss
from fairveil.consensus.rows import Rows

SHRINK = 6.0
"""A frozen Hessian is kept while each step makes the gradient shorter by this factor."""
STEPS = 500
HALVINGS = 40
_ROUNDING = 2.0**-52


class LocalSolver:
    """Keeps a node's last solution and Hessian between outer iterations. Private: nothing here is sent.

    Cost: usually two to four passes over the rows an iteration, and one more where the Hessian is computed again;
    memory O(d^2).

    >>> from fairveil.consensus.losses import Logistic
    >>> solver = LocalSolver(Rows.dense([[1.0], [-1.0]], [1, -1]), Logistic(), 1.0)
    >>> weights = solver.solve(1.0, np.zeros(1), 1e-10)
    >>> bool(abs(weights[0] - 2 / (1 + np.exp(weights[0]))) < 1e-9)
    True
    """

    def __init__(self, rows: Rows, loss: Loss, scale: float) -> None:
        self.rows, self.loss, self.scale = rows, loss, scale
        self.weights = np.zeros(rows.width)
        self._data: Floats | None = None
        self._before: tuple[float, Floats] | None = None

    def slack(self, kappa: float, linear: Floats, weights: Floats) -> float:
        """Bounds the rounding error of a computed gradient, whatever the rows are."""
        count = len(self.rows)
        size = self.scale * count * self.loss.steepest
        margins = self.scale * count * self.loss.curvature * float(np.linalg.norm(weights)) * self.rows.width
        rest = kappa * float(np.linalg.norm(weights)) + float(np.linalg.norm(linear))
        return _ROUNDING * ((count + 16) * size + margins + 16 * rest)

    def solve(self, kappa: float, linear: Floats, tolerance: float) -> Floats:
        """The minimiser up to tolerance/kappa."""
        weights = self._start(kappa, linear)
        gradient = self._gradient(weights, kappa, linear)
        length = float(np.linalg.norm(gradient))
        factor = None if self._data is None else _factor(self._data, kappa)
        fresh = False
        for _ in range(STEPS):
            if length + self.slack(kappa, linear, weights) <= tolerance:
                break
            if factor is None:
                gradient = self._refresh(weights, kappa, linear)
                factor, fresh = _factor(self._data, kappa), True
            trial = weights - cho_solve(factor, gradient, check_finite=False)
            found = self._gradient(trial, kappa, linear)
            size = float(np.linalg.norm(found))
            if fresh and not size < length:
                trial, found, size = self._shorter(weights, trial, kappa, linear, length)
            if size < length:
                slow = size * SHRINK > length and size > tolerance
                weights, gradient, length = trial, found, size
                factor = None if slow else factor
            else:
                factor = None
            fresh = False if factor is None else fresh
        else:
            weights = self._descend(weights, kappa, linear, tolerance)
        self.weights, self._before = weights, (kappa, linear)
        return weights.copy()

    def _start(self, kappa: float, linear: Floats) -> Floats:
        """The last solution, moved by the linearised effect of what changed in the objective."""
        if self._data is None or self._before is None:
            return self.weights.copy()
        old_kappa, old_linear = self._before
        change = (kappa - old_kappa) * self.weights + linear - old_linear
        return self.weights - cho_solve(_factor(self._data, kappa), change, check_finite=False)

    def _gradient(self, weights: Floats, kappa: float, linear: Floats) -> Floats:
        return self.scale * self.rows.gradient(weights, self.loss) + kappa * weights + linear

    def _refresh(self, weights: Floats, kappa: float, linear: Floats) -> Floats:
        gradient, matrix = self.rows.curvature(weights, self.loss)
        self._data = self.scale * matrix
        return self.scale * gradient + kappa * weights + linear

    def _shorter(
        self, weights: Floats, trial: Floats, kappa: float, linear: Floats, length: float
    ) -> tuple[Floats, Floats, float]:
        """Halve a full Newton step until the gradient gets shorter: along the Newton direction it does."""
        step = trial - weights
        for _ in range(HALVINGS):
            step = step / 2
            found = self._gradient(weights + step, kappa, linear)
            size = float(np.linalg.norm(found))
            if size < length:
                break
        return weights + step, found, size

    def _descend(self, weights: Floats, kappa: float, linear: Floats, tolerance: float) -> Floats:
        """Gradient descent for a public number of steps: it keeps the promise on every data set, certificate or not.

        Each step of size 1/smooth shortens the distance to the minimiser by the factor 1 - kappa/smooth, from
        anywhere in a ball that holds the minimiser.
        """
        smooth = kappa + self.scale * self.loss.curvature * len(self.rows)
        reach = (self.scale * self.loss.steepest * len(self.rows) + float(np.linalg.norm(linear))) / kappa
        size = float(np.linalg.norm(weights))
        weights = weights if size <= reach else weights * (reach / size)
        for _ in range(math.ceil(smooth / kappa * math.log(max(4 * kappa * reach / tolerance, 2.0)))):
            weights = weights - self._gradient(weights, kappa, linear) / smooth
        return weights


def _factor(matrix: Floats | None, kappa: float) -> tuple[Floats, bool]:
    assert matrix is not None
    full = matrix.copy()
    full[np.diag_indices_from(full)] += kappa
    return cho_factor(full, lower=True, overwrite_a=True, check_finite=False)


def least_tolerance(count: int, width: int, scale: float, steepest: float) -> float:
    """A tolerance that rounding cannot prevent for so many rows, at weights of norm up to a thousand."""
    size = scale * count * steepest
    return 4 * _ROUNDING * ((count + 16) * size + 1e3 * width * size / 4 + 16 * size) * (1 + math.ulp(1.0))
