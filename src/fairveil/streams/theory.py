"""What can be said about a private stream before any data is read: budgets into noise, noise into error.

Notation: D is the sensitivity of one step, phi = D^2 sum w_t^2 / sigma_n^2, rho = phi/2 (zCDP), a the correlation of
an AR(1) sequence with variance s_z^2, R the variance of the plain release's noise.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any

import numpy as np

from fairveil.errors import SpecError


def corollary1_phi(epsilon: float, delta: float) -> float:
    """The phi that Corollary 1 allows, without cancellation: 2 (eps/(sqrt(L + eps) + sqrt L))^2 with L = ln 1/delta.

    Valid (it is the zCDP bound with the textbook conversion), but 8 to 57 % more noise than the exact calibration.

    >>> round(math.sqrt(100 / corollary1_phi(1.0, 1e-7)), 1)          # noise std for T = 100, D = 1, w = 1
    57.6
    """
    root = math.log(1 / delta)
    return 2 * (epsilon / (math.sqrt(root + epsilon) + math.sqrt(root))) ** 2


def theorem8_epsilon(phi: float, delta: float) -> float:
    """Theorem 8 (ii) with the square root over the product only: rho + 2 sqrt(rho ln 1/delta).

    >>> round(theorem8_epsilon(corollary1_phi(5.0, 1e-7), 1e-7), 9)
    5.0
    """
    rho = phi / 2
    return rho + 2 * math.sqrt(rho * math.log(1 / delta))


def theorem8_epsilon_as_typeset(phi: float, delta: float) -> float:
    """Theorem 8 (ii) with everything under the root, as it is typeset: not valid (see the errata)."""
    rho = phi / 2
    return 2 * math.sqrt(rho * math.log(1 / delta) + rho)


def theorem8_delta(phi: float, epsilon: float) -> float:
    """Theorem 8 (i): the delta at an epsilon of at least phi/2.

    >>> round(theorem8_delta(corollary1_phi(1.0, 1e-7), 1.0) / 1e-7, 9)
    1.0
    """
    if epsilon < phi / 2:
        raise SpecError("theorem 8 (i) needs a larger epsilon", path="epsilon", given=epsilon, allowed=">= phi/2")
    return math.exp(-((epsilon - phi / 2) ** 2) / (2 * phi))


def lemma4_epsilon(m: int, sensitivity: float, delta: float) -> float:
    """Lemma 4 (ii): the epsilon of N + m ~ Binomial(2 m, 1/2) noise; infinite where the lemma says nothing.

    >>> round(lemma4_epsilon(500, 1, 1e-5), 3)
    0.308
    """
    rest = m - sensitivity + 1 - math.sqrt(m * math.log(1 / delta))
    return sensitivity * math.log((2 * m + 1) / rest - 1) if rest > 0 else math.inf


def theorem9_epsilon(m: int, T: int, w: float, delta: float, sensitivity: float = 1.0) -> float:
    """The epsilon that Theorem 9 states for T Binomial releases with a fixed weight w, best split of delta.

    The proof needs an integer query; with a weight below 1 the fraction of the release shows the data (errata).

    >>> theorem9_epsilon(267_187, 100, 1.0, 1e-7) <= 1.0 < theorem9_epsilon(266_000, 100, 1.0, 1e-7)
    True
    """
    from scipy.optimize import minimize_scalar

    def total(share: float) -> float:
        rest, kept = delta * share, delta * (1 - share)
        each = -math.expm1(math.log1p(-rest) / T) if rest > 0 else 0.0
        plain = lemma4_epsilon(m, sensitivity, each)
        small = lemma4_epsilon(m, w * sensitivity, each)
        losses = np.array([plain] * min(T, 2) + [small] * max(T - 2, 0))
        if not np.isfinite(losses).all():
            return math.inf
        squares = float((losses**2).sum())
        drift = float((losses * np.tanh(losses / 2)).sum())
        first = drift + math.sqrt(2 * squares * math.log(math.e + math.sqrt(squares) / kept))
        second = drift + math.sqrt(2 * squares * math.log(1 / kept))
        return float(min(losses.sum(), first, second))

    found = minimize_scalar(total, bounds=(1e-6, 1 - 1e-6), method="bounded", options={"xatol": 1e-9})
    return min(float(found.fun), total(0.5))


def theorem9_m(epsilon: float, steps: int, weight: float, delta: float, sensitivity: float = 1.0) -> int:
    """The smallest m for which `theorem9_epsilon` is at most epsilon."""
    high = 64
    while theorem9_epsilon(high, steps, weight, delta, sensitivity) > epsilon:
        high *= 2
        if high > 2**40:
            raise SpecError("Theorem 9 finds no noise for this budget", path="epsilon", given=epsilon)
    low = high // 2
    while high - low > 1:
        middle = (low + high) // 2
        if theorem9_epsilon(middle, steps, weight, delta, sensitivity) <= epsilon:
            high = middle
        else:
            low = middle
    return high


@lru_cache(maxsize=256)
def binomial_epsilon(coins: int, shift: int, steps: int, delta: float) -> float:
    """The epsilon at delta of ``steps`` releases with ``coins`` fair coins each, composed by loss distributions.

    dp-accounting rounds losses up, so the result is a bound, tight to about 1e-3.

    >>> binomial_epsilon(8800, 1, 100, 1e-7) < 1.0
    True
    """
    from dp_accounting.pld import privacy_loss_distribution
    from scipy.stats import binom

    reach = int(min(coins / 2, 9.5 * math.sqrt(coins) + 2))  # what is cut off has less mass than 1e-38
    centre = coins // 2
    support = np.arange(centre - reach, centre + reach + 1)
    logs = binom.logpmf(support, coins, 0.5)
    here = dict(zip(support.tolist(), logs.tolist(), strict=True))
    there = dict(zip((support + shift).tolist(), logs.tolist(), strict=True))
    loss = 2 * shift * math.sqrt(steps / coins)  # about mu of all releases: finer costs time, coarser costs epsilon
    interval = loss * max(0.01 / steps, 1e-5)
    made = privacy_loss_distribution.from_two_probability_mass_functions(
        there, here, value_discretization_interval=interval, symmetric=True
    )
    composed = made.self_compose(steps) if steps > 1 else made
    return float(composed.get_epsilon_for_delta(delta))


@lru_cache(maxsize=64)
def binomial_coins(epsilon: float, shift: int, steps: int, delta: float) -> int:
    """The smallest even number of coins (to 1/256) for which `binomial_epsilon` is at most epsilon."""
    from fairveil.privacy.conversions import gdp_mu

    guess = 4 * steps * (shift / gdp_mu(epsilon, delta)) ** 2  # coins of the Gaussian with this variance
    if guess > 2**26:
        raise SpecError(
            "this budget needs too many coins", path="epsilon", given=epsilon, fix="use law discrete-gaussian"
        )
    low, high = 2 * shift, max(int(guess), 4 * shift)
    while binomial_epsilon(high + high % 2, shift, steps, delta) > epsilon:
        low, high = high, math.ceil(high * 1.05) + 2
    low = max(low, int(high / 1.06))
    while high - low > max(2, high // 256):
        middle = (low + high) // 2
        middle += middle % 2
        if binomial_epsilon(middle, shift, steps, delta) <= epsilon:
            high = middle
        else:
            low = middle
    return high + high % 2


def exact_error(correlation: float, weight: float, noise: float, std: float = 1.0) -> float:
    """Stationary mean squared error of Algorithm 4 with known parameters and plain noise std ``noise`` (of y).

    x_t = g x_(t-1) + w z_t + n_t (centred) with g = (1 - w) r, r = a s_z^2/(s_z^2 + s_n^2), s_n = w noise:
    C = cov(x, z) = w s_z^2/(1 - g a), V = (w^2 s_z^2 + s_n^2 + 2 g w a C)/(1 - g^2), error V - 2 C + s_z^2.

    >>> round(exact_error(0.95, 0.05, 3.0), 3), round(exact_error(0.95, 1.0, 3.0), 3)
    (0.611, 9.0)
    """
    z, n = std**2, (weight * noise) ** 2
    g = (1 - weight) * correlation * z / (z + n)
    cross = weight * z / (1 - g * correlation)
    power = (weight**2 * z + n + 2 * g * weight * correlation * cross) / (1 - g * g)
    return power - 2 * cross + z


def theorem10_error(correlation: float, weight: float, noise: float, std: float = 1.0) -> float:
    """What Theorem 10 states for the same (too low unless w = 1 or the correlation is 0).

    >>> round(theorem10_error(0.95, 0.05, 3.0), 3)
    0.128
    """
    z, n = std**2, (weight * noise) ** 2
    return z * (1 - correlation**2 * z / (z + n)) * (1 - weight) ** 2 + n


def theorem11_weight(noise: float, std: float = 1.0) -> float:
    """Theorem 11: every constant weight above this one beats the baseline (plain noise std ``noise``).

    >>> theorem11_weight(1.0)
    0.0
    """
    ratio = (noise / std) ** 2
    return max(0.0, (1 - ratio) / (1 + ratio))


def kalman_error(correlation: float, noise: float, std: float = 1.0) -> float:
    """Stationary mean squared error of the best filter on the plain release of an AR(1) sequence.

    >>> round(math.sqrt(kalman_error(0.95, 1.0)), 3)
    0.488
    """
    prior = _steady(correlation, noise, std)
    return prior * noise**2 / (prior + noise**2)


def _steady(correlation: float, noise: float, std: float) -> float:
    """Stationary variance before a value is seen: the positive root of the scalar Riccati equation."""
    a2, q, r = correlation**2, std**2 * (1 - correlation**2), noise**2
    b = r * (1 - a2) - q
    return (-b + math.sqrt(b * b + 4 * q * r)) / 2


def lag_error(correlation: float, noise: float, lag: int, std: float = 1.0) -> float:
    """Stationary mean squared error of the best estimate ``lag`` steps later.

    >>> [round(math.sqrt(lag_error(0.95, 1.0, lag)), 3) for lag in (0, 2, 5, 10)]
    [0.488, 0.423, 0.399, 0.395]
    """
    prior = _steady(correlation, noise, std)
    total, keep = prior + noise**2, correlation * noise**2 / (prior + noise**2)
    error = prior
    for step in range(lag + 1):
        error -= (prior * keep**step) ** 2 / total
    return error


def memory_error(correlation: float, noise: float, memory: float, std: float = 1.0) -> float:
    """Stationary mean squared error of the best filter when a leaky sum is released (``memory``, unit event).

    >>> round(math.sqrt(memory_error(0.99, 1.0, 0.7) / memory_error(0.99, 1.0, 0.0)), 3)
    0.8
    """
    from scipy.linalg import solve_discrete_are

    move = np.array([[correlation, 0.0], [correlation, memory]])
    push = np.array([[1.0], [1.0]]) * std * math.sqrt(1 - correlation**2)
    see = np.array([[0.0, math.sqrt(1 - memory**2)]])
    prior = solve_discrete_are(move.T, see.T, push @ push.T, np.array([[noise**2]]))
    cross = prior @ see.T
    after: Any = prior - cross @ cross.T / (see @ cross + noise**2)
    return float(after[0, 0])


def memory_norm(memory: float, window: int = 1, reach: int | None = None) -> float:
    """l2 norm of what ``window`` successive changes of 1 do to the released leaky sum of ``reach`` steps.

    >>> round(memory_norm(0.7), 9), memory_norm(0.0, 4), memory_norm(0.9, 4) > 2.0
    (1.0, 2.0, True)
    """
    kernel = memory ** np.arange(reach_of(memory) if reach is None else reach)
    return float(math.sqrt(1 - memory**2) * np.linalg.norm(np.convolve(np.ones(window), kernel)))


def reach_of(memory: float) -> int:
    """Steps after which a weight of the leaky sum is below 2^-40."""
    return 1 if memory == 0 else math.ceil(40 * math.log(2) / -math.log(memory))
