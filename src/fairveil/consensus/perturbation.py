"""How a local solution is released, in the sound form (the default) and as printed: noise, and who pays for what.

*Objective, sound.* Noise e of density exp(-a |e|) goes into the linear term; the exact minimiser for the continuous law
determines e, so `fairveil.consensus.private` bounds its privacy loss. What is computed is another point: e lies on a
grid (within ``reach`` of the continuous law) and the solver stops at ``tolerance``, together at most r = (tolerance +
reach)/kappa away. Given the exact minimiser, neighbours' outputs therefore differ by at most 2 r, and a last Laplace
noise of l1 sensitivity 2 sqrt(d) r hides that for one per cent of the budget. Without it the residual gradient is a
function of raw data and nothing is promised.
*Gaussian primal, sound.* Replacing a row moves the found solution by at most (2 s q + 2 tolerance)/kappa: Gaussian
noise on it is mu-GDP, without a Jacobian, a side condition or a second derivative.
*Printed.* Each node's own dual step, and textbook draws in floating point that nothing more pays for. The proofs assume
exact minimisers and noise of a continuous law. The solver stops at a tolerance and floats lie on a grid, so no
guarantee of these forms is established; for reproduction and audits only.

Noise of density exp(-alpha |e|) in any dimension. Exact sampling exists to 24 dimensions
(`fairveil.privacy.mechanisms.NormGamma`). Above, the coordinates are cut into G blocks of at most 8, each with density
exp(-a |z_b|), a = alpha/sqrt(G). A shift of length s has at most sqrt(G) s as sum of its block lengths, so its cost is
a sqrt(G) s = alpha s, as for one block. For 105 coordinates the standard deviation is six per cent larger than that of
one block. Rounding adds at most sqrt(8) + 1 grid units to the length in every block; 2^-12 of alpha pays for it.

Grid. The lattice law has P(z) proportional to exp(-n(z)/A), n the norm rounded up. Add a uniform draw from the unit
cube: the law becomes continuous, and shifting it by s units moves n by at most s + sqrt(d) + 1, which `NormGamma`
includes in its scale. What is used is the lattice point, at most sqrt(d) units away from that continuous draw; whoever
uses it hides this distance (`reach`) together with the solver's tolerance.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections import Counter
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np

from fairveil.arrays import Floats
from fairveil.consensus.algorithm import per_node
from fairveil.consensus.solver import LocalSolver
from fairveil.errors import SpecError
from fairveil.privacy.conversions import GRID_CONSTANT, gdp_mu, grid_correction
from fairveil.privacy.limits import ADDED_SHARE
from fairveil.privacy.mechanisms import Gaussian, Laplace
from fairveil.privacy.mechanisms.norm_gamma import LARGEST_DIMENSION, NormGamma
from fairveil.privacy.noise import Noise

BLOCK = 8
TAIL = 0.01
"""Share of the budget that hides the solver's tolerance and the grid of the noise."""
SMALLEST: Literal["smallest"] = "smallest"
OWN_DUAL = (
    "printed: the dual step of a node is its own penalty, and where penalties differ the limit is not the optimum"
)
NOT_ESTABLISHED = (
    "printed: the proof assumes exact minimisers and noise of a continuous law; the solver stops at a tolerance and "
    "floats lie on a grid, and neither is paid for"
)
_DOWN = 1 - 2.0**-30
"""Noise is drawn for a budget smaller by this factor: far more than rounding errors in norms and bounds."""


