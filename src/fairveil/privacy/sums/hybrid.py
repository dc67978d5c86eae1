"""Running sums for an unknown number of releases: epochs that double, each with a sum of known size inside."""

from __future__ import annotations

import math
from functools import cached_property
from typing import Annotated, Any, Literal, Self

import numpy as np
from pydantic import Field, Strict

from fairveil.arrays import Floats
from fairveil.configuration import configuration
from fairveil.errors import HorizonError
from fairveil.fields import described
from fairveil.privacy.calibration import ROUND_UP
from fairveil.privacy.events import Event, ParallelEvent
from fairveil.privacy.noise import Noise
from fairveil.privacy.sums.base import BoundedSum, RunningSum, State
from fairveil.privacy.sums.toeplitz import (
    ToeplitzSum,
    column_norm,
    default_coefficient_bits,
    integer_coefficients,
)
from fairveil.privacy.sums.tree import TreeSum
from fairveil.registry import register

_LIMIT_BITS = {"toeplitz": 20, "tree": 40, "refined-tree": 40}
_TOTAL_SHARE = {"toeplitz": 0.45, "tree": 0.3, "refined-tree": 0.3}
_PREFIX = "inner_"


@register("sum", "hybrid")
@configuration
class HybridSum(RunningSum):
    """A running sum that needs no horizon: epoch e holds the leaves 2^e .. 2^(e+1) - 1 and has its own inner sum.

    Guarantee: mu-GDP (rho-zCDP, (epsilon, delta)) for one row, however many releases are made. A row lies in one
    epoch. There it pays (1 - share) mu^2 to the inner sum of known size 2^e and, when the epoch closes, share mu^2 to
    one noisy total of the epoch; epochs are disjoint, so the event is charged once (parallel composition). Nothing
    about the horizon enters the noise of an epoch.
    Error: closed epochs add the variance of their totals, the open epoch that of its inner sum. The final inner
    estimate and the total of an epoch are averaged with inverse-variance weights; ``total_share=0`` keeps the inner
    estimate alone. Time and memory as the inner sum of the open epoch.
    The number of leaves is capped at 2^20 (Toeplitz) or 2^40 (tree) because the grid is chosen once.

    >>> from fairveil.privacy.noise import ZeroNoise
    >>> sums = HybridSum(mu=1.0)
    >>> state = sums.start()
    >>> for value in [1.0, 0.5, 0.25, 1.0, 1.0]:
    ...     state, estimate = sums.release(sums.add(state, value), ZeroNoise())
    >>> round(float(estimate), 6)
    3.75

    Reference: the hybrid mechanism of Chan, Shi and Song 2011.
    """

    inner: Literal["toeplitz", "tree", "refined-tree"] = described("which sum an epoch uses", default="toeplitz")
    total_share: Annotated[float, Strict(), Field(ge=0.0, le=0.95)] | None = described(
        "share of the budget for the totals of whole epochs; chosen when left out", default=None
    )

    @property
    def share(self) -> float:
        """Part of mu^2 that pays for the totals of closed epochs."""
        return _TOTAL_SHARE[self.inner] if self.total_share is None else self.total_share

    @property
    def limit(self) -> int:
        """Leaves that the grid has room for."""
        return 2 ** _LIMIT_BITS[self.inner] - 1

    def _check_horizon(self, releases: int) -> None:
        super()._check_horizon(releases)
        if releases > self.limit:
            raise HorizonError(
                "the sum has reached the cap of its grid", path="releases", given=int(releases), allowed=f"{self.limit}"
            )

    def _factor(self) -> float:
        """Noise of the largest epoch, the one that needs most room: fixes the grid, not the budget."""
        largest = _LIMIT_BITS[self.inner] - 1
        if self.inner != "toeplitz":
            return math.sqrt((largest + 1) / (1 - self.share))
        coefficients = integer_coefficients(2**largest, default_coefficient_bits(2**largest))
        return column_norm(coefficients) / math.sqrt(1 - self.share)

    def _scalar_bits(self) -> int:
        return 26 if self.inner == "toeplitz" else 30

    @cached_property
    def _calibration(self) -> tuple[float, Event]:
        # Every inner sum has at most as many draws as its squared noise level (in units of sensitivity/mu), so its
        # correction for the grid is at most that of one draw at level 1; the total of the epoch is a second one.
        return self.budget.calibrate(self.grid.sensitivity, float(self.grid.spread.min()), 2 * self.grid.width)

    @cached_property
    def sigma(self) -> float:
        """Noise level of the total of an epoch, in grid units (of a row released once, if there are no totals)."""
        share = self.share if self.share > 0 else 1.0
        return self.grid.sensitivity / (self._calibration[0] * math.sqrt(share)) * ROUND_UP

    def event(self) -> Event:
        return ParallelEvent(self._calibration[1])

    def epoch_sum(self, epoch: int) -> BoundedSum:
        """The inner sum of an epoch, of size 2^epoch."""
        if epoch not in self._epochs:
            common: dict[str, Any] = {
                "shape": self.shape,
                "dimension": self.dimension,
                "bound": self.bound,
                "neighbours": self.neighbours,
                "bits": self.grid.bits,
                "mu": self._calibration[0] * math.sqrt(1 - self.share),
            }
            made: BoundedSum
            if self.inner == "toeplitz":
                made = ToeplitzSum(2**epoch, **common)
            else:
                made = TreeSum(2**epoch, refine=self.inner == "refined-tree", **common)
            self._epochs[epoch] = made if self.grid.copies == 1 else made.many(self.grid.copies)
        return self._epochs[epoch]

    @cached_property
    def _epochs(self) -> dict[int, BoundedSum]:
        return {}

    def many(self, copies: int) -> Self:
        twin = super().many(copies)
        twin.__dict__["_epochs"] = {}
        return twin

    def _closed_std(self, epoch: int) -> float:
        inner = self.epoch_sum(epoch).expected_std(2**epoch)
        if self.share == 0:
            return inner
        total = self._total_std()
        return inner * total / math.hypot(inner, total)

    def _total_std(self) -> float:
        return math.ldexp(self.sigma, -self.grid.sum_bits) * float(self.grid.spread[-1])

    def expected_std(self, releases: int) -> float:
        self._check_horizon(releases)
        releases = int(releases)
        epoch = releases.bit_length() - 1
        closed = [self._closed_std(e) for e in range(epoch)]
        inside = releases - 2**epoch + 1
        last = self._closed_std(epoch) if inside == 2**epoch else self.epoch_sum(epoch).expected_std(inside)
        return math.hypot(*closed, last)

    def start(self) -> State:
        width = self.grid.width
        state = self._common_state() | {
            "block": np.zeros(width, np.int64),
            "block_rows": np.zeros((), np.int64),
            "settled": np.zeros(width),
            "published": np.zeros(width),
        }
        return state | _outer(self.epoch_sum(0).start())

    def _load(self, state: State, held: int) -> float:
        epoch = (int(state["releases"]) + 1).bit_length() - 1
        return max(self.epoch_sum(epoch)._load(_inner_state(state), held), float(state["block_rows"]) + held)

    def release(self, state: State, noise: Noise) -> tuple[State, Floats]:
        epoch, last, inner = self._position(state)
        before = _inner_state(state) | {"open": state["open"], "rows": state["rows"]}
        inside, _ = inner.release(before, noise)
        block = state["block"] + state["open"]
        value = inside["published"].astype(np.float64)
        if last and self.share > 0:
            total = block + self.draws(noise)[0]
            weight = inner.expected_std(2**epoch) ** 2 / (inner.expected_std(2**epoch) ** 2 + self._total_std() ** 2)
            value = value + weight * (total - value)
        return self._next(state, inside, value, block, state["rows"])

    def lost(self, state: State) -> State:
        _, _, inner = self._position(state)
        inside = inner.lost(_inner_state(state))
        value = inside["published"].astype(np.float64)
        return self._next(state, inside, value, state["block"], np.zeros((), np.int64))[0]

    def _position(self, state: State) -> tuple[int, bool, BoundedSum]:
        leaf = int(state["releases"]) + 1
        self._check_horizon(leaf)
        epoch = leaf.bit_length() - 1
        return epoch, leaf == 2 ** (epoch + 1) - 1, self.epoch_sum(epoch)

    def _next(self, state: State, inside: State, value: Floats, block: Floats, rows: Floats) -> tuple[State, Floats]:
        epoch, last, _ = self._position(state)
        published = state["settled"] + value
        zero = np.zeros_like(state["open"])
        after = self._common_state() | {
            "releases": np.asarray(state["releases"] + 1),
            "block": zero.copy() if last else block,
            "block_rows": np.zeros((), np.int64) if last else state["block_rows"] + rows,
            "settled": published.copy() if last else state["settled"],
            "published": published,
        }
        if last and epoch + 1 < _LIMIT_BITS[self.inner]:
            inside = self.epoch_sum(epoch + 1).start()
        return after | _outer(inside), self.grid.publish(published)

    def noise_path(self, noise: Noise, releases: int) -> Floats:
        self._check_horizon(releases)
        releases = int(releases)
        path = np.empty((releases, self.grid.width))
        settled = np.zeros(self.grid.width)
        for epoch in range(releases.bit_length()):
            first, size = 2**epoch - 1, min(2**epoch, releases - 2**epoch + 1)
            inner = self.epoch_sum(epoch)
            path[first : first + size] = settled + inner.noise_path(noise, size)
            if size < 2**epoch:
                break
            if self.share > 0:
                own, total = inner.expected_std(size) ** 2, self._total_std() ** 2
                drawn = settled + self._in_own_units(self.draws(noise)[0])
                path[first + size - 1] += own / (own + total) * (drawn - path[first + size - 1])
            settled = path[first + size - 1].copy()
        return path


def _inner_state(state: State) -> State:
    return {name[len(_PREFIX) :]: array for name, array in state.items() if name.startswith(_PREFIX)}


def _outer(inside: State) -> State:
    return {_PREFIX + name: array for name, array in inside.items()}
