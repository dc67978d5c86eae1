"""From a budget to noise on an integer grid: everything a stream's public keys determine.

Sensitivity: a value z_t (clipped to a public range first, if there is one) is rounded toward zero to units of 2^-bits,
so one person moves an integer z_t by at most ceil(D 2^bits) units. With noise std s_t units the loss of a unit that
touches a set S of steps is mu^2 = sum over S of (D units / s_t)^2; s_t = D units sqrt(total/c_t)/mu keeps it within
the budget because sum c_t over S is at most ``total`` (see `fairveil.streams.budget_shares`). Laplace noise likewise
with epsilon = sum over S of D units / scale_t. On a grid with s_t >= 2^26 units discrete Gaussian noise is mu-GDP up to
a share 1e-4 of delta that is set aside; where no 64-bit grid is that fine (large epsilon), and for integers
(``discrete-gaussian``), the budget is counted in zCDP, which the discrete law satisfies on any grid.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from fairveil.arrays import Floats, Ints
from fairveil.errors import HorizonError, InputError, SpecError
from fairveil.privacy.conversions import gdp_mu, zcdp_rho
from fairveil.privacy.events import ApproximateEvent, Event, GaussianEvent, PureEvent, ZcdpEvent
from fairveil.privacy.grid import LARGEST_UNIT, grid_bits, to_units, units_above
from fairveil.privacy.mechanisms.gaussian import FINENESS, RESERVE, fineness_for
from fairveil.privacy.noise import MAX_SCALE, Noise
from fairveil.streams.budget_shares import Shares
from fairveil.streams.theory import binomial_coins, corollary1_phi, theorem9_m

COARSE = 13
"""A sensitivity measures at least 2^13 grid units, so that rounding it up costs next to nothing."""
ROUND_UP = 1 + 1e-12
GROWTH = 2.0**24
"""With a bounded total loss the noise grows for ever; beyond this factor nothing can be learnt from a release."""


@dataclass(frozen=True)
class StreamBudget:
    """What a whole stream may spend, in the numbers that were given."""

    epsilon: float | None = None
    delta: float | None = None
    mu: float | None = None
    rho: float | None = None
    printed: bool = False

    @property
    def stated(self) -> dict[str, Any]:
        """The key that states the budget, and its number, as an error names them."""
        key = next((key for key in ("mu", "rho") if getattr(self, key) is not None), "epsilon")
        return {"path": key, "given": getattr(self, key)}

    @property
    def pair(self) -> tuple[float, float]:
        """epsilon and delta, of a budget that is stated in them."""
        return float(self.epsilon or 0.0), float(self.delta or 0.0)


@dataclass(frozen=True)
class NoisePlan:
    """Noise of a stream: ``lead`` is the noise parameter (std or scale, grid units) of a release with total/c = 1.

    ``offset``: std (grid units) of the common offset of add-remove streams, 0 without one; ``coins`` of Binomial noise.
    """

    law: str
    bits: int
    lead: float
    shares: Shares
    event: Event
    mu: float | None = None
    rho: float | None = None
    offset: float = 0.0
    coins: int = 0

    def stretches(self, start: int, count: int) -> list[tuple[int, float]]:
        """Noise parameters of releases start, start + 1, ... in grid units, as (how many, parameter)."""
        if self.law == "binomial":
            return [(count, math.sqrt(self.coins) / 2)]
        made = [(length, self._parameter(share)) for length, share in self.shares.runs(start, count)]
        falling = self.shares.kind in ("geometric", "power")
        if falling and made and made[-1][1] > self.lead_of_first * GROWTH:
            raise HorizonError(
                "with a bounded total loss the noise has grown so much that nothing can be learnt any more",
                path="schedule",
                allowed=f"steps whose noise is at most {GROWTH:.0f} times the first",
                fix='end this stream here; for endless use with lasting accuracy set unit = "window"',
            )
        return made

    def _parameter(self, share: float) -> float:
        ratio = self.shares.total / share
        return self.lead * (ratio if self.law == "laplace" else math.sqrt(ratio))

    @property
    def lead_of_first(self) -> float:
        return self._parameter(float(self.shares.at(0, 1)[0]))

    @cached_property
    def reference(self) -> float:
        """Noise std (grid units) that filters count in: of release 0, or of the steady releases after it."""
        if self.law == "binomial":
            return math.sqrt(self.coins) / 2
        first = float(self.shares.at(0, 1)[0]) if self.shares.kind == "power" else 1.0
        ratio = self.shares.total / first
        if self.law == "laplace":
            return math.sqrt(2.0) * self.lead * ratio
        return self.lead * math.sqrt(ratio)

    @cached_property
    def std(self) -> float:
        """The reference in the data's own units."""
        return math.ldexp(self.reference, -self.bits)

    def relative_variance(self, start: int, count: int) -> Floats:
        """Noise variance of releases in units of the reference."""
        made, place = np.empty(count), 0
        size = math.sqrt(2.0) if self.law == "laplace" else 1.0
        for length, parameter in self.stretches(start, count):
            made[place : place + length] = (size * parameter / self.reference) ** 2
            place += length
        return made

    def to_grid(self, values: Floats) -> Ints:
        """Values on the grid; laws of integers refuse anything else, without saying what it was.

        A value that the grid cannot carry is a broken sensor, not a person: it is refused instead of being cut to
        something that no later step recovers from. Neighbours differ by the sensitivity, so it is one for all of them.
        """
        largest = math.ldexp(LARGEST_UNIT, -self.bits)
        if (np.abs(values) > largest).any():
            raise InputError(
                "a value is larger than the grid can carry",
                path="value",
                allowed=f"between -{largest:.3g} and {largest:.3g}",
                fix="empty the cell if the sensor failed, or declare a range: values beyond it are clipped to it",
            )
        if self.law in ("discrete-gaussian", "binomial") and (values != np.rint(values)).any():
            raise InputError(
                "this law takes whole numbers only",
                path="value",
                allowed="whole numbers",
                fix='round to a public lattice first, or use law = "gaussian"',
            )
        return to_units(values, self.bits)

    def noise(self, start: int, count: int, source: Noise) -> Ints:
        """Noise of releases start, start + 1, ... in grid units; releases with the same scale are drawn together."""
        parts = [self._draw(parameter, length, source) for length, parameter in self.stretches(start, count)]
        return parts[0] if len(parts) == 1 else np.concatenate(parts or [np.zeros(0, np.int64)])

    def copies(self, index: int, count: int, source: Noise) -> Ints:
        """``count`` independent draws of the noise of one release: for audits, which run many streams side by side."""
        return self._draw(self.stretches(index, 1)[0][1], count, source)

    def _draw(self, parameter: float, count: int, source: Noise) -> Ints:
        if self.law == "binomial":
            return source.binomial(self.coins, count) - self.coins // 2
        return (source.laplace_in_turn if self.law == "laplace" else source.gaussian)(parameter, count)


