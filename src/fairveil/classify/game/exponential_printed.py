"""Algorithm 1 of Cummings et al. (2019) as printed: the exponential mechanism with a noisy smallest group.

M = min_a n_1a + Laplace(1/eps) - sqrt(n)/eps stands for the smallest group and Delta = 2/(M - 1) + 1/n. Where
the smallest group has fewer than about sqrt(n)/eps + 1 positives M - 1 is negative: the scale changes its sign, bad
rules are preferred, and the claim of 2 eps does not hold.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairveil.classify.game.hypotheses import UNIT, errors
from fairveil.privacy.events import ApproximateEvent, Event
from fairveil.privacy.guarantee import Guarantee, Neighbours
from fairveil.privacy.noise import GRID_BITS, Noise

Floats = NDArray[np.float64]
WHY = (
    "the printed scale 2/(M-1) is negative or far too small when a group has few positives; delta is tied to the "
    "number of rows"
)


@dataclass(frozen=True)
class Printed:
    """Algorithm 1 as printed, with its epsilon so that the claimed total is ``epsilon`` = 2 eps. Not established."""

    epsilon: float
    weight: float = 1.0
    replaced: bool = True
    """The claim is for a row replaced, whatever was asked for."""

    def scale(self, positives: NDArray[np.int64], rows: int, noise: Noise) -> float:
        """Delta of the printed algorithm, which may be negative."""
        eps = self.epsilon / 2
        laplace = float(noise.laplace(2.0**GRID_BITS / eps)[0]) / 2.0**GRID_BITS
        margin = float(positives.min()) + laplace - math.sqrt(rows) / eps
        return 2 / (margin - 1) + 1 / rows if margin != 1 else math.inf

    def utility(self, table: Floats, people: Floats, rows: int) -> Floats:
        rates = table[:, :, 1] / np.maximum(people[:, 1], 1.0)
        return self.weight * (rates.max(axis=1) - rates.min(axis=1)) + errors(table, people) / rows

    def pick(self, table: Floats, people: Floats, rows: int, noise: Noise) -> tuple[int, float]:
        """The chosen hypothesis and the scale it was chosen with."""
        spread = self.scale(people[:, 1].astype(np.int64), rows, noise)
        loss = self.utility(table, people, rows) * math.copysign(1.0, spread)
        gaps = np.rint((loss - loss.min()) * 2.0**30).astype(np.int64)
        unit = min(max(1, round(2 * abs(spread) / (self.epsilon / 2) * 2.0**30)), 2**61)
        return int(noise.select(gaps, unit)[0]), spread

    def choose(self, table: Floats, people: Floats, rows: int, noise: Noise) -> dict[str, Any]:
        """What a fit publishes."""
        return {"plays": [self.pick(table, people, rows, noise)[0]]}

    @staticmethod
    def event(epsilon: float, delta: float, *, over_score: bool) -> Event:
        """What is claimed."""
        return ApproximateEvent(epsilon, delta)

    @staticmethod
    def guarantee(epsilon: float, delta: float, neighbours: Neighbours, *, over_score: bool) -> Guarantee:
        """The claim: rows replaced, whatever was asked for."""
        return Guarantee.approximate(
            epsilon,
            delta,
            model="global",
            unit=UNIT,
            neighbours=Neighbours.REPLACE_ROW,
            established=False,
            notes=(WHY,),
        )
