"""The square-root factorisation: correlated noise whose error at the last prefix is about ln(n)/pi."""

from __future__ import annotations

import math
from functools import cached_property
from typing import Annotated

import numpy as np
from pydantic import Field, Strict

from fairveil.arrays import Floats, Ints
from fairveil.configuration import configuration
from fairveil.errors import SpecError
from fairveil.fields import Count, described
from fairveil.privacy.noise import Noise
from fairveil.privacy.sums.base import BoundedSum, State
from fairveil.registry import register

MAX_RELEASES = 2**26
_COLUMNS = 16
"""Columns per FFT: bounds the memory of `noise_of`."""


def square_root_coefficients(count: int) -> Floats:
    """c_0 = 1, c_j = c_{j-1} (2j - 1)/(2j): the power series of (1 - z)^(-1/2), whose square is 1 + z + z^2 + ...

    >>> square_root_coefficients(4).tolist()
    [1.0, 0.5, 0.375, 0.3125]
    """
    steps = np.arange(1, count, dtype=np.float64)
    return np.concatenate([[1.0], np.cumprod((2 * steps - 1) / (2 * steps))])


def convolve(first: Floats, second: Floats, count: int) -> Floats:
    """The first ``count`` coefficients of a product of power series, along axis 0 of ``second`` (FFT)."""
    from scipy.fft import irfft, next_fast_len, rfft

    size = next_fast_len(len(first) + len(second) - 1, real=True)
    spectrum = rfft(first, size)
    spectrum = spectrum[:, None] if second.ndim == 2 else spectrum
    return irfft(spectrum * rfft(second, size, axis=0), size, axis=0)[:count]


def reciprocal(series: Floats, count: int) -> Floats:
    """The first ``count`` coefficients of 1/series (Newton's iteration, O(count log count))."""
    inverse = np.array([1.0 / series[0]])
    while len(inverse) < count:
        size = min(2 * len(inverse), count)
        error = -convolve(inverse, series[:size], size)
        error[0] += 2.0
        inverse = convolve(inverse, error, size)
    return inverse


def default_coefficient_bits(releases: int) -> int:
    """Bits after the point for the coefficients: the last one, about 1/sqrt(pi n), is then counted as 16 or more."""
    return 5 + math.ceil(math.log2(releases) / 2)


def integer_coefficients(diagonals: int, bits: int) -> Ints:
    """First column of the integer C: round(2^bits c_j)."""
    return np.rint(np.ldexp(square_root_coefficients(diagonals), bits)).astype(np.int64)


def column_norm(coefficients: Ints) -> float:
    """l2 norm of the longest column of C, the first one."""
    return float(np.linalg.norm(coefficients.astype(np.float64)))


