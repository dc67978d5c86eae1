"""How noise is spread over bins: on a binary tree of them, or on prefixes by the square-root Toeplitz factorisation.

The tree: counts are made consistent by weighted least squares in two passes. Nodes are numbered as in a heap: 1 is the
root, node v has the halves 2v and 2v+1, the bins are the leaves ``size .. 2 size - 1`` (size a power of two; bins
beyond the last real one are empty, which is public).

Going up, the measurement of a node is averaged with the sum of its halves, inversely to the variances; going down, what
a node has more than its halves is shared between them in proportion to their variances. The result is the
generalised least-squares estimate of all counts given all measurements (Hay et al. 2010 for equal variances).

Prefixes: counts of the first bins are coded, decoded and corrected to a known or noisy total.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from fairveil.arrays import Floats, Ints
from fairveil.privacy.sums.toeplitz import default_coefficient_bits, integer_coefficients, reciprocal


def tree_size(bins: int) -> int:
    """Leaves of the smallest complete binary tree over the bins."""
    return 1 << (bins - 1).bit_length()


def node_counts(leaves: Ints) -> Ints:
    """Exact counts of all nodes from counts of the leaves; entry 0 is unused."""
    size = len(leaves)
    nodes = np.zeros(2 * size, leaves.dtype)
    nodes[size:] = leaves
    while size > 1:
        half = size // 2
        nodes[half:size] = nodes[size : 2 * size].reshape(half, 2).sum(axis=1)
        size = half
    return nodes


def upward_variances(bins: int, root: float) -> Floats:
    """Variances after the upward pass, in units of the variance of one node's noise; ``root`` that of the root's.

    Nodes without a real bin are known to be zero: variance 0. A public total is ``root=0``.
    """
    size = tree_size(bins)
    variances = np.zeros(2 * size)
    variances[size : size + bins] = 1.0
    while size > 1:
        half = size // 2
        below = variances[size : 2 * size].reshape(half, 2).sum(axis=1)
        own = root if half == 1 else 1.0
        variances[half:size] = own * below / np.where(own + below > 0, own + below, 1.0)
        size = half
    return variances


def consistent_counts(measured: Floats | Ints, bins: int, root: float) -> Floats:
    """Least-squares counts (copies, bins) from noisy counts of all nodes; entry 1, the total, is exact if root is 0."""
    size, copies = tree_size(bins), len(measured)
    variances = upward_variances(bins, root)
    estimate = np.array(measured, np.float64)
    estimate[:, size + bins :] = 0.0
    width = size
    while width > 1:
        half = width // 2
        below = estimate[:, width : 2 * width].reshape(copies, half, 2).sum(axis=2)
        spread = variances[width : 2 * width].reshape(half, 2).sum(axis=1)
        own = root if half == 1 else 1.0
        # Weight of the node's own measurement; a node without a real bin keeps the sum of its halves, zero.
        weight = spread / np.where(own + spread > 0, own + spread, 1.0)
        estimate[:, half:width] = below + weight * (estimate[:, half:width] - below)
        width = half
    width = 2
    while width <= size:
        parents = estimate[:, width // 2 : width]
        halves = estimate[:, width : 2 * width].reshape(copies, -1, 2)
        spread = variances[width : 2 * width].reshape(-1, 2)
        total = spread.sum(axis=1)
        share = spread / np.where(total > 0, total, 1.0)[:, None]
        excess = (parents - halves.sum(axis=2))[:, :, None]
        estimate[:, width : 2 * width] = (halves + share * excess).reshape(copies, -1)
        width *= 2
    return estimate[:, size : size + bins]


def prefix_variance(bins: int, first: int, root: float) -> float:
    """Variance of the consistent count of the first ``first`` bins, in units of the variance of one node's noise.

    Given the count u of a node, the prefix inside it is a + b u plus an independent error of variance w; b and w follow
    from those of the half in which the prefix ends.
    """
    if first >= bins:
        return upward_variances(bins, root)[1]
    variances = upward_variances(bins, root)
    node = tree_size(bins) + first  # the first leaf outside the prefix: nothing of it counts
    slope = error = 0.0
    while node > 1:
        left, right = variances[node & ~1], variances[node | 1]
        total = left + right
        share = left / total if total > 0 else 0.0
        between = left * right / total if total > 0 else 0.0
        if node & 1:
            error += (1 - slope) ** 2 * between
            slope = slope + (1 - slope) * share
        else:
            error += slope**2 * between
            slope *= share
        node //= 2
    return float(error + slope**2 * variances[1])


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
