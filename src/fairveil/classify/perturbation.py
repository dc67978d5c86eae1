"""Private logistic weights: by noise on the solution (output) or noise in the objective (objective).

Both take rows z of norm at most L (clipped), signs y, and the strongly convex objective of `fairveil.classify.solver`.
All noise is integer noise on a public grid; the grid and the solver's tolerance t are part of the sensitivity.

Output. Replacing a row moves the gradient by at most 2L everywhere (taking it out: by L), hence the exact minimiser by
2L/strength, and the found one by s = (2L + 2t)/strength. Rounding to the grid adds at most one unit a coordinate.
Gaussian noise of std s/mu makes it mu-GDP; Laplace noise on every coordinate, l1 sensitivity sqrt(d) s, makes it
epsilon-DP. Reference: Chaudhuri, Monteleoni and Sarwate (2011), with the tolerance charged.

Objective. Add <b, w> to the objective. The exact minimiser w determines b = -grad J0(w), so the density of w is that of
b times |det grad b|. One row changes b by at most 2L (replace) or L (add or remove), and the determinant by a factor of
at most 1 + L^2/(4 strength), because a row adds a matrix of rank one with curvature at most L^2/4 to one that is at
least strength. Laplace b (l1) gives epsilon = 2 sqrt(d) L/scale + log(1 + L^2/(4 strength)), for replacement (half the
first term for a row taken out); Gaussian b gives the curve of `fairveil.privacy.calibration.fits`, for rows added or
removed.
What is computed is not the exact minimiser for a continuous b: b lies on a grid (a discrete Laplace draw is the
difference of two rounded-down exponential ones, so it is within one unit of a continuous Laplace draw; a discrete
Gaussian is a rounded one up to the charged total variation) and the solver stops at t. Both move the minimiser by at
most r = (t + sqrt(d) unit)/strength. Given the exact minimiser, what is released differs between neighbours by at most
2r, so a final Laplace noise of l1 sensitivity 2 sqrt(d) r hides it for one per cent of epsilon. Without it the discrete
supports of neighbours differ and nothing is private. References: Kifer, Smith and Thakurta (2012); Redberg, Koskela and
Wang (2023).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from fairveil.arrays import Floats, Ints
from fairveil.classify.solver import least_tolerance, solve
from fairveil.errors import InputError, SpecError
from fairveil.privacy.calibration import fits as budget
from fairveil.privacy.events import ApproximateEvent, Event, GaussianEvent, PureEvent, RepeatedEvent
from fairveil.privacy.grid import LARGEST_UNIT
from fairveil.privacy.noise import Noise

Method = Literal["output", "objective"]
DefinitionName = Literal["gaussian", "pure"]

_UP = 1 + 2.0**-40
"""Bounds and scales are enlarged by this factor: far more than the rounding errors of clipping and arithmetic."""


@dataclass(frozen=True)
class Perturbation:
    """How one of ``fits`` fits is made private. Every field is public; ``bound`` is L, the norm of the longest row.

    ``moved``: how many rows differ between neighbours, 2 for one row replaced, 1 for one row taken out. Gaussian
    objective noise is for one row taken out; its caller turns a replacement into two such steps. ``root`` and ``tail``
    are given by a caller who accounts for several fits and other releases together (`fairveil.classify.fair`).
    """

    method: Method
    definition: DefinitionName
    epsilon: float
    delta: float
    fits: int
    bound: float
    strength: float
    tolerance: float
    moved: int = 2
    root: float | None = None
    tail: float | None = None

    @property
    def fit_epsilon(self) -> float:
        """Share of one fit in a pure budget."""
        return self.epsilon / self.fits

    @property
    def jacobian(self) -> float:
        """Most that one row changes the log determinant of the curvature."""
        return math.log1p((self.bound * _UP) ** 2 / (4 * self.strength)) * _UP

    def event(self) -> Event:
        """What one person pays over all planned fits (the same row, or another each time, in every fit)."""
        if self.definition == "pure":
            return _repeated(PureEvent(self.fit_epsilon), self.fits)
        if self.method == "objective":
            return ApproximateEvent(self.epsilon, self.delta)
        mu = budget.fit_mu(self.epsilon, self.delta, self.fits)
        return _repeated(GaussianEvent(mu, budget.MAX_WIDTH, budget.GRID_SIGMA), self.fits)

    def spent(self, fits: int) -> float:
        """Epsilon after the first ``fits`` of the planned fits, at the guarantee's own delta."""
        if not 0 <= fits <= self.fits:
            raise SpecError(
                "the budget was split over fewer fits", path="fits", given=fits, allowed=f"from 0 to {self.fits}",
                fix="plan them: retrainings",
            )  # fmt: skip
        if fits == 0:
            return 0.0
        if self.definition == "pure":
            return self.epsilon * fits / self.fits
        if self.method == "output":
            mu = budget.fit_mu(self.epsilon, self.delta, self.fits)
            return budget.spent_gaussian(mu, self.delta, self.epsilon, self.fits, fits)
        ideal = budget.ideal_delta(self.epsilon, self.delta, self.fits)
        main = budget.objective_epsilon(self._root(), self.jacobian, ideal, fits)
        return min(self.epsilon, fits * self.tail_epsilon + main)

    def least_tolerance(self, rows: int, width: int) -> float:
        """The least tolerance, in units of the bound, that the solver keeps on every data set of so many rows.

        It depends on the data through nothing, and on the noise in the objective through a public bound on its norm.
        """
        return least_tolerance(rows, width, self.bound * _UP, self.strength, self._push(width)) / self.bound * _UP

    def tolerant(self, rows: int, width: int) -> Perturbation:
        """The same with the least tolerance that is kept on every data set of so many rows."""
        return replace(self, tolerance=self.least_tolerance(rows, width) * self.bound)

    def _push(self, width: int) -> float:
        """Bounds the noise in the objective, but for the tails that `budget.TAILS` speaks of."""
        if self.method == "output":
            return 0.0
        return budget.TAILS[self.definition] * math.sqrt(width) * self._main_scale(width)

    def check(self) -> None:
        """Refuse a budget that leaves nothing for the noise; called when a configuration is made."""
        if self.method == "objective":
            self._main_scale(1)
        elif self.definition == "gaussian":
            budget.fit_mu(self.epsilon, self.delta, self.fits)

    def release(self, rows: Floats, signs: Floats, noise: Noise, copies: int | None = None) -> Floats:
        """Private weights of shape (d,), or ``copies`` independent ones on the same rows (for audits).

        ``rows`` must already obey the bound; the caller clips them.
        """
        width = rows.shape[1]
        if width > budget.MAX_WIDTH:
            raise InputError("there are too many columns", path="X", given=width, allowed=f"at most {budget.MAX_WIDTH}")
        many = 1 if copies is None else copies
        if self.method == "output":
            found = np.tile(solve(rows, signs, self.strength, self.tolerance, bound=self.bound * _UP), (many, 1))
            reach = (self.moved * self.bound * _UP + 2 * self.tolerance) / self.strength
            out = self._noisy(found, reach, noise)
        else:
            linear, unit = self._linear_noise(width, many, noise)
            found = solve(rows, signs, self.strength, self.tolerance, linear, bound=self.bound * _UP)
            reach = 2 * (self.tolerance + math.sqrt(width) * unit) / self.strength
            out = self._laplace(found, math.sqrt(width) * reach, self.tail_epsilon, noise)
        return out[0] if copies is None else out

    def noise_std(self, width: int) -> float:
        """Standard deviation of a released weight around the noise-free one (objective: to first order, at most)."""
        if self.method == "output":
            reach = (self.moved * self.bound + 2 * self.tolerance) / self.strength
            if self.definition == "gaussian":
                return reach / budget.fit_mu(self.epsilon, self.delta, self.fits)
            return math.sqrt(2.0 * width) * reach / self.fit_epsilon
        scale = self._main_scale(width)
        return (scale if self.definition == "gaussian" else math.sqrt(2.0) * scale) / self.strength

    def _noisy(self, found: Floats, reach: float, noise: Noise) -> Floats:
        width = found.shape[1]
        if self.definition == "pure":
            return self._laplace(found, math.sqrt(width) * reach, self.fit_epsilon, noise)
        mu = budget.fit_mu(self.epsilon, self.delta, self.fits)
        bits = _bits(reach / mu, budget.GRID_SIGMA)
        sigma = (math.ldexp(reach, bits) + math.sqrt(width)) / mu * _UP
        drawn = noise.gaussian(sigma, found.size).reshape(found.shape)
        return np.ldexp((_units(found, bits) + drawn).astype(np.float64), -bits)

    def _laplace(self, found: Floats, reach: float, epsilon: float, noise: Noise) -> Floats:
        """Coordinates on a grid with discrete Laplace noise; ``reach`` is their l1 sensitivity before rounding.

        The grid is no finer than the solver deserves: no minimiser is longer than 2^44 times tolerance/strength (see
        `least_tolerance`), so with at most 2^16 units in that distance no weight saturates.
        """
        finest = math.floor(math.log2(2.0**16 * self.strength / self.tolerance))
        bits = min(_bits(reach / epsilon, budget.GRID_SIGMA), finest)
        scale = (math.ldexp(reach, bits) + found.shape[1]) / epsilon * _UP
        drawn = noise.laplace(scale, found.size).reshape(found.shape)
        return np.ldexp((_units(found, bits) + drawn).astype(np.float64), -bits)

    @property
    def tail_epsilon(self) -> float:
        """What hides the solver's tolerance and the grid under objective noise."""
        return budget.TOLERANCE_SHARE * self.fit_epsilon if self.tail is None else self.tail

    def _root(self) -> float:
        if self.root is not None:
            return self.root
        ideal = budget.ideal_delta(self.epsilon, self.delta, self.fits)
        return budget.objective_root(self.epsilon - self.fits * self.tail_epsilon, ideal, self.fits, self.jacobian)

    def _main_scale(self, width: int) -> float:
        """Scale of the noise in the objective: std of Gaussian, scale of Laplace, in units of the gradient."""
        if self.definition == "gaussian":
            return self.bound * _UP / self._root() * _UP
        left = self.fit_epsilon - self.tail_epsilon - self.jacobian
        if left <= 0:
            raise budget.too_weak(self.epsilon, self.fits)
        return self.moved * math.sqrt(width) * self.bound * _UP / left * _UP

    def _linear_noise(self, width: int, many: int, noise: Noise) -> tuple[Floats, float]:
        scale = self._main_scale(width)
        bits = _bits(scale, budget.GRID_SIGMA)
        draw = noise.gaussian if self.definition == "gaussian" else noise.laplace
        drawn = draw(math.ldexp(scale, bits), width * many).reshape(many, width)
        return np.ldexp(drawn.astype(np.float64), -bits), math.ldexp(1.0, -bits)


def _bits(scale: float, units: float) -> int:
    """Grid fineness at which ``scale`` is at least ``units`` grid units (and less than twice that)."""
    return math.ceil(math.log2(units / scale)) + 1


def _units(values: Floats, bits: int) -> Ints:
    """Nearest grid points; saturation and rounding bring no two values further apart than one unit more."""
    return np.clip(np.rint(np.ldexp(values, bits)), -LARGEST_UNIT, LARGEST_UNIT).astype(np.int64)


def _repeated(event: Event, count: int) -> Event:
    return event if count == 1 else RepeatedEvent(event, count)
