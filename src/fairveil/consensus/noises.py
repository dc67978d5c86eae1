"""Noise of density exp(-alpha |e|) in any dimension.

Exact sampling exists to 24 dimensions (`fairveil.privacy.mechanisms.NormGamma`). Above, the coordinates are cut into G
blocks of at most 8, each with density exp(-a |z_b|), a = alpha/sqrt(G). A shift of length s has at most sqrt(G) s as
sum of its block lengths, so its cost is a sqrt(G) s = alpha s, as for one block. For 105 coordinates the standard
deviation is six per cent larger than that of one block. Rounding adds at most sqrt(8) + 1 grid units to the length in
every block; 2^-12 of alpha pays for it.

Grid. The lattice law has P(z) proportional to exp(-n(z)/A), n the norm rounded up. Add a uniform draw from the unit
cube: the law becomes continuous, and shifting it by s units moves n by at most s + sqrt(d) + 1, which `NormGamma`
includes in its scale. What is used is the lattice point, at most sqrt(d) units away from that continuous draw; whoever
uses it hides this distance (`reach`) together with the solver's tolerance.
"""

from __future__ import annotations

import math
from collections import Counter

import numpy as np
from numpy.typing import NDArray

from fairveil.privacy.mechanisms.norm_gamma import LARGEST_DIMENSION, NormGamma
from fairveil.privacy.noise import Noise

Floats = NDArray[np.float64]
BLOCK = 8


def block_sizes(width: int) -> list[int]:
    """Equal blocks, as far as they can be: one where exact sampling reaches.

    >>> block_sizes(105)
    [8, 8, 8, 8, 8, 8, 8, 7, 7, 7, 7, 7, 7, 7]
    """
    if width <= LARGEST_DIMENSION // 2:
        return [width]
    count = math.ceil(width / BLOCK)
    return [width // count + (place < width % count) for place in range(count)]


def exact_noise(alpha: float, width: int, shift: float, noise: Noise) -> tuple[Floats, float]:
    """Integer noise on a grid, and ``reach``: how far it may be from the continuous law.

    ``shift`` is the length that one row may move the value: the grid is chosen to be fine against it.
    """
    sizes = block_sizes(width)
    each = alpha / math.sqrt(len(sizes)) * (1.0 if len(sizes) == 1 else 1 - 2.0**-12)
    drawn: dict[int, list[Floats]] = {}
    unit = 0.0
    for size, count in Counter(sizes).items():
        mechanism = NormGamma(sensitivity=shift, epsilon=each * shift, dimension=size)
        drawn[size] = list(mechanism.releases(np.zeros(size), noise, count))
        unit = max(unit, math.ldexp(1.0, -mechanism.bits))
    parts = [drawn[size].pop() for size in sizes]
    return np.concatenate(parts), math.sqrt(width) * unit
