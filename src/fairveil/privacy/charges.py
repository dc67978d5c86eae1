"""What one event costs in a currency, exactly: fractions inside, integers outside, always rounded up.

A currency is a number that adds up when releases on the same data follow each other, even when each release is chosen
after the earlier ones were seen: epsilon (pure and approximate events), rho of zCDP, mu^2 of Gaussian DP. Beside it two
small numbers add up: ``delta`` of approximate events, and the ``distance`` of discrete Gaussian noise to a Gaussian.
An event that a currency cannot express is refused, never guessed.

| event              | epsilon    | zcdp (rho)                         | gaussian (mu^2)            |
|--------------------|------------|------------------------------------|----------------------------|
| pure e             | e          | e tanh(e/2)                        | (2 Phi^-1(1/(1+e^-e)))^2   |
| bounded range e    | e          | min(e^2/8, e tanh(e/2))            | as pure                    |
| approximate (e, d) | e, delta d | as pure e, delta d                 | as pure e, delta d         |
| zcdp rho           | refused    | rho                                | refused                    |
| gaussian mu        | refused    | mu^2/2 (exact for a discrete one)  | mu^2, and its distance     |
| shared gaussian    | refused    | as gaussian, delta `apart`         | as gaussian, delta `apart` |
| repeated, composed | sums       | sums                               | sums                       |
| parallel           | the cost of one block, once                                                |||

References: Bun and Steinke 2016; Dong, Roth and Su 2022; Cesar and Rogers 2021; Canonne, Kamath and Steinke 2020;
Kairouz, Oh and Viswanath 2015 (an approximate event is a pure one that fails with probability delta).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction
from functools import lru_cache
from typing import Any

from fairveil.errors import PrivacyError
from fairveil.privacy.conversions import GRID_CONSTANT, grid_correction, pure_mu, pure_rho
from fairveil.privacy.events import (
    ApproximateEvent,
    BoundedRangeEvent,
    ComposedEvent,
    Event,
    GaussianEvent,
    NothingEvent,
    ParallelEvent,
    PureEvent,
    RepeatedEvent,
    SharedGaussianEvent,
    ZcdpEvent,
)


class Currency(StrEnum):
    """In what a budget counts."""

    EPSILON = "epsilon"
    ZCDP = "zcdp"
    GAUSSIAN = "gaussian"


#: Integer units per 1: epsilon in micro-units; rho and mu^2, which are squares of epsilons, in squared micro-units.
UNITS = {Currency.EPSILON: 10**6, Currency.ZCDP: 10**12, Currency.GAUSSIAN: 10**12}
DELTA_UNITS = 10**18
MAX_UNITS = 2**62
"""Anything larger is refused: it would not fit the integers of the ledger's database, and means no privacy."""


@lru_cache(maxsize=4096)
def exactly(value: float) -> Fraction:
    """The decimal that a number prints as, so that ten charges of 0.1 are 1 and not a little more.

    It differs from the binary number by less than the rounding of the noise scale computed from that number.

    >>> exactly(0.1)
    Fraction(1, 10)
    """
    return Fraction(repr(float(value)))


@dataclass(frozen=True)
class Cost:
    """An exact cost in one currency."""

    amount: Fraction = Fraction(0)
    delta: Fraction = Fraction(0)
    distance: Fraction = Fraction(0)

    def __add__(self, other: Cost) -> Cost:
        return Cost(self.amount + other.amount, self.delta + other.delta, self.distance + other.distance)

    def times(self, count: int) -> Cost:
        return Cost(self.amount * count, self.delta * count, self.distance * count)


@dataclass(frozen=True)
class Charge:
    """A cost in integer units, rounded up; what filters add and ledgers store."""

    units: int = 0
    delta_units: int = 0

    def __add__(self, other: Charge) -> Charge:
        return Charge(self.units + other.units, self.delta_units + other.delta_units)

    def __sub__(self, other: Charge) -> Charge:
        return Charge(self.units - other.units, self.delta_units - other.delta_units)

    def within(self, other: Charge) -> bool:
        return self.units <= other.units and self.delta_units <= other.delta_units

    def to_list(self) -> list[int]:
        return [self.units, self.delta_units]


FREE = Charge()


def cost(event: Event, currency: Currency) -> Cost:
    """The exact cost of an event, or PrivacyError when this currency cannot count it.

    >>> cost(RepeatedEvent(PureEvent(0.25), 3), Currency.EPSILON).amount
    Fraction(3, 4)
    """
    while type(event) is ParallelEvent:  # disjoint parts cost what one of them does
        event = event.event
    rule = _RULES.get(type(event))
    if rule is None:
        raise PrivacyError(
            "the accountant does not know this event",
            path="event",
            given=type(event).__name__,
            allowed=f"{', '.join(kind.kind for kind in _RULES)}, {ParallelEvent.kind}",
            fix="describe the release by an event of fairveil.privacy.events; unknown events are never counted as free",
        )
    return rule(event, currency)


