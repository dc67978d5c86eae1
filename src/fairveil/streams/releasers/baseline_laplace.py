"""Laplace noise on every value, and nothing else."""

from __future__ import annotations

import math
from typing import ClassVar

from fairveil.configuration import configuration
from fairveil.fields import described
from fairveil.registry import register
from fairveil.streams.releasers.baseline_gaussian import show_plain, step_plain
from fairveil.streams.releasers.plain_release import Law, PlainReleaser


@register("releaser", "baseline-laplace")
@configuration
class BaselineLaplace(PlainReleaser):
    """Laplace noise on every value, and nothing else.

    Guarantee: epsilon-DP (pure) for the unit that ``unit`` names: the l1 sensitivity is D times the steps a unit
    touches. Noise scale D T/epsilon.
    Cost: one event for the whole stream. One draw a step, O(1) time and memory.

    >>> round(BaselineLaplace(epsilon=1.0, horizon=100).quote().noise_std, 1)
    141.4

    Reference: thesis section 3.8; Dwork, McSherry, Nissim and Smith 2006.
    """

    law: Law = described("law of the noise", default="laplace")

    laws: ClassVar[tuple[str, ...]] = ("laplace",)
    kernel = staticmethod(show_plain)
    quick = staticmethod(step_plain)

    @property
    def quantile(self) -> float:
        """Of the Laplace law, in its own stds."""
        return self.laplace_reach / math.sqrt(2.0)
