"""Dual variable perturbation: ADMM with one constant penalty and noise in the dual variable."""

from __future__ import annotations

from fairveil.configuration import configuration
from fairveil.consensus.family import Variant
from fairveil.consensus.private import PrivateFamily
from fairveil.fields import described
from fairveil.registry import register


@register("algorithm", "dvp")
@configuration
class Dvp(PrivateFamily):
    """ADMM with noise 2 eta V e in the gradient of every iteration, e of density exp(-alpha |e|). Printed only.

    Guarantee: not established (solver tolerance and float noise are not paid for); the stated epsilon is the sound
    bound of the ideal mechanism, sum_t ln(1 + c1 q/kappa) + q alpha/(eta V), the printed one stands beside it.
    Cost: as `admm`.

    >>> Dvp.example().guarantee().established
    False

    Reference: Zhang and Zhu 2017; thesis section 2.2.4 and Theorem 4.
    """

    costs_family = "m"
    printed_only = True

    variant: Variant = described("printed, the only one", default="printed")
