"""What every compiled filter is given, and one step of a stream in compiled code.

A filter is one kernel for a step, a stream and a batch: ``kernel(memory, signal)`` reads a `Signal`, writes mean and
variance of what is estimated into it, and changes the numbers and counts of its `Memory` in place. Beside it stands a
compiled step that runs the same kernel on one value, in the stream's own working memory (its *line*), so it shows what
a batch shows, to the last bit:

    step(shape, shared, numbers, counts, work, kept, line, z)

Only there arrays come one by one: a struct would be taken apart by the interpreter at every value, 1 us of about 3.
A step keeps the interpreter's lock: two threads never use one draw.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from fairveil.arrays import Floats, Ints
from fairveil.compiling import njit
from fairveil.streams.protocol import TIME, USED

LARGEST = 2.0**61
"""Values are put on the grid below this many units; larger ones go the long way, which refuses them."""
EMPTY, OTHERWISE = -1, -2
"""In place of the step: no noise is left, and: this value is not for a quick step."""


class Memory(NamedTuple):
    """What a filter reads and remembers: public whole numbers and numbers, what it learnt from releases, its counters.

    ``work`` is memory to write on, which nobody reads.
    """

    shape: Ints
    shared: Any
    numbers: Floats
    counts: Ints
    work: Floats


class Signal(NamedTuple):
    """Plain releases, variances of their noise, 1.0 where there is a value (0.0: missing); in units of the noise.

    ``out``: what a filter says about them, mean and variance of the signal, one row a step.
    """

    v: Floats
    r: Floats
    seen: Floats
    out: Floats


class Line(NamedTuple):
    """Public numbers of a stream whose noise is the same from release ``first`` on, and the `Signal` of one step.

    ``reach``: half the width of an interval for variance 1.
    """

    bits: int
    first: int
    horizon: float
    reference: float
    std: float
    reach: float
    cells: Any = (0.0, 1.0, 1.0, 0.0, 0.0)

    def packed(self) -> Floats:
        """As one array, which `line_of` reads."""
        return np.array([*self[:-1], *self.cells])


@njit(cache=True)
def line_of(packed):
    """The public numbers and cells of a packed `Line`."""
    return Line(int(packed[0]), int(packed[1]), packed[2], packed[3], packed[4], packed[5], packed[6:])


@njit(cache=True)
def plain_release(counts, kept, line, z):
    """The place of a step and z plus a draw in grid units (in the cells too); `EMPTY` or `OTHERWISE` if none."""
    scaled = math.ldexp(z, line.bits)
    if not (-LARGEST <= scaled <= LARGEST and line.first <= counts[USED] < line.horizon):
        return OTHERWISE, 0
    if kept[0] == 0:
        return EMPTY, 0
    units = int(scaled) + kept[kept[0]]  # rounds toward zero
    kept[0] -= 1
    counts[USED] += 1
    line.cells[0] = units / line.reference
    return counts[TIME], units


@njit(cache=True)
def signal_of(line):
    """The signal of one step."""
    return Signal(line.cells[0:1], line.cells[1:2], line.cells[2:3], line.cells[3:5].reshape(1, 2))


@njit(cache=True)
def shown(place, units, line):
    """Step, value, low, high and plain release, in the data's own units."""
    value, half = line.cells[3] * line.std, math.sqrt(max(line.cells[4], 0.0)) * line.reach
    return place, value, value - half, value + half, math.ldexp(float(units), -line.bits)
