"""The optimistic step: the parameter of a confidence ellipsoid whose exposure-fair law earns the most.

Coordinates: theta = centre + root z with |z| <= 1, so the confidence set is the unit ball and the means are
mu = base + slopes z with base = X centre and slopes = X root. The objective g(z) = sum_a pi_a(mu) mu_a is not concave.

Ascent: from a point z the best step of the linearised problem on the ball is closed form, z' = gradient/|gradient|
(projected gradient ascent with an unbounded step). It is taken whole when g rises and halved otherwise. Starts: the
centre and, where the ellipsoid is large enough to bend the landscape, the maximiser of every action. The measured
gap to a global search is in bench/exposure_optimism.py.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from fairveil.arrays import Floats
from fairveil.compiling import inner, njit
from fairveil.fairness.exposure import EXP, Merit, log_merit

FLAT = 0.5
"""Below this (steepness of ln f times the largest half-width) restarts never found anything better in the benchmark."""
TOLERANCE = 2e-4
"""Stop when a step can gain, to first order, less than this share of the half-width."""
STEPS = 12
"""No problem of the benchmark needed more before the tolerance stopped it."""
SMALLEST_STEP = 0.05
"""A step that is halved below this share has nothing left to gain above the tolerance."""
SECOND_START = 1.0
"""Above this size of the ellipsoid the ascent is also run from the second best start."""


class OptimisticStep(NamedTuple):
    """Means base + slopes z over the unit ball, a merit as numbers, and the largest half-width of a mean."""

    base: Floats
    slopes: Floats
    kind: int
    numbers: Floats
    table: Floats
    reach: float


class Climb(NamedTuple):
    """A point of the ball, what is known there, and memory for the next step."""

    z: Floats
    means: Floats
    law: Floats
    slope: Floats
    gradient: Floats
    trial: Floats


@njit(cache=True, nogil=True)
def value_and_slope(means, kind, numbers, table, law, slope):
    """g at these means; writes the law and dg/dmu."""
    actions = len(means)
    total = 0.0
    value = 0.0
    if kind == EXP:  # the common case, three times faster without the general one's branches
        rate = numbers[0]
        top = means[0]
        for a in range(1, actions):
            top = max(top, means[a])
        for a in range(actions):
            weight = math.exp(rate * (means[a] - top))
            law[a] = weight
            total += weight
            value += weight * means[a]
        scale = 1.0 / total
        value *= scale
        for a in range(actions):
            law[a] *= scale
            slope[a] = law[a] * (1.0 + rate * (means[a] - value))
        return value
    top = -np.inf
    for a in range(actions):
        law[a], slope[a] = log_merit(means[a], kind, numbers, table)
        top = max(top, law[a])
    for a in range(actions):
        law[a] = math.exp(law[a] - top)
        total += law[a]
        value += law[a] * means[a]
    value /= total
    for a in range(actions):
        law[a] /= total
        slope[a] = law[a] * (1.0 + slope[a] * (means[a] - value))
    return value


@inner
def _gradient(slopes, slope, gradient):
    """dg/dz and its length."""
    norm = 0.0
    for k in range(slopes.shape[1]):
        total = 0.0
        for a in range(slopes.shape[0]):
            total += slopes[a, k] * slope[a]
        gradient[k] = total
        norm += total * total
    return math.sqrt(norm)


@inner
def _means(base, slopes, z, means):
    for a in range(len(base)):
        total = base[a]
        for k in range(len(z)):
            total += slopes[a, k] * z[k]
        means[a] = total


@njit(cache=True, nogil=True, inline="always")
def _ascend(problem, climb):
    """Climb from z (whose means are filled in); returns the value reached, with its law and means."""
    base, slopes, kind, numbers, table, reach = problem
    z, means, law, slope, gradient, trial = climb
    dimension = len(z)
    value = value_and_slope(means, kind, numbers, table, law, slope)
    for _ in range(STEPS):
        norm = _gradient(slopes, slope, gradient)
        if norm <= 0.0:
            break
        gain = norm
        for k in range(dimension):
            gain -= gradient[k] * z[k]
        if gain <= TOLERANCE * reach:
            break
        share = 1.0
        better = False
        while share > SMALLEST_STEP:
            for k in range(dimension):
                trial[k] = z[k] + share * (gradient[k] / norm - z[k])
            _means(base, slopes, trial, means)
            reached = value_and_slope(means, kind, numbers, table, law, slope)
            if reached > value:
                better = True
                break
            share *= 0.5
        if not better:
            _means(base, slopes, z, means)
            value = value_and_slope(means, kind, numbers, table, law, slope)
            break
        value = reached
        for k in range(dimension):
            z[k] = trial[k]
    return value


@njit(cache=True, nogil=True)
def optimistic(base, slopes, kind, numbers, table, means, law, work):
    """Fill ``means`` and ``law`` of the most rewarding parameter found and return its value.

    ``work`` is scratch of shape (6, actions + dimension). An ellipsoid without extent gives the law of its centre.
    In one piece: the search for starts as a function of its own would cost a tenth of the time.
    """
    actions, dimension = slopes.shape
    slope, spare_means, spare_law = work[0, :actions], work[1, :actions], work[2, :actions]
    gradient, trial = work[3, :dimension], work[4, :dimension]
    z, other = work[5, :dimension], work[3, dimension : 2 * dimension]
    reach = 0.0
    for a in range(actions):
        total = 0.0
        for k in range(dimension):
            total += slopes[a, k] * slopes[a, k]
        spare_means[a] = math.sqrt(total)
        reach = max(reach, spare_means[a])
        means[a] = base[a]
    value = value_and_slope(means, kind, numbers, table, law, slope)
    norm = _gradient(slopes, slope, gradient)
    if reach <= 0.0 or norm <= 0.0:
        return value
    steep = numbers[0] if kind == EXP else 0.0
    for a in range(actions if kind != EXP else 0):
        steep = max(steep, abs(log_merit(base[a], kind, numbers, table)[1]))
    for k in range(dimension):
        z[k] = gradient[k] / norm
    second = -1
    if steep * reach > FLAT:
        # An action's own maximiser is its row of slopes, normalised; compare them all with the centre's direction.
        _means(base, slopes, z, means)
        best = value_and_slope(means, kind, numbers, table, law, slope)
        first = -1
        runner_up = -np.inf
        for b in range(actions):
            length = spare_means[b]
            # An action whose own best mean is below a value that is reached already leads nowhere better.
            if length <= 0.0 or base[b] + length <= best:
                continue
            for a in range(actions):
                total = 0.0
                for k in range(dimension):
                    total += slopes[a, k] * slopes[b, k]
                means[a] = base[a] + total / length
            found = value_and_slope(means, kind, numbers, table, law, slope)
            if found > best:
                second, runner_up, first, best = first, best, b, found
            elif found > runner_up:
                second, runner_up = b, found
        if steep * reach <= SECOND_START:
            second = -1
        if second >= 0:
            for k in range(dimension):
                other[k] = slopes[second, k] / spare_means[second]
        if first >= 0:
            for k in range(dimension):
                z[k] = slopes[first, k] / spare_means[first]
    problem = OptimisticStep(base, slopes, kind, numbers, table, reach)
    _means(base, slopes, z, means)
    value = _ascend(problem, Climb(z, means, law, slope, gradient, trial))
    if second >= 0:  # written twice: a loop over both climbs would compile faster and run slower by a fourteenth
        _means(base, slopes, other, spare_means)
        found = _ascend(problem, Climb(other, spare_means, spare_law, slope, gradient, trial))
        if found > value:
            value = found
            for a in range(actions):
                means[a], law[a] = spare_means[a], spare_law[a]
    return value


def optimistic_law(contexts: ArrayLike, centre: ArrayLike, root: ArrayLike, merit: Merit) -> tuple[Floats, float]:
    """The law of the most rewarding parameter of the ellipsoid {centre + root z : |z| <= 1}, and its expected reward.

    >>> from fairveil.fairness.exposure import ExpMerit
    >>> law, value = optimistic_law(np.eye(2), [0.0, 0.0], 0.1 * np.eye(2), ExpMerit(10.0))
    >>> value > 0.05, float(law.max()) > 0.7
    (True, True)
    """
    x, middle, factor = (np.ascontiguousarray(item, np.float64) for item in (contexts, centre, root))
    actions, dimension = x.shape
    means, law = np.empty(actions), np.empty(actions)
    work = np.empty((6, max(actions, 2 * dimension)))
    value = optimistic(x @ middle, np.ascontiguousarray(x @ factor), *merit.code(), means, law, work)
    return law, float(value)
