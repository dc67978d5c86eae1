"""Gaussian noise on every value, and nothing else; its kernel shows the plain release itself."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from fairveil.compiling import njit
from fairveil.configuration import configuration
from fairveil.registry import register
from fairveil.streams.filters.kernel import Memory, line_of, plain_release, shown, signal_of
from fairveil.streams.protocol import SEEN, TIME
from fairveil.streams.releasers.plain_release import PlainReleaser

LAST, VARIANCE = 0, 1
"""Places in the numbers: the last plain release and the variance of its noise."""


@njit(cache=True, nogil=True)
def show_plain(memory, signal):
    """What is released; where a value is missing, the last one, with its own error and no claim about the change."""
    v, r, seen, out = signal
    numbers, counts = memory.numbers, memory.counts
    for t in range(len(v)):
        counts[TIME] += 1
        if seen[t] > 0:
            counts[SEEN] += 1
            numbers[LAST], numbers[VARIANCE] = v[t], r[t]
        known = counts[SEEN] > 0
        out[t, 0] = numbers[LAST] if known else np.nan
        out[t, 1] = numbers[VARIANCE] if known else np.nan


@njit(cache=True)
def step_plain(shape, shared, numbers, counts, work, kept, line, z):
    """`show_plain` for one value of a stream."""
    own = line_of(line)
    place, units = plain_release(counts, kept, own, z)
    if place >= 0:
        show_plain(Memory(shape, shared, numbers, counts, work), signal_of(own))
    return shown(place, units, own)


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
