"""Integer arithmetic that errs on the side of privacy: scales round up, odds round down."""

from __future__ import annotations

import math
from decimal import Context, Decimal
from fractions import Fraction
from functools import lru_cache

COIN_BITS = 62
"""Exact coins have probabilities that are multiples of 2^-62."""
COINS = 2**COIN_BITS
FINE = 20
"""Grids are chosen so that sensitivities and scales measure at least 2^20 units: rounding then costs under 1e-6."""
_LARGEST_LOG_ODDS = 43.0  # ln(2^62) < 42.98: beyond this a 62-bit coin cannot tell budgets apart


def exp_below(exponent: float) -> Fraction:
    """A rational number at most e^exponent, within 1e-45 of it (relatively).

    `Decimal.exp` is correctly rounded at 50 digits; taking off one part in 10^46 turns that into a lower bound.
    """
    near = Fraction(Decimal(exponent).exp(Context(prec=50)))
    return near * (1 - Fraction(1, 10**46))


@lru_cache(maxsize=1024)
def keep_weight(epsilon: float) -> int:
    """The largest n < 2^62 with n / (2^62 - n) <= e^epsilon: a coin n/2^62 never spends more than epsilon."""
    odds = exp_below(min(float(epsilon), _LARGEST_LOG_ODDS))
    return min(math.floor(COINS * odds / (1 + odds)), COINS - 1)


def float_above(value: Fraction) -> float:
    """The smallest float that is at least ``value``: a noise scale that never falls short.

    >>> float_above(Fraction(1, 3)) > 1 / 3, float_above(Fraction(1, 4))
    (True, 0.25)
    """
    near = float(value)
    return near if Fraction(near) >= value else math.nextafter(near, math.inf)


def grid_bits(*lengths: float | Fraction, fineness: int = FINE) -> int:
    """The smallest b such that every length is at least 2^fineness units of 2^-b (b is negative for large lengths).

    >>> grid_bits(1.0), grid_bits(0.75), grid_bits(1.0, 1024.0, fineness=4)
    (20, 21, 4)
    """
    exponent = min(math.frexp(float(length))[1] for length in lengths)
    return fineness + 1 - exponent


def units_above(length: float | Fraction, bits: int) -> int:
    """The length in units of 2^-bits, rounded up."""
    return math.ceil(Fraction(length) * Fraction(2) ** bits)


def sigma_above(sensitivity: float, rho: float) -> float:
    """A float sigma with sensitivity^2 / (2 sigma^2) <= rho, checked in rational arithmetic."""
    sigma = sensitivity / math.sqrt(2 * rho)
    while Fraction(sensitivity) ** 2 > 2 * Fraction(rho) * Fraction(sigma) ** 2:
        sigma = math.nextafter(sigma, math.inf)
    return sigma
