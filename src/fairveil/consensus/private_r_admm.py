"""Private R-ADMM: noise on odd iterations, even ones recycle what was released."""

from __future__ import annotations

from fairveil.configuration import configuration
from fairveil.consensus.private import PrivateFamily
from fairveil.fields import NonNegative, described
from fairveil.registry import register


@register("algorithm", "private-r-admm")
@configuration
class PrivateRAdmm(PrivateFamily):
    """R-ADMM with a random linear term on odd iterations; even ones read no data and cost nothing.

    Guarantee: epsilon-DP (pure, federated) for one row of one node replaced, over all messages: sum over odd t of
    ln(1 + c1 q/kappa) + 2 q alpha, and one per cent for tolerance and grid (`sound`). Cost: as `r-admm`.

    >>> PrivateRAdmm(epsilon=3.0).recycles
    True

    Reference: thesis (2.47), (2.48), Lemma 2, Theorem 5.
    """

    gamma: NonNegative = described("extra penalty of recycled steps", default=0.5)

    costs_family = "r"
    recycles = True
