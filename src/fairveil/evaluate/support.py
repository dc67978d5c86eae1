"""Can this log say anything about this rule? Weights, how many rows they amount to, and why not."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from fairveil.arrays import Floats

#: One row may carry at most this share of all weight: above it the estimate is that row's outcome.
LARGEST_SHARE = 0.1
#: Fewer effective rows than this make no normal interval.
FEWEST_ROWS = 30.0
#: Weights have mean one under the logging law; further than this many standard errors away, propensities are wrong.
FAR = 6.0


class Support(NamedTuple):
    """Numbers about importance weights; ``reasons`` say why an estimate from them cannot be trusted."""

    largest_weight: float
    effective_sample_size: float
    mean_weight: float
    mean_error: float
    largest_share: float

    @property
    def reasons(self) -> list[str]:
        found = []
        if self.mean_weight == 0:
            found.append("the rule never chooses what was logged")
        elif self.largest_share > LARGEST_SHARE:
            found.append(f"one row carries {100 * self.largest_share:.0f} % of all weight")
        if self.effective_sample_size < FEWEST_ROWS:
            found.append(f"the weights amount to {self.effective_sample_size:.0f} rows, {FEWEST_ROWS:.0f} are needed")
        if self.mean_weight > 0 and abs(self.mean_weight - 1.0) > FAR * self.mean_error + 1e-9:
            found.append(
                f"weights have mean {self.mean_weight:.3g}, not 1: propensities are wrong, or arms were never tried"
            )
        return found

    @property
    def enough(self) -> bool:
        return not self.reasons

    def to_dict(self) -> dict[str, Any]:
        return {
            "enough": self.enough,
            "reasons": self.reasons,
            "largest_weight": self.largest_weight,
            "effective_sample_size": self.effective_sample_size,
            "mean_weight": self.mean_weight,
        }


def support(weights: Floats) -> Support:
    """Check the weights pi/p of a log.

    >>> support(np.ones(200)).enough
    True
    >>> support(np.append(np.ones(200), 21739.0)).reasons[0]
    'one row carries 99 % of all weight'
    """
    total, squares, n = float(weights.sum()), float((weights**2).sum()), len(weights)
    effective = total * total / squares if squares > 0 else 0.0
    error = float(weights.std(ddof=1)) / np.sqrt(n) if n > 1 else np.inf
    largest = float(weights.max())
    return Support(largest, effective, total / n, float(error), largest / total if total > 0 else 1.0)
