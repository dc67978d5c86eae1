"""From a budget to a noise level and the event that is charged for it.

A budget is one of: ``mu`` (Gaussian DP), ``rho`` (zCDP), ``epsilon`` with ``delta``, ``epsilon`` alone (pure, Laplace).
Noise is a discrete Gaussian on an integer grid. It is rho-zCDP with rho = mu^2/2 on every grid, and mu-GDP only up to a
correction of delta that is small when sigma is at least 2^20 units; on a coarser grid the event is the zCDP one.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

from fairveil.errors import SpecError
from fairveil.privacy.conversions import GRID_CONSTANT, gdp_mu, zcdp_rho
from fairveil.privacy.events import FINE_GRID, Event, GaussianEvent, PureEvent, ZcdpEvent

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
