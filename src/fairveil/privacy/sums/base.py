"""Running sums under continual observation behind one interface.

A sum is public configuration; its state is plain arrays. Rows are clipped and put on the integer grid when added, sums
are integers, noise is integer, and only noisy values leave `release`. All estimates are floats in the data's own units.

Shapes: ``shape="scalar"`` (values in [0, bound]), ``"vector"`` (l2 norm <= bound), ``"symmetric"`` (rows v of width
``dimension`` and l2 norm <= bound; the sum is of the outer products v v^T, a full symmetric matrix).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fairveil.privacy.events import Event
from fairveil.privacy.noise import Noise

State = dict[str, NDArray[Any]]


class RunningSum:
    """Interface of TreeSum, BatchSum and ToeplitzSum."""

    name: str = ""

    def event(self) -> Event:
        """What one unit pays over the whole life of the sum."""
        raise NotImplementedError

    def start(self) -> State:
        """An empty sum."""
        raise NotImplementedError

    def add(self, state: State, rows: ArrayLike) -> State:
        """Add one row, or a block of rows, to the leaf (batch) that is open now. The input state is not changed."""
        raise NotImplementedError

    def release(self, state: State, noise: Noise) -> tuple[State, NDArray[np.float64]]:
        """Close the open leaf (batch), draw its noise, and return the noisy sum of everything added so far."""
        raise NotImplementedError

    def expected_std(self, releases: int) -> float:
        """Standard deviation of one coordinate (off-diagonal for matrices) of the estimate after this many releases."""
        raise NotImplementedError
