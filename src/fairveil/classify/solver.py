"""Regularised logistic regression solved to a proved distance: what a private release has to be exact about.

    J(w) = sum_i log(1 + exp(-y_i <w, z_i>)) + (strength/2) |w|^2 + <linear, w>,      y_i in {-1, 1}, |z_i| <= bound

The promise is |found - minimiser| <= tolerance/strength, for every data set, and the solver never refuses one: whether
it refused would be seen. J is strength-strongly convex, so a point whose computed gradient plus a bound on its rounding
errors is at most the tolerance keeps the promise. Newton's method nearly always finds one. If it does not, gradient
descent on a ball that holds the minimiser takes a public number of steps; it contracts the distance in every step, so
it keeps the promise whether or not a certificate is seen, provided that the tolerance is at least `least_tolerance`.
"""

from __future__ import annotations

import math
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from fairveil.arrays import Floats

Number = TypeVar("Number", float, Floats)

CHUNK = 256
"""Rows whose products are added up in one go; the chunks' sums are added pairwise. Short sums lose few digits."""
STEPS = 200
"""Most Newton steps."""
HALVINGS = 60
_ROUNDING = 2.0**-53
_UP = 1 + 2.0**-40
"""Public bounds are enlarged by this factor: far more than the rounding errors of clipping and of the bounds."""


def solve(
    rows: Floats, signs: Floats, strength: float, tolerance: float, linear: Floats | None = None, *, bound: float
) -> Floats:
    """Minimisers for one linear term (shape (d,) or None), or for many at once (shape (problems, d)).

    ``bound`` is the public bound on the rows' norms; ``tolerance`` at least `least_tolerance`. Newton steps, halved
    until the gradient norm falls (the Newton direction always lowers it). O(problems n d^2) a step, usually below ten
    steps; memory O(problems d (d + n/256) + n d). At most STEPS steps, then at most `descent_steps` of O(n d).

    >>> w = solve(np.array([[1.0], [-1.0]]), np.array([1.0, -1.0]), 1.0, 1e-9, bound=1.0)
    >>> bool(abs(w[0] - 2 * expit(-w[0])) < 1e-9)
    True
    """
    shift = np.zeros((1, rows.shape[1])) if linear is None else np.atleast_2d(linear)
    weights = np.zeros(shift.shape)
    left = _newton(weights, rows, signs, strength, tolerance, shift, bound)
    for problem in left:
        weights[problem] = _descend(weights[problem], rows, signs, strength, tolerance, shift[problem], bound)
    return weights[0] if linear is None or linear.ndim == 1 else weights


def radius(count: int, bound: float, strength: float, push: float) -> float:
    """No minimiser is longer, whatever the data, if the linear term has norm at most ``push``.

    J(w) <= J(0) = count log 2 bounds |w| by the larger root of (strength/2) r^2 - push r - count log 2; a vanishing
    gradient bounds it by (count bound + push)/strength.
    """
    energy = push + math.sqrt(push * push + 2 * strength * count * math.log(2))
    return min(energy, count * bound + push) / strength * _UP


def least_tolerance(count: int, width: int, bound: float, strength: float, push: float) -> float:
    """A tolerance that the solver keeps on every data set of ``count`` rows. Public numbers only.

    Twice what rounding errors can keep gradient descent away from the minimiser. One step, with step size 1/beta and
    beta = strength + count bound^2/4, shortens the distance by the factor 1 - strength/beta, and adds the gradient's
    error over beta and a few units of rounding (step, projection) of the weights: (strength/beta) floor/strength.
    """
    reach = radius(count, bound, strength, push)
    update = (width + 16) * _ROUNDING * (2 * _smoothness(count, bound, strength) * reach + count * bound + push)
    floor = _slack(reach, count, width, bound, strength, push) + update
    return max(1e-10 * bound, 2 * floor) * _UP


def descent_steps(count: int, bound: float, strength: float, tolerance: float, push: float) -> int:
    """After so many steps the start, anywhere in the ball, is forgotten up to half the tolerance."""
    ratio = 4 * strength * radius(count, bound, strength, push) / tolerance
    return math.ceil(_smoothness(count, bound, strength) / strength * math.log(max(ratio, 1.0)) * _UP) + 1


