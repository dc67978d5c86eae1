"""The plain releases themselves: Gaussian noise, and Laplace noise, on every value."""

from __future__ import annotations

import math
from typing import Any, ClassVar

import numpy as np

from fairveil.compiling import njit
from fairveil.configuration import configuration
from fairveil.fields import described
from fairveil.registry import register
from fairveil.streams.plain import Law, PlainReleaser
from fairveil.streams.protocol import SEEN, TIME
from fairveil.streams.quick import cells, plain_release, shown

LAST = 0


@njit(cache=True, nogil=True)
def show_plain(shape, shared, numbers, counts, work, v, r, seen, out):
    """What is released; where a value is missing, the last one, with its own error and no claim about the change."""
    for t in range(len(v)):
        counts[TIME] += 1
        if seen[t] > 0:
            counts[SEEN] += 1
            numbers[LAST], numbers[LAST + 1] = v[t], r[t]
        known = counts[SEEN] > 0
        out[t, 0] = numbers[LAST] if known else np.nan
        out[t, 1] = numbers[LAST + 1] if known else np.nan


@njit(cache=True)
def step_plain(shape, shared, numbers, counts, work, kept, line, z):
    """`show_plain` for one value of a stream."""
    place, units = plain_release(counts, kept, line, z)
    if place >= 0:
        v, r, seen, out = cells(line)
        show_plain(shape, shared, numbers, counts, work, v, r, seen, out)
    return shown(place, units, line)


@register("releaser", "baseline-gaussian")
@configuration
class BaselineGaussian(PlainReleaser):
    """Gaussian noise on every value, and nothing else.

    Guarantee: mu-GDP, hence (epsilon, delta)-DP, for the unit that ``unit`` names (default one person's whole
    sequence, replace): the l2 sensitivity is D sqrt(steps a unit touches). Noise std D sqrt(T)/mu.
    Cost: one event for the whole stream. One draw a step, O(1) time and memory.

    >>> releaser = BaselineGaussian(epsilon=1.0, delta=1e-7, horizon=100)
    >>> round(releaser.quote().noise_std, 1)
    46.8

    Reference: thesis section 3.3; Balle and Wang 2018 (exact calibration).
    """

    laws: ClassVar[tuple[str, ...]] = ("gaussian", "discrete-gaussian", "binomial")
    kernel = staticmethod(show_plain)
    quick = staticmethod(step_plain)


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

    @classmethod
    def example(cls) -> Any:
        return cls(epsilon=1.0, horizon=2)

    @property
    def quantile(self) -> float:
        """Of the Laplace law, in its own stds."""
        return math.log(1 / (1 - self.interval)) / math.sqrt(2.0)
