"""How a local solution is released: noise in the objective or on the solution, with the solver's tolerance charged.

*Objective, sound.* Noise e of density exp(-a |e|) goes into the linear term; the exact minimiser for the continuous law
determines e, so `fairveil.consensus.accounting` bounds its privacy loss. What is computed is another point: e lies on a
grid (within ``reach`` of the continuous law) and the solver stops at ``tolerance``, together at most r = (tolerance +
reach)/kappa away. Given the exact minimiser, neighbours' outputs therefore differ by at most 2 r, and a last Laplace
noise of l1 sensitivity 2 sqrt(d) r hides that for one per cent of the budget. Without it the residual gradient is a
function of raw data and nothing is promised.
*Gaussian primal, sound.* Replacing a row moves the found solution by at most (2 s q + 2 tolerance)/kappa: Gaussian
noise on it is mu-GDP, without a Jacobian, a side condition or a second derivative.
*Printed.* `fairveil.consensus.printed`: textbook draws in floating point, nothing for tolerance and grid.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fairveil.consensus.noises import exact_noise
from fairveil.consensus.solver import LocalSolver
from fairveil.privacy.mechanisms import Gaussian, Laplace
from fairveil.privacy.noise import Noise

Floats = NDArray[np.float64]
_DOWN = 1 - 2.0**-30
"""Noise is drawn for a budget smaller by this factor: far more than rounding errors in norms and bounds."""


@dataclass(frozen=True)
class Perturbation(ABC):
    """Public numbers of one node's releases. ``shift``: how far one row moves a gradient, 2 s q."""

    shift: float
    tolerance: float

    @abstractmethod
    def release(self, solver: LocalSolver, iteration: int, kappa: float, linear: Floats, noise: Noise) -> Floats:
        """Solve and release one iteration's weights."""


@dataclass(frozen=True)
class Objective(Perturbation):
    """Noise of density exp(-rate |e|) in the gradient (``rates`` by iteration); ``tail`` pays for the last noise."""

    rates: tuple[float, ...]
    tail: float

    def release(self, solver: LocalSolver, iteration: int, kappa: float, linear: Floats, noise: Noise) -> Floats:
        width = len(linear)
        drawn, reach = exact_noise(self.rates[iteration - 1] * _DOWN, width, self.shift, noise)
        found = solver.solve(kappa, linear + drawn, self.tolerance)
        return self.hidden(width, kappa, reach).release(found, noise)

    def hidden(self, width: int, kappa: float, reach: float) -> Laplace:
        """The last noise."""
        far = 2 * (self.tolerance + reach) / kappa
        return Laplace(sensitivity=math.sqrt(width) * far / _DOWN, epsilon=self.tail, dimension=width)


@dataclass(frozen=True)
class GaussianPrimal(Perturbation):
    """Gaussian noise on the solution, mu-GDP a release."""

    mu: float

    def mechanism(self, width: int, kappa: float) -> Gaussian:
        reach = (self.shift + 2 * self.tolerance) / kappa
        return Gaussian(sensitivity=reach / _DOWN, mu=self.mu, dimension=width)

    def release(self, solver: LocalSolver, iteration: int, kappa: float, linear: Floats, noise: Noise) -> Floats:
        return self.mechanism(len(linear), kappa).release(solver.solve(kappa, linear, self.tolerance), noise)