def _newton(
    weights: Floats, rows: Floats, signs: Floats, strength: float, tolerance: float, shift: Floats, bound: float
) -> NDArray[np.intp]:
    """Improves ``weights`` in place; returns the problems without a certificate."""
    gradient = _gradient(weights, rows, signs, strength, shift)
    norm = np.linalg.norm(gradient, axis=1)
    left, stuck = np.arange(len(shift)), np.zeros(len(shift), bool)
    push = np.linalg.norm(shift, axis=1)

    def unproved(some: NDArray[np.intp]) -> NDArray[np.intp]:
        size = np.linalg.norm(weights[some], axis=1)
        error = _slack(size, len(rows), rows.shape[1], bound, strength, push[some])
        return some[norm[some] + error > tolerance]

    for _ in range(STEPS):
        left = unproved(left[~stuck[left]])
        if not len(left):
            break
        curvature = _hessian(weights[left], rows, signs, strength)
        try:
            step = np.linalg.solve(curvature, gradient[left][:, :, None])[:, :, 0]
        except np.linalg.LinAlgError:  # the regularisation is lost in rounding: descent does not need the curvature
            break
        size, waiting = 1.0, np.arange(len(left))
        for _ in range(HALVINGS):
            chosen = left[waiting]
            trial = weights[chosen] - size * step[waiting]
            fresh = _gradient(trial, rows, signs, strength, shift[chosen])
            length = np.linalg.norm(fresh, axis=1)
            good = length <= (1 - 1e-4 * size) * norm[chosen]
            done = chosen[good]
            weights[done], gradient[done], norm[done] = trial[good], fresh[good], length[good]
            waiting, size = waiting[~good], size / 2
            if not len(waiting):
                break
        stuck[left[waiting]] = True
    return unproved(np.arange(len(shift)))


def _descend(
    start: Floats, rows: Floats, signs: Floats, strength: float, tolerance: float, shift: Floats, bound: float
) -> Floats:
    """Projected gradient descent for a public number of steps; a certificate only ends it early."""
    count, width, push = len(rows), rows.shape[1], float(np.linalg.norm(shift))
    reach, rate = radius(count, bound, strength, push), 1 / _smoothness(count, bound, strength)
    error = _slack(reach, count, width, bound, strength, push)
    weights = _project(start, reach)
    for _ in range(descent_steps(count, bound, strength, tolerance, push)):
        gradient = _gradient(weights[None], rows, signs, strength, shift[None])[0]
        if float(np.linalg.norm(gradient)) + error <= tolerance:
            break
        weights = _project(weights - rate * gradient, reach)
    return weights


def _project(weights: Floats, reach: float) -> Floats:
    size = float(np.linalg.norm(weights))
    return weights if size <= reach else weights * (reach / size)


def _smoothness(count: int, bound: float, strength: float) -> float:
    return (strength + count * bound * bound / 4) * _UP


def _slack(size: Number, count: int, width: int, bound: float, strength: float, push: Number) -> Number:
    """Bounds on the rounding error of a gradient computed at weights of norm ``size``. Nothing here reads the data.

    Adding up at most CHUNK products, and the chunks in pairs, loses at most one unit of rounding per level on the sum
    of their sizes; a margin <w, z> that is off by d units moves its derivative by at most a quarter of that.
    """
    mass = count * bound * _UP
    sums = 2 * (min(count, CHUNK) + 64 + width) * (mass + push + strength * size)
    margins = (width + 4) * mass * bound * size
    return 2 * _ROUNDING * (sums + margins)


def _gradient(weights: Floats, rows: Floats, signs: Floats, strength: float, shift: Floats) -> Floats:
    starts = range(0, len(rows), CHUNK)
    parts = np.empty((*weights.shape, len(starts) + 1))
    parts[:, :, 0] = strength * weights + shift
    for i, start in enumerate(starts):
        part, sign = rows[start : start + CHUNK], signs[start : start + CHUNK]
        parts[:, :, i + 1] = -(expit(-(weights @ part.T) * sign) * sign) @ part
    return parts.sum(axis=-1)  # the last axis is contiguous: numpy adds it pairwise


def _hessian(weights: Floats, rows: Floats, signs: Floats, strength: float) -> Floats:
    width = rows.shape[1]
    total = np.tile(strength * np.eye(width), (len(weights), 1, 1))
    size = max(1, min(4096, 2**23 // max(1, width * len(weights))))
    for start in range(0, len(rows), size):
        part, sign = rows[start : start + size], signs[start : start + size]
        chance = expit((weights @ part.T) * sign)
        total += (part.T[None, :, :] * (chance * (1 - chance))[:, None, :]) @ part
    return total
