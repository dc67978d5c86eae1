"""Privacy filters: a limit that holds however the next release is chosen, and that says what is left."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from fairveil.errors import BudgetError, PrivacyError
from fairveil.privacy.charges import FREE, Charge, cost
from fairveil.privacy.events import (
    ApproximateEvent,
    BoundedRangeEvent,
    Event,
    GaussianEvent,
    ParallelEvent,
    PureEvent,
    RepeatedEvent,
    SharedGaussianEvent,
    ZcdpEvent,
)
from fairveil.privacy.limits import Limit

_SCALES: dict[type[Event], str] = {
    PureEvent: "epsilon",
    BoundedRangeEvent: "epsilon",
    ApproximateEvent: "epsilon",
    ZcdpEvent: "rho",
    GaussianEvent: "mu",
    SharedGaussianEvent: "mu",
}


@dataclass(frozen=True)
class Admission:
    """What a filter says about an event before anything is charged."""

    admitted: bool
    asked: Charge
    remaining: Charge
    largest: dict[str, float | int]
    words: str

    def to_dict(self) -> dict[str, Any]:
        return {
            "admitted": self.admitted,
            "asked": self.asked.to_list(),
            "remaining": self.remaining.to_list(),
            "largest_admissible": self.largest,
            "words": self.words,
        }


@dataclass(frozen=True)
class Filter:
    """A limit and what is gone: ``spent`` for good, ``reserved`` by releases under way. A value; never refunds.

    >>> filter = Filter(Limit.pure(1.0)).spend(PureEvent(0.75))
    >>> filter.quote(PureEvent(0.5)).largest
    {'epsilon': 0.25}
    """

    limit: Limit
    spent: Charge = FREE
    reserved: Charge = FREE

    @property
    def used(self) -> Charge:
        return self.spent + self.reserved

    @property
    def remaining(self) -> Charge:
        return self.limit.total - self.used

    def admits(self, asked: Charge) -> bool:
        return (self.used + asked).within(self.limit.total)

    def quote(self, event: Event) -> Admission:
        """What the event would cost, whether it fits, and the largest one of its kind that would. Charges nothing."""
        asked = self.limit.charge(event)
        largest = self._largest(event)
        say = self.limit.words
        words = (
            f"limit {say(self.limit.total)}; spent {say(self.spent)}; reserved {say(self.reserved)}; "
            f"asked {say(asked)}; remaining {say(self.remaining)}; "
            + ("largest admissible " + ", ".join(f"{name} {value:.9g}" for name, value in largest.items()))
        )
        return Admission(self.admits(asked), asked, self.remaining, largest, words)

    def reserve(self, event: Event) -> tuple[Filter, Charge]:
        """Hold what the event costs, or BudgetError: then nothing is charged."""
        asked = self.limit.charge(event)
        if not self.admits(asked):
            raise BudgetError(
                f"the budget does not allow this; {self.quote(event).words}",
                path="event",
                allowed=f"a limit of at least {self.limit.sufficient(self.used + asked)}",
                fix="ask for less, or use a new ledger for data never used before (Limit.for_policy fits a policy); "
                "nothing was charged",
            )
        return replace(self, reserved=self.reserved + asked), asked

    def settle(self, held: Charge) -> Filter:
        """What was held is spent, whether the release was published or lost."""
        if not held.within(self.reserved):
            raise PrivacyError("more would be settled than is reserved", path="charge", given=held.to_list())
        return replace(self, spent=self.spent + held, reserved=self.reserved - held)

    def spend(self, event: Event) -> Filter:
        """Reserve and settle at once."""
        held, asked = self.reserve(event)
        return held.settle(asked)

    def _largest(self, event: Event) -> dict[str, float | int]:
        if isinstance(event, ParallelEvent):
            return self._largest(event.event)
        if isinstance(event, RepeatedEvent):
            return {"count": self._largest_count(event)}
        name = _SCALES.get(type(event))
        if name is None:
            return {"share": 1.0 if self.admits(self.limit.charge(event)) else 0.0}
        return {name: self._largest_scale(event, name)}

    def _largest_count(self, event: RepeatedEvent) -> int:
        one = cost(event.event, self.limit.currency)
        if one.amount == 0 and one.delta == 0:
            return event.count
        low, high = 0, 1
        while self._fits(replace(event, count=high)):
            low, high = high, high * 2
        return _last_fitting(low, high, lambda count: self._fits(replace(event, count=count)))

    def _largest_scale(self, event: Event, name: str) -> float:
        """The largest multiple of 1e-9 that is admitted."""

        def fits(billionths: int) -> bool:
            facts: dict[str, Any] = {name: billionths / 1e9}
            return self._fits(replace(event, **facts))

        return _last_fitting(0, 10**15, fits) / 1e9

    def _fits(self, event: Event) -> bool:
        try:
            return self.admits(self.limit.charge(event))
        except PrivacyError:  # more than any budget
            return False


def _last_fitting(low: int, high: int, fits: Callable[[int], bool]) -> int:
    """The last integer that fits, when ``low`` fits (or is 0) and ``high`` does not."""
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low
