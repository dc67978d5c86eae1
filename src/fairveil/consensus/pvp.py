"""Primal variable perturbation: the solution is found exactly and noise is added before it is sent."""

from __future__ import annotations

from fairveil.configuration import configuration
from fairveil.consensus.algorithm import Setting
from fairveil.consensus.family import Variant
from fairveil.consensus.perturbation import Perturbation, PrintedPrimal
from fairveil.consensus.private import PrivateFamily
from fairveil.fields import described
from fairveil.registry import register


@register("algorithm", "pvp")
@configuration
class Pvp(PrivateFamily):
    """ADMM that adds noise of density exp(-alpha |e|) to every solution before it is broadcast. Printed only.

    Guarantee: not established as printed; the ideal mechanism costs 2 q alpha/kappa an iteration. The thesis prints no
    bound. Cost: as `admm`.

    >>> Pvp.example().guarantee().established
    False

    Reference: Zhang and Zhu 2017; thesis section 2.2.4.
    """

    costs_family = "primal"
    printed_only = True

    variant: Variant = described("printed, the only one", default="printed")

    def perturbation(self, setting: Setting, node: int) -> Perturbation | None:
        costs = self.costs(setting)
        shift = 2 * costs.s * float(costs.q[node])
        return PrintedPrimal(shift, float(self.tolerance or 0.0), float(self.alphas(setting)[node]))
