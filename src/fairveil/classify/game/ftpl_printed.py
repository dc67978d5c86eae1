"""The noise of FTPL* as printed (Algorithm 2 of Cummings et al. 2019): fresh in every round, on raw sums."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairveil.privacy.events import ApproximateEvent, Event
from fairveil.privacy.guarantee import Guarantee
from fairveil.privacy.noise import Noise

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class NoisedEveryRound:
    """Fresh Laplace noise on the raw cumulative sum in every round.

    A person is in t terms of the sum of round t, so the noise hides too little; the claim is not established.
    """

    epsilon: float
    delta: float
    rounds: int
    sensitivity: float

    @property
    def laplace_scale(self) -> float:
        """1/eps' as printed: Delta sqrt(T ln(1/delta))/epsilon."""
        return self.sensitivity * math.sqrt(self.rounds * math.log(1 / self.delta)) / self.epsilon

    def event(self) -> Event:
        return ApproximateEvent(self.epsilon, self.delta)

    def guarantee(self, public: str, **facts: Any) -> Guarantee:
        why = "round t adds noise for one loss vector to a sum of t raw ones, and the oracle reads raw features"
        return Guarantee.approximate(self.epsilon, self.delta, **facts, established=False, notes=(public, why))

    def observed(self, vector: Floats, noise: Noise) -> Floats:
        """Raw losses are kept."""
        return vector

    def played(self, total: Floats, noise: Noise) -> Floats:
        bits = 30 - math.floor(math.log2(self.laplace_scale))
        drawn = noise.laplace(math.ldexp(self.laplace_scale, bits), len(total))
        return total + np.ldexp(drawn.astype(np.float64), -bits)
