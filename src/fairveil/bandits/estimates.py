"""What a policy publishes about the world, as numbers with intervals: post-processing of releases, so it costs nothing.

`Policy.estimates(state)` reads only the arrays that the policy names in ``released``; a law of the contract suite
changes all the others and asks again. Intervals hold sampling error and privacy noise together.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairveil.errors import InputError, PrivacyError
from fairveil.privacy.guarantee import Guarantee

CONFIDENCE = 0.95


@dataclass(frozen=True, slots=True)
class Estimate:
    """One number: what it is, of whom, and the interval it lies in; ``None`` where nothing was released for it."""

    what: str
    name: str
    value: float | None
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True, slots=True)
class RankTable:
    """The share of a group at or below each score, and the standard deviation of a middle rank read off it."""

    name: str
    scores: tuple[float, ...]
    ranks: tuple[float, ...]
    std: float


@dataclass(frozen=True, slots=True)
class Estimates:
    """Everything a policy's releases say at one moment; ``confidence`` of the intervals, ``notes`` on what they mean.

    >>> found = Estimates((Estimate("mean reward", "arm 0", 0.5, 0.4, 0.6),), 0.95)
    >>> found["arm 0"].high, found.to_dict()["items"][0]["name"]
    (0.6, 'arm 0')
    """

    items: tuple[Estimate, ...]
    confidence: float
    tables: tuple[RankTable, ...] = ()
    notes: tuple[str, ...] = ()

    def __getitem__(self, name: str) -> Estimate:
        for item in self.items:
            if item.name == name:
                return item
        raise InputError(
            "there is no such estimate", path="name", given=name, allowed=", ".join(item.name for item in self.items)
        )

    def to_dict(self, names: dict[str, str] | None = None) -> dict[str, Any]:
        """Plain data for a result or a report; ``names`` says what an arm or a group is called."""
        called = names or {}
        return {
            "confidence": self.confidence,
            "items": [
                {
                    "what": item.what,
                    "name": called.get(item.name, item.name),
                    "value": item.value,
                    "low": item.low,
                    "high": item.high,
                }
                for item in self.items
            ],
            "tables": [
                {
                    "name": called.get(table.name, table.name),
                    "scores": list(table.scores),
                    "ranks": list(table.ranks),
                    "std": table.std,
                }
                for table in self.tables
            ],
            "notes": list(self.notes),
        }


def check_confidence(confidence: float) -> float:
    """A confidence level strictly between 0 and 1."""
    if isinstance(confidence, bool) or not isinstance(confidence, int | float) or not 0 < confidence < 1:
        raise InputError("a confidence is a chance", path="confidence", given=confidence, allowed="between 0 and 1")
    return float(confidence)


def check_established(promise: Guarantee | None, name: str) -> None:
    """Nothing is estimated from what a printed variant publishes: its noise is not what it says."""
    if promise is not None and not promise.established:
        raise PrivacyError(
            "the promise of this variant is not established, so what it releases is not handed on",
            path="policy.variant",
            given=name,
            fix="use the sound variant",
        )


def number(value: float) -> float | None:
    """A number for plain data, None where there is none."""
    return float(value) if math.isfinite(value) else None


def intervals(what: str, names: Sequence[str], rows: NDArray[np.float64]) -> tuple[Estimate, ...]:
    """Estimates from rows (value, low, high); not a number means unknown."""
    return tuple(Estimate(what, name, *(number(value) for value in row)) for name, row in zip(names, rows))
