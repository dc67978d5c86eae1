"""Running sums under continual observation behind one interface.

A sum is public configuration; its state is plain arrays. Rows are clipped and put on the integer grid when added, sums
are integers, noise is integer, and only noisy values leave `release`. All estimates are floats in the data's own units.

    sums = BatchSum(shape="symmetric", dimension=3, bound=1.0, mu=0.5)
    state = sums.start()
    state = sums.add(state, rows)                    # one row, or a block of rows, into the open leaf
    state, estimate = sums.release(state, noise)     # close the leaf; noisy sum of everything added so far

Shapes: ``shape="scalar"`` (values in [0, bound]), ``"vector"`` (l2 norm <= bound), ``"symmetric"`` (rows v of width
``dimension`` and l2 norm <= bound; the sum is of the outer products v v^T, a full symmetric matrix).
Budget: exactly one of ``mu``, ``rho``, ``epsilon`` with ``delta``.
"""

from __future__ import annotations

import copy
import math
from abc import ABC, abstractmethod
from dataclasses import KW_ONLY, replace
from functools import cached_property
from typing import Annotated, Any, Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from pydantic import Field, Strict

from fairveil.arrays import Floats, Ints
from fairveil.configuration import configuration
from fairveil.errors import HorizonError, InputError, SpecError
from fairveil.fields import Count, Delta, Epsilon, Positive, described
from fairveil.privacy.calibration import Budget, noise_level
from fairveil.privacy.events import Event, PureEvent
from fairveil.privacy.noise import MAX_SCALE, Noise
from fairveil.privacy.sums.shapes import CAPACITY, Grid
from fairveil.state import State

JOINT_BLOCK = 4096
"""Releases whose noise is drawn in one go for all parties: bounds memory."""
Width = Annotated[int, Strict(), Field(ge=1, le=4096)]
Bits = Annotated[int, Strict(), Field(ge=-40, le=40)]


