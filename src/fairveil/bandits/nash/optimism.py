"""How large the mean of an arm may plausibly be, given a noisy sum: sampling error and privacy noise in one budget.

A published sum of n rewards in [0, 1] differs from n times the true mean by sampling error and by ``draws`` Laplace
draws of scale 1/epsilon. The optimistic mean is the largest q for which some true sample mean x and some noise z with
x = p + z/n satisfy n kl(x, q) + r(z) <= level: kl is the Bernoulli divergence, r the Cramer rate of the noise. Adding
two separate confidence radii would spend the level twice; here the adversary must split it, so the price of privacy
vanishes as soon as the sampling error dominates (the idea behind the divergence of Azize, Wu, Honda, Orabona, Ito and
Basu 2025, extended to several noise draws).

With lam the common slope, logit q = logit x + lam and z = (2 draws u / epsilon) / (1 - u^2), u = lam / epsilon, hence
n kl(x, q) = n (log(1 + x (e^lam - 1)) - lam x) and r = draws (2 u^2 / (1 - u^2) + log(1 - u^2)): one root in lam. The
derivative of the cost is n (q - x) + n (e^lam - 1) x' / (1 + x (e^lam - 1)).
"""

from __future__ import annotations

import math

import numpy as np

from fairveil.compiling import njit

STEPS = 50
STEEPEST = 40.0
"""Slopes beyond this give a mean of 1 to machine precision."""


@njit(cache=True, nogil=True)
def noise_rate(z, draws, epsilon):
    """Cramer rate of a sum of ``draws`` Laplace(1/epsilon) variables at z >= 0."""
    a = epsilon * z / draws
    if a < 1e-8:
        return draws * a * a / 4.0
    u = a / (1.0 + math.sqrt(1.0 + a * a))
    return draws * (a * u + math.log1p(-u * u))


@njit(cache=True, nogil=True)
def optimistic_mean(mean, count, draws, epsilon, level):
    """The largest plausible mean; above 1 it ranks arms whose mean may be 1 by the level they leave over.

    ``draws = 0`` is the Kullback-Leibler bound without noise.
    """
    if count <= 0:
        return np.inf
    p = min(1.0, max(1e-12, mean))
    if level <= 0:
        return p
    if draws == 0:
        if p >= 1.0:
            return 1.0 + level
    else:
        spare = level - noise_rate(count * (1.0 - p), draws, epsilon)
        if spare > 0:
            return 1.0 + spare
    high, noise_part = STEEPEST, 0.0
    if draws > 0:  # the slope at which x reaches 1, where only the noise costs anything
        a = epsilon * count * (1.0 - p) / draws
        high = min(high, epsilon * a / (1.0 + math.sqrt(1.0 + a * a)))
        noise_part = 2.0 * draws / (epsilon * epsilon)
    low, q = 0.0, p
    slope = min(0.9 * high, math.sqrt(2.0 * level / (count * p * (1.0 - p) + noise_part)))  # exact for small slopes
    for _ in range(STEPS):  # Newton on the rising cost, held inside a bracket
        u = slope / epsilon if draws > 0 else 0.0
        square = 1.0 - u * u
        x, moved, rate = p, 0.0, 0.0
        if draws > 0:
            x = min(1.0, p + noise_part * slope / (square * count))
            moved = noise_part * (1.0 + u * u) / (square * square * count)
            rate = draws * (2.0 * u * u / square + math.log(square))
        growth = math.expm1(slope)
        weight = 1.0 + x * growth
        q = x * (1.0 + growth) / weight
        gap = count * (math.log(weight) - slope * x) + rate - level
        if abs(gap) <= 1e-11 * level:
            break
        if gap > 0:
            high = slope
        else:
            low = slope
        if high - low <= 1e-14 * high:
            break
        slope -= gap / (count * (q - x + moved * growth / weight))
        if not low < slope < high:
            slope = 0.5 * (low + high)
    return min(1.0, q)
