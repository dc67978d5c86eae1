"""What an estimator returns: a value with its interval, on the scale of the outcomes."""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import NormalDist
from typing import Any

from fairveil.arrays import Floats


@dataclass(frozen=True)
class Estimate:
    """Value of a rule with a two-sided interval; ``rows`` is how many rows carry it, None where that is not said."""

    value: float
    low: float
    high: float
    rows: int | None = None

    def scaled(self, low: float, high: float) -> Estimate:
        """From [0, 1] to outcomes in [low, high]."""
        width = high - low
        value, bottom, top = (low + width * part for part in (self.value, self.low, self.high))
        return Estimate(value, bottom, top, self.rows)

    def to_dict(self) -> dict[str, Any]:
        table: dict[str, Any] = {"value": self.value, "low": self.low, "high": self.high}
        if self.rows is not None:
            table["rows"] = self.rows
        return table


def quantile(level: float) -> float:
    """Normal quantile of a two-sided interval at this level."""
    return NormalDist().inv_cdf(0.5 + level / 2)


def around(terms: Floats, level: float) -> Estimate:
    """Mean of independent terms with its normal interval."""
    n = len(terms)
    value = float(terms.mean()) if n else math.nan
    half = quantile(level) * float(terms.std(ddof=1)) / math.sqrt(n) if n > 1 else math.nan
    return Estimate(value, value - half, value + half, n)


def wilson(outcomes: Floats, level: float) -> Estimate:
    """Mean of outcomes in [0, 1] with Wilson's interval, which holds its own where few rows or no successes are left.

    A variable in [0, 1] with mean p has variance at most p (1 - p): the interval is at least as wide as needed.
    """
    n, z = len(outcomes), quantile(level)
    if n == 0:
        return Estimate(math.nan, 0.0, 1.0, 0)
    mean, room = float(outcomes.mean()), z * z / n
    centre = (mean + room / 2) / (1 + room)
    half = math.sqrt(max(0.0, mean * (1 - mean)) * room + room * room / 4) / (1 + room)
    return Estimate(mean, centre - half, centre + half, n)