@configuration
class RunningSum(ABC):
    """Interface and common fields of BatchSum, TreeSum, ToeplitzSum and HybridSum.

    ``bits`` fixes the grid (rows are rounded toward zero to units of 2^-bits); left out, it is chosen from the bound
    and the budget so that the grid is fine and int64 has room.
    """

    _: KW_ONLY
    shape: Literal["scalar", "vector", "symmetric"] = described(
        "what a row is: a number, a vector, or the outer product of a vector with itself", default="scalar"
    )
    dimension: Width = described("length of a row", default=1)
    bound: Positive = described(
        "public bound of a row (its norm for vectors); longer rows are scaled down", default=1.0
    )
    mu: Positive | None = described("budget in Gaussian DP", default=None)
    rho: Positive | None = described("budget in zCDP", default=None)
    epsilon: Epsilon | None = described("budget; alone (pure) or with delta", default=None, example=1.0)
    delta: Delta | None = described("chance that the budget is exceeded", default=None, example=1e-5)
    neighbours: Literal["replace-row", "zero-out-row"] = described(
        "what is hidden: a row's value, or that it is there", default="replace-row"
    )
    bits: Bits | None = described("rows are rounded to units of 2^-bits; chosen when left out", default=None)

    def __post_init__(self) -> None:
        if self.shape == "scalar" and self.dimension != 1:
            raise SpecError("a scalar has dimension 1", path="dimension", given=self.dimension, allowed="1")
        if self.budget.pure and not self._allows_pure():
            raise SpecError("delta is missing", path="delta", allowed="delta beside epsilon, or mu, or rho instead")
        rough = self.bits is None and self.grid.row_limit < 2**8
        if rough or not 2.0**-20 <= self.sigma <= MAX_SCALE or self.grid.entry_limit * self._weight() > CAPACITY / 16:
            raise SpecError(
                "the noise or the rows do not fit the integer grid",
                path="bits",
                given=self.grid.bits,
                fix="leave bits out, or choose a less extreme budget or bound",
            )

    # What a kind of sum says about itself -------------------------------------------------------------------------

    name = ""

    def _allows_pure(self) -> bool:
        return False

    def _factor(self) -> float:
        """l2 sensitivity of the whole transcript relative to the sensitivity of one leaf."""
        return 1.0

    def _weight(self) -> float:
        """Largest factor by which rows are multiplied before noise is added."""
        return 1.0

    def _draws(self) -> int:
        """How many flat noises one leaf can meet."""
        return 1

    # Public facts -------------------------------------------------------------------------------------------------

    @cached_property
    def budget(self) -> Budget:
        return Budget(self.mu, self.rho, self.epsilon, self.delta)

    @cached_property
    def grid(self) -> Grid:
        """The integer grid: about 2^30 units for a whole scalar, 2^16 for a whole row whose products are summed."""

        def at(bits: int) -> Grid:
            return Grid(self.shape, self.dimension, self.bound, self.neighbours, bits)

        if self.bits is not None:
            return at(self.bits)
        grid = at((16 if self.shape == "symmetric" else self._scalar_bits()) - math.ceil(math.log2(self.bound)))
        # Large noise needs room: coarsen the rows until it fits, as far as a whole row keeps 2^8 units.
        excess = math.log2(grid.sensitivity) + math.log2(self._factor() / self.budget.first_mu() * 8 / MAX_SCALE)
        return at(grid.bits - max(0, math.ceil(excess / (2 if self.shape == "symmetric" else 1))))

    def _scalar_bits(self) -> int:
        return 30

    @cached_property
    def _calibration(self) -> tuple[float, Event]:
        if self.epsilon is not None and self.delta is None:
            return self.epsilon, PureEvent(self.epsilon)
        return self.budget.calibrate(
            self.grid.sensitivity * self._factor(), float(self.grid.spread.min()), self._draws() * self.grid.width
        )

    @cached_property
    def sigma(self) -> float:
        """Noise level of one draw in grid units: std (on the diagonal for matrices), or Laplace scale."""
        return noise_level(self.grid.sensitivity * self._factor(), self._calibration[0])

    def event(self) -> Event:
        """What one unit pays over the whole life of the sum."""
        return self._calibration[1]

    def expected_std(self, releases: int) -> float:
        """Standard deviation of one coordinate (off-diagonal for matrices) of the estimate after this many releases."""
        self._check_horizon(releases)
        level = math.ldexp(self.sigma / self._weight(), -self.grid.sum_bits)
        return level * float(self.grid.spread[-1]) * math.sqrt(self._relative_variance(releases))

    def _relative_variance(self, releases: int) -> float:
        """Variance of the estimate in units of (one draw / `_weight`); a sum of sums has its own `expected_std`."""
        raise NotImplementedError

    def _check_horizon(self, releases: int) -> None:
        """Raise if the sum cannot make this many releases."""
        if isinstance(releases, bool) or not isinstance(releases, int | np.integer) or releases < 1:
            raise InputError("releases are counted from 1", path="releases", given=releases, allowed="at least 1")

    # The stream ---------------------------------------------------------------------------------------------------

    @abstractmethod
    def start(self) -> State:
        """An empty sum."""

    def add(self, state: State, rows: ArrayLike) -> State:
        """Add one row, or a block of rows, to the leaf (batch) that is open now. The input state is not changed."""
        value, count = self.grid.total(rows)
        held = np.asarray(state["rows"] + count)
        # The refusal depends on the numbers of rows alone, which are public.
        if self._load(state, int(held)) * self.grid.entry_limit > CAPACITY:
            raise InputError(
                "the integer sum has no room for more rows", path="rows", given=int(held), fix="choose fewer bits"
            )
        return {**state, "open": state["open"] + value, "rows": held}

    def _load(self, state: State, held: int) -> float:
        """How many rows, with their weights, meet in one integer when ``held`` rows are counted."""
        return held * self._weight()

    @abstractmethod
    def release(self, state: State, noise: Noise) -> tuple[State, Floats]:
        """Close the open leaf (batch), draw its noise, and return the noisy sum of everything added so far."""

    @abstractmethod
    def lost(self, state: State) -> State:
        """The release that was due is charged but its value is gone: drop the open leaf and go on without its rows."""

    def estimate(self, state: State) -> Floats:
        """The last published estimate again (zeros before the first release)."""
        return self.grid.publish(state["published"])

    def releases_made(self, state: State) -> int:
        return int(state["releases"])

    def _common_state(self) -> State:
        width = self.grid.width
        return {
            "open": np.zeros(width, np.int64),
            "rows": np.zeros((), np.int64),
            "releases": np.zeros((), np.int64),
        }

    # Simulation ---------------------------------------------------------------------------------------------------

    def many(self, copies: int) -> Self:
        """The same sum over ``copies`` independent streams of the same rows, side by side: estimates gain a first axis.

        One call then advances every stream. For simulation and audits; noise and event are those of a single stream.
        """
        twin = copy.copy(self)
        twin.__dict__.update(grid=replace(self.grid, copies=copies), sigma=self.sigma, _calibration=self._calibration)
        return twin

    def noise_path(self, noise: Noise, releases: int) -> Floats:
        """Noise of the estimates 1..releases in one go: the integers that as many calls of `release` would draw.

        Flat, shape (releases, width), in the data's own units; ``grid.unpack`` gives full matrices.
        """
        self._check_horizon(releases)
        return self.noise_of(self.draws(noise, releases))

    def joint_noise_path(self, noise: Noise, releases: int, parties: int) -> Floats:
        """Noise of the added estimates of ``parties`` that release one after the other, each its own rows.

        The integers that as many calls of `release`, party by party, would draw; shape as of `noise_path`.
        """
        self._check_horizon(releases)
        joint = np.empty((releases, self.grid.width), np.int64)
        for first in range(0, releases, JOINT_BLOCK):
            some = joint[first : first + JOINT_BLOCK]
            some[:] = self.draws(noise, len(some) * parties).reshape(len(some), parties, -1).sum(axis=1)
        return self.noise_of(joint)

    def draws(self, noise: Noise, releases: int = 1) -> Ints:
        """The integers that this many releases draw, one row a release."""
        return self.grid.draw(noise, self.sigma, releases)

    def noise_of(self, drawn: Ints) -> Floats:
        """The noise of every estimate, given what the releases so far drew: the law of the stream without its data."""
        raise NotImplementedError

    def _in_own_units(self, flat: NDArray[Any]) -> Floats:
        return np.ldexp(np.asarray(flat, np.float64), -self.grid.sum_bits)


@configuration
class BoundedSum(RunningSum):
    """A running sum whose number of releases is fixed in advance."""

    releases: Count = described("number of releases, fixed in advance", example=8)

    def _check_horizon(self, releases: int) -> None:
        super()._check_horizon(releases)
        if releases > self.releases:
            raise HorizonError(
                "the sum has made all the releases it was built for",
                path="releases",
                given=int(releases),
                allowed=f"at most {self.releases}",
                fix="build it with more releases, or use HybridSum",
            )
