"""From sums of rows to a belief: a centre and an ellipsoid, in units of precision (Gram matrix over reward variance).

With exact sums (G, u) the precision is (G + lambda I)/R^2 and the centre its ridge estimate. A private release gives
G' = G + H and u' = u + h with known noise. Two ways to turn that into something positive definite:

* ``ridge``: add a public multiple of I, then lift every eigenvalue that is still below lambda up to lambda.
* ``weigh``: u' - G' theta = (h - H theta) + reward noise has covariance about (tau^2 + R^2 c g_k) in direction k of G'
  (eigenvalue g_k), so direction k carries the precision g_k^2 / (tau^2 + R^2 c g_k), nothing if g_k <= 0, and the prior
  lambda/R^2 is added. Always positive definite, no shift to choose, and equal to the ridge when tau = 0 and c = 1.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from fairveil.arrays import Floats
from fairveil.compiling import by_kind, inner, njit

HOPELESS = 4.0
"""Above this ratio of radii the combined set is not tried: to make it smaller than the agent's own, releases would have
to carry fifteen times the agent's own precision in every direction."""


class BeliefFacts(NamedTuple):
    """The public numbers from which beliefs are made."""

    gram: float
    """Units of the Gram block of a sum of scaled rows."""
    moment: float
    """Units of its moment column."""
    regularisation: float
    variance: float
    """R^2 of the reward."""
    bound: float
    """S >= |theta*|."""
    confidence: float
    """2 ln(1/failure) where own rows are used, else 0."""
    width: float
    """Multiplies every radius; 0: no optimism."""


class PersonalFacts(BeliefFacts):
    """Of agents that keep all their own rows beside the others' releases."""

    __slots__ = ()


class Radius(NamedTuple):
    """Radii of confidence sets in units of precision P after t rounds, one number per agent in every array:

    offset + sqrt(level + follows ln det P + d ln(base + growth t)).
    """

    offset: Floats
    level: Floats
    follows: Floats
    base: Floats
    growth: Floats


class Beliefs(NamedTuple):
    """What all agents believe, first axis agents: prior precision and target from releases, then, with own rows, the
    centre and the root of the confidence set, and ln det P when it was made."""

    prior: Floats
    target: Floats
    centre: Floats
    root: Floats
    log_det: Floats
    radius: Radius


class Quantiles(NamedTuple):
    """Chi-square quantiles against (fractional) degrees of freedom."""

    degrees: Floats
    values: Floats


@inner
def radius_at(radius, i, log_det, dimension, now):
    """The radius of agent i, as `Radius` says."""
    inside = radius.level[i] + radius.follows[i] * log_det
    inside += dimension * math.log(radius.base[i] + radius.growth[i] * now)
    return radius.offset[i] + math.sqrt(max(inside, 0.0))


@inner
def factorise(prior, spread, own, scale, factor, inverse):
    """Cholesky factor of prior + spread I + scale own, and the factor's inverse; returns the log determinant."""
    dimension = factor.shape[0]
    log_det = 0.0
    for i in range(dimension):
        for j in range(i + 1):
            total = prior[i, j] + scale * own[i, j]
            for k in range(j):
                total -= factor[i, k] * factor[j, k]
            if i == j:
                factor[i, i] = math.sqrt(total + spread)
                log_det += 2.0 * math.log(factor[i, i])
            else:
                factor[i, j] = total / factor[j, j]
    for j in range(dimension):
        inverse[j, j] = 1.0 / factor[j, j]
        for i in range(j + 1, dimension):
            total = 0.0
            for k in range(j, i):
                total -= factor[i, k] * inverse[k, j]
            inverse[i, j] = total / factor[i, i]
    return log_det


@by_kind
def smallest_radius(facts: Any, prior: Floats, own: Floats, radius: float, factor: Floats, inverse: Floats) -> float:
    """The radius that an agent uses."""
    return radius