@register("sum", "toeplitz")
@configuration
class ToeplitzSum(BoundedSum):
    """Prefix sums with noise that cancels over time: the square-root Toeplitz factorisation in integers.

    With C = round(2^b c_j) on the diagonals, integers y = C x + W are published (x the leaf sums, W independent
    discrete Gaussians); everything after is post-processing: solve C x' = y row by row, add up x'.
    Guarantee: mu-GDP (rho-zCDP, (epsilon, delta)) for one row over all ``releases``: a leaf of sensitivity s moves y by
    at most s ||C e_1||, the norm of the longest column of the integer C that is really used, and W has std
    s ||C e_1||/mu. C is lower triangular: y_t depends on rows so far only, and rows may depend on earlier releases.
    ``band`` keeps the first diagonals alone and bounds time and memory; it changes the error, never the guarantee.
    Error: std s ||C e_1|| sqrt(sum_{j<t} a_j^2)/mu with a = coefficients of 1/((1 - z) C(z)); without a band about
    s (ln t + 3.35)/(pi mu) at t = releases. Time and memory O(width * min(t, band)) a release.

    >>> from fairveil.privacy.sums import TreeSum
    >>> tree, toeplitz = (kind(2**10, mu=1.0) for kind in (TreeSum, ToeplitzSum))
    >>> round(tree.expected_std(tree.worst_release()) / toeplitz.expected_std(2**10), 2)
    3.2

    Reference: Fichtenberger, Henzinger and Upadhyay 2023; Henzinger, Upadhyay and Upadhyay 2023.
    """

    releases: Annotated[int, Strict(), Field(ge=1, le=MAX_RELEASES)] = described(
        "number of releases, fixed in advance", example=8
    )
    band: Count | None = described("how many earlier noises a release mixes; all when left out", default=None)
    coefficient_bits: Annotated[int, Strict(), Field(ge=1, le=30)] | None = described(
        "fineness of the coefficients; chosen when left out", default=None
    )

    def __post_init__(self) -> None:
        if self.coefficients[-1] == 0:
            raise SpecError(
                "the coefficients vanish on this grid",
                path="coefficient_bits",
                given=self.coefficient_bits,
                allowed=f"at least {default_coefficient_bits(self.releases)}",
            )
        super().__post_init__()

    def _scalar_bits(self) -> int:
        return 26  # the coefficients add bits of their own

    @property
    def diagonals(self) -> int:
        """How many diagonals of C are not zero: the width of the band."""
        return self.releases if self.band is None else min(self.band, self.releases)

    @cached_property
    def coefficients(self) -> Ints:
        """First column of the integer C."""
        given = self.coefficient_bits
        bits = default_coefficient_bits(self.releases) if given is None else given
        coefficients = integer_coefficients(self.diagonals, bits)
        coefficients.setflags(write=False)
        return coefficients

    def _weight(self) -> float:
        return float(self.coefficients[0])

    def _factor(self) -> float:
        return column_norm(self.coefficients)

    def _draws(self) -> int:
        return self.diagonals

    @cached_property
    def decoder(self) -> Floats:
        """Coefficients of 1/((1 - z) C(z)), C scaled to start with 1: how one noise enters later prefixes."""
        series = np.zeros(self.releases)
        series[: self.diagonals] = self.coefficients / self._weight()
        decoder = np.cumsum(reciprocal(series, self.releases))
        decoder.setflags(write=False)
        return decoder

    @cached_property
    def _variances(self) -> Floats:
        return np.cumsum(self.decoder**2)

    def _relative_variance(self, releases: int) -> float:
        return float(self._variances[releases - 1])

    def worst_release(self) -> int:
        """The prefix with the largest error: the last one, because variances only add up."""
        return int(self.releases)

    def start(self) -> State:
        width = self.grid.width
        return self._common_state() | {
            "leaves": np.zeros((0, width), np.int64),
            "counts": np.zeros(0, np.int64),
            "solved": np.zeros((0, width)),
            "published": np.zeros(width),
        }

    def _load(self, state: State, held: int) -> float:
        """Rows that meet in one number, weighted by C: old leaves fade, so the sum may hold more rows than one leaf."""
        past = min(len(state["counts"]), self.diagonals - 1)
        fading = self.coefficients[1 : past + 1] @ state["counts"][len(state["counts"]) - past :][::-1]
        return float(fading) + held * self._weight()

    def release(self, state: State, noise: Noise) -> tuple[State, Floats]:
        self._check_horizon(int(state["releases"]) + 1)
        past = min(len(state["leaves"]), self.diagonals - 1)
        start = len(state["leaves"]) - past
        kernel = self.coefficients[past:0:-1]
        drawn = self.draws(noise)[0]
        noisy = self.coefficients[0] * state["open"] + kernel @ state["leaves"][start:] + drawn
        solved = (noisy - kernel.astype(np.float64) @ state["solved"][start:]) / self._weight()
        after = self._closed(state, state["open"], state["rows"], solved)
        after["published"] = state["published"] + solved
        return after, self.grid.publish(after["published"])

    def lost(self, state: State) -> State:
        # The leaf becomes empty, which is public: its solution is exactly zero and later rows of C see nothing of it.
        self._check_horizon(int(state["releases"]) + 1)
        nothing = np.zeros_like(state["open"])
        return self._closed(state, nothing, np.zeros((), np.int64), nothing.astype(np.float64))

    def _closed(self, state: State, leaf: Ints, count: Ints, solved: Floats) -> State:
        keep = max(0, len(state["leaves"]) - (self.diagonals - 1))
        return {
            **state,
            "open": np.zeros_like(state["open"]),
            "rows": np.zeros((), np.int64),
            "releases": np.asarray(state["releases"] + 1),
            "leaves": np.concatenate([state["leaves"][keep:], leaf[None]]),
            "counts": np.concatenate([state["counts"][keep:], np.reshape(count, 1)]),
            "solved": np.concatenate([state["solved"][keep:], solved[None]]),
        }

    def noise_of(self, drawn: Ints) -> Floats:
        path = self._in_own_units(drawn) / self._weight()
        count = len(path)
        for first in range(0, self.grid.width, _COLUMNS):
            columns = path[:, first : first + _COLUMNS]
            path[:, first : first + _COLUMNS] = convolve(self.decoder[:count], columns, count)
        return path
