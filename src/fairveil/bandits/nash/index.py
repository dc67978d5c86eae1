"""The formulas that the engines of this family call and do not know: each policy file registers its own.

A policy has a NamedTuple of public numbers, its kind; `index_of` and the like make a compiled function the formula of a
kind. All take numbers only: handing arrays to a function that runs every round costs more than the function.
"""

from __future__ import annotations

import math
from typing import Any

from fairveil.compiling import by_kind


@by_kind
def index(numbers: Any, mean: float, n: float, log_now: float, draws: int) -> float:
    """The optimistic value of an arm whose ``n`` rewards (or reports) have this mean, at ln of the current round.

    ``draws``: noise draws in the sum behind the mean. Arms without rewards never get here: they come first.
    """
    return mean


@by_kind
def ceiling(numbers: Any, mean: float, n: float, log_now: float, draws: int) -> float:
    """A number that is cheap and not below the index, as far as it is below 1; infinity where nobody knows one."""
    return math.inf


@by_kind
def rising(numbers: Any, mean: float, n: float, log_now: float, found: float) -> float:
    """How much an index of ``found``, or its ceiling, gains at most until ln of the round has grown by one, below 1;
    infinity where nobody knows.
    """
    return math.inf


@by_kind
def taken(numbers: Any, report: float) -> float:
    """What one reward or report adds to the sum of its arm."""
    return report


@by_kind
def kept(numbers: Any, total: float, n: float, adaptive: bool) -> float:
    """The sum an arm keeps after it has grown to ``total`` over ``n`` reports; ``adaptive``: play follows the index."""
    return total


@by_kind
def explored(numbers: Any, total: float, n: float) -> bool:
    """Does uniform exploration end with the reward that brought its arm to this sum and number?"""
    return False


index_of, ceiling_of, rising_of = index.of, ceiling.of, rising.of  # type: ignore[attr-defined]
taken_of, kept_of, explored_of = taken.of, kept.of, explored.of  # type: ignore[attr-defined]
