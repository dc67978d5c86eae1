"""What every mechanism has: a sensitivity, an event, a guarantee, and one release.

`PureMechanism` and `OnFineGrid` are what most of them share; `Selection` is what the three selection mechanisms
share: scores on an integer grid and an integer scale.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fairveil.arrays import Floats, Ints
from fairveil.configuration import configuration
from fairveil.errors import InputError
from fairveil.fields import Epsilon, Positive, described
from fairveil.privacy.events import ApproximateEvent, BoundedRangeEvent, Event, PureEvent, ZcdpEvent
from fairveil.privacy.grid import LARGEST_UNIT, grid_bits, to_units, units_above
from fairveil.privacy.guarantee import Guarantee
from fairveil.privacy.noise import Noise

BLOCK = 2**20
"""Numbers that are drawn at once."""
LOCAL = {"model": "local", "neighbours": "any-two-inputs"}
"""What a promise says where each person draws for themselves, beside its unit."""


class Mechanism(ABC):
    """Public configuration of one release. The sensitivity and the budget fix the noise; nobody passes a scale."""

    name: str = ""
    facts: ClassVar[dict[str, Any]] = {
        "model": "global",
        "unit": "one person's contribution to the value",
        "neighbours": "replace-row",
        "notes": ("holds for every neighbouring relation under which the stated sensitivity is a bound",),
    }
    """What the promise says beside its numbers."""

    @abstractmethod
    def event(self) -> Event:
        """What one release costs, before any data."""

    def guarantee(self) -> Guarantee | None:
        """The promise for one release, read off the event."""
        event = self.event()
        if isinstance(event, PureEvent | BoundedRangeEvent):
            return Guarantee.pure(event.epsilon, **self.facts)
        if isinstance(event, ApproximateEvent):
            return Guarantee.approximate(event.epsilon, event.delta, **self.facts)
        if isinstance(event, ZcdpEvent):
            return Guarantee.zcdp(event.rho, 1e-5, **self.facts)
        return None

    def release(self, value: Any, noise: Noise) -> Any:
        """The private answer. ``value`` is put on the public grid (and into its public range) first."""
        return self.releases(value, noise, 1)[0]

    @abstractmethod
    def releases(self, value: Any, noise: Noise, count: int) -> Any:
        """``count`` independent releases of one value, drawn together: for audits and simulation.

        Each of them costs one event.
        """


class PureMechanism(Mechanism):
    """A mechanism whose whole budget is its ``epsilon``."""

    epsilon: Epsilon

    def event(self) -> Event:
        return PureEvent(self.epsilon)


class OnFineGrid(PureMechanism):
    """A pure mechanism for real numbers, which are put on a fine integer grid before noise meets them."""

    sensitivity: Positive

    @cached_property
    def bits(self) -> int:
        """The grid has units of 2^-bits."""
        return grid_bits(self.sensitivity, Fraction(self.sensitivity) / Fraction(self.epsilon))


def in_blocks(draw: Callable[[int], Ints], count: int, width: int) -> Ints:
    """``count`` picks among ``width`` numbers each, drawn so many at once that memory stays bounded."""
    step = max(1, BLOCK // width)
    parts = [draw(min(step, count - start)) for start in range(0, count, step)]
    return np.concatenate(parts) if parts else np.zeros(0, np.int64)


def as_vector(value: ArrayLike, dimension: int) -> Floats:
    """A value as ``dimension`` finite coordinates; a plain number is one coordinate."""
    array = np.atleast_1d(np.asarray(value, np.float64))
    if array.shape != (dimension,) or not np.isfinite(array).all():
        raise InputError(
            "the value does not fit the mechanism",
            path="value",
            given=f"shape {array.shape}",
            allowed=f"{dimension} finite coordinate{'s' if dimension > 1 else ''}",
        )
    return array


def as_integers(value: ArrayLike, dimension: int) -> Ints:
    """A value as ``dimension`` integers; a value off the lattice is refused, because it would show its fraction."""
    array = np.atleast_1d(np.asarray(value))
    if array.shape != (dimension,) or array.dtype.kind not in "iu":
        raise InputError(
            "this mechanism takes integers only",
            path="value",
            given=f"shape {array.shape}, type {array.dtype}",
            allowed=f"{dimension} integer{'s' if dimension > 1 else ''}",
            fix="round the value to a public lattice first, or use a mechanism for real numbers",
        )
    if array.dtype.kind == "u":
        return np.minimum(array.astype(np.uint64), np.uint64(LARGEST_UNIT)).astype(np.int64)
    return np.clip(array.astype(np.int64), -LARGEST_UNIT, LARGEST_UNIT)


def as_scores(scores: ArrayLike) -> Floats:
    """A non-empty vector of scores without NaN."""
    array = np.asarray(scores, np.float64)
    if array.ndim != 1 or len(array) == 0 or np.isnan(array).any():
        allowed = "a non-empty vector of numbers"
        raise InputError("the scores are not usable", path="scores", given=f"shape {array.shape}", allowed=allowed)
    return array


def shaped(rows: NDArray[Any], value: ArrayLike) -> NDArray[Any]:
    """One row a release; releases of a plain number are plain numbers."""
    return rows[:, 0] if np.ndim(value) == 0 else rows


@configuration
class Selection(OnFineGrid):
    """Base of mechanisms that pick one of several candidates with a high score.

    Scores are rounded toward zero to a grid on which both the sensitivity and the scale are at least 2^20 units;
    rounding moves two scores apart by at most the sensitivity in units, rounded up. The scale is an integer number of
    units, rounded up. Scores beyond 2^61 units saturate, which brings no two of them further apart.
    """

    sensitivity: Positive = described("how far one score may move between neighbours", example=1.0)
    epsilon: Epsilon = described("budget of one choice", example=1.0)
    monotone: bool = described(
        "whether every score moves in one direction between neighbours (then half the noise does)", default=False
    )

    @property
    def _factor(self) -> int:
        # changing one record moves every score by up to the sensitivity, and the best one the other way;
        # monotone scores all move in one direction, so the gap to the best moves by one sensitivity only
        return 1 if self.monotone else 2

    @cached_property
    def scale_units(self) -> int:
        """factor * sensitivity / epsilon in units, rounded up to an integer."""
        units = self._factor * units_above(self.sensitivity, self.bits)
        return units_above(Fraction(units) / Fraction(self.epsilon), 0)

    def _units(self, scores: ArrayLike) -> Ints:
        return to_units(as_scores(scores), self.bits)

    def _gaps(self, scores: ArrayLike) -> Ints:
        """Distance of each score to the best one, in units: at least 0, and below 2^63 because scores saturate."""
        units = self._units(scores)
        return units.max() - units
