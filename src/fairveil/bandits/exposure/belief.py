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

import numpy as np

from fairveil.compiling import njit

ELLIPTIC, LEMMA_7 = 0, 1
RULE = 9
"""Numbers of a radius rule: kind, width, offset, a, b, c; for `personal` also offset, a and prior of an agent alone."""


@njit(cache=True, nogil=True)
def radius_at(rule, log_det, dimension, now):
    """Radius in units of precision: offset + sqrt(a + ln det P - b), by lemma 7 offset + sqrt(a + d ln(b + c now))."""
    if rule[0] == ELLIPTIC:
        inside = rule[3] + log_det - rule[4]
    else:
        inside = rule[3] + dimension * math.log(rule[4] + rule[5] * now)
    return rule[2] + math.sqrt(max(inside, 0.0))


@njit(cache=True, nogil=True)
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


@njit(cache=True, nogil=True)
def personal_radius(prior, own, scales, rule, radius, factor, inverse):
    """Radius of the smallest set shaped like that of the agent alone which holds the set of the combined precision.

    Never above the radius of the agent alone. The shape is kept because a set that shrinks in one direction only turns
    optimism towards the others, and that can cost more fairness than the smaller set saves. Overwrites ``inverse``
    by the inverse factor of the agent's own precision A. With P = A + B: |v|_A^2 <= |v|_P^2 / (1 + lowest eigenvalue of
    A^-1/2 B A^-1/2).
    """
    dimension = factor.shape[0]
    log_det = factorise(np.zeros((dimension, dimension)), rule[8], own, scales[0], factor, inverse)
    inside = rule[7] + log_det - dimension * math.log(rule[8])
    alone = rule[6] + math.sqrt(max(inside, 0.0))
    if radius > 4.0 * alone:  # releases cannot be so precise that this would help
        return alone
    lower = np.tril(inverse)
    rest = prior - rule[8] * np.eye(dimension)
    known = np.linalg.eigvalsh(lower @ rest @ lower.T)[0]
    return min(alone, radius / math.sqrt(1.0 + max(known, 0.0)))


@njit(cache=True, nogil=True)
def refresh(prior, target, own, scales, rule, now, centre, root, work):
    """Centre and root of the ellipsoid of prior + own rows; returns the log determinant of the precision.

    ``own`` is a sum of outer products of scaled rows [x, y], ``scales`` turn its two blocks into units of precision.
    root = radius L^-T with precision = L L^T, so that {centre + root z} is the ellipsoid.
    """
    dimension = len(centre)
    factor, inverse = work[0], work[1]
    log_det = factorise(prior, 0.0, own, scales[0], factor, inverse)
    # centre = L^-T (L^-1 b); row i of L^-1 is column i of L^-T
    for i in range(dimension):
        centre[i] = 0.0
    for i in range(dimension):
        total = 0.0
        for j in range(i + 1):
            total += inverse[i, j] * (target[j] + scales[1] * own[j, dimension])
        for j in range(i + 1):
            centre[j] += inverse[i, j] * total
    radius = 0.0
    if rule[1] > 0.0:
        radius = radius_at(rule, log_det, dimension, now)
        if rule[8] > 0.0:
            radius = personal_radius(prior, own, scales, rule, radius, factor, inverse)
        radius *= rule[1]
    for i in range(dimension):
        for j in range(dimension):
            root[i, j] = radius * inverse[j, i] if j >= i else 0.0
    return log_det


@njit(cache=True, nogil=True)
def refresh_all(prior, target, own, scales, rule, now, centre, root, log_dets):
    """`refresh` for every agent; agents that use no rows of their own have empty sums in ``own``."""
    work = np.empty((2, centre.shape[1], centre.shape[1]))
    for i in range(len(centre)):
        log_dets[i] = refresh(prior[i], target[i], own[i], scales, rule[i], now, centre[i], root[i], work)


