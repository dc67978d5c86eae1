"""The private value of a rule: two noisy sums of clipped importance weights, and nothing else.

Unit and neighbours. One row of the log (arm, outcome, propensity, features); two logs of the same length that differ in
one row. The number of rows n, the arms, the range of outcomes, the rule and the clip C are public.

Sensitivity. Row t enters as u_t = min(w_t, C) y_t / C, which lies in [0, 1] whatever the row holds, and as u_t^2. On
the grid both are whole numbers from 0 to 2^20 units, so replacing a row moves each sum by at most 2^20 units: the pair
of sums has l1 sensitivity 2 and l2 sensitivity sqrt(2), in integers, without rounding errors.

Release. One draw of Laplace noise of scale 2/epsilon (pure), or Gaussian noise for (epsilon, delta), for the pair.
The value C S1/n and its interval are post-processing.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from fairveil.evaluate.estimate import Estimate, Floats, quantile
from fairveil.privacy.events import Event
from fairveil.privacy.grid import from_units, to_units
from fairveil.privacy.guarantee import Guarantee
from fairveil.privacy.mechanisms import Gaussian, Laplace
from fairveil.privacy.noise import Noise

#: Level of the one-sided bound on the second moment that enters the interval.
MOMENT_LEVEL = 0.95
#: Laplace tails are longer than normal ones: its standard deviation is counted this much larger at 95 %.
LAPLACE_TAIL = math.log(1 / 0.05) / (1.959964 * math.sqrt(2.0))


@dataclass(frozen=True)
class PrivateValue:
    """Public configuration of one private evaluation."""

    epsilon: float
    clip: float
    delta: float | None = None

    @property
    def mechanism(self) -> Laplace | Gaussian:
        if self.delta is None:
            return Laplace(sensitivity=2.0, epsilon=self.epsilon, dimension=2)
        return Gaussian(sensitivity=math.sqrt(2.0), epsilon=self.epsilon, delta=self.delta, dimension=2)

    def event(self) -> Event:
        return self.mechanism.event()

    def guarantee(self) -> Guarantee:
        facts = {
            "model": "global",
            "unit": "one row of the log",
            "neighbours": "replace-row",
            "notes": (
                "public: the number of rows, the arms, the range of outcomes, the rule that is valued and the clip",
                "published: the two noisy sums; value and interval are computed from them",
            ),
        }
        if self.delta is None:
            return Guarantee.pure(self.epsilon, **facts)
        return Guarantee.approximate(self.epsilon, self.delta, **facts)

    def release(self, weights: Floats, outcomes: Floats, noise: Noise) -> Floats:
        """The noisy sums of u and u^2."""
        share = np.minimum(weights, self.clip) / self.clip * outcomes
        units = [int(to_units(np.clip(part, 0.0, 1.0)).sum()) for part in (share, share * share)]
        return np.asarray(self.mechanism.release(from_units(units), noise), np.float64)

    def estimate(self, sums: Floats, rows: int, level: float) -> Estimate:
        """Value and interval from the noisy sums: sampling and noise together."""
        noise_std = self.mechanism.std * (LAPLACE_TAIL if self.delta is None else 1.0)
        mean = float(sums[0]) / rows
        moment = (float(sums[1]) + quantile(2 * MOMENT_LEVEL - 1) * noise_std) / rows
        spread = max(0.0, min(1.0, moment) - mean * mean) / rows + (noise_std / rows) ** 2
        half = quantile(level) * math.sqrt(spread)
        return Estimate(self.clip * mean, self.clip * (mean - half), self.clip * (mean + half))
