"""What objective perturbation of an ADMM step costs: the printed bound and the tightest sound one, side by side.

A step of node i solves min q sum L + (kappa/2)|f|^2 + (public + noise).f with q = C/B_i and kappa = rho/N + 2 eta V.
Replacing a row moves the noise that belongs to an output f by at most 2 s q (|L'| <= s), and changes the determinant of
the Jacobian: with H0 >= kappa I the common part of the Hessian, det(H0 + b x x')/det(H0 + b' x' x'') <= 1 + b/kappa for
b <= c1 q, whatever the rows. So noise of density exp(-a |e|) in the gradient costs

    ln(1 + c1 q/kappa) + 2 s q a                                                     no side condition is needed.

``m`` families (dual perturbation, M-ADMM) add 2 eta V e to the gradient, so a = alpha/(2 eta V); ``r`` families add e,
and only their odd iterations pay. Primal perturbation shifts the solution itself by at most 2 s q/kappa. Printed
(Theorems 4 and 5): q (1.4 c1 + s alpha)/(eta V) and 2 q (1.4 c1/kappa + s alpha), valid where 2 c1 < kappa/q.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from fairveil.consensus.losses import Loss
from fairveil.consensus.schedule import Schedule, Setting
from fairveil.errors import SpecError

Floats = NDArray[np.float64]
Family = Literal["m", "r", "primal"]
TAIL = 0.01
"""Share of the budget that hides the solver's tolerance and the grid of the noise."""


@dataclass(frozen=True)
class Costs:
    """Public numbers of every iteration (rows) and node (columns); iterations that read no data cost nothing."""

    family: Family
    q: Floats
    c1: float
    s: float
    step: Floats
    """eta_i(t) V_i."""
    kappa: Floats
    reads: NDArray[np.bool_]

    @classmethod
    def of(cls, family: Family, schedule: Schedule, setting: Setting, loss: Loss, C: float, rho: float) -> Costs:
        step = schedule.penalty * setting.graph.degrees[None, :]
        kappa = rho / setting.nodes + 2 * step
        reads = np.array([schedule.reads(t) for t in range(1, len(step) + 1)], bool)
        q = C / np.array(setting.sizes, np.float64)
        return cls(family, q, loss.curvature, loss.steepest, step, kappa, reads)

    @property
    def jacobian(self) -> Floats:
        """ln(1 + c1 q/kappa) of every iteration and node."""
        if self.family == "primal":
            return np.zeros(self.kappa.shape)
        return np.where(self.reads[:, None], np.log1p(self.c1 * self.q / self.kappa), 0.0)

    @property
    def weight(self) -> Floats:
        """What one unit of alpha costs."""
        if self.family == "m":
            cost = self.s * self.q / self.step
        else:
            cost = 2 * self.s * self.q / (self.kappa if self.family == "primal" else 1.0) * np.ones(self.kappa.shape)
        return np.where(self.reads[:, None], cost, 0.0)

    @property
    def printed_jacobian(self) -> Floats:
        cost = 1.4 * self.c1 * self.q / self.step if self.family == "m" else 2.8 * self.c1 * self.q / self.kappa
        return np.where(self.reads[:, None], cost, 0.0)

    def tight(self, alpha: Floats) -> Floats:
        """Running totals of the sound bound: one row an iteration, one column a node."""
        return np.cumsum(self.jacobian + self.weight * alpha, axis=0)

    def printed(self, alpha: Floats) -> Floats | None:
        """Running totals of the printed bound; None where the thesis prints none (primal perturbation)."""
        if self.family == "primal":
            return None
        return np.cumsum(self.printed_jacobian + self.weight * alpha, axis=0)

    def side_condition(self) -> dict[int, tuple[float, float]]:
        """Nodes where 2 c1 < kappa/q fails in some iteration, with both sides. The tight bound does not need it."""
        right = np.where(self.reads[:, None], self.kappa / self.q, np.inf).min(axis=0)
        left = 2 * self.c1
        return {int(i): (left, float(right[i])) for i in np.flatnonzero(~(left < right))}

    def alphas(self, epsilon: float, calibrate: Literal["tight", "printed"], share: float = 1.0) -> Floats:
        """alpha of every node for ``share`` of epsilon: node by node (tight), or one for all by the worst node."""
        fixed = (self.jacobian if calibrate == "tight" else self.printed_jacobian).sum(axis=0)
        weight = self.weight.sum(axis=0)
        if calibrate == "printed" and self.family == "primal":
            raise SpecError(
                "no bound is printed for primal perturbation", path="calibrate", given="printed", allowed="tight"
            )
        if (fixed >= epsilon * share).any():
            raise self._too_small(epsilon, calibrate, share)
        found = (epsilon * share - fixed) / weight
        return found if calibrate == "tight" else np.full(len(found), found.min())

    def _too_small(self, epsilon: float, calibrate: str, share: float) -> SpecError:
        each = (self.jacobian if calibrate == "tight" else self.printed_jacobian) / share
        least = each.sum(axis=0)
        node = int(np.argmax(least))
        fits = int((np.cumsum(each, axis=0) < epsilon).sum(axis=0).min())
        return SpecError(
            "epsilon is below what the change of the Jacobian alone costs", path="epsilon", given=epsilon,
            allowed=f"above {float(least[node]):.6g} at node {node} ({calibrate} bound)",
            fix=f"raise epsilon, or run at most {fits} iterations" if fits else "raise epsilon: no iteration fits",
        )  # fmt: skip


def with_tail(total: Floats) -> Floats:
    """The sound total, tolerance noise included: it is one per cent of the whole."""
    return total / (1 - TAIL)
