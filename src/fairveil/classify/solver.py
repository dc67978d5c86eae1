"""Regularised logistic regression solved to a certified gradient norm: what a private release has to be exact about.

    J(w) = sum_i log(1 + exp(-y_i <w, z_i>)) + (strength/2) |w|^2 + <linear, w>,      y_i in {-1, 1}

J is strength-strongly convex, so a point with |grad J| <= t lies within t/strength of the minimiser. The solver stops
only when the computed gradient plus a bound on its own rounding errors is below t: that t is what is charged.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from fairveil.errors import PrivacyError

Floats = NDArray[np.float64]

CHUNK = 256
"""Rows whose products are added up in one go; the chunks' sums are added pairwise. Short sums lose few digits."""
STEPS = 200
HALVINGS = 60
_ROUNDING = 2.0**-53


def solve(rows: Floats, signs: Floats, strength: float, tolerance: float, linear: Floats | None = None) -> Floats:
    """Minimisers for one linear term (shape (d,) or None), or for many at once (shape (problems, d)).

    Newton steps, halved until the gradient norm falls (the Newton direction always lowers it). O(problems n d^2) a
    step, usually below ten steps; memory O(problems d (d + n/256) + n d).

    >>> w = solve(np.array([[1.0], [-1.0]]), np.array([1.0, -1.0]), 1.0, 1e-9)
    >>> bool(abs(w[0] - 2 * expit(-w[0])) < 1e-9)
    True
    """
    shift = np.zeros((1, rows.shape[1])) if linear is None else np.atleast_2d(linear)
    weights = np.zeros(shift.shape)
    gradient = _gradient(weights, rows, signs, strength, shift)
    norm = np.linalg.norm(gradient, axis=1)
    largest = float(np.sqrt((rows * rows).sum(axis=1).max(initial=0.0)))
    left = np.arange(len(shift))
    for _ in range(STEPS):
        left = left[norm[left] + _slack(weights[left], len(rows), largest, shift[left]) > tolerance]
        if not len(left):
            return weights[0] if linear is None or linear.ndim == 1 else weights
        curvature = _hessian(weights[left], rows, signs, strength)
        step = np.linalg.solve(curvature, gradient[left][:, :, None])[:, :, 0]
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
        else:  # no step lowers the gradient any more: rounding errors are all that is left
            break
    raise PrivacyError(
        "the solver cannot certify the tolerance for this many rows; nothing was released",
        path="tolerance",
        given=tolerance,
        fix="raise the tolerance; it is charged exactly",
    )


def _slack(weights: Floats, count: int, largest: float, shift: Floats) -> Floats:
    """Bounds on the rounding error of each computed gradient.

    Adding up at most CHUNK products, and the chunks in pairs, loses at most one unit of rounding per level on the sum
    of their sizes; a margin <w, z> that is off by d units moves its derivative by at most a quarter of that.
    """
    width = weights.shape[1]
    mass = count * largest
    sums = _levels(count, width) * 2 * (mass + np.linalg.norm(shift, axis=1))
    margins = (width + 4) * mass * largest * np.linalg.norm(weights, axis=1)
    return 2 * _ROUNDING * (sums + margins)


def _levels(count: int, width: int) -> int:
    return min(count, CHUNK) + 64 + width


def public_tolerance(count: int, width: int, push: float, margin: float) -> float:
    """A tolerance that rounding allows, in units of the longest row, with a factor of two to spare.

    ``push`` bounds the norm of the linear term in the same units, ``margin`` the margins <w, z>. Public numbers only.
    """
    sums = 2 * _levels(count, width) * (count + push)
    return max(1e-10, 4 * _ROUNDING * (sums + (width + 4) * count * margin))


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