class GaussianNumbers(NamedTuple):
    """mu (None where only zCDP holds), rho, and how many bits fine the grid must be."""

    mu: float | None
    rho: float
    fineness: int = FINENESS

    @property
    def size(self) -> float:
        """What the sensitivity is divided by."""
        return self.mu if self.mu is not None else math.sqrt(2 * self.rho)

    def event(self, draws: int, grid_sigma: float) -> Event:
        """What a unit pays that meets so many draws, of which the smallest has this std."""
        if self.mu is None:
            return ZcdpEvent(self.rho)
        return GaussianEvent(self.mu, draws=draws, grid_sigma=grid_sigma)


def gaussian_numbers(budget: StreamBudget, draws: int) -> GaussianNumbers:
    """What a budget is in Gaussian noise."""
    if budget.mu is not None:
        return GaussianNumbers(budget.mu, budget.mu**2 / 2)
    if budget.rho is not None:
        return GaussianNumbers(math.sqrt(2 * budget.rho), budget.rho)
    epsilon, delta = budget.pair
    if budget.printed:
        phi = corollary1_phi(epsilon, delta)
        return GaussianNumbers(math.sqrt(phi), phi / 2)
    fineness = fineness_for(epsilon, delta, draws)
    if fineness > 40:  # no 64-bit grid with room for values is that fine: count in zCDP, valid on any grid
        return GaussianNumbers(None, zcdp_rho(epsilon, delta))
    mu = gdp_mu(epsilon, delta * (1 - RESERVE))
    return GaussianNumbers(mu, mu * mu / 2, fineness)


