"""Private histograms over public bins with a consistent, monotone distribution function.

A published one is post-processing and may be used any number of times.
"""

from __future__ import annotations

import math
from dataclasses import KW_ONLY, dataclass
from functools import cached_property
from typing import Annotated, Literal

import numpy as np
from numpy.typing import ArrayLike
from pydantic import Field, Strict

from fairveil.arrays import Floats, Ints
from fairveil.configuration import configuration
from fairveil.errors import InputError, SpecError
from fairveil.fields import Delta, Epsilon, Positive, described
from fairveil.privacy.calibration import ROUND_UP, Budget
from fairveil.privacy.encodings import RowCode
from fairveil.privacy.events import Event, ParallelEvent
from fairveil.privacy.histograms import codes
from fairveil.privacy.noise import MAX_SCALE, Noise
from fairveil.privacy.stability import ROW, Chain, Clip, FanOut
from fairveil.privacy.sums.base import State
from fairveil.privacy.sums.shapes import CAPACITY
from fairveil.registry import register


@dataclass(frozen=True)
class PrivateHistogram:
    """Counts per bin, their total, and a distribution function that rises from 0 to 1.

    ``counts`` are unbiased and may be negative; ``levels[k]`` is the share of the first k bins, made monotone by
    least squares (isotonic regression) and kept in [0, 1]. ``empty`` says that the total is below one: nothing is known
    and the distribution function is that of the uniform law.

    >>> shown = PrivateHistogram.of(0.0, 1.0, np.array([1.0, 3.0, 0.0, 4.0]), 8.0)
    >>> shown.cdf([0.0, 0.25, 0.5, 2.0]).tolist(), float(shown.quantile(0.5))
    ([0.0, 0.125, 0.5, 1.0], 0.5)
    """

    edges: Floats
    counts: Floats
    total: float
    levels: Floats
    empty: bool

    @classmethod
    def of(cls, low: float, high: float, counts: Floats, total: float) -> PrivateHistogram:
        from scipy.optimize import isotonic_regression

        edges = np.linspace(low, high, len(counts) + 1)
        empty = not total >= 1.0
        if empty:
            levels = np.linspace(0.0, 1.0, len(edges))
        else:
            inner = isotonic_regression(np.cumsum(counts)[:-1]).x if len(counts) > 1 else np.zeros(0)
            levels = np.concatenate([[0.0], np.clip(inner / total, 0.0, 1.0), [1.0]])
        for array in (edges, counts, levels):
            array.setflags(write=False)
        return cls(edges, counts, float(total), levels, empty)

    def cdf(self, points: ArrayLike) -> Floats:
        """Share of values at or below each point, linear inside a bin, in [0, 1] and monotone."""
        return np.asarray(np.interp(_numbers(points), self.edges, self.levels))

    def quantile(self, shares: ArrayLike) -> Floats:
        """The smallest point whose `cdf` reaches each share in [0, 1]."""
        wanted = _numbers(shares)
        if ((wanted < 0) | (wanted > 1)).any():
            raise InputError("a share is out of range", path="shares", allowed="in [0, 1]")
        right = np.clip(np.searchsorted(self.levels, wanted, side="left"), 1, len(self.levels) - 1)
        below, above = self.levels[right - 1], self.levels[right]
        part = np.clip((wanted - below) / np.where(above > below, above - below, 1.0), 0.0, 1.0)
        return np.asarray(self.edges[right - 1] + part * (self.edges[right] - self.edges[right - 1]))


def _numbers(values: ArrayLike) -> Floats:
    array = np.asarray(values, np.float64)
    if np.isnan(array).any():
        raise InputError("a point is not a number", path="points", allowed="numbers")
    return array


Number = Annotated[float, Strict(), Field(ge=-1e300, le=1e300, allow_inf_nan=False)]


