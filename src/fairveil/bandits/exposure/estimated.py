"""The parameter and the merits of items from released sums, with intervals that hold together."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from fairveil.arrays import Floats
from fairveil.bandits.estimates import Estimate, Estimates, intervals
from fairveil.bandits.exposure.belief import Beliefs, Radius, believe
from fairveil.errors import InputError
from fairveil.fairness.exposure import Merit
from fairveil.state import State

if TYPE_CHECKING:
    from fairveil.bandits.exposure.private import PrivatePolicy

POINTS = 65
"""Points between the ends of an interval of means at which a merit function is looked at."""
TOGETHER = (
    "all intervals of this table hold together and at all synchronisations at once; they hold privacy noise and reward "
    "noise, the noise in the Gram matrix to first order"
)


def released_estimates(policy: PrivatePolicy, state: State, confidence: float, items: Floats | None) -> Estimates:
    """The ellipsoid of `PrivatePolicy.weighted_belief` at this confidence, and what it says of items."""
    dimension = policy.dimension
    shown = np.zeros((0, dimension)) if items is None else _checked(items, dimension)
    names = [f"parameter {k}" for k in range(dimension)]
    merits = [f"item {k}" for k in range(len(shown))]
    if state["counted"][0] <= 0:
        nothing = [
            *(Estimate("parameter", name, None) for name in names),
            *(Estimate("merit", n, None) for n in merits),
        ]
        return Estimates(tuple(nothing), confidence, notes=(TOGETHER,))
    centre, root = _ellipsoid(policy, state, 1.0 - confidence)
    axes = _interval(np.eye(dimension), centre, root)
    means = _interval(shown, centre, root)
    found = (
        *intervals("parameter", names, axes),
        *intervals("mean reward", merits, means),
        *intervals("merit", merits, _merits(policy.merits[0], means)),
    )
    return Estimates(found, confidence, notes=(TOGETHER,))


def _ellipsoid(policy: PrivatePolicy, state: State, failure: float) -> tuple[Floats, Floats]:
    """Centre, and root with {centre + root z : |z| <= 1}."""
    from scipy.stats import chi2

    facts, dimension = policy.facts, policy.dimension
    noise = float(state["variance"].sum()) * policy.noise_gain()
    share = float(state["counted"][1] / state["counted"][0])
    made, sides = np.empty((2, 1, dimension, dimension)), np.empty((2, 1, dimension))
    beliefs = Beliefs(made[0], sides[0], sides[1], made[1], np.empty(1), Radius(*np.empty((5, 1))))
    low, decided = believe(state["released"], noise, share, facts, policy.quantiles, beliefs)
    precision, target = beliefs.prior[0], beliefs.target[0]
    normal = chi2.isf(failure / policy.room, max(decided, 1e-3))
    radius = facts.regularisation / facts.variance * facts.bound / math.sqrt(low) + math.sqrt(normal)
    root = radius * np.linalg.inv(np.linalg.cholesky(precision)).T
    return np.asarray(np.linalg.solve(precision, target), np.float64), np.asarray(root, np.float64)


def _interval(rows: Floats, centre: Floats, root: Floats) -> Floats:
    """(rows, 3): value, low and high of <row, theta>."""
    value, reach = rows @ centre, np.linalg.norm(rows @ root, axis=1)
    return np.stack([value, value - reach, value + reach], axis=1)


def _merits(merit: Merit, means: Floats) -> Floats:
    """Merits over intervals of means; means outside the merit's own interval are taken at its ends."""
    kept = np.clip(means, merit.low, merit.high)
    found = np.empty_like(kept)
    for row, (value, low, high) in enumerate(kept):
        values = merit(np.linspace(low, high, POINTS))
        found[row] = merit(value), values.min(), values.max()
    return found


def _checked(items: Floats, dimension: int) -> Floats:
    rows = np.asarray(items, np.float64)
    if rows.ndim != 2 or rows.shape[1] != dimension or not np.isfinite(rows).all():
        raise InputError(
            "items are rows of public features", path="items", given=rows.shape, allowed=f"(items, {dimension}), finite"
        )
    return rows