def gaussian_plan(budget: StreamBudget, sensitivity: float, shares: Shares, draws: int, extra: Any = None) -> NoisePlan:
    """Gaussian noise for real values. ``extra(units)``: sensitivity in units where it is not ceil(D 2^bits)."""
    numbers = gaussian_numbers(budget, draws)
    first = math.sqrt(shares.total / float(shares.at(0, 1)[0]))
    smallest = min(first, math.sqrt(shares.total)) * sensitivity / numbers.size
    bits = max(grid_bits(sensitivity, fineness=COARSE), grid_bits(smallest, fineness=numbers.fineness))
    units = float(units_above(sensitivity, bits)) if extra is None else extra(bits)
    lead = units / numbers.size * ROUND_UP
    if not lead * math.sqrt(shares.total) * GROWTH <= MAX_SCALE and shares.kind in ("geometric", "power"):
        raise SpecError("no 64-bit grid is fine enough for this budget", **budget.stated)
    finest = lead * min(first, math.sqrt(shares.total))
    if not 1.0 <= finest <= MAX_SCALE:
        raise SpecError("no 64-bit grid fits this budget", **budget.stated)
    return NoisePlan("gaussian", bits, lead, shares, numbers.event(draws, finest), numbers.mu, numbers.rho)


def offset_plan(budget: StreamBudget, sensitivity: float, steps: int, starts: int) -> NoisePlan:
    """Half the noise for add-remove neighbours: one common offset a start hides how many people there are.

    With n people y_t = (z_t - n D/2 + W_t) + (n D/2 + B): two releases of sensitivity D/2, a step and a start, whose
    sum does not contain n. mu^2 = (D^2/4)(steps/s^2 + starts/b^2) with b^2 = 9 starts s^2/steps.
    """
    numbers = gaussian_numbers(budget, steps + starts)
    shares = Shares("even", steps * (10 / 9))
    each = sensitivity / 2 * math.sqrt(shares.total) / numbers.size
    spread = each * math.sqrt(9 * starts / steps)
    bits = max(grid_bits(sensitivity, fineness=COARSE), grid_bits(min(each, spread), fineness=numbers.fineness))
    half = float(units_above(Fraction(sensitivity) / 2, bits)) + 1.0  # rounding z and n D/2 apart
    lead = half / numbers.size * ROUND_UP
    offset = lead * math.sqrt(shares.total) * math.sqrt(9 * starts / steps)
    event = numbers.event(steps + starts, min(lead * math.sqrt(shares.total), offset))
    return NoisePlan("gaussian", bits, lead, shares, event, numbers.mu, numbers.rho, offset)


def integer_plan(budget: StreamBudget, sensitivity: int, shares: Shares) -> NoisePlan:
    """Discrete Gaussian noise on whole numbers, counted in zCDP."""
    rho = budget.rho
    if rho is None:
        rho = budget.mu**2 / 2 if budget.mu is not None else zcdp_rho(*budget.pair)
    lead = sensitivity / math.sqrt(2 * rho) * ROUND_UP
    return NoisePlan("discrete-gaussian", 0, lead, shares, ZcdpEvent(rho), None, rho)


def laplace_plan(epsilon: float, sensitivity: float, shares: Shares) -> NoisePlan:
    """Laplace noise for real values: pure epsilon."""
    first = shares.total / float(shares.at(0, 1)[0])
    bits = grid_bits(sensitivity, sensitivity * min(first, shares.total) / epsilon)
    lead = float(units_above(sensitivity, bits)) / epsilon * ROUND_UP
    if not lead * min(first, shares.total) <= MAX_SCALE:
        raise SpecError("no 64-bit grid fits this budget", path="epsilon", given=epsilon)
    return NoisePlan("laplace", bits, lead, shares, PureEvent(epsilon))


def binomial_plan(budget: StreamBudget, sensitivity: int, touched: int, weight: float = 1.0) -> NoisePlan:
    """Binomial noise on whole numbers: coins from the exact composition, or from Theorem 9 when printed."""
    epsilon, delta = budget.pair
    if budget.printed:
        coins = 2 * theorem9_m(epsilon, touched, weight, delta, sensitivity)
    else:
        coins = binomial_coins(epsilon, sensitivity, touched, delta)
    return NoisePlan("binomial", 0, 0.0, Shares("even", touched), ApproximateEvent(epsilon, delta), coins=coins)