@smallest_radius.of(PersonalFacts)  # type: ignore[attr-defined]
def _personal_radius(facts: Any, prior: Floats, own: Floats, radius: float, factor: Floats, inverse: Floats) -> float:
    """Radius of the smallest set shaped like that of the agent alone which holds the set of the combined precision.

    Never above the radius of the agent alone. The shape is kept because a set that shrinks in one direction only turns
    optimism towards the others, and that can cost more fairness than the smaller set saves. Overwrites ``inverse``
    by the inverse factor of the agent's own precision A. With P = A + B: |v|_A^2 <= |v|_P^2 / (1 + lowest eigenvalue of
    A^-1/2 B A^-1/2).
    """
    dimension = factor.shape[0]
    base = facts.regularisation / facts.variance
    scale = facts.gram / facts.variance
    log_det = factorise(np.zeros((dimension, dimension)), base, own, scale, factor, inverse)
    inside = facts.confidence + log_det - dimension * math.log(base)
    alone = math.sqrt(base) * facts.bound + math.sqrt(max(inside, 0.0))
    if radius > HOPELESS * alone:
        return alone
    lower, rest = np.zeros((dimension, dimension)), prior.copy()
    for i in range(dimension):
        rest[i, i] -= base
        for j in range(i + 1):
            lower[i, j] = inverse[i, j]
    known = np.linalg.eigvalsh(lower @ rest @ lower.T)[0]
    return min(alone, radius / math.sqrt(1.0 + max(known, 0.0)))


@njit(cache=True, nogil=True)
def refresh(i, beliefs, own, facts, now, work):
    """Centre and root of agent i's ellipsoid of prior + own rows, in place; returns the log determinant of the
    precision.

    ``own`` is a sum of outer products of scaled rows [x, y]. root = radius L^-T with precision = L L^T, so that
    {centre + root z} is the ellipsoid.
    """
    prior, target, centre, root = beliefs.prior[i], beliefs.target[i], beliefs.centre[i], beliefs.root[i]
    dimension = len(centre)
    factor, inverse = work[0], work[1]
    log_det = factorise(prior, 0.0, own, facts.gram / facts.variance, factor, inverse)
    pull = facts.moment / facts.variance
    # centre = L^-T (L^-1 b); row i of L^-1 is column i of L^-T
    for r in range(dimension):
        centre[r] = 0.0
    for r in range(dimension):
        total = 0.0
        for c in range(r + 1):
            total += inverse[r, c] * (target[c] + pull * own[c, dimension])
        for c in range(r + 1):
            centre[c] += inverse[r, c] * total
    radius = 0.0
    if facts.width > 0.0:
        radius = radius_at(beliefs.radius, i, log_det, dimension, now)
        radius = facts.width * smallest_radius(facts, prior, own, radius, factor, inverse)
    for r in range(dimension):
        for c in range(dimension):
            root[r, c] = radius * inverse[c, r] if c >= r else 0.0
    return log_det


@njit(cache=True, nogil=True)
def refresh_all(beliefs, own, facts, now):
    """`refresh` for every agent; agents that use no rows of their own have empty sums in ``own``."""
    work = np.empty((2, beliefs.centre.shape[1], beliefs.centre.shape[1]))
    for i in range(len(beliefs.centre)):
        beliefs.log_det[i] = refresh(i, beliefs, own[i], facts, now, work)


@inner
def compose(values, vectors, matrix):
    """The symmetric matrix with these eigenvalues and eigenvectors, in place.

    Entry by entry, here and below: assigning or multiplying whole arrays compiles the words of numba's errors too.
    """
    dimension = len(values)
    for i in range(dimension):
        for j in range(dimension):
            total = 0.0
            for k in range(dimension):
                total += vectors[i, k] * values[k] * vectors[j, k]
            matrix[i, j] = total


@njit(cache=True, nogil=True)
def ridge(gram, moment, lam, shift, variance, precision, target):
    """Exact or shifted statistics as a precision; eigenvalues below lambda are lifted to it."""
    dimension = len(moment)
    shifted = gram.copy()
    for k in range(dimension):
        shifted[k, k] += lam + shift
    values, vectors = np.linalg.eigh(shifted)
    for k in range(dimension):
        values[k] = max(values[k], lam) / variance
        target[k] = moment[k] / variance
    compose(values, vectors, precision)