def charge(event: Event, currency: Currency, epsilon: float | None = None) -> Charge:
    """The cost in integer units; ``epsilon`` is where the distance of discrete noise is turned into delta."""
    exact = cost(event, currency)
    extra = Fraction(0)
    if exact.distance > 0:
        if epsilon is None:
            raise PrivacyError(
                "discrete Gaussian noise adds to delta here, and this limit states no delta",
                path="event",
                allowed="a limit with a delta",
                fix="open the limit with delta=..., or count in zCDP, where discrete noise needs no correction",
            )
        extra = _fraction_above(grid_correction(epsilon, 1.0)) * exact.distance
    made = Charge(math.ceil(exact.amount * UNITS[currency]), math.ceil((exact.delta + extra) * DELTA_UNITS))
    if max(made.units, made.delta_units) > MAX_UNITS:
        raise PrivacyError("this event costs more than any budget", path="event", allowed=f"at most {MAX_UNITS} units")
    return made


def _fraction_above(value: float) -> Fraction:
    if not math.isfinite(value):
        raise PrivacyError("the correction for discrete noise is not finite at this epsilon", path="epsilon")
    return Fraction(value) * Fraction(1_000_000_001, 1_000_000_000)


def _refuse(event: Event, currency: Currency, fix: str) -> PrivacyError:
    return PrivacyError(
        f"a budget in {currency} cannot count this event",
        path="event",
        given=event.kind,
        allowed="pure, bounded-range, approximate" if currency is Currency.EPSILON else "all but zcdp",
        fix=fix,
    )


def _pure(epsilon: float, currency: Currency) -> Fraction:
    if currency is Currency.EPSILON:
        return exactly(epsilon)
    if currency is Currency.GAUSSIAN:
        return exactly(pure_mu(epsilon)) ** 2
    # tanh(x) <= x; in fractions, because the square of a tiny float is zero and would be free however often repeated
    return exactly(pure_rho(epsilon)) if epsilon > 1e-5 else exactly(epsilon) ** 2 / 2


def _of_nothing(event: NothingEvent, currency: Currency) -> Cost:
    return Cost()


def _of_pure(event: PureEvent, currency: Currency) -> Cost:
    return Cost(_pure(event.epsilon, currency))


def _of_bounded_range(event: BoundedRangeEvent, currency: Currency) -> Cost:
    plain = _pure(event.epsilon, currency)
    return Cost(min(plain, exactly(event.epsilon) ** 2 / 8) if currency is Currency.ZCDP else plain)


def _of_approximate(event: ApproximateEvent, currency: Currency) -> Cost:
    return Cost(_pure(event.epsilon, currency), exactly(event.delta))


def _of_zcdp(event: ZcdpEvent, currency: Currency) -> Cost:
    if currency is not Currency.ZCDP:
        raise _refuse(event, currency, "open the limit with currency='zcdp'")
    return Cost(exactly(event.rho))


def _of_gaussian(event: GaussianEvent, currency: Currency) -> Cost:
    square = exactly(event.mu) ** 2
    if currency is Currency.ZCDP:
        return Cost(square / 2)  # the discrete Gaussian has this rho itself: no distance to pay
    if currency is not Currency.GAUSSIAN:
        raise _refuse(event, currency, "open the limit with currency='zcdp' or currency='gaussian'")
    distance = event.draws * exactly(GRID_CONSTANT) / exactly(event.grid_sigma) ** 2 if event.draws else Fraction(0)
    return Cost(square, distance=distance)


def _of_shared(event: SharedGaussianEvent, currency: Currency) -> Cost:
    return _of_gaussian(event, currency) + Cost(delta=event.apart)


def _of_repeated(event: RepeatedEvent, currency: Currency) -> Cost:
    return cost(event.event, currency).times(event.count)


def _of_composed(event: ComposedEvent, currency: Currency) -> Cost:
    return sum((cost(item, currency) for item in event.events), Cost())


_RULES: dict[type[Event], Callable[[Any, Currency], Cost]] = {
    NothingEvent: _of_nothing,
    PureEvent: _of_pure,
    BoundedRangeEvent: _of_bounded_range,
    ApproximateEvent: _of_approximate,
    ZcdpEvent: _of_zcdp,
    GaussianEvent: _of_gaussian,
    SharedGaussianEvent: _of_shared,
    RepeatedEvent: _of_repeated,
    ComposedEvent: _of_composed,
}
