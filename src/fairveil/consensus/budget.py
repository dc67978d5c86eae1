"""From (epsilon, delta) to Gaussian DP, with room for the grid of discrete noise."""

from __future__ import annotations

import math

from fairveil.errors import SpecError
from fairveil.privacy.conversions import GRID_CONSTANT, gdp_mu, grid_correction
from fairveil.privacy.limits import ADDED_SHARE


def gaussian_mu(epsilon: float, delta: float, draws: int, grid_sigma: float) -> float:
    """mu of everything together. A ledger with `Limit.approximate(epsilon, delta, currency="gaussian")` takes it.

    One per cent of delta is set aside for ``draws`` discrete draws of at least ``grid_sigma`` grid units.

    >>> round(gaussian_mu(1.0, 1e-5, 1000, 2.0**36), 4)
    0.2679
    """
    if grid_correction(epsilon, draws * GRID_CONSTANT / grid_sigma**2) > ADDED_SHARE * delta:
        raise SpecError(
            "epsilon is too large for Gaussian noise on a grid", path="epsilon", given=epsilon,
            allowed="at most about 20", fix="definition='pure' has no such limit",
        )  # fmt: skip
    return gdp_mu(epsilon, delta * (1 - ADDED_SHARE)) * math.sqrt(1 - 1e-8)
