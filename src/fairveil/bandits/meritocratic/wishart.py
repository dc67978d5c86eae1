"""Wishart noise on a binary tree of outer products: an alternative of the published implementation.

Kept to reproduce; no guarantee is claimed for it here. Degrees of freedom and shift follow Shariff and Sheffet 2018,
4.1.
"""

from __future__ import annotations

import math

import numpy as np

from fairveil.bandits.meritocratic.schema import Floats
from fairveil.compiling import njit
from fairveil.errors import SpecError
from fairveil.privacy.noise import Noise, ZeroNoise
from fairveil.privacy.sums.tree import lowest_bit, tree_step


def degrees_of_freedom(width: int, levels: int, epsilon: float, delta: float) -> int:
    return width + math.ceil(224 * levels / epsilon**2 * math.log(8 * levels / delta) * math.log(2 / delta))


def prefix_shift(width: int, levels: int, degrees: int, bound: float, rounds: int) -> float:
    """Taken from the diagonal of a prefix by the shifted variant, never below zero."""
    spread = math.sqrt(width) + math.sqrt(2 * math.log(8 * rounds))
    most = math.sqrt(levels * degrees)
    return bound**2 * max(0.0, (most - spread) ** 2 - 4 * most * spread)


@njit(cache=True, nogil=True)
def wishart(rng, degrees, size, scale, flat):
    """One Wishart(degrees, scale I) draw by Bartlett's decomposition, flat: diagonal first, then above it."""
    lower = np.zeros((size, size))
    for i in range(size):
        lower[i, i] = math.sqrt(2.0 * rng.standard_gamma((degrees - i) / 2.0))
        for j in range(i):
            lower[i, j] = rng.standard_normal()
    at = size
    for i in range(size):
        for j in range(i, size):
            total = 0.0
            for k in range(i + 1):
                total += lower[i, k] * lower[j, k]
            if i == j:
                flat[i] = scale * total
            else:
                flat[at] = scale * total
                at += 1


@njit(cache=True, nogil=True)
def wishart_path(rng, levels, degrees, size, scale, out):
    """Noise of all prefixes 1..len(out): each dyadic block carries one draw."""
    width = out.shape[1]
    stack = np.zeros((levels, width))
    fresh = np.zeros(width)
    for leaf in range(1, out.shape[0] + 1):
        wishart(rng, degrees, size, scale, fresh)
        tree_step(stack, leaf, fresh)
        out[leaf - 1] = stack[lowest_bit(leaf)]


def noise_path(noise: Noise, leaves: int, size: int, degrees: int, bound: float) -> Floats:
    """Noise of all prefixes, from seeded noise alone: this law has no exact sampler here, and nothing is promised."""
    if isinstance(noise, ZeroNoise):
        return np.zeros((leaves, 0))
    if noise.stream is None:
        raise SpecError("Wishart noise is simulated only", path="noise", given=type(noise).__name__, allowed="seeded")
    out = np.empty((leaves, size * (size + 1) // 2))
    wishart_path(noise.stream, int(leaves).bit_length(), degrees, size, bound**2, out)
    return out
