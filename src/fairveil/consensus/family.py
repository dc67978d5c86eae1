"""The ADMM family: what plain, modified, recycled and private ADMM have in common.

    primal (reads data)   f_i = argmin q_i sum L(y f.x) + (rho/N)|f|^2/2 + (2 lam_i - eta M_i).f + eta V_i |f|^2
    recycled (even t)     f_i -= (G_i + 2 lam_i + eta sum_j (f_i - f_j))/(2 eta V_i + gamma)
    dual                  lam_i += (theta/2) sum_j (f_i - f_j)

with M_i = V_i f_i + sum_j f_j before the step. G_i is never computed from data: the optimality condition of the odd
step gives G_i = -2 lam_i - eta (2 V_i f_i - M_i) from what that step used and released. The dual step is common to all
nodes (`Sound`): with node-dependent steps (`Printed`, as printed for MR-ADMM) sum_i lam_i is not 0 and the limit
solves sum_i grad O_i/eta_i = 0 instead of sum_i grad O_i = 0.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, ClassVar, Literal

import numpy as np

from fairveil.arrays import Floats
from fairveil.configuration import configuration
from fairveil.consensus.algorithm import Algorithm, Local, Payload, Schedule, Setting, penalties, per_node
from fairveil.consensus.losses import Loss, loss_table, make_loss
from fairveil.consensus.perturbation import Perturbation, Printed, Sound
from fairveil.consensus.rows import Rows
from fairveil.consensus.solver import LocalSolver, least_tolerance
from fairveil.consensus.theory import Finding, check_theorem_1
from fairveil.errors import SpecError
from fairveil.fields import Positive, described
from fairveil.privacy.noise import Noise

PerNode = Any
"""A positive number, or a list of them, one a node (checked in `AdmmFamily`)."""
DualStep = Any
"""The same, or "smallest", or None."""
Variant = Literal["sound", "printed"]
FORMS: dict[Variant, Sound] = {"sound": Sound(), "printed": Printed()}
CONSTANT: PerNode = 1.0
"""Growth of penalties that stay."""
FOR_EVER: int | None = None
BY_RULE: DualStep = None
LARGEST_C = 1750.0
TOLERANCE = 1e-9
"""Default gradient tolerance, in units of C."""


@configuration
class AdmmFamily(Algorithm):
    """Base of all ADMM variants: how penalties grow, which iterations read data, how a step is solved."""

    own_dual: ClassVar[bool] = True
    """Printed form: the dual step is each node's own penalty."""
    fixed_dual: ClassVar[bool] = False
    """The default dual step is that of the first iteration."""
    growth = CONSTANT
    growth_until = FOR_EVER
    dual_step = BY_RULE
    gamma = 0.0
    """What an algorithm does not take as fields is this."""

    C: Positive | None = described("weight of the loss; default min(1750, rows of the smallest node)", default=None)
    rho: Positive = described("weight of |f|^2/2", default=0.22)
    loss: Any = described("a loss by name or table", default="logistic")
    tolerance: Positive | None = described(
        "gradient norm at which a local solution is accepted; default 1e-9 C", default=None
    )
    check: bool = described("refuse schedules outside Theorem 1", default=True)
    variant: Variant = described("sound, or printed as in the thesis", default="sound")
    penalty: PerNode = described("eta, a number or one a node", default=0.5)

    def __post_init__(self) -> None:
        object.__setattr__(self, "loss", loss_table(self.loss))
        steps = {"penalty": self.penalty, "growth": self.growth, "dual_step": self.dual_step}
        for name, value in steps.items():
            if name == "dual_step" and value in (None, "smallest"):
                continue
            if isinstance(value, list | tuple) and value and all(map(_positive, value)):
                object.__setattr__(self, name, tuple(map(float, value)))
            elif not _positive(value):
                allowed = "a finite number above 0, or one a node"
                raise SpecError("this is not a positive number", path=name, given=value, allowed=allowed)

    @property
    def form(self) -> Sound:
        """What the variant changes: dual steps, noise in the objective, what is established."""
        return FORMS[self.variant]

    @property
    def protects(self) -> bool:
        return self.form.established

    @property
    def loss_function(self) -> Loss:
        return make_loss(self.loss)

    @property
    def scale(self) -> float:
        """C, once it is known."""
        if self.C is None:
            raise SpecError("C is not known before the rows are counted", path="C", fix="state C, or complete() first")
        return self.C

    def complete(self, setting: Setting) -> Algorithm:
        least = min(setting.sizes)
        C = min(LARGEST_C, float(least)) if self.C is None else self.C
        if least < C:
            node = int(np.argmin(setting.sizes))
            raise SpecError(
                "C exceeds the rows of a node", path="C", given=C, allowed=f"at most {least} (node {node})",
            )  # fmt: skip
        tolerance = self.tolerance or max(TOLERANCE * C, self._least_tolerance(setting, C))
        if tolerance < self._least_tolerance(setting, C):
            raise SpecError(
                "the tolerance is below what double precision reaches", path="tolerance", given=tolerance,
                allowed=f"at least {self._least_tolerance(setting, C):.3g}",
            )  # fmt: skip
        full: AdmmFamily = replace(self, C=C, tolerance=tolerance)
        schedule = full.schedule(setting)
        found = full.theorem_1(setting, schedule)
        if self.check and not found.holds:
            raise SpecError(
                f"the schedule breaks {found.fails} (Theorem 1)", path="penalty",
                given=f"node {found.node}, iteration {found.iteration}: {found.numbers}",
                allowed="penalties that do not shrink and stay above the dual step",
                fix="check=False runs it and marks the result",
            )  # fmt: skip
        return full

    def _least_tolerance(self, setting: Setting, C: float) -> float:
        loss = self.loss_function
        return max(least_tolerance(B, setting.width, C / B, loss.steepest) for B in setting.sizes)

    def theorem_1(self, setting: Setting, schedule: Schedule) -> Finding:
        """The premises of Theorem 1 for this configuration."""
        odd = schedule.releases - 1
        growing = np.max(per_node("growth", self.growth, setting.nodes)) > 1
        for_ever = bool(growing) and self.growth_until is None
        found = check_theorem_1(setting.graph, schedule.penalty[odd], schedule.dual[odd], grows_for_ever=for_ever)
        return found if found.iteration is None else replace(found, iteration=int(odd[found.iteration - 1]) + 1)

    def notes(self, setting: Setting) -> tuple[str, ...]:
        """What a reader of a result must know about the schedule."""
        schedule = self.schedule(setting)
        found = self.theorem_1(setting, schedule)
        where = f"node {found.node}, iteration {found.iteration}"
        broken = () if found.holds else (f"unchecked: {found.fails} (Theorem 1) fails at {where}",)
        dual = self.form.dual_notes(self.dual_step, own=self.own_dual)
        return (*dual, *found.notes, *broken)

    def schedule(self, setting: Setting) -> Schedule:
        """Penalties and dual steps of the whole run."""
        start = per_node("penalty", self.penalty, setting.nodes)
        growth = per_node("growth", self.growth, setting.nodes)
        penalty = penalties(start, growth, setting.iterations, until=self.growth_until, recycles=self.recycles)
        dual = self.form.dual_steps(penalty, self.dual_step, own=self.own_dual, start=self.fixed_dual)
        return Schedule(penalty, dual, self.recycles)

    def perturbation(self, setting: Setting, node: int) -> Perturbation | None:
        """How a released solution is made private; None: it is not."""
        return None

    def iterations(self, setting: Setting) -> int:
        return setting.iterations

    def local(self, setting: Setting, node: int) -> Local:
        return AdmmLocal(self, setting, node)


