"""M-ADMM: penalties that differ between nodes and grow, with a dual step of its own."""

from __future__ import annotations

from fairveil.configuration import configuration
from fairveil.consensus.family import AdmmFamily, DualStep, PerNode
from fairveil.fields import Count, described
from fairveil.registry import register


@register("algorithm", "m-admm")
@configuration
class MAdmm(AdmmFamily):
    """ADMM with eta_i(t) = penalty_i growth_i^(t-1) and a common dual step theta. No privacy.

    Guarantee: none. Cost: as `admm`. Theorem 1 asks eta_i(t+1) >= eta_i(t) >= theta > 0 and bounded penalties; growth
    without ``growth_until`` is legal with a note, because the method freezes. The dual step may vary in time
    (``"smallest"``), not between nodes; a list of steps needs ``variant="printed"`` and has a wrong limit.

    >>> MAdmm(penalty=(0.5, 0.6), growth=1.01).fixed_dual
    True

    Reference: thesis (2.10), (2.11), Theorem 1.
    """

    growth: PerNode = described("factor of eta from step to step, a number or one a node", default=1.0)
    growth_until: Count | None = described("iteration after which eta stays", default=None)
    dual_step: DualStep = described('theta: a number, or "smallest" (of all eta_i(t)); default of t = 1', default=None)

    own_dual = False
    fixed_dual = True
