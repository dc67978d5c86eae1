"""The noise of DFT as printed: a scale for the normalised transform, used on the unnormalised one."""

from __future__ import annotations

import math

from fairveil.privacy.mechanisms.exact import grid_bits


class PrintedScale:
    """sqrt(d n) D/epsilon on coefficients that are sqrt(n) times those of the orthonormal basis: sqrt(n) too small."""

    established = False
    note = "the printed scale is sqrt(n) too small for the unnormalised transform"

    def of(self, step: float, epsilon: float, frequencies: int, count: int, length: int) -> tuple[int, float]:
        scale = math.sqrt(frequencies) * step / epsilon  # in the orthonormal basis
        bits = grid_bits(step, scale)
        return bits, math.ldexp(scale, bits)