def _positive(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 < value < math.inf


class AdmmLocal(Local):
    """One node of the ADMM family."""

    def __init__(self, algorithm: AdmmFamily, setting: Setting, node: int) -> None:
        self.algorithm, self.node = algorithm, node
        self.schedule = algorithm.schedule(setting)
        self.neighbours = setting.graph.neighbours[node]
        self.ridge = algorithm.rho / setting.nodes
        self.scale = algorithm.scale / setting.sizes[node]
        self.gamma = algorithm.gamma
        self.perturbation = algorithm.perturbation(setting, node)
        self.own = np.zeros(setting.width)
        self.theirs = {j: np.zeros(setting.width) for j in self.neighbours}
        self.dual = np.zeros(setting.width)
        self.used = np.zeros(setting.width), np.zeros(setting.width)
        """lam_i and M_i of the last step that read data."""
        self.solver: LocalSolver | None = None

    @property
    def weights(self) -> Floats:
        return self.own

    def reads(self, iteration: int) -> bool:
        return self.schedule.reads(iteration)

    def hear(self, iteration: int, inbox: Mapping[int, Payload], absent: frozenset[int]) -> None:
        for j in self.neighbours:
            if j in inbox:
                self.theirs[j] = np.asarray(inbox[j]["f"])
        before = iteration - 1
        if before >= 1 and self.schedule.reads(before):
            self.dual = self.dual + self.schedule.dual[before - 1, self.node] / 2 * self._apart()
        if self.reads(iteration):
            self.used = self.dual, len(self.neighbours) * self.own + self._sum()

    def _sum(self) -> Floats:
        return sum(self.theirs.values(), np.zeros(len(self.own)))

    def _apart(self) -> Floats:
        """sum_j (f_i - f_j)."""
        return len(self.neighbours) * self.own - self._sum()

    def question(self, iteration: int) -> Floats:
        return np.concatenate(self.used)

    def draw(self, iteration: int, rows: Rows, noise: Noise | None) -> Payload:
        if self.solver is None or self.solver.rows is not rows:
            self.solver = LocalSolver(rows, self.algorithm.loss_function, self.scale)
        eta = self.schedule.penalty[iteration - 1, self.node]
        dual, reach = self.used
        linear = 2 * dual - eta * reach
        kappa = self.ridge + 2 * eta * len(self.neighbours)
        tolerance = float(self.algorithm.tolerance or 0.0)
        if self.perturbation is None:
            return {"f": self.solver.solve(kappa, linear, tolerance)}
        assert noise is not None
        return {"f": self.perturbation.release(self.solver, iteration, kappa, linear, noise)}

    def recycle(self, iteration: int) -> Payload:
        eta = self.schedule.penalty[iteration - 1, self.node]
        count = len(self.neighbours)
        dual, reach = self.used
        gradient = -2 * dual - eta * (2 * count * self.own - reach)
        return {"f": self.own - (gradient + 2 * self.dual + eta * self._apart()) / (2 * eta * count + self.gamma)}

    def keep(self, iteration: int, payload: Payload | None) -> None:
        if payload is not None:
            self.own = np.asarray(payload["f"])
