"""The private algorithms of the thesis: noise in the objective, two accountings side by side.

What objective perturbation of an ADMM step costs: the printed bound and the tightest sound one. A step of node i solves
min q sum L + (kappa/2)|f|^2 + (public + noise).f with q = C/B_i and kappa = rho/N + 2 eta V.
Replacing a row moves the noise that belongs to an output f by at most 2 s q (|L'| <= s), and changes the determinant of
the Jacobian: with H0 >= kappa I the common part of the Hessian, det(H0 + b x x')/det(H0 + b' x' x'') <= 1 + b/kappa for
b <= c1 q, whatever the rows. So noise of density exp(-a |e|) in the gradient costs

    ln(1 + c1 q/kappa) + 2 s q a                                                     no side condition is needed.

``m`` families (dual perturbation, M-ADMM) add 2 eta V e to the gradient, so a = alpha/(2 eta V); ``r`` families add e,
and only their odd iterations pay. Primal perturbation shifts the solution itself by at most 2 s q/kappa. Printed
(Theorems 4 and 5): q (1.4 c1 + s alpha)/(eta V) and 2 q (1.4 c1/kappa + s alpha), valid where 2 c1 < kappa/q.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np

from fairveil.arrays import Bools, Floats
from fairveil.configuration import configuration
from fairveil.consensus.algorithm import MEASURED, PUBLIC, UNIT, Algorithm, Schedule, Setting, one_of
from fairveil.consensus.family import AdmmFamily
from fairveil.consensus.losses import Loss
from fairveil.consensus.perturbation import TAIL, GaussianPrimal, Perturbation, block_sizes, gaussian_mu
from fairveil.errors import SpecError
from fairveil.fields import Delta, Epsilon, described
from fairveil.privacy.conversions import gdp_epsilon
from fairveil.privacy.events import Event, GaussianEvent, PureEvent, RepeatedEvent
from fairveil.privacy.guarantee import Guarantee
from fairveil.privacy.limits import ADDED_SHARE

Family = Literal["m", "r", "primal"]
PRIMAL_DRAWS_SIGMA = 2.0**26
"""`Gaussian` draws on a grid of at least so many units a standard deviation."""
_DOWN = 1 - 2.0**-40
"""alpha is solved for a budget smaller by this factor: more than the rounding errors of its total."""


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
    reads: Bools

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
        if (fixed >= epsilon * share * _DOWN).any():
            raise self._too_small(epsilon, calibrate, share)
        found = (epsilon * share * _DOWN - fixed) / weight
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


@configuration
class PrivateFamily(AdmmFamily):
    """Base of the private algorithms of the thesis, in their sound form and as printed.

    Give ``alpha`` (the noise, as in the thesis) or ``epsilon`` (the total; alpha is constant over the iterations and
    solved from the bound that ``calibrate`` names: ``tight`` node by node, ``printed`` one for all by the worst node).
    """

    private = True
    costs_family: ClassVar[Family] = "r"
    printed_only: ClassVar[bool] = False

    epsilon: Epsilon | None = described("total budget of one row", default=None, example=1.0)
    alpha: Epsilon | None = described("noise density exp(-alpha |e|), as in the thesis", default=None)
    calibrate: Literal["tight", "printed"] = described("which bound turns epsilon into alpha", default="tight")
    perturb: Literal["objective", "gaussian-primal"] = described("where the noise goes", default="objective")
    delta: Delta | None = described("with gaussian-primal", default=None)

    def __post_init__(self) -> None:
        super().__post_init__()
        one_of({"epsilon": self.epsilon, "alpha": self.alpha}, ("epsilon", "alpha"))
        if self.printed_only and self.variant != "printed":
            raise SpecError(
                "this algorithm exists as printed only", path="variant", given=self.variant, allowed="printed",
                fix="private-mr-admm and private-admm have sound variants",
            )  # fmt: skip
        gaussian = self.perturb == "gaussian-primal"
        if gaussian != (self.delta is not None):
            raise SpecError(
                "delta belongs to gaussian-primal", path="delta", given=self.delta,
                allowed="a small probability with perturb = gaussian-primal, nothing otherwise",
            )  # fmt: skip
        if gaussian and (self.epsilon is None or not self.form.established):
            raise SpecError(
                "gaussian-primal is sound and takes a total epsilon", path="perturb", given=self.perturb,
                allowed="epsilon and delta, variant = sound",
            )  # fmt: skip

    def complete(self, setting: Setting) -> Algorithm:
        if setting.nodes == 1 and self.costs_family == "m":
            raise SpecError(
                "dual perturbation needs neighbours", path="nodes", given=1, allowed="at least 2",
                fix="its noise is 2 eta V e, and V is 0",
            )  # fmt: skip
        full = super().complete(setting)
        assert isinstance(full, PrivateFamily)
        full.alphas(setting)  # refuses a budget that cannot be met
        return full

    def costs(self, setting: Setting) -> Costs:
        return Costs.of(self.costs_family, self.schedule(setting), setting, self.loss_function, self.scale, self.rho)

    @property
    def pays_tail(self) -> bool:
        """Whether one per cent goes to the last noise."""
        return self.form.tail > 0 and self.perturb == "objective"

    def alphas(self, setting: Setting) -> Floats:
        """alpha of every node."""
        if self.perturb == "gaussian-primal":
            return np.zeros(setting.nodes)
        if self.alpha is not None:
            return np.full(setting.nodes, self.alpha)
        assert self.epsilon is not None
        share = 1 - TAIL if self.pays_tail else 1.0
        return self.costs(setting).alphas(self.epsilon, self.calibrate, share)

    def totals(self, setting: Setting) -> Floats:
        """Running sound totals of every iteration and node, the last noise included."""
        found = self.costs(setting).tight(self.alphas(setting))
        return with_tail(found) if self.pays_tail else found

    def mu(self, setting: Setting) -> float:
        """GDP parameter of one Gaussian release."""
        assert self.epsilon is not None
        assert self.delta is not None
        count = len(self.schedule(setting).releases)
        draws = count * setting.width
        return gaussian_mu(self.epsilon, self.delta, draws, PRIMAL_DRAWS_SIGMA) / math.sqrt(count)

    def perturbation(self, setting: Setting, node: int) -> Perturbation | None:
        costs = self.costs(setting)
        shift = 2 * costs.s * float(costs.q[node])
        tolerance = float(self.tolerance or 0.0)
        if self.perturb == "gaussian-primal":
            return GaussianPrimal(shift, tolerance, self.mu(setting))
        alpha = float(self.alphas(setting)[node])
        spread = 2 * costs.step[:, node] if self.costs_family == "m" else np.ones(len(costs.step))
        rates = tuple((alpha / spread).tolist())
        tail = self.form.tail * float(self.totals(setting)[-1, node]) / int(costs.reads.sum())
        return self.form.objective(shift, tolerance, rates, tail)

    def event(self, setting: Setting | None = None, node: int = 0) -> Event:
        if setting is None:
            raise SpecError("what it costs depends on graph, rows and iterations", path="setting", fix="run it")
        if self.perturb == "gaussian-primal":
            one = GaussianEvent(self.mu(setting), setting.width, PRIMAL_DRAWS_SIGMA)
            return RepeatedEvent(one, len(self.schedule(setting).releases))
        return PureEvent(float(self.totals(setting)[-1, node]))

    def guarantee(self, setting: Setting | None = None) -> Guarantee | None:
        epsilon = self.epsilon
        if epsilon is None and setting is not None:
            epsilon = float(self.totals(setting)[-1].max())
        facts: dict[str, Any] = {
            "model": "federated",
            "unit": UNIT,
            "neighbours": "replace-row",
            "established": self.form.established,
            "notes": self.promise_notes(setting),
        }
        if self.perturb == "gaussian-primal":
            assert self.epsilon is not None
            assert self.delta is not None
            return Guarantee.approximate(self.epsilon, self.delta, **facts)
        return None if epsilon is None else Guarantee.pure(epsilon, **facts)

    def promise_notes(self, setting: Setting | None) -> tuple[str, ...]:
        covered = "all messages of all nodes in all iterations are covered; each node spends its own"
        notes = [*self.form.notes, MEASURED, PUBLIC, covered]
        if setting is None:
            return tuple(notes)
        for node, (left, right) in self.costs(setting).side_condition().items():
            notes.append(f"the printed bound's side condition fails at node {node}: {left:.4g} < {right:.4g} is false")
        if self.delta is not None and self.delta >= 1 / min(setting.sizes):
            notes.append("delta is not below one over the smallest node: it allows publishing a whole row")
        if self.pays_tail and len(block_sizes(setting.width)) > 1:
            notes.append(f"noise is drawn in {len(block_sizes(setting.width))} blocks, six per cent more of it")
        return (*notes, *self.notes(setting))

    def privacy_loss(self, setting: Setting) -> tuple[list[float | None], list[float | None]]:
        if self.perturb == "gaussian-primal":
            reads = np.cumsum(self.costs(setting).reads)
            mu, delta = self.mu(setting), self.delta
            assert delta is not None
            gaussian = delta * (1 - ADDED_SHARE)  # the rest pays for the grid of the noise
            spent = {count: gdp_epsilon(mu * math.sqrt(count), gaussian) for count in set(reads.tolist())}
            return [spent[count] for count in reads.tolist()], [None] * len(reads)
        tight = self.totals(setting).max(axis=1).tolist()
        costs = self.costs(setting)
        printed = costs.printed(self.alphas(setting))
        if printed is None or costs.side_condition():
            return tight, [None] * len(tight)
        return tight, printed.max(axis=1).tolist()
