"""From promises to noise levels: one budget, a total that several noises share, and (in `fits`) private learners.

A budget is one of: ``mu`` (Gaussian DP), ``rho`` (zCDP), ``epsilon`` with ``delta``, ``epsilon`` alone (pure, Laplace).
Noise is a discrete Gaussian on an integer grid. It is rho-zCDP with rho = mu^2/2 on every grid, and mu-GDP only up to a
correction of delta that is small when sigma is at least 2^20 units; on a coarser grid the event is the zCDP one.

A total is one budget for several noises that share (epsilon, delta): what the accountant makes of all their events. It
is a mu where delta can pay for the discreteness of all of them, elsewhere (a large epsilon, a tiny delta, a coarse
grid) a rho. The accountant counts in whole units and rounds every event up; the total leaves room for that.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from fairveil.errors import PrivacyError, SpecError
from fairveil.privacy.charges import DELTA_UNITS, UNITS, Currency
from fairveil.privacy.conversions import GRID_CONSTANT, gdp_mu, grid_correction, zcdp_rho
from fairveil.privacy.events import FINE_GRID, Event, GaussianEvent, PureEvent, ZcdpEvent, leaves

ROUND_UP = 1 + 2.0**-40
"""Noise levels are enlarged by this factor, far more than the rounding errors of the arithmetic that gave them."""


def noise_level(sensitivity: float, mu: float) -> float:
    """Std of Gaussian noise of this mu, or scale of Laplace noise of this epsilon: sensitivity/mu, rounded up.

    >>> noise_level(1.0, 0.5) > 2.0
    True
    """
    return sensitivity / mu * ROUND_UP


@dataclass(frozen=True)
class Budget:
    """What one unit may pay. Exactly one of the four ways is set."""

    mu: float | None = None
    rho: float | None = None
    epsilon: float | None = None
    delta: float | None = None

    def __post_init__(self) -> None:
        ways = (self.mu is not None) + (self.rho is not None) + (self.epsilon is not None)
        if ways != 1 or (self.delta is not None and self.epsilon is None):
            given = [name for name in ("mu", "rho", "epsilon", "delta") if getattr(self, name) is not None]
            raise SpecError(
                "a sum needs exactly one budget",
                path="budget",
                given=given,
                allowed="mu, or rho, or epsilon with delta, or epsilon alone (scalar batch sums, Laplace noise)",
            )

    @cached_property
    def pure(self) -> bool:
        return self.epsilon is not None and self.delta is None

    def first_mu(self) -> float:
        """The mu (epsilon if pure) before any correction for the grid: enough to choose the grid."""
        if self.mu is not None:
            return self.mu
        if self.rho is not None:
            return math.sqrt(2 * self.rho)
        assert self.epsilon is not None
        return self.epsilon if self.delta is None else gdp_mu(self.epsilon, self.delta)

    def calibrate(self, sensitivity: float, thinnest: float, draws: int) -> tuple[float, Event]:
        """The mu (epsilon if pure) that divides the sensitivity, and the event.

        ``sensitivity`` is the l2 sensitivity of the whole noisy transcript in units of one draw, ``thinnest`` the
        smallest std of a draw relative to sensitivity/mu, ``draws`` how many draws one unit's data can meet.
        """
        mu = self.first_mu()
        sigma = sensitivity / mu * thinnest
        if self.rho is not None:
            return mu, ZcdpEvent(self.rho)
        if self.mu is not None:
            fine = GaussianEvent(mu, draws, sigma) if sigma >= FINE_GRID else ZcdpEvent(mu * mu / 2)
            return mu, fine
        assert self.epsilon is not None
        if self.delta is None:
            return mu, PureEvent(self.epsilon)
        # Written with exp(eps + ...) so that a huge epsilon makes the correction infinite, which refuses this branch.
        grows = self.epsilon + math.log1p(math.exp(-self.epsilon))
        exponent = grows + math.log(draws * GRID_CONSTANT) - 2 * math.log(sigma)
        correction = math.exp(min(exponent, 0.0))
        if sigma >= FINE_GRID and correction < self.delta / 2:
            mu = gdp_mu(self.epsilon, self.delta - correction)
            return mu, GaussianEvent(mu, draws, sensitivity / mu * thinnest)
        rho = zcdp_rho(self.epsilon, self.delta)
        return math.sqrt(2 * rho), ZcdpEvent(rho)


ROUND_DOWN = 1 - 2.0**-40
"""Totals shrink by this factor: shares of them, squared and added up again, then stay below the total."""
ROUNDING = 4 / UNITS[Currency.ZCDP]
"""What the accountant's rounding of two events can add to mu^2, as mu^2 or as twice rho."""
TRIES = 4


@dataclass(frozen=True)
class Total:
    """The budget of a whole policy. Noise is sensitivity/mu in both currencies; they differ in what is promised."""

    mu: float
    concentrated: bool = False

    def share(self, part: float) -> dict[str, Any]:
        """The budget of a sum or a histogram that gets this part of mu^2."""
        square = self.mu**2 * part
        return {"rho": square / 2} if self.concentrated else {"mu": math.sqrt(square)}

    @property
    def stated(self) -> dict[str, Any]:
        """The number beside (epsilon, delta) in a guarantee."""
        return {"rho": self.mu**2 / 2} if self.concentrated else {"mu": self.mu}


def calibrated(epsilon: float, delta: float, event_of: Callable[[Total], Event]) -> Total:
    """The largest total, up to rounding, whose event is (epsilon, delta)-DP. ``event_of`` is the event of a total.

    A smaller mu has wider noise and a smaller distance, unless the grid becomes coarser at that point: the distance of
    the final event is therefore compared with the one that was paid for.
    """
    total, paid = Total(_rounded_down(gdp_mu(epsilon, delta))), -1.0
    for _ in range(TRIES):
        distance = _distance(event_of(total))
        if distance <= paid:
            return total
        correction = grid_correction(epsilon, distance)
        if not correction < delta / 2:
            break
        total, paid = Total(_rounded_down(gdp_mu(epsilon, delta - correction))), distance
    return Total(_rounded_down(math.sqrt(2 * zcdp_rho(epsilon, delta))), concentrated=True)


def _rounded_down(mu: float) -> float:
    """Budgets below a hundred roundings are left alone: they hold, but the accountant is too coarse to confirm them."""
    square = mu * mu * ROUND_DOWN
    return math.sqrt(square - ROUNDING if square > 100 * ROUNDING else square)


def _distance(event: Event) -> float:
    """Total-variation distance of the noises to Gaussians; infinite if an event is concentrated only."""
    total = 0.0
    for leaf, times in leaves(event).items():
        if isinstance(leaf, ZcdpEvent):
            return math.inf
        if not isinstance(leaf, GaussianEvent):
            raise PrivacyError("this event has no distance to a Gaussian", given=leaf.kind)
        total += times * math.ceil(leaf.distance * (1 + 1e-9) * DELTA_UNITS) / DELTA_UNITS
    return total
