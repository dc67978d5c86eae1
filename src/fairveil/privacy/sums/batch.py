"""Sums over disjoint batches: every row is in exactly one noisy release."""

from __future__ import annotations

import copy
import math
from typing import Self

import numpy as np

from fairveil.arrays import Floats, Ints
from fairveil.configuration import configuration
from fairveil.errors import InputError, SpecError
from fairveil.privacy.events import Event, GaussianEvent, ParallelEvent, SharedGaussianEvent
from fairveil.privacy.grid import share_above
from fairveil.privacy.noise import Noise
from fairveil.privacy.sums.base import RunningSum, State
from fairveil.registry import register


@register("sum", "batch")
@configuration
class BatchSum(RunningSum):
    """Noisy sums of disjoint batches, each row in exactly one release.

    Guarantee: mu-GDP (or rho-zCDP, (epsilon, delta), or pure epsilon for scalars) for one row, whatever the number and
    the lengths of the batches, because a row meets one noise only (parallel composition over batches; lengths may
    depend on earlier releases but not on unreleased rows). Noise std sensitivity/mu per batch.
    Cost: one event for ever. Error: std of the sum of k batches is sqrt(k) sensitivity/mu; with batches that double, k
    is log2 of the number of rows. Time O(width) a row, memory O(width).

    >>> from fairveil.privacy.noise import ZeroNoise
    >>> sums = BatchSum(epsilon=1.0)
    >>> state, estimate = sums.release(sums.add(sums.start(), [0.5, 1.0, 7.0]), ZeroNoise())
    >>> float(estimate)
    2.5

    Reference: parallel composition, McSherry 2009; adaptive batches, docs/guarantees/sums.md.
    """

    def _allows_pure(self) -> bool:
        return self.shape == "scalar"

    def event(self) -> Event:
        return ParallelEvent(self._calibration[1])

    def shared(self, honest: int) -> Self:
        """The same sum as one of several parties draws it: ``honest`` of them together have the noise of this one."""
        twin = copy.copy(self)
        share = share_above(self.sigma, honest)
        twin.__dict__.update(grid=self.grid, sigma=share, _calibration=self._calibration)
        return twin

    def shared_event(self, honest: int) -> Event:
        """What a row pays where at least ``honest`` shares of the noise stay unknown."""
        whole = self._calibration[1]
        if not isinstance(whole, GaussianEvent):
            raise SpecError(
                "the grid of these sums is too coarse for shares of noise", path="sums", given="secure",
                allowed="own", fix="choose a smaller epsilon or leave bits out",
            )  # fmt: skip
        share = whole.grid_sigma / math.sqrt(honest)
        return ParallelEvent(SharedGaussianEvent(whole.mu, whole.draws, whole.grid_sigma, share, honest))

    def _relative_variance(self, releases: int) -> float:
        return releases * (2.0 if self.budget.pure else 1.0)

    def start(self) -> State:
        width = self.grid.width
        return self._common_state() | {"published": np.zeros(width, np.int64), "last": np.zeros(width, np.int64)}

    def release(self, state: State, noise: Noise) -> tuple[State, Floats]:
        last = state["open"] + self.draws(noise)[0]
        published = state["published"] + last
        after = self._closed(state) | {"published": published, "last": last}
        return after, self.grid.publish(published)

    def lost(self, state: State) -> State:
        return self._closed(state) | {"last": np.zeros_like(state["last"])}

    def _closed(self, state: State) -> State:
        return {**state, "open": np.zeros_like(state["open"]), "releases": np.asarray(state["releases"] + 1)}

    def last_batch(self, state: State) -> Floats:
        """The noisy sum of the batch that was released last, alone."""
        return self.grid.publish(state["last"])

    def draws(self, noise: Noise, releases: int = 1) -> Ints:
        if self.budget.pure:
            return np.stack([noise.laplace(self.sigma, self.grid.width) for _ in range(releases)])
        return self.grid.draw(noise, self.sigma, releases)

    def noise_of(self, drawn: Ints) -> Floats:
        return self._in_own_units(np.cumsum(drawn, axis=0))


def doubling_ends(rounds: int) -> list[int]:
    """Ends of batches that double, [1, 3, 7, ...], cut at ``rounds``: the last batch may be shorter.

    >>> doubling_ends(10)
    [1, 3, 7, 10]
    """
    if rounds < 1:
        raise InputError("there are no rounds to cut", path="rounds", given=rounds, allowed="at least 1")
    ends = [2**power - 1 for power in range(1, math.floor(math.log2(rounds + 1)) + 1)]
    return ends if ends[-1] == rounds else [*ends, rounds]
