"""A privacy budget in integer units of one currency.

The currency is fixed before any data is read, because taking the best of several bounds after seeing results is not
covered by any proof. Within one currency the sums below the limit may be reached along any adaptive path (epsilon:
basic composition; zCDP: Feldman and Zrnic 2021, Whitehouse et al. 2023; Gaussian DP: Smith and Thakurta 2022).
A limit in (epsilon, delta) keeps a fixed share of delta for events that add to delta; the rest is converted.
"""

from __future__ import annotations

import contextlib
import math
from dataclasses import asdict, dataclass
from decimal import Decimal
from typing import Any, Protocol

from fairveil.errors import PrivacyError, SpecError
from fairveil.privacy.charges import DELTA_UNITS, FREE, MAX_UNITS, UNITS, Charge, Currency, charge, exactly
from fairveil.privacy.conversions import gdp_epsilon, gdp_mu, zcdp_epsilon, zcdp_rho
from fairveil.privacy.events import Event
from fairveil.privacy.guarantee import Guarantee

ADDED_SHARE = 0.01
"""The part of delta kept for approximate events and for the correction of discrete Gaussian noise."""


class Promising(Protocol):
    """A policy, or anything else that says before any data what it costs and what it promises."""

    def event(self) -> Event: ...

    def guarantee(self) -> Guarantee | None: ...


