"""Private M-ADMM: noise in the penalty term of every iteration."""

from __future__ import annotations

from fairveil.configuration import configuration
from fairveil.consensus.family import DualStep, PerNode
from fairveil.consensus.private import PrivateFamily
from fairveil.fields import Count, described
from fairveil.registry import register


@register("algorithm", "private-m-admm")
@configuration
class PrivateMAdmm(PrivateFamily):
    """M-ADMM with gradient noise 2 eta_i V_i e_i in every iteration.

    Guarantee: epsilon-DP (pure, federated) for one row of one node replaced, over all messages of all iterations:
    sum_t ln(1 + c1 q/kappa) + q alpha/(eta V), and one per cent for the solver's tolerance and the grid (`sound`).
    ``perturb="gaussian-primal"``: (epsilon, delta). Cost: as `m-admm`.

    >>> PrivateMAdmm(epsilon=3.0).guarantee().epsilon
    3.0

    Reference: thesis (2.44), Theorem 4; errata: docs/errata/consensus.md.
    """

    growth: PerNode = described("factor of eta from step to step, a number or one a node", default=1.04)
    growth_until: Count | None = described("iteration after which eta stays", default=None)
    dual_step: DualStep = described('theta: a number, or "smallest" (of all eta_i(t)); default of t = 1', default=None)

    costs_family = "m"
    own_dual = False
    fixed_dual = True