@register("sum", "histogram")
@configuration
class Histogram:
    """Counts of values in equal public bins of [low, high], released once per batch of values.

    Guarantee: mu-GDP (rho-zCDP, (epsilon, delta)) for one value: replacing it moves one unit between two bins, which
    changes two nodes on every level of the tree (sensitivity sqrt(2 levels)), or moves the coded counts by the longest
    ||C (e_a - e_b)|| of the Toeplitz code. With ``total="noisy"`` the number of values is private as well and a value
    may also be absent (a group nobody of which arrived): an absent value moves less than a replaced one, and the
    difference pays for one noisy total. Each value is in one batch, so the event is charged once (parallel).
    Error: `expected_std` of the count of the first k bins after least squares; the monotone projection only helps.
    The Toeplitz code has the smaller error (worst prefix of 256 bins: 3.4/mu against 4.6/mu for the tree).
    Time O(bins) a release (O(bins^2) for Toeplitz), memory O(bins).

    >>> from fairveil.privacy.noise import ZeroNoise
    >>> shape = Histogram(4, mu=1.0)
    >>> _, shown = shape.release(shape.add(shape.start(), [0.1, 0.3, 0.3, 0.9]), ZeroNoise())
    >>> shown.counts.tolist(), float(shown.cdf(0.5))
    ([1.0, 2.0, 0.0, 1.0], 0.75)

    Reference: Hay, Rastogi, Miklau and Suciu 2010; docs/guarantees/sums.md.
    """

    bins: Annotated[int, Strict(), Field(ge=1, le=4096)] = described("number of bins of equal width")
    _: KW_ONLY
    low: Number = described("public lower end of the range", default=0.0)
    high: Number = described("public upper end of the range", default=1.0)
    method: Literal["tree", "toeplitz"] = described(
        "how noise is spread over the bins: hierarchical counts, or prefixes", default="toeplitz"
    )
    total: Literal["public", "noisy"] = described(
        "whether the number of values is public or gets noise too", default="public"
    )
    mu: Positive | None = described("budget in Gaussian DP", default=None)
    rho: Positive | None = described("budget in zCDP", default=None)
    epsilon: Epsilon | None = described("budget, with delta", default=None)
    delta: Delta | None = described("chance that the budget is exceeded", default=None)
    bits: Annotated[int, Strict(), Field(ge=0, le=40)] | None = described(
        "fineness of the grid; chosen when left out", default=None
    )

    name = ""

    @classmethod
    def example(cls) -> Histogram:
        """Four bins with a private total: both of its audit pairs apply."""
        return cls(4, total="noisy", epsilon=1.0, delta=1e-5)

    def __post_init__(self) -> None:
        if not self.low < self.high:
            raise SpecError("the range of the bins is empty", path="high", given=self.high, allowed=f"above {self.low}")
        if self.budget.pure:
            raise SpecError("delta is missing", path="delta", allowed="delta beside epsilon, or mu, or rho instead")
        if not 2.0**-20 <= self.sigma <= MAX_SCALE:
            raise SpecError(
                "the noise does not fit the integer grid", path="bits", given=self.grid_bits, fix="leave bits out"
            )

    @cached_property
    def budget(self) -> Budget:
        return Budget(self.mu, self.rho, self.epsilon, self.delta)

    @property
    def levels(self) -> int:
        """Levels of the tree below the root."""
        return (self.bins - 1).bit_length()

    @cached_property
    def _moved(self) -> float:
        """l2 change of all noisy counts (without the total) when one unit moves between bins; 0 for a single bin."""
        if self.bins == 1:
            return 0.0
        return (
            self._nodes(True).sensitivity.l2 if self.method == "tree" else self._code.moved(Chain(ROW, replaced=True))
        )

    def _nodes(self, replaced: bool) -> Chain:
        """One unit counts once on every level of the tree."""
        return Chain(ROW, FanOut(self.levels), Clip(0.0, 1.0), replaced=replaced)

    @property
    def _code(self) -> RowCode:
        """A value as its column of the Toeplitz code."""
        coefficients = codes.bin_coefficients(self.bins).astype(np.float64)
        return RowCode(float(np.linalg.norm(coefficients)), codes.pair_sensitivity(self.bins))

    @cached_property
    def _absent(self) -> float:
        """l2 change of the same counts when one unit disappears."""
        if self.bins == 1:
            return 0.0
        return self._nodes(False).sensitivity.l2 if self.method == "tree" else self._code.moved(Chain(ROW))

    @cached_property
    def _factor(self) -> float:
        """Sensitivity that the budget is calibrated to, in counts."""
        if self.bins == 1:
            return 1.0
        # Longer than both changes by a hair: the total then has a budget whatever the shape of the code.
        return max(self._moved, self._absent * (1.1 if self.total == "noisy" else 0.0))

    @cached_property
    def grid_bits(self) -> int:
        """A count is this many bits of units."""
        if self.bits is not None:
            return self.bits
        bits = 24
        while bits > 0 and math.ldexp(self._factor, bits) / self.budget.first_mu() > MAX_SCALE / 8:
            bits -= 1
        return bits

    @cached_property
    def _calibration(self) -> tuple[float, Event]:
        met = 2 * max(self.levels, 1) if self.method == "tree" else self.bins
        return self.budget.calibrate(math.ldexp(self._factor, self.grid_bits), self._total_ratio_floor, met + 1)

    @property
    def _total_ratio_floor(self) -> float:
        """Smallest noise level of any draw relative to the level of the counts."""
        return min(1.0, self._total_factor / self._factor) if self.total == "noisy" else 1.0

    @cached_property
    def _total_factor(self) -> float:
        """Noise level of the total in counts for mu = 1: an absent value leaves 1 - (absent/factor)^2 of the budget."""
        return 1.0 / math.sqrt(1.0 - (self._absent / self._factor) ** 2)

    @cached_property
    def sigma(self) -> float:
        """Noise level of a node or of a coded count, in grid units."""
        return math.ldexp(self._factor, self.grid_bits) / self._calibration[0] * ROUND_UP

    @cached_property
    def total_sigma(self) -> float:
        """Noise level of the total in grid units, 0 when it is public."""
        if self.total == "public":
            return 0.0
        return math.ldexp(self._total_factor, self.grid_bits) / self._calibration[0] * ROUND_UP

    def event(self) -> Event:
        """What one value pays, however many batches are released."""
        return ParallelEvent(self._calibration[1])

    @cached_property
    def _root(self) -> float:
        """Variance of the total in units of the variance of a node or of a coded count."""
        return (self.total_sigma / self.sigma) ** 2

    def expected_std(self, first: int) -> float:
        """Standard deviation of the count of the first bins (1..bins) after least squares."""
        if isinstance(first, bool) or not isinstance(first, int | np.integer) or not 1 <= first <= self.bins:
            raise InputError("bins are counted from 1", path="first", given=first, allowed=f"1 to {self.bins}")
        if self.bins == 1:
            relative = self._root
        elif self.method == "tree":
            relative = codes.prefix_variance(self.bins, int(first), self._root)
        else:
            relative = codes.bridge_variance(self.bins, int(first), self._root)
        return math.ldexp(self.sigma, -self.grid_bits) * math.sqrt(relative)

    def start(self) -> State:
        return {"open": np.zeros(self.bins, np.int64)}

    def bin_of(self, values: ArrayLike) -> Ints:
        """Bin of every value; values outside the range count in the first or last bin."""
        array = np.asarray(values, np.float64).reshape(-1)
        if not np.isfinite(array).all():
            raise InputError("a value is not finite", path="values", allowed="finite numbers")
        edges = np.linspace(self.low, self.high, self.bins + 1)
        return np.searchsorted(edges[1:-1], array, side="right").astype(np.int64)

    def add(self, state: State, values: ArrayLike) -> State:
        """Count one value or a block of values in the open batch. The input state is not changed."""
        counts = state["open"] + np.bincount(self.bin_of(values), minlength=self.bins)
        if float(counts.sum()) * math.ldexp(self._weight, self.grid_bits) > CAPACITY:
            raise InputError("the integer counts have no room for this batch", path="values", fix="choose fewer bits")
        return {**state, "open": counts}

    def release(self, state: State, noise: Noise) -> tuple[State, PrivateHistogram]:
        """Close the batch and publish its histogram; a public total is the number of values."""
        counts = self.measure(state, noise)[0]
        # A noisy total is the sum of the consistent counts: the bins say something about it too.
        total = float(state["open"].sum()) if self.total == "public" else float(counts.sum())
        return self.start(), PrivateHistogram.of(self.low, self.high, counts, total)

    def measure(self, state: State, noise: Noise, copies: int = 1) -> Floats:
        """Consistent noisy counts of the open batch, shape (copies, bins), each copy with noise of its own.

        More than one copy is for simulation and audits: publishing several copies of one batch costs several budgets.
        """
        units = state["open"] << self.grid_bits
        total = np.full(copies, units.sum())
        if self.total == "noisy":
            total = total + noise.gaussian(self.total_sigma, copies)
        if self.bins == 1:
            return self._publish(total[:, None])
        if self.method == "toeplitz":
            noisy = codes.encode(units) + noise.gaussian(self.sigma, copies * self.bins).reshape(copies, -1)
            return self._publish(np.diff(codes.bridge(codes.decode(noisy), total, self._root), prepend=0.0))
        size = codes.tree_size(self.bins)
        exact = codes.node_counts(np.concatenate([units, np.zeros(size - self.bins, np.int64)]))
        nodes = np.tile(exact, (copies, 1))
        nodes[:, 1] = total
        nodes[:, 2:] += noise.gaussian(self.sigma, copies * (2 * size - 2)).reshape(copies, -1)
        return self._publish(codes.consistent_counts(nodes, self.bins, self._root))

    def _publish(self, units: Floats) -> Floats:
        return np.ldexp(np.asarray(units, np.float64), -self.grid_bits)

    def lost(self, state: State) -> State:
        """The release that was due is charged but its value is gone: drop the batch."""
        return self.start()

    @cached_property
    def _weight(self) -> float:
        return float(codes.bin_coefficients(self.bins)[0]) if self.method == "toeplitz" else 1.0
