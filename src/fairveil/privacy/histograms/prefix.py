"""Counts of the first bins by the square-root Toeplitz factorisation, corrected to a known or noisy total."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from fairveil.arrays import Floats, Ints
from fairveil.privacy.sums.toeplitz import default_coefficient_bits, integer_coefficients, reciprocal


@lru_cache(maxsize=32)
def bin_coefficients(bins: int) -> Ints:
    """First column of the integer C over the bins."""
    coefficients = integer_coefficients(bins, default_coefficient_bits(bins))
    coefficients.setflags(write=False)
    return coefficients


@lru_cache(maxsize=32)
def pair_sensitivity(bins: int) -> float:
    """Largest ||C (e_a - e_b)||: one unit moves from bin a to bin b.

    For the lag d = b - a the squared norm is S(n - a) + S(n - a - d) - 2 sum_{m < n - a - d} c_m c_{m+d} with S(k) the
    sum of the first k squares. The maximum over all pairs is computed exactly, O(bins^2).
    """
    c = bin_coefficients(bins).astype(np.float64)
    squares = np.cumsum(c * c)
    largest = 0.0
    for lag in range(1, bins):
        overlap = np.cumsum(c[: bins - lag] * c[lag:])
        largest = max(largest, float(np.max(squares[lag:] + squares[: bins - lag] - 2 * overlap)))
    return float(np.sqrt(largest))


@lru_cache(maxsize=32)
def _decoder(bins: int) -> Floats:
    c = bin_coefficients(bins).astype(np.float64)
    return np.cumsum(reciprocal(c, bins))


def encode(counts: Ints) -> Ints:
    """C times the counts, in integers."""
    bins = len(counts)
    return np.convolve(bin_coefficients(bins), counts)[:bins]


def decode(noisy: Ints) -> Floats:
    """Prefix sums from noisy coded counts (..., bins): solve C x = noisy and add up."""
    from scipy.signal import lfilter

    c = bin_coefficients(noisy.shape[-1]).astype(np.float64)
    return np.cumsum(lfilter([1.0], c, noisy.astype(np.float64), axis=-1), axis=-1)


@lru_cache(maxsize=32)
def prefix_moments(bins: int) -> tuple[Floats, Floats]:
    """Variance of every decoded prefix, and its covariance with the last one, for unit noise on the code."""
    a = _decoder(bins)
    variance = np.cumsum(a * a)
    # The noises W_1..W_k enter prefix k with a_{k-i} and the last prefix with a_{n-i}.
    covariance = np.array([a[:k] @ a[bins - k :] for k in range(1, bins + 1)])
    covariance[-1] = variance[-1]  # the same sum in another order of additions
    return variance, covariance


def bridge(prefixes: Floats, total: Ints, total_variance: float) -> Floats:
    """Correct prefixes (copies, bins) to the total (copies,): exact (variance 0) or noisy (in units of the code's)."""
    variance, covariance = prefix_moments(prefixes.shape[-1])
    gain = covariance / (variance[-1] + total_variance)
    return prefixes + gain * (total - prefixes[:, -1])[:, None]


def bridge_variance(bins: int, first: int, total_variance: float) -> float:
    """Variance of the corrected count of the first bins, for unit noise on the code.

    A sum of squares, never a difference: with an exact total all bins together have variance 0, not a rounding error.
    """
    a = _decoder(bins)
    variance, covariance = prefix_moments(bins)
    gain = covariance[first - 1] / (variance[-1] + total_variance)
    weights = -gain * a[::-1]
    weights[:first] += a[first - 1 :: -1]
    return float(weights @ weights + gain * gain * total_variance)
