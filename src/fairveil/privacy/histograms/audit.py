"""Neighbouring worlds of a histogram, for audits: one value sits in one bin or in another, or is absent."""

from __future__ import annotations

from functools import partial

from fairveil.errors import SpecError
from fairveil.privacy.audit import AuditPair
from fairveil.privacy.audit.pair import claim_of, finer_claim
from fairveil.privacy.histograms.histogram import Histogram
from fairveil.privacy.noise import Noise
from fairveil.privacy.sums.shapes import Floats
from fairveil.randomness import Generator
from fairveil.registry import register


def run_counts(
    histogram: Histogram, values: tuple[list[float], list[float]], world: int, trials: int, noise: Noise, rng: Generator
) -> Floats:
    """Published counts of ``trials`` histograms of the values of this world."""
    state = histogram.add(histogram.start(), values[world])
    return histogram.measure(state, noise, trials)


def _pair(histogram: Histogram, values: tuple[list[float], list[float]], worlds: str) -> AuditPair:
    epsilon, delta = claim_of(histogram.event(), 1e-5 if histogram.delta is None else histogram.delta)
    run = partial(run_counts, histogram, values)
    return AuditPair(run, worlds, "published counts", epsilon, delta, finer_claim(histogram.event()))


@register("audit-pair", "sum:histogram")
def moved_value(histogram: Histogram) -> AuditPair:
    """One value moves from the first bin to the last, which share no node of the tree but the root."""
    return _pair(histogram, ([histogram.low], [histogram.high]), "one value lies in the first bin or in the last")


@register("audit-pair", "sum:histogram/absent")
def absent_value(histogram: Histogram) -> AuditPair:
    """One value is there or not: promised only where the total is private."""
    if histogram.total != "noisy":
        raise SpecError("a public total shows how many values there are", path="total", allowed='"noisy"')
    return _pair(histogram, ([histogram.low], []), "one value is present or absent")
