"""The ADMM family as the thesis prints it: each node's own dual step, and textbook draws that nothing more pays for.

The proofs assume exact minimisers and noise of a continuous law. The solver stops at a tolerance and floats lie on a
grid, so no guarantee of these forms is established; for reproduction and audits only.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairveil.consensus.perturbation import Perturbation
from fairveil.consensus.schedule import per_node
from fairveil.consensus.solver import LocalSolver
from fairveil.consensus.sound import Sound
from fairveil.privacy.noise import Noise

Floats = NDArray[np.float64]
OWN_DUAL = (
    "printed: the dual step of a node is its own penalty, and where penalties differ the limit is not the optimum"
)
NOT_ESTABLISHED = (
    "printed: the proof assumes exact minimisers and noise of a continuous law; the solver stops at a tolerance and "
    "floats lie on a grid, and neither is paid for"
)


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
