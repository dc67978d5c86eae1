"""What is public about the columns of a meritocratic world and its reward."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@dataclass(frozen=True)
class Schema:
    """Public facts about the encoded columns and the reward.

    ``centre`` and ``spread`` are declared typical values, not estimates from the candidates;
    ``informative`` is False for columns that cannot change a rank within a group (constant in every group, or the
    redundant level of a category). ``caveats`` names the facts that somebody settled after looking at the records: a
    field of `Scaling` and words for whoever reads the guarantee.
    """

    names: tuple[str, ...]
    low: Floats
    high: Floats
    centre: Floats
    spread: Floats
    informative: NDArray[np.bool_]
    reward_centre: float
    reward_spread: float
    norm: float | None = None
    caveats: tuple[tuple[str, str], ...] = ()

    @property
    def bound(self) -> float:
        """l2 bound of [x, y]: of x by ``norm`` or its column ranges, of y by four spreads around its centre."""
        widest = np.maximum(np.abs(self.low), np.abs(self.high))
        square = (widest**2).sum() if self.norm is None else self.norm**2
        return float(np.sqrt(square + (abs(self.reward_centre) + 4 * self.reward_spread) ** 2))