@njit(cache=True, nogil=True)
def weigh(gram, moment, lam, tau2, share, variance, precision, target):
    """Released statistics as a precision, every direction by what is known about it (see the head of this file).

    Returns the smallest eigenvalue of the precision, the number of directions that the releases decide (each counted by
    its share of the precision), and the log determinant.
    """
    dimension = len(moment)
    values, vectors = np.linalg.eigh(gram)
    pull = np.zeros(dimension)
    for k in range(dimension):
        if values[k] <= 0.0:
            values[k] = 0.0
        else:
            for i in range(dimension):
                pull[k] += vectors[i, k] * moment[i]
            spread = tau2 + variance * share * values[k]
            pull[k] *= values[k] / spread
            values[k] *= values[k] / spread
    base, raised = lam / variance, np.empty(dimension)
    decided, log_det, least = 0.0, 0.0, values[0]
    for k in range(dimension):
        raised[k] = values[k] + base
        target[k] = 0.0
        for i in range(dimension):
            target[k] += vectors[k, i] * pull[i]
        decided += values[k] / raised[k]
        log_det += math.log(raised[k])
        least = min(least, values[k])
    compose(raised, vectors, precision)
    return base + least, decided, log_det


@inner
def parted(total, facts, dimension):
    """A sum of scaled rows as Gram matrix and moments, in the units of contexts and rewards."""
    gram, moment = np.empty((dimension, dimension)), np.empty(dimension)
    for i in range(dimension):
        moment[i] = total[i, dimension] * facts.moment
        for k in range(dimension):
            gram[i, k] = total[i, k] * facts.gram
    return gram, moment


@njit(cache=True, nogil=True)
def believe(total, tau2, share, facts, quantiles, beliefs):
    """Prior belief and radius of these agents from released sums, as `PrivatePolicy.weighted_belief` explains; in
    place. Returns the smallest eigenvalue of the precision and the number of directions that the releases decide."""
    prior, target, radius = beliefs.prior, beliefs.target, beliefs.radius
    gram, moment = parted(total, facts, prior.shape[1])
    low, decided, log_det = weigh(gram, moment, facts.regularisation, tau2, share, facts.variance, prior[0], target[0])
    degrees, values = quantiles.degrees, quantiles.values
    cell = 0
    while cell < len(degrees) - 2 and degrees[cell + 1] <= decided:
        cell += 1
    slope = (values[cell + 1] - values[cell]) / (degrees[cell + 1] - degrees[cell])
    normal = slope * (decided - degrees[cell]) + values[cell]
    radius.offset[0] = facts.regularisation / facts.variance * facts.bound / math.sqrt(low)
    radius.level[0] = facts.confidence + normal - log_det
    radius.follows[0] = 1.0
    radius.base[0] = 1.0
    radius.growth[0] = 0.0
    _same_for_all(beliefs)
    return low, decided


@njit(cache=True, nogil=True)
def believe_plain(total, shift, facts, beliefs):
    """Prior belief of all agents from exact sums, or from released ones that a public shift or floor makes definite;
    radii stay as they are; in place."""
    gram, moment = parted(total, facts, beliefs.prior.shape[1])
    ridge(gram, moment, facts.regularisation, shift, facts.variance, beliefs.prior[0], beliefs.target[0])
    _same_for_all(beliefs)


@inner
def _same_for_all(beliefs):
    prior, target, radius = beliefs.prior, beliefs.target, beliefs.radius
    for i in range(1, len(prior)):
        for r in range(prior.shape[1]):
            target[i, r] = target[0, r]
            for c in range(prior.shape[1]):
                prior[i, r, c] = prior[0, r, c]
        radius.offset[i] = radius.offset[0]
        radius.level[i] = radius.level[0]
        radius.follows[i] = radius.follows[0]
        radius.base[i] = radius.base[0]
        radius.growth[i] = radius.growth[0]
