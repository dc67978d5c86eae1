"""Integer arithmetic that errs on the side of privacy: scales round up, odds round down."""

from __future__ import annotations

import math
from decimal import ROUND_FLOOR, Context, Decimal
from fractions import Fraction

COIN_BITS = 62
"""Exact coins have probabilities that are multiples of 2^-62."""
COINS = 2**COIN_BITS
_LARGEST_LOG_ODDS = 43.0  # ln(2^62) < 42.98: beyond this a 62-bit coin cannot tell budgets apart


def exp_below(exponent: float) -> Fraction:
    """A rational number at most e^exponent, within 1e-45 of it (relatively).

    `Decimal.exp` is correctly rounded at 50 digits; lowering the last digits turns that into a lower bound.
    """
    context = Context(prec=50, rounding=ROUND_FLOOR)
    value = context.multiply(Decimal(exponent).exp(context), Decimal(1) - Decimal(10) ** -46)
    return Fraction(value)


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
