"""FAST: a random-walk Kalman filter on Laplace releases, at every step or where a controller samples."""

from __future__ import annotations

import math
from functools import cached_property
from typing import ClassVar, Literal, NamedTuple

import numpy as np

from fairveil.arrays import Floats
from fairveil.compiling import njit
from fairveil.configuration import configuration
from fairveil.errors import SpecError
from fairveil.fields import Count, Positive, described
from fairveil.privacy.noise import Noise
from fairveil.registry import register
from fairveil.streams.filters.kernel import Memory, line_of, plain_release, shown, signal_of
from fairveil.streams.protocol import MISSING, SEEN, TIME, USED, State, Track, join_tracks
from fairveil.streams.releasers.common_fields import oracle_reads
from fairveil.streams.releasers.plain_release import Law, PlainReleaser

ESTIMATE, VARIANCE, INTERVAL, DUE, ERRORS = 0, 1, 2, 3, 4
"""Places in the numbers: two of the filter; interval, next sample and (from here on) last errors of the controller."""
PROPORTIONAL, INTEGRAL, DERIVATIVE, HISTORY, GAIN, TARGET = 0.9, 0.1, 0.0, 5, 5.0, 0.1
"""Settings of the controller as in a public re-implementation of FAST."""


class Walk(NamedTuple):
    """Variance of a step of the walk, 1.0 where a controller picks the samples, least size of an estimate in errors."""

    variance: float
    sampling: float
    floor: float


@njit(cache=True, nogil=True)
def follow_walk(memory, signal):
    """Kalman filter of z_t = z_(t-1) + u_t; between samples the last estimate, with a growing variance."""
    v, r, seen, out = signal
    walk, numbers, counts = Walk(memory.shared[0], memory.shared[1], memory.shared[2]), memory.numbers, memory.counts
    for t in range(len(v)):
        now = counts[TIME]
        counts[TIME] += 1
        if counts[SEEN] == 0:
            if seen[t] == 0:
                out[t, 0] = out[t, 1] = np.nan
                continue
            numbers[ESTIMATE], numbers[VARIANCE] = v[t], r[t]
            counts[SEEN] = 1
        else:
            prior = numbers[VARIANCE] + walk.variance
            numbers[VARIANCE] = prior
            if seen[t] > 0:
                counts[SEEN] += 1
                before = numbers[ESTIMATE]
                gain = prior / (prior + r[t])
                numbers[ESTIMATE] = before + gain * (v[t] - before)
                numbers[VARIANCE] = (1.0 - gain) * prior
                if walk.sampling > 0:
                    _steer(walk.floor, numbers, counts[SEEN], now, abs(numbers[ESTIMATE] - before))
        out[t, 0], out[t, 1] = numbers[ESTIMATE], numbers[VARIANCE]


@njit(cache=True, nogil=True)
def _steer(floor, numbers, samples, now, moved):
    """The controller: sample sooner when the last sample was a surprise. Reads released values only."""
    for j in range(HISTORY - 1):
        numbers[ERRORS + j] = numbers[ERRORS + j + 1]
    error = moved / max(abs(numbers[ESTIMATE]), floor)
    numbers[ERRORS + HISTORY - 1] = error
    total = 0.0
    for j in range(HISTORY):
        total += numbers[ERRORS + j]
    change = error - numbers[ERRORS + HISTORY - 2]
    signal = PROPORTIONAL * error + INTEGRAL * total / HISTORY + DERIVATIVE * change / numbers[INTERVAL]
    if samples >= HISTORY:
        power = min((signal - TARGET) / TARGET, 50.0)
        numbers[INTERVAL] = max(1.0, numbers[INTERVAL] + GAIN * (1.0 - math.exp(power)))
    numbers[DUE] = now + math.floor(numbers[INTERVAL] + 0.5)


@njit(cache=True)
def step_walk(shape, shared, numbers, counts, work, kept, line, z):
    """`follow_walk` for one value of a stream."""
    own = line_of(line)
    place, units = plain_release(counts, kept, own, z)
    if place >= 0:
        follow_walk(Memory(shape, shared, numbers, counts, work), signal_of(own))
    return shown(place, units, own)


@register("releaser", "fast")
@configuration
class Fast(PlainReleaser):
    """A random-walk Kalman filter on Laplace releases, with or without adaptive sampling (FAST).

    Guarantee: epsilon-DP (pure) for ``unit``. With ``samples`` = M only M steps are released, with scale D M/epsilon;
    the controller that picks them reads released values only. When they are used up, the last estimate is shown.
    ``process_variance``: of one step of the walk, which must be known beforehand; an ``oracle`` reads the data.
    Cost: one event for the whole stream. O(1) time and memory a step.

    >>> round(Fast(epsilon=1.0, horizon=100, samples=20, process_variance=4.0).quote().noise_std, 2)
    28.28

    Reference: Fan and Xiong 2014.
    """

    law: Law = described("law of the noise", default="laplace")
    process_variance: Positive | Literal["oracle"] = described("variance of the filter's model of change", default=1.0)
    samples: Count | None = described(
        "how many values are released; chosen from the horizon when left out", default=None
    )

    laws: ClassVar[tuple[str, ...]] = ("laplace", "gaussian")
    kernel = staticmethod(follow_walk)
    quick = staticmethod(step_walk)

    def __post_init__(self) -> None:
        if self.samples is not None and (self.unit != "sequence" or self.participation is not None):
            raise SpecError("sampling divides the budget of whole sequences", path="samples", given=self.samples)
        if self.samples is not None and (self.horizon is None or self.samples > self.horizon):
            raise SpecError("there are fewer steps than samples", path="samples", given=self.samples)
        super().__post_init__()

    @property
    def steady(self) -> bool:
        return super().steady and self.samples is None and self.process_variance != "oracle"

    @property
    def adds_steps(self) -> bool:
        return super().adds_steps and self.samples is None

    @property
    def touched(self) -> int | None:
        return self.samples if self.samples is not None else super().touched

    @cached_property
    def shared(self) -> Floats:
        walk = 0.0 if self.process_variance == "oracle" else float(self.process_variance)
        floor = self.step_sensitivity / self.plan.std
        return np.array(Walk(walk / self.plan.std**2, float(self.samples is not None), floor))

    def numbers(self) -> Floats:
        made = np.zeros(ERRORS + HISTORY)
        made[INTERVAL] = 1.0
        return made

    def advance(self, state: State, values: Floats, noise: Noise) -> Track:
        if self.process_variance == "oracle":
            raise oracle_reads("process_variance", "give a process variance")
        if self.samples is None:
            return super().advance(state, values, noise)
        return join_tracks([self._sample(state, values[t : t + 1], noise) for t in range(len(values))])

    def _sample(self, state: State, value: Floats, noise: Noise) -> Track:
        """Release one value if its time has come, else show the last estimate."""
        counts = state["counts"]
        due = counts[SEEN] < HISTORY or counts[TIME] >= state["numbers"][DUE]
        if np.isnan(value[0]) or not due or counts[USED] >= self.samples:
            return self.replay(state, np.zeros(1, np.int64), np.array([MISSING]))
        return super().advance(state, value, noise)

    def check_horizon(self, state: State, more: int) -> None:
        if self.samples is None:
            super().check_horizon(state, more)
