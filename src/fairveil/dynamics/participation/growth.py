"""How numbers of users move from one step to the next, and where they come to rest for fixed treatment."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

Array = np.ndarray


@dataclass(frozen=True)
class Growth:
    """One law of motion: the next number from the present one, retention, attraction and arrivals; and its rest point.

    ``rest`` is infinite where the law has no stable point. ``pace`` is what such a group gains a step when nobody
    leaves it: groups that grow for ever have shares as their paces. It is not a number where growth itself grows.
    """

    step: Callable[[Array, Array, Array, Array], Array]
    rest: Callable[[Array, Array, Array], Array]
    pace: Callable[[Array, Array, Array], Array]


def _quadratic_rest(stay: Array, _draw: Array, arrivals: Array) -> Array:
    """The smaller root of N = N^2 stay + arrivals; stable, and there, only for 4 arrivals stay < 1."""
    inside = 1.0 - 4.0 * arrivals * stay
    with np.errstate(invalid="ignore", divide="ignore"):
        root = 2.0 * arrivals / (1.0 + np.sqrt(inside))
    return np.where(inside > 0.0, root, np.inf)


def _divide(top: Array, bottom: Array) -> Array:
    with np.errstate(divide="ignore"):
        return np.where(bottom > 0.0, top / np.maximum(bottom, 1e-300), np.inf)


GROWTH: dict[str, Growth] = {
    # People stay with their chance and new ones arrive: N' = N stay + arrivals.
    "arrive": Growth(
        lambda now, stay, draw, arrivals: now * stay + arrivals,
        lambda stay, draw, arrivals: _divide(arrivals, 1.0 - stay),
        lambda stay, draw, arrivals: arrivals,
    ),
    # Newcomers are treated before they count: N' = (N + arrivals) stay.
    "join": Growth(
        lambda now, stay, draw, arrivals: (now + arrivals) * stay,
        lambda stay, draw, arrivals: _divide(arrivals * stay, 1.0 - stay),
        lambda stay, draw, arrivals: arrivals * stay,
    ),
    # Treatment also attracts: N' = N stay + arrivals draw.
    "attract": Growth(
        lambda now, stay, draw, arrivals: now * stay + arrivals * draw,
        lambda stay, draw, arrivals: _divide(arrivals * draw, 1.0 - stay),
        lambda stay, draw, arrivals: arrivals * draw,
    ),
    # Users bring users: N' = N^2 stay + arrivals.
    "quadratic": Growth(
        lambda now, stay, draw, arrivals: now**2 * stay + arrivals,
        _quadratic_rest,
        lambda stay, draw, arrivals: np.full_like(arrivals, np.nan),
    ),
}
