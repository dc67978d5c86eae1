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

Intervals for the means of arms: the two-sided form of the optimistic mean, under adaptive sampling.

For a given number of blocks the published sum of an arm is n rewards in [0, 1] plus Laplace draws, and the optimistic
mean is the Chernoff bound of exactly that sum: at level l it fails with chance at most e^-l on each side, so level
ln(2/alpha) gives an interval. Adaptive sampling lets rewards decide how many blocks an arm has, which biases means;
plain normal intervals then miss up to half of the time, because they know nothing of the noise either. A Chernoff
interval reaches 2.7 standard deviations where a normal one reaches 1.96, and that slack has been larger than the bias
wherever it was measured (docs/guides/estimates.md: at least 96 % at a nominal 95 %), but nothing proves it.

``anytime`` proves it: the bound then holds for every number of blocks at once, so at all rounds simultaneously, for
whoever looks as often as he likes and stops when he likes.

* noisy sums: block numbers b = 1, 2, ... share the chance alpha as alpha / (b (b + 1)) (union bound over blocks, whose
  lengths are public), level ln(2/alpha) + ln(b (b + 1));
* one-bit reports and plain rewards: the Krichevsky-Trofimov mixture over all means is a test martingale whose regret
  is at most ln(2 sqrt n) (Ville's inequality), level ln(2/alpha) + ln(n) / 2.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from fairveil.arrays import Floats, Ints
from fairveil.compiling import njit

SMALLEST = 1e-9
"""At smaller levels the gain of an optimistic mean drowns in rounding."""
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


@njit(cache=True, nogil=True)
def optimistic_ceiling(mean, count, draws, epsilon, level):
    """Not below the optimistic mean, as far as that is below 1: the whole level spent twice, on the sampling error by
    Pinsker's inequality, 2 (q - x)^2 <= kl(x, q), and on the noise, whose sum is sub-gamma: at level l it is at most
    (2 sqrt(draws l) + l) / epsilon, because -log(1 - u^2) <= u^2 / (1 - u).
    """
    p = min(1.0, max(1e-12, mean))
    if level <= 0:
        return p
    noise = (2.0 * math.sqrt(draws * level) + level) / epsilon if draws > 0 else 0.0
    return p + noise / count + math.sqrt(level / (2.0 * count))


@njit(cache=True, nogil=True)
def optimistic_gain(mean, found, level):
    """How much an optimistic mean, or its ceiling, ``found`` at this level, gains at most for each unit that the level
    grows, below 1.

    The least cost of a mean is convex in it (kl and the rate are convex together), so the optimistic mean is concave in
    the level, as its ceiling is, and from here on it stays below the line that leads from (0, mean) to (level, found).
    """
    return (found - min(1.0, max(1e-12, mean))) / level if level > SMALLEST else np.inf


class Evidence(NamedTuple):
    """What is published of every arm.

    ``mean``: of the rewards, or of the bits, which are 1 with chance low + slope reward; ``size``: how many;
    ``draws``: Laplace draws of scale 1/epsilon in their sum; ``looks``: what an anytime bound adds to the level.
    """

    mean: Floats
    size: Floats
    draws: Ints
    epsilon: float
    looks: Floats
    low: float = 0.0
    slope: float = 1.0


def arm_intervals(evidence: Evidence, confidence: float, anytime: bool = False) -> Floats:
    """(arms, 3): value, low and high; an arm without rewards has no value and lies in [0, 1].

    >>> one = Evidence(np.array([0.5]), np.array([1000.0]), np.array([2]), 1.0, np.array([0.0]))
    >>> arm_intervals(one, 0.95).round(3).tolist()
    [[0.5, 0.457, 0.543]]
    """
    looks = evidence.looks if anytime else np.zeros_like(evidence.mean)
    found = np.empty((evidence.mean.size, 3))
    _fill_intervals(evidence._replace(looks=looks), math.log(2.0 / (1.0 - confidence)), found)
    return found


@njit(cache=True, nogil=True)
def _fill_intervals(evidence, level, found):
    for arm in range(evidence.mean.size):
        mean, count, draws = evidence.mean[arm], evidence.size[arm], float(evidence.draws[arm])  # as indices have it
        if count <= 0.0:
            found[arm, 0], found[arm, 1], found[arm, 2] = np.nan, 0.0, 1.0
            continue
        asked = level + evidence.looks[arm]
        low = 1.0 - optimistic_mean(1.0 - mean, count, draws, evidence.epsilon, asked)
        high = optimistic_mean(mean, count, draws, evidence.epsilon, asked)
        for place, value in enumerate((mean, low, high)):
            found[arm, place] = min(1.0, max(0.0, (value - evidence.low) / evidence.slope))


def block_looks(blocks: Ints) -> Floats:
    """ln(b (b + 1)) for arms with b blocks."""
    count = np.maximum(blocks.astype(np.float64), 1.0)
    return np.log(count * (count + 1.0))


def report_looks(count: Ints | Floats) -> Floats:
    """ln(n) / 2 for arms with n reports."""
    return 0.5 * np.log(np.maximum(np.asarray(count, np.float64), 1.0))
