"""R-ADMM: every second iteration recycles the last gradient and reads no data."""

from __future__ import annotations

from fairveil.configuration import configuration
from fairveil.consensus.family import AdmmFamily
from fairveil.fields import NonNegative, described
from fairveil.registry import register


@register("algorithm", "r-admm")
@configuration
class RAdmm(AdmmFamily):
    """ADMM whose even iterations take a gradient step from what the odd one left behind. No privacy.

    Guarantee: none. Cost: `admm` on odd iterations, O(V d) on even ones, which read no rows.

    >>> RAdmm(gamma=2.0).recycles
    True

    Reference: thesis (2.12) to (2.15).
    """

    gamma: NonNegative = described("extra penalty of recycled steps: less oscillation, slower", default=0.5)

    recycles = True