def block_sizes(width: int) -> list[int]:
    """Equal blocks, as far as they can be: one where exact sampling reaches.

    >>> block_sizes(105)
    [8, 8, 8, 8, 8, 8, 8, 7, 7, 7, 7, 7, 7, 7]
    """
    if width <= LARGEST_DIMENSION // 2:
        return [width]
    count = math.ceil(width / BLOCK)
    return [width // count + (place < width % count) for place in range(count)]


def exact_noise(alpha: float, width: int, shift: float, noise: Noise) -> tuple[Floats, float]:
    """Integer noise on a grid, and ``reach``: how far it may be from the continuous law.

    ``shift`` is the length that one row may move the value: the grid is chosen to be fine against it.
    """
    sizes = block_sizes(width)
    each = alpha / math.sqrt(len(sizes)) * (1.0 if len(sizes) == 1 else 1 - 2.0**-12)
    drawn: dict[int, list[Floats]] = {}
    unit = 0.0
    for size, count in Counter(sizes).items():
        mechanism = NormGamma(sensitivity=shift, epsilon=each * shift, dimension=size)
        drawn[size] = list(mechanism.releases(np.zeros(size), noise, count))
        unit = max(unit, math.ldexp(1.0, -mechanism.bits))
    parts = [drawn[size].pop() for size in sizes]
    return np.concatenate(parts), math.sqrt(width) * unit


def gaussian_mu(epsilon: float, delta: float, draws: int, grid_sigma: float) -> float:
    """mu of everything together. A ledger with `Limit.approximate(epsilon, delta, currency="gaussian")` takes it.

    One per cent of delta is set aside for ``draws`` discrete draws of at least ``grid_sigma`` grid units.

    >>> round(gaussian_mu(1.0, 1e-5, 1000, 2.0**36), 4)
    0.2679
    """
    if grid_correction(epsilon, draws * GRID_CONSTANT / grid_sigma**2) > ADDED_SHARE * delta:
        raise SpecError(
            "epsilon is too large for Gaussian noise on a grid", path="epsilon", given=epsilon,
            allowed="at most about 20", fix="definition='pure' has no such limit",
        )  # fmt: skip
    return gdp_mu(epsilon, delta * (1 - ADDED_SHARE)) * math.sqrt(1 - 1e-8)


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


class Sound:
    """The sound form: everything in which the forms of an algorithm differ; ``variant`` in a spec picks the form.

    The dual step is the same at all nodes, so that sum_i lam_i = 0 and the limit is the optimum. Noise in the objective
    is drawn exactly on a grid, and a last noise hides grid and tolerance for ``tail`` of the budget.
    """

    established: ClassVar[bool] = True
    tail: ClassVar[float] = TAIL
    """Share of the budget that goes to the last noise."""
    notes: ClassVar[tuple[str, ...]] = ()

    def dual_steps(self, penalty: Floats, chosen: Any, *, own: bool, start: bool) -> Floats:
        """theta of every node and iteration.

        ``chosen``: a number, ``"smallest"`` (over the nodes, at every iteration) or None for the default. ``start``:
        the default is fixed by the first iteration. ``own``: the algorithm is printed with each node's own penalty as
        its step; the limit would be wrong, and the smallest stands here instead.
        """
        if isinstance(chosen, tuple | list):
            raise SpecError(
                "the dual step must be the same at all nodes", path="dual_step", given=list(chosen),
                allowed="one number", fix="node-dependent steps lead to a wrong limit: variant='printed' runs them",
            )  # fmt: skip
        if chosen is None or chosen == SMALLEST:
            least = penalty.min(axis=1, keepdims=True)
            fixed = start and chosen is None
            return np.broadcast_to(least[:1] if fixed else least, penalty.shape).copy()
        return np.full(penalty.shape, float(chosen))

    def dual_notes(self, chosen: Any, *, own: bool) -> tuple[str, ...]:
        """What a reader of a result must know about the dual step."""
        return ()

    def objective(self, shift: float, tolerance: float, rates: tuple[float, ...], tail: float) -> Perturbation:
        """Noise in the objective of one node; ``tail`` is what each release may spend on the last noise."""
        return Objective(shift, tolerance, rates, tail)


def float_noise(alpha: float, width: int, noise: Noise) -> Floats:
    """The textbook draw in floating point: norm Gamma(d, 1/alpha), uniform direction."""
    rng = np.random.default_rng(noise.uniform_integers(2**32, 4))
    direction = rng.normal(size=width)
    return direction / np.linalg.norm(direction) * rng.gamma(width, 1 / alpha)


@dataclass(frozen=True)
class PrintedObjective(Perturbation):
    """Noise of density exp(-rate |e|) in the gradient, as printed."""

    rates: tuple[float, ...]

    def release(self, solver: LocalSolver, iteration: int, kappa: float, linear: Floats, noise: Noise) -> Floats:
        drawn = float_noise(self.rates[iteration - 1], len(linear), noise)
        return solver.solve(kappa, linear + drawn, self.tolerance)


@dataclass(frozen=True)
class PrintedPrimal(Perturbation):
    """Noise of density exp(-alpha |e|) on the solution, as printed."""

    alpha: float

    def release(self, solver: LocalSolver, iteration: int, kappa: float, linear: Floats, noise: Noise) -> Floats:
        return solver.solve(kappa, linear, self.tolerance) + float_noise(self.alpha, len(linear), noise)


class Printed(Sound):
    """``variant="printed"``. Where penalties differ, own dual steps end at sum_i grad O_i/eta_i = 0."""

    established = False
    tail = 0.0
    notes = (NOT_ESTABLISHED,)

    def dual_steps(self, penalty: Floats, chosen: Any, *, own: bool, start: bool) -> Floats:
        if isinstance(chosen, tuple | list):
            return np.broadcast_to(per_node("dual_step", tuple(chosen), penalty.shape[1]), penalty.shape).copy()
        if chosen is None and own:
            return penalty.copy()
        return super().dual_steps(penalty, chosen, own=own, start=start)

    def dual_notes(self, chosen: Any, *, own: bool) -> tuple[str, ...]:
        return (OWN_DUAL,) if own and chosen is None else ()

    def objective(self, shift: float, tolerance: float, rates: tuple[float, ...], tail: float) -> Perturbation:
        return PrintedObjective(shift, tolerance, rates)
