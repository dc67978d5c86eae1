"""One budget for several noises that share (epsilon, delta): what the accountant makes of all their events.

It is a mu where delta can pay for the discreteness of all of them, elsewhere (a large epsilon, a tiny delta, a coarse
grid) a rho. The accountant counts in whole units and rounds every event up; the total leaves room for that.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from fairveil.errors import PrivacyError
from fairveil.privacy.charges import DELTA_UNITS, UNITS, Currency
from fairveil.privacy.conversions import gdp_mu, grid_correction, zcdp_rho
from fairveil.privacy.events import Event, GaussianEvent, ZcdpEvent, leaves

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
