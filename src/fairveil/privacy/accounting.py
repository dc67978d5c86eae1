"""The accountant: what a fixed list of events costs in (epsilon, delta), by the best of several valid bounds.

It keeps running totals, so one `compose` is O(1) in time and memory however many came before. The list may answer
adaptively chosen questions, but the costs in it must not have been chosen after looking at answers: for that case, and
to enforce a budget, use `fairveil.privacy.filters.Filter`, which keeps to one currency.

Routes, each an upper bound by itself (their minimum therefore is one too):

basic      epsilons add up; zCDP and Gaussian events are converted apart, at the delta that is left, and added.
zcdp       everything as rho, converted once.
gaussian   everything as mu^2, converted exactly; the distance of discrete noise adds (1 + e^eps) distance to delta.
           Not with zCDP events, which have no mu.
renyi      the Renyi curves add up at fixed orders (pure events by their exact curve); dp-accounting converts.
pld        pure and approximate events as randomized response with failure, all Gaussians as one; privacy loss
           distributions of dp-accounting, rounded pessimistically, with 1e-14 of delta set aside for rounding errors.
           Not with zCDP events, nor with more than 64 different epsilons, so that memory stays bounded.

In every route the deltas of approximate events are taken off delta first.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Any

import numpy as np

from fairveil.arrays import Floats
from fairveil.errors import PrivacyError, SpecError
from fairveil.privacy.charges import DELTA_UNITS, UNITS, Currency, cost, exactly
from fairveil.privacy.conversions import (
    gdp_delta,
    gdp_epsilon,
    grid_correction,
    pure_renyi,
    zcdp_delta,
    zcdp_epsilon,
)
from fairveil.privacy.events import (
    ApproximateEvent,
    BoundedRangeEvent,
    Event,
    GaussianEvent,
    PureEvent,
    ZcdpEvent,
    leaves,
)

ORDERS = np.concatenate([1 + np.geomspace(0.02, 8, 60), np.geomspace(10, 1e6, 40)])
MAX_DIFFERENT = 64
MAX_PLD_EPSILON = 30.0
MAX_PLD_POINTS = 500_000
PLD_ROUNDING = 1e-14
"""Set aside of delta for rounding in the convolutions of dp-accounting; the largest error that was seen is 5e-17."""
MAX_TIMES = 2**62
"""How often one event may be composed at once: as in a ledger, more means no privacy."""
DISTANCE_UNITS = 10**60
"""Finer than units of delta, because e^epsilon multiplies a distance."""
SMALLEST = 2.3e-308
"""Renyi divergences below the normal floats are counted as this: they would round to zero."""


@dataclass(frozen=True)
class Bound:
    """(epsilon, delta) and the route that gave it."""

    epsilon: float
    delta: float
    route: str


class Accountant:
    """Running totals of a list of events, and the best (epsilon, delta) they imply.

    >>> accountant = Accountant()
    >>> for _ in range(100):
    ...     accountant.compose(GaussianEvent(0.05))
    >>> bound = accountant.at_delta(1e-5)
    >>> bound.route, round(bound.epsilon, 4) == round(gdp_epsilon(0.5, 1e-5), 4)
    ('gaussian', True)
    """

    def __init__(self) -> None:
        self.events = 0
        self.epsilon_units = 0  # of pure, bounded-range and approximate events
        self.rho_units = 0  # of everything
        self.concentrated_units = 0  # rho of zCDP and Gaussian events alone
        self.square_units: int | None = 0  # mu^2 of everything, None once a zCDP event came
        self.gaussian_units = 0  # mu^2 of Gaussian events alone
        self.delta_units = 0
        self.distance_units = 0  # of discrete Gaussians to Gaussians
        self.curve = np.zeros(len(ORDERS))
        self.different: dict[float, int] | None = {}  # epsilon -> times, None once there are too many

    def compose(self, event: Event, count: int = 1) -> None:
        """Add an event ``count`` times. An unknown event is refused and nothing is added."""
        if isinstance(count, bool) or not isinstance(count, int) or count < 1:
            raise PrivacyError("a count is a positive integer", path="count", given=count, allowed="at least 1")
        paid = _leaves(event, count)  # complete before the first total moves
        for leaf, times in paid.items():
            self._add(leaf, times)
        self.events += count

    def _add(self, leaf: Event, times: int) -> None:
        rho = cost(leaf, Currency.ZCDP).times(times)
        self.rho_units += math.ceil(rho.amount * UNITS[Currency.ZCDP])
        self.delta_units += math.ceil(rho.delta * DELTA_UNITS)
        self.curve = np.nextafter(self.curve + times * _curve(leaf), np.inf)  # rounded up, however many follow
        if isinstance(leaf, PureEvent | BoundedRangeEvent | ApproximateEvent):
            self.epsilon_units += math.ceil(exactly(leaf.epsilon) * times * UNITS[Currency.EPSILON])
            self._remember(leaf.epsilon, times)
        else:
            self.concentrated_units += math.ceil(rho.amount * UNITS[Currency.ZCDP])
        if isinstance(leaf, ZcdpEvent):
            self.square_units = None
            return
        square = cost(leaf, Currency.GAUSSIAN).times(times)
        units = math.ceil(square.amount * UNITS[Currency.GAUSSIAN])
        self.distance_units += math.ceil(square.distance * DISTANCE_UNITS)
        self.square_units = None if self.square_units is None else self.square_units + units
        if isinstance(leaf, GaussianEvent):
            self.gaussian_units += units

    def _remember(self, epsilon: float, times: int) -> None:
        if self.different is not None:
            self.different[epsilon] = self.different.get(epsilon, 0) + times
            if len(self.different) > MAX_DIFFERENT:
                self.different = None

    def at_delta(self, delta: float) -> Bound:
        """The smallest epsilon at a delta; delta 0 is answered when only pure events were composed.

        An epsilon of infinity means that this delta cannot be met.
        """
        if isinstance(delta, bool) or not isinstance(delta, int | float) or not 0 <= delta < 1:
            raise SpecError("delta is a small probability", path="delta", given=delta, allowed="in [0, 1)")
        left = float(exactly(delta) - Fraction(self.delta_units, DELTA_UNITS)) * (1 - 1e-15)
        if left < 0:
            return Bound(math.inf, delta, "none")
        found = {name: route(left) for name, route in self._routes().items() if left > 0 or name == "basic"}
        name = min(found, key=found.__getitem__)
        return Bound(found[name], delta, name)

    def at_epsilon(self, epsilon: float) -> Bound:
        """The smallest delta at an epsilon, at most 1."""
        if isinstance(epsilon, bool) or not isinstance(epsilon, int | float) or not 0 < epsilon < math.inf:
            raise SpecError("epsilon is a positive number", path="epsilon", given=epsilon, allowed="above 0")
        approximate = self.delta_units / DELTA_UNITS * (1 + 1e-12)
        found = {"none": 1.0}
        if self.concentrated_units == 0 and epsilon >= self.epsilon_units / UNITS[Currency.EPSILON]:
            found["basic"] = approximate
        if self.rho_units:
            found["zcdp"] = approximate + zcdp_delta(self._rho(), epsilon)
            found["renyi"] = approximate + self._renyi_delta(epsilon)
        if self.square_units:
            correction = grid_correction(epsilon, self._distance())
            found["gaussian"] = approximate + gdp_delta(self._mu(self.square_units), epsilon) + correction
        if self._has_pld():
            correction = grid_correction(epsilon, self._distance())
            found["pld"] = approximate + float(self._pld().get_delta_for_epsilon(epsilon)) + PLD_ROUNDING + correction
        name = min(found, key=found.__getitem__)
        return Bound(epsilon, min(1.0, found[name]), name)

    def _routes(self) -> dict[str, Callable[[float], float]]:
        routes: dict[str, Callable[[float], float]] = {}
        if self.square_units:
            mu = self._mu(self.square_units)
            routes["gaussian"] = lambda left: self._corrected(lambda rest: gdp_epsilon(mu, rest), left)
        if self.rho_units:
            routes["zcdp"] = lambda left: zcdp_epsilon(self._rho(), left)
            routes["renyi"] = self._renyi
        routes["basic"] = self._basic
        if self._has_pld():
            pld = self._pld()
            routes["pld"] = lambda left: self._corrected(lambda rest: _pld_epsilon(pld, rest), left)
        return routes

    def _basic(self, left: float) -> float:
        epsilon = self.epsilon_units / UNITS[Currency.EPSILON]
        if self.concentrated_units == 0:
            return epsilon
        if left == 0:
            return math.inf
        if self.square_units is not None:  # all of them Gaussian
            mu = self._mu(self.gaussian_units)
            return self._corrected(lambda rest: epsilon + gdp_epsilon(mu, rest), left)
        return epsilon + zcdp_epsilon(self.concentrated_units / UNITS[Currency.ZCDP], left)

    def _renyi(self, left: float) -> float:
        from dp_accounting.rdp import rdp_privacy_accountant

        return float(rdp_privacy_accountant.compute_epsilon(ORDERS.tolist(), self.curve.tolist(), left)[0])

    def _renyi_delta(self, epsilon: float) -> float:
        from dp_accounting.rdp import rdp_privacy_accountant

        return float(rdp_privacy_accountant.compute_delta(ORDERS.tolist(), self.curve.tolist(), epsilon)[0])

    def _corrected(self, convert: Callable[[float], float], left: float) -> float:
        """The epsilon at which conversion and the correction for discrete noise together stay within what is left.

        The correction grows with epsilon, so start from epsilon without it and raise it until the sum fits.
        """
        distance = self._distance()
        epsilon = convert(left)
        if distance == 0:
            return epsilon
        for _ in range(100):
            rest = left - grid_correction(epsilon, distance)
            if rest <= 0:
                return math.inf
            higher = convert(rest)
            if higher <= epsilon:
                return epsilon
            epsilon = higher * (1 + 1e-12)
        return math.inf

    def _has_pld(self) -> bool:
        total = self.epsilon_units / UNITS[Currency.EPSILON]
        return bool(self.different) and self.square_units is not None and total <= MAX_PLD_EPSILON

    def _pld(self) -> Any:
        from dp_accounting.pld import common, privacy_loss_distribution

        different = self.different or {}
        largest = max(different)
        interval = largest / math.ceil(largest / 1e-4)  # divides the largest epsilon: rounding up costs nothing
        mu = self._mu(self.gaussian_units)
        width = self.epsilon_units / UNITS[Currency.EPSILON] + mu * mu / 2 + 12 * mu
        interval = max(interval, width / MAX_PLD_POINTS)
        total = privacy_loss_distribution.identity(interval)
        for epsilon, times in sorted(different.items()):
            one = privacy_loss_distribution.from_privacy_parameters(
                common.DifferentialPrivacyParameters(epsilon, 0.0), interval
            )
            total = total.compose(one.self_compose(times) if times > 1 else one)
        if self.gaussian_units:
            make = privacy_loss_distribution.from_gaussian_mechanism
            total = total.compose(make(1 / mu, value_discretization_interval=interval))
        return total

    def _rho(self) -> float:
        return self.rho_units / UNITS[Currency.ZCDP]

    def _distance(self) -> float:
        return self.distance_units / DISTANCE_UNITS

    @staticmethod
    def _mu(units: int) -> float:
        return math.sqrt(units / UNITS[Currency.GAUSSIAN]) * (1 + 1e-15)


def _pld_epsilon(pld: Any, delta: float) -> float:
    return float(pld.get_epsilon_for_delta(delta - PLD_ROUNDING)) if delta > 2 * PLD_ROUNDING else math.inf


def _leaves(event: Event, times: int) -> dict[Event, int]:
    """The plain events inside, with how often each is paid; what cannot be accounted is refused."""
    found = leaves(event, times)
    for leaf, count in found.items():
        if count > MAX_TIMES:
            raise PrivacyError("this event is repeated too often", path="count", allowed=f"at most {MAX_TIMES} in all")
        cost(leaf, Currency.ZCDP)  # every known plain event has a rho; anything else is refused here
    return found


@lru_cache(maxsize=256)
def _curve(leaf: Event) -> Floats:
    curve = float(cost(leaf, Currency.ZCDP).amount) * (1 + 1e-12) * ORDERS
    if isinstance(leaf, PureEvent | ApproximateEvent | BoundedRangeEvent):
        exact = np.array([pure_renyi(leaf.epsilon, order) for order in ORDERS.tolist()])
        curve = np.minimum(exact, curve)
    curve = np.maximum(curve, SMALLEST)
    curve.setflags(write=False)
    return curve