@dataclass(frozen=True)
class Limit:
    """A budget: so many units of one currency, and so many units of added delta. Rounded down.

    ``epsilon`` and ``delta`` are the promise that the limit implies (None: no promise in that form was asked for).

    >>> Limit.pure(1.0).units
    1000000
    """

    currency: Currency
    units: int
    delta_units: int = 0
    epsilon: float | None = None
    delta: float | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "currency", _currency(self.currency))
        for name in ("units", "delta_units"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= MAX_UNITS:
                raise SpecError("a limit counts in integers", path=f"limit.{name}", given=value, allowed="0 to 2^62")
        self._check_promise()

    def _check_promise(self) -> None:
        """A promise that was written by hand or read from a file must follow from the units."""
        if self.epsilon is None and self.delta is None:
            return
        promise = self.epsilon, self.delta
        epsilon, delta = (-1.0 if value is None else _number("promise", value, 0.0, 1e300) for value in promise)
        rest = delta - self.delta_units / DELTA_UNITS
        if not (rest >= -1e-12 * delta if self.currency is Currency.EPSILON else 0 < rest < 1):
            needed = math.inf
        else:
            needed = _implied(self.currency, self.total, delta) if self.units else 0.0
        if not needed <= epsilon * (1 + 1e-6):
            raise SpecError(
                "the promise does not follow from the units",
                path="limit.epsilon",
                given=promise,
                allowed=f"epsilon at least {needed:.6g}" if needed < math.inf else "a larger delta",
                fix="make limits with Limit.pure, approximate, zcdp or gaussian",
            )

    @classmethod
    def pure(cls, epsilon: float) -> Limit:
        """epsilon-DP in total: pure and bounded-range events only."""
        units = _floor(_number("epsilon", epsilon, 1e-6, 1e6), UNITS[Currency.EPSILON])
        return cls(Currency.EPSILON, units, 0, float(epsilon), 0.0)

    @classmethod
    def approximate(
        cls, epsilon: float, delta: float, *, currency: str = "zcdp", added_share: float = ADDED_SHARE
    ) -> Limit:
        """(epsilon, delta)-DP in total, counted in one currency.

        ``zcdp`` takes every event; ``gaussian`` is tighter for Gaussian events and refuses zCDP ones; ``epsilon``
        adds up epsilons and deltas and is best for a few pure or approximate events.
        """
        _number("epsilon", epsilon, 1e-6, 1e6)
        rest, added = _split(delta, added_share)
        kind = _currency(currency)
        if kind is Currency.EPSILON:
            return cls(kind, _floor(epsilon, UNITS[kind]), _floor(delta, DELTA_UNITS), float(epsilon), float(delta))
        amount = zcdp_rho(epsilon, rest) if kind is Currency.ZCDP else gdp_mu(epsilon, rest) ** 2
        units = _floor(amount * (1 - 1e-9), UNITS[kind])
        return cls(kind, units, _floor(added, DELTA_UNITS), float(epsilon), float(delta))

    @classmethod
    def zcdp(cls, rho: float, delta: float | None = None, *, added_share: float = ADDED_SHARE) -> Limit:
        """rho-zCDP in total; with ``delta`` the epsilon it implies, and room for events that add to delta."""
        units = _floor(_number("rho", rho, 1e-12, 1e6), UNITS[Currency.ZCDP])
        if delta is None:
            return cls(Currency.ZCDP, units)
        rest, added = _split(delta, added_share)
        return cls(Currency.ZCDP, units, _floor(added, DELTA_UNITS), zcdp_epsilon(rho, rest), float(delta))

    @classmethod
    def gaussian(cls, mu: float, delta: float | None = None, *, added_share: float = ADDED_SHARE) -> Limit:
        """mu-GDP in total; with ``delta`` the epsilon it implies, and room for the correction of discrete noise."""
        square = exactly(_number("mu", mu, 1e-6, 1e3)) ** 2
        units = math.floor(square * UNITS[Currency.GAUSSIAN])
        if delta is None:
            return cls(Currency.GAUSSIAN, units)
        rest, added = _split(delta, added_share)
        return cls(Currency.GAUSSIAN, units, _floor(added, DELTA_UNITS), gdp_epsilon(mu, rest), float(delta))

    @classmethod
    def covering(cls, *events: Event) -> Limit:
        """The smallest limit that lets exactly these events pass, each charged by itself: in epsilon where possible,
        else in zCDP."""
        try:
            needed, currency = [charge(event, Currency.EPSILON) for event in events], Currency.EPSILON
        except PrivacyError:
            needed, currency = [charge(event, Currency.ZCDP) for event in events], Currency.ZCDP
        total = sum(needed, FREE)
        if currency is Currency.EPSILON:
            promised = total.units / UNITS[currency], total.delta_units / DELTA_UNITS
            return cls(currency, total.units, total.delta_units, *promised)
        return cls(currency, total.units, total.delta_units)

    @classmethod
    def for_policy(cls, policy: Promising) -> Limit:
        """The limit that lets this whole run pass and promises no more than the run does: its own (epsilon, delta).

        Counted in the first currency that can confirm the promise (epsilon, Gaussian, zCDP). Where none can, in the
        last one that takes its events, with the epsilon that this implies.
        """
        event, promise = policy.event(), policy.guarantee()
        if promise is None or not promise.established or promise.epsilon is None:
            raise PrivacyError("there is no established promise to keep", path="policy", fix="choose a private policy")
        epsilon, delta = promise.epsilon, float(promise.delta or 0.0)
        needed: list[tuple[Currency, Charge]] = []
        for currency in (Currency.EPSILON, Currency.GAUSSIAN, Currency.ZCDP):
            with contextlib.suppress(PrivacyError):  # this currency cannot count these events
                needed.append((currency, charge(event, currency, epsilon)))
        for currency, asked in needed:
            with contextlib.suppress(SpecError):  # rounded up, the units would promise more than the policy does
                return cls(currency, asked.units, asked.delta_units, epsilon, delta)
        currency, asked = needed[-1]
        return cls(currency, asked.units, asked.delta_units, _implied(currency, asked, delta), delta)

    def sufficient(self, total: Charge) -> str:
        """The smallest limit of this kind that would hold a total, in words."""
        if self.epsilon is None or self.delta is None:
            return self.words(total)
        if self.currency is Currency.EPSILON:
            delta = f", delta {total.delta_units / DELTA_UNITS:.6g}" if total.delta_units else ""
            return f"epsilon {total.units / UNITS[self.currency]:.9g}{delta}"
        if total.delta_units > self.delta_units:
            return f"a delta above {self.delta * total.delta_units / max(self.delta_units, 1):.3g}"
        needed = _implied(self.currency, Charge(total.units + 1, self.delta_units), self.delta) * (1 + 1e-8)
        rounded = math.ceil(needed * 10**6) / 10**6
        return f"epsilon {rounded:.9g} at delta {self.delta:g}, counted in {self.currency.value}"

    @property
    def total(self) -> Charge:
        return Charge(self.units, self.delta_units)

    def same(self, other: Limit) -> bool:
        """Whether both state one promise; converted units may differ by the rounding of another machine."""
        if (self.currency, self.delta, self.delta_units) != (other.currency, other.delta, other.delta_units):
            return False
        converted = bool(self.delta)
        mine, yours = (1.0 if limit.epsilon is None else limit.epsilon for limit in (self, other))
        close = abs(self.units - other.units) <= (self.units // 10**6 if converted else 0)
        return close and (self.epsilon is None) == (other.epsilon is None) and math.isclose(mine, yours, rel_tol=1e-6)

    def charge(self, event: Event) -> Charge:
        """What an event costs against this limit."""
        return charge(event, self.currency, self.epsilon)

    def words(self, amount: Charge) -> str:
        """An amount in the currency's own numbers, exact digits, e.g. ``epsilon 0.25``."""
        name = {Currency.EPSILON: "epsilon", Currency.ZCDP: "rho", Currency.GAUSSIAN: "mu^2"}[self.currency]
        main = f"{name} {_decimal(amount.units, UNITS[self.currency])}"
        return f"{main}, delta {_decimal(amount.delta_units, DELTA_UNITS)}" if amount.delta_units else main

    def to_dict(self) -> dict[str, Any]:
        return {**asdict(self), "currency": self.currency.value}

    @classmethod
    def from_dict(cls, table: dict[str, Any]) -> Limit:
        if not isinstance(table, dict) or set(table) != set(cls.__dataclass_fields__):
            raise SpecError("this is not a limit", path="limit", allowed=", ".join(cls.__dataclass_fields__))
        return cls(**table)


def _implied(currency: Currency, total: Charge, delta: float) -> float:
    """The epsilon at delta of so many units."""
    amount = total.units / UNITS[currency]
    if currency is Currency.EPSILON:
        return amount
    rest = delta - total.delta_units / DELTA_UNITS
    return zcdp_epsilon(amount, rest) if currency is Currency.ZCDP else gdp_epsilon(amount**0.5, rest)


def _number(name: str, value: float, low: float, high: float) -> float:
    wrong = isinstance(value, bool) or not isinstance(value, int | float) or not low <= value <= high
    if wrong:
        raise SpecError("a budget is a number", path=f"limit.{name}", given=value, allowed=f"in [{low:g}, {high:g}]")
    return float(value)


def _split(delta: float, share: float) -> tuple[float, float]:
    """The delta to convert and the delta to keep for events that add to it; together at most delta."""
    delta = _number("delta", delta, 1e-300, 1.0)
    if delta >= 1:
        raise SpecError("delta is a small probability", path="limit.delta", given=delta, allowed="in (0, 1)")
    if not _number("added_share", share, 0.0, 0.99) <= 0.99:
        raise SpecError("the share is out of range", path="limit.added_share", given=share, allowed="in [0, 0.99]")
    return delta * (1 - share) * (1 - 1e-12), delta * share


def _currency(value: str) -> Currency:
    try:
        return Currency(value)
    except ValueError:
        raise SpecError("unknown currency", path="limit.currency", given=value, allowed=", ".join(Currency)) from None


def _floor(value: float, per_one: int) -> int:
    return math.floor(exactly(value) * per_one)


def _decimal(units: int, per_one: int) -> str:
    exact = (Decimal(units) / Decimal(per_one)).normalize()
    text = exact.quantize(Decimal(1)) if exact == exact.to_integral() else exact
    return f"{text:f}" if text == 0 or abs(exact) >= Decimal("1e-7") else f"{exact:.6e}".replace("E", "e")
