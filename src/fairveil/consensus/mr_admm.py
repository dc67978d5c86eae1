"""MR-ADMM: recycled iterations and growing penalties."""

from __future__ import annotations

from fairveil.configuration import configuration
from fairveil.consensus.family import AdmmFamily, DualStep, PerNode
from fairveil.fields import Count, NonNegative, described
from fairveil.registry import register


@register("algorithm", "mr-admm")
@configuration
class MrAdmm(AdmmFamily):
    """R-ADMM with eta_i(2k-1) = penalty_i growth_i^k. No privacy.

    Guarantee: none. Cost: as `r-admm`. ``sound`` steps the duals by the smallest penalty of all nodes; ``printed`` by
    each node's own, and then ends at the solution of sum_i grad O_i/eta_i = 0 when penalties differ.

    >>> MrAdmm(growth=1.04).variant
    'sound'

    Reference: thesis (2.16) to (2.19), Theorem 3; errata: docs/errata/consensus.md.
    """

    growth: PerNode = described("factor of eta from odd step to odd step, a number or one a node", default=1.0)
    growth_until: Count | None = described("iteration after which eta stays", default=None)
    dual_step: DualStep = described('theta: a number, or "smallest" (the default)', default=None)
    gamma: NonNegative = described("extra penalty of recycled steps", default=0.5)

    recycles = True
