"""Private MR-ADMM: noise on odd iterations, recycled even ones, growing penalties."""

from __future__ import annotations

from fairveil.configuration import configuration
from fairveil.consensus.family import DualStep, PerNode
from fairveil.consensus.private import PrivateFamily
from fairveil.fields import Count, NonNegative, described
from fairveil.registry import register


@register("algorithm", "private-mr-admm")
@configuration
class PrivateMrAdmm(PrivateFamily):
    """MR-ADMM with a random linear term on odd iterations: the best of the printed private algorithms.

    Guarantee: epsilon-DP (pure, federated) for one row of one node replaced, over all messages: sum over odd t of
    ln(1 + c1 q/kappa) + 2 q alpha, and one per cent for tolerance and grid (`sound`); with
    ``perturb="gaussian-primal"`` (epsilon, delta)-DP by Gaussian noise on the solutions. Cost: as `mr-admm`.

    >>> PrivateMrAdmm(epsilon=1.0, delta=1e-5, perturb="gaussian-primal").guarantee().definition.value
    'approximate'

    Reference: thesis (2.47), (2.48), Lemma 2, Theorem 5; errata: docs/errata/consensus.md.
    """

    growth: PerNode = described("factor of eta from odd step to odd step, a number or one a node", default=1.04)
    growth_until: Count | None = described("iteration after which eta stays", default=None)
    dual_step: DualStep = described('theta: a number, or "smallest" (the default)', default=None)
    gamma: NonNegative = described("extra penalty of recycled steps", default=0.5)

    costs_family = "r"
    recycles = True
