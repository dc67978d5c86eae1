"""What a row becomes before noise meets it: a vector of integers, and how far a release of such rows can move.

`fairveil.privacy.stability` says how many rows a unit can have; a `RowEncoding` says how far one replaced row moves
the vector, with the proof beside the code that makes it. Rows are replaced one after the other, so n rows move it by at
most n times as much in l1 and in l2: `noisy_vector` adds noise for that, and `computed` says it in a guarantee.

>>> from fairveil.privacy.stability import PERSON, AtMost
>>> pair = RowEncoding(ONE, ONE**2, 2, "one number in [0, 1]")
>>> noisy_vector(Price(epsilon=1.0), Chain(PERSON, AtMost(3)), pair).l1 // ONE
3
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from fairveil.errors import PrivacyError
from fairveil.privacy.stability import ROW, Chain
from fairveil.privacy.vectors import ONE, NoisyVector, Price

ONE_ROW = Chain(ROW, replaced=True)
"""One row is replaced by any other."""


@dataclass(frozen=True)
class RowEncoding:
    """How far one replaced row moves ``dimension`` sums, in grid units: ``l1``, and ``square`` of l2."""

    l1: int
    square: int
    dimension: int
    words: str


def rows_of(chain: Chain) -> int:
    """How many rows one unit has at most; PrivacyError where nothing bounds them."""
    rows = chain.bound.many(chain.unit.persons).all
    if not math.isfinite(rows):
        allowed = "a limit of rows: AtMost, or a row as unit"
        raise PrivacyError(f"nothing bounds the rows of one {chain.unit.name}", path="sensitivity", allowed=allowed)
    return int(rows)


@dataclass(frozen=True)
class RowCode:
    """Rows that become real vectors of many sums: how long one is at most, and how far apart two are, in l2.

    >>> RowCode(1.0, 2.0).moved(ONE_ROW), RowCode(1.0, 2.0).moved(Chain(ROW))
    (2.0, 1.0)
    """

    longest: float
    apart: float

    def moved(self, chain: Chain) -> float:
        """How far the sum of such rows moves when those of one unit become others, or are not there."""
        return rows_of(chain) * (self.apart if chain.replaced else self.longest)


def noisy_vector(price: Price, chain: Chain, encoding: RowEncoding) -> NoisyVector:
    """The mechanism of one release of rows so encoded, for the unit of a chain."""
    rows = rows_of(chain)
    return NoisyVector(price, rows * encoding.l1, rows**2 * encoding.square, encoding.dimension)


def computed(chain: Chain, encoding: RowEncoding) -> str:
    """A note: what was proven."""
    rows = rows_of(chain)
    l1, l2 = rows * encoding.l1 / ONE, rows * math.sqrt(encoding.square) / ONE
    return (
        f"the sensitivity is computed for one {chain.unit.name}: {rows} row(s), each {encoding.words}; all numbers "
        f"move by at most {l1:g} in l1 and {l2:.6g} in l2"
    )