@njit(cache=True, nogil=True)
def ridge(gram, moment, lam, shift, variance, precision, target):
    """Exact or shifted statistics as a precision; eigenvalues below lambda are lifted to it."""
    dimension = len(moment)
    values, vectors = np.linalg.eigh(gram + (lam + shift) * np.eye(dimension))
    for k in range(dimension):
        values[k] = max(values[k], lam) / variance
    precision[:] = (vectors * values) @ vectors.T
    target[:] = moment / variance


@njit(cache=True, nogil=True)
def weigh(gram, moment, lam, tau2, share, variance, precision, target):
    """Released statistics as a precision, every direction by what is known about it (see the head of this file).

    Returns the smallest eigenvalue of the precision, the number of directions that the releases decide (each counted by
    its share of the precision), and the log determinant.
    """
    dimension = len(moment)
    values, vectors = np.linalg.eigh(gram)
    pull = vectors.T @ moment
    for k in range(dimension):
        if values[k] <= 0.0:
            values[k] = 0.0
            pull[k] = 0.0
        else:
            spread = tau2 + variance * share * values[k]
            pull[k] *= values[k] / spread
            values[k] *= values[k] / spread
    base = lam / variance
    precision[:] = (vectors * (values + base)) @ vectors.T
    target[:] = vectors @ pull
    decided = 0.0
    log_det = 0.0
    for k in range(dimension):
        decided += values[k] / (values[k] + base)
        log_det += math.log(values[k] + base)
    return base + values.min(), decided, log_det


@njit(cache=True, nogil=True)
def believe(total, tau2, share, facts, degrees, quantiles, prior, target, rule):
    """Prior belief and radius of some agents from released sums, as `PrivatePolicy.weighted_belief` explains; in place.

    ``facts`` are public: units of the two blocks of ``total``, lambda, R^2, S, the confidence spent on own rows, the
    width, and whether agents keep their own rows. ``quantiles`` belong to ``degrees`` of freedom.
    """
    dimension = prior.shape[1]
    gram = np.ascontiguousarray(total[:dimension, :dimension]) * facts[0]
    moment = total[:dimension, dimension] * facts[1]
    lam, variance, bound, own = facts[2], facts[3], facts[4], facts[5]
    low, decided, log_det = weigh(gram, moment, lam, tau2, share, variance, prior[0], target[0])
    cell = min(np.searchsorted(degrees, decided, side="right"), len(degrees) - 1) - 1
    slope = (quantiles[cell + 1] - quantiles[cell]) / (degrees[cell + 1] - degrees[cell])
    base = lam / variance
    rule[0, 0] = ELLIPTIC
    rule[0, 1] = facts[6]
    rule[0, 2] = base * bound / math.sqrt(low)
    rule[0, 3] = own + (slope * (decided - degrees[cell]) + quantiles[cell])
    rule[0, 4] = log_det
    rule[0, 5] = 0.0
    if facts[7] > 0.0:
        rule[0, 6] = math.sqrt(base) * bound
        rule[0, 7] = own
        rule[0, 8] = base
    _same_for_all(prior, target, rule)


@njit(cache=True, nogil=True)
def believe_plain(total, shift, facts, radius, prior, target, rule):
    """Prior belief of all agents from exact sums, or from released ones that a public shift or floor makes definite;
    ``radius`` (empty: unchanged) are the first numbers of the radius rule; in place."""
    dimension = prior.shape[1]
    gram = np.ascontiguousarray(total[:dimension, :dimension]) * facts[0]
    moment = total[:dimension, dimension] * facts[1]
    ridge(gram, moment, facts[2], shift, facts[3], prior[0], target[0])
    rule[0, : len(radius)] = radius
    _same_for_all(prior, target, rule)


@njit(cache=True, nogil=True)
def _same_for_all(prior, target, rule):
    for i in range(1, len(prior)):
        prior[i] = prior[0]
        target[i] = target[0]
        rule[i] = rule[0]
