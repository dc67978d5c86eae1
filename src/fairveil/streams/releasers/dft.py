"""DFT: the lowest frequencies of a whole sequence (or of windows) with Laplace noise. Offline: values come late."""

from __future__ import annotations

import math
from typing import ClassVar, Literal

import numpy as np

from fairveil.arrays import Floats, Ints
from fairveil.configuration import configuration
from fairveil.errors import PrivacyError, SpecError
from fairveil.fields import Count, described
from fairveil.privacy.grid import from_units, grid_bits, to_units, units_above
from fairveil.privacy.guarantee import Guarantee
from fairveil.privacy.noise import Noise
from fairveil.registry import register
from fairveil.streams.protocol import (
    COUNTERS,
    MISSING,
    RELEASED,
    SEEN,
    TIME,
    USED,
    Quote,
    Released,
    State,
    Track,
)
from fairveil.streams.releasers.common_fields import PureStream, oracle_reads


def basis_size(length: int, frequencies: int) -> int:
    """How many coefficients the lowest frequencies have: 2 d - 1, one less where half the sampling rate is among them.

    >>> basis_size(8, 3), basis_size(8, 9)
    (5, 8)
    """
    used = min(frequencies, length // 2 + 1)
    return 2 * used - 1 - (used == length // 2 + 1 and length % 2 == 0)


def to_coefficients(values: Floats, frequencies: int) -> Floats:
    """Coefficients of the lowest frequencies in the real orthonormal Fourier basis: 1, cosines, sines.

    >>> wave = np.cos(np.arange(8))
    >>> every = to_coefficients(wave, 5)
    >>> bool(np.isclose(np.linalg.norm(every), np.linalg.norm(wave)))
    True
    >>> bool(np.allclose(from_coefficients(every, 8), wave))
    True
    """
    length = len(values)
    size = _sizes(length, frequencies)
    spectrum = np.fft.rfft(values)[: len(size)] * size
    flat = np.stack([spectrum.real, spectrum.imag], axis=1).ravel()
    return np.delete(flat, 1)[: basis_size(length, frequencies)]


def from_coefficients(coefficients: Floats, length: int) -> Floats:
    """The sequence with these coefficients and no others."""
    used = len(coefficients) // 2 + 1
    flat = np.zeros(2 * used)
    flat[0] = coefficients[0]
    flat[2 : 1 + len(coefficients)] = coefficients[1:]
    spectrum = np.zeros(length // 2 + 1, np.complex128)
    pairs = flat.reshape(used, 2)
    spectrum[:used] = (pairs[:, 0] + 1j * pairs[:, 1]) / _sizes(length, used)
    return np.fft.irfft(spectrum, length)


def _sizes(length: int, frequencies: int) -> Floats:
    """What makes the unnormalised transform orthonormal."""
    made = np.full(min(frequencies, length // 2 + 1), math.sqrt(2.0 / length))
    made[0] = math.sqrt(1.0 / length)
    if length % 2 == 0 and len(made) == length // 2 + 1 and length > 1:
        made[-1] = math.sqrt(1.0 / length)
    return made


class Scale:
    """The scale of Laplace noise on the coefficients of a window: l1 sensitivity D sqrt(count n) over epsilon."""

    established = True
    note = "raw values are held until their window is full"

    def of(self, step: float, epsilon: float, frequencies: int, count: int, length: int) -> tuple[int, float]:
        """Grid bits, and the scale in grid units."""
        sensitivity = step * math.sqrt(count * length) * (1 + 1e-9)
        bits = grid_bits(sensitivity, sensitivity / epsilon)
        return bits, (units_above(sensitivity, bits) + count) / epsilon * (1 + 1e-12)


class PrintedScale:
    """sqrt(d n) D/epsilon on coefficients that are sqrt(n) times those of the orthonormal basis: sqrt(n) too small."""

    established = False
    note = "the printed scale is sqrt(n) too small for the unnormalised transform"

    def of(self, step: float, epsilon: float, frequencies: int, count: int, length: int) -> tuple[int, float]:
        scale = math.sqrt(frequencies) * step / epsilon  # in the orthonormal basis
        bits = grid_bits(step, scale)
        return bits, math.ldexp(scale, bits)


SCALES: dict[str, Scale | PrintedScale] = {"sound": Scale(), "printed": PrintedScale()}


@register("releaser", "dft")
@configuration
class Dft(PureStream):
    """The lowest frequencies of the sequence with Laplace noise, transformed back.

    Guarantee: epsilon-DP (pure) for one person's whole sequence. In the real orthonormal basis 2 d - 1 coefficients
    have l2 sensitivity D sqrt(n) over n values, l1 sensitivity D sqrt((2 d - 1) n); windows share epsilon evenly.
    ``variant = "printed"`` uses the scale sqrt(d n) D/epsilon on the unnormalised transform, which is sqrt(n) too
    small (not established).
    ``delay``: windows of so many steps; None: the whole horizon at once. ``frequencies``: d; an ``oracle`` reads the
    data. Raw values are held until a window is full.
    Cost: one event for the whole stream. O(d) a step, O(delay) memory.

    >>> Dft(epsilon=1.0, horizon=100, frequencies=5).coefficients(100)
    9

    Reference: Rastogi and Nath 2010.
    """

    frequencies: Count | Literal["oracle"] = described("how many frequencies are released", default=10, example=3)
    delay: Count | None = described("steps until a value is published; the whole sequence when left out", default=None)
    pick: Literal["given"] = described("which frequencies: the lowest ones, as given", default="given")

    real_time: ClassVar[bool] = False

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.horizon is None:
            raise self.need_horizon()
        if self.unit != "sequence" or self.participation is not None:
            raise SpecError("DFT protects whole sequences", path="unit", given=self.unit, allowed="sequence")

    @property
    def length(self) -> int:
        """Values of a full window."""
        assert self.horizon is not None
        return self.horizon if self.delay is None else min(int(self.delay), self.horizon)

    @property
    def behind(self) -> int:
        return self.length - 1

    @property
    def _windows(self) -> int:
        assert self.horizon is not None
        return -(-self.horizon // self.length)

    def coefficients(self, length: int) -> int:
        """How many numbers a window of this length releases."""
        d = 1 if self.frequencies == "oracle" else int(self.frequencies)
        return basis_size(length, d)

    def _noise(self, length: int) -> tuple[int, float]:
        """Grid bits and Laplace scale (grid units) of the coefficients of a window."""
        epsilon = float(self.epsilon or 0.0) / self._windows
        d = 1 if self.frequencies == "oracle" else int(self.frequencies)
        return SCALES[self.variant].of(self.step_sensitivity, epsilon, d, self.coefficients(length), length)

    def start(self) -> State:
        return {
            "numbers": np.full((2, self.length), np.nan),  # the last private window and its stds
            "counts": np.zeros(COUNTERS, np.int64),
            "steps": np.full((2, self.length), -1, np.int64),  # clock steps of that window, and of the open one
            "raw": np.zeros(self.length),
        }

    def check(self, state: State, values: Floats) -> None:
        if self.frequencies == "oracle":
            raise oracle_reads("frequencies", "give the number of frequencies")
        super().check(state, values)

    def advance(self, state: State, values: Floats, noise: Noise) -> Track:
        self.check(state, values)
        rows = [self._one(state, float(value), noise) for value in values]
        columns = [np.array(column, np.float64) for column in zip(*rows, strict=True)] if rows else [np.zeros(0)] * 6
        step, value, low, high, plain, status = columns
        whole = np.zeros(len(step), np.int64)
        return Track(step.astype(np.int64), value, low, high, plain, status.astype(np.int64), whole, whole)

    def _one(self, state: State, value: float, noise: Noise) -> tuple[float, ...]:
        """A present value is answered by the one ``delay - 1`` values earlier, a missing one by what was shown last."""
        counts = state["counts"]
        now = int(counts[TIME])
        counts[TIME] += 1
        if math.isnan(value):
            return (now, *self._shown(state, int(counts[SEEN]) - 1), math.nan, MISSING)
        place = int(counts[USED]) % self.length
        state["raw"][place], state["steps"][1, place] = self.in_range(value), now
        counts[USED] += 1
        if place == self.length - 1 or counts[USED] == self.horizon:
            state["numbers"][:, : place + 1] = self._transformed(state["raw"][: place + 1], noise)
            state["steps"][0] = state["steps"][1]
            state["raw"][:] = 0.0
        return self._next(state) if counts[USED] - counts[SEEN] >= self.length else _NOTHING

    def _next(self, state: State) -> tuple[float, ...]:
        """The oldest private value that was not shown yet."""
        at = int(state["counts"][SEEN])
        state["counts"][SEEN] += 1
        value, low, high = self._shown(state, at)
        return (int(state["steps"][0, at % self.length]), value, low, high, value, RELEASED)

    def _shown(self, state: State, at: int) -> tuple[float, float, float]:
        if at < 0:
            return math.nan, math.nan, math.nan
        value, std = state["numbers"][:, at % self.length].tolist()
        reach = std / math.sqrt(2.0) * self.laplace_reach
        return self.as_asked(value, value - reach, value + reach)

    def _transformed(self, values: Floats, noise: Noise) -> Floats:
        """The private window, and the std of its noise."""
        exact = to_coefficients(values, int(self.frequencies))
        bits, scale = self._noise(len(values))
        noisy = from_units(to_units(exact, bits) + noise.laplace(scale, len(exact)), bits)
        std = math.ldexp(scale, -bits) * math.sqrt(2 * len(exact) / len(values))
        return np.stack([from_coefficients(noisy, len(values)), np.full(len(values), std)])

    def finish(self, state: State) -> list[Released]:
        """The values of the last full window that were not shown yet; an open window is not released."""
        ahead = {name: array.copy() for name, array in state.items()}
        counts = ahead["counts"]
        ended = counts[USED] == self.horizon
        ready = int(counts[USED]) if ended else int(counts[USED]) // self.length * self.length
        rows = [self._next(ahead) for _ in range(int(counts[SEEN]), ready)]
        return [Released(int(row[0]), row[1], row[2], row[3], row[4], "released") for row in rows]

    def replay(self, state: State, units: Ints, status: Ints) -> Track:
        raise PrivacyError("a window holds raw data and cannot be replayed", path="releaser", given="dft")

    def guarantee(self) -> Guarantee:
        scale = SCALES[self.variant]
        return self.pure_guarantee(scale.note, established=scale.established)

    def quote(self) -> Quote:
        bits, scale = self._noise(self.length)
        return self.quote_of(math.ldexp(scale, -bits) * math.sqrt(2 * self.coefficients(self.length) / self.length))


_NOTHING = (-1.0, math.nan, math.nan, math.nan, math.nan, MISSING)
