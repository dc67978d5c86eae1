"""What a policy publishes about the world, as numbers with intervals: post-processing of releases, so it costs nothing.

`Policy.estimates(state)` reads only the arrays that the policy names in ``released``; a law of the contract suite
changes all the others and asks again. Intervals hold sampling error and privacy noise together.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from fairveil.arrays import Floats
from fairveil.errors import InputError, PrivacyError
from fairveil.frames import Drawable, frame_of
from fairveil.privacy.guarantee import Guarantee

CONFIDENCE = 0.95


MANY = 0.1
"""The share of rounds without an answer from which a note says so."""


class Answers(NamedTuple):
    """Who stands behind a number: rounds ``answered`` in it, ``open`` (no answer, window not closed) and ``closed``
    (never answered); ``lowest`` and ``highest``: bounds for all of them, whatever the silent ones would say."""

    answered: int
    open: int
    closed: int
    lowest: float
    highest: float

    @property
    def many_silent(self) -> bool:
        silent = self.open + self.closed
        return silent > MANY * (self.answered + silent)


@dataclass(frozen=True, slots=True)
class Estimate:
    """One number: what it is, of whom, and the interval it lies in; ``None`` where nothing was released for it."""

    what: str
    name: str
    value: float | None
    low: float | None = None
    high: float | None = None
    answers: Answers | None = None


@dataclass(frozen=True, slots=True)
class RankTable:
    """The share of a group at or below each score, and the standard deviation of a middle rank read off it."""

    name: str
    scores: tuple[float, ...]
    ranks: tuple[float, ...]
    std: float


@dataclass(frozen=True, slots=True)
class Estimates(Drawable):
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

    def to_frame(self, names: dict[str, str] | None = None) -> Any:
        """One row a number: what, name, value, low, high. ``attrs``: title, kind, confidence."""
        found = self.to_dict(names)
        return frame_of(found["items"], "estimates", "private", confidence=self.confidence)

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
                    **({} if item.answers is None else item.answers._asdict()),
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


def intervals(what: str, names: Sequence[str], rows: Floats) -> tuple[Estimate, ...]:
    """Estimates from rows (value, low, high); not a number means unknown."""
    known = ([number(value) for value in row] for row in rows)
    return tuple(Estimate(what, name, value, low, high) for name, (value, low, high) in zip(names, known))
