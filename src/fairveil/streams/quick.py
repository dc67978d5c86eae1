"""One step of a stream in compiled code: the value on the grid, noise drawn ahead, the filter, what is shown.

Each filter has a compiled step beside its kernel,

    step(shape, shared, numbers, counts, work, kept, line, z)

that runs the same kernel on one value in the stream's own working memory (``line``), so it shows what a batch shows, to
the last bit. A step keeps the interpreter's lock: two threads never use one draw.
"""

from __future__ import annotations

import math

from fairveil.compiling import njit
from fairveil.streams.protocol import TIME, USED

BITS, FIRST, HORIZON, REFERENCE, STD, REACH, CELLS = 0, 1, 2, 3, 4, 5, 6
"""Public numbers in a stream's line; then the kernel's cells: v, r, seen, and mean and variance of the signal."""
LARGEST = 2.0**61
"""Values are put on the grid below this many units; larger ones go the long way, which refuses them."""
EMPTY, OTHERWISE = -1, -2
"""In place of the step: no noise is left, and: this value is not for a quick step."""


@njit(cache=True)
def plain_release(counts, kept, line, z):
    """The place of a step and z plus a draw in grid units (in the cells too); `EMPTY` or `OTHERWISE` if none."""
    scaled = math.ldexp(z, int(line[BITS]))
    if not (-LARGEST <= scaled <= LARGEST and line[FIRST] <= counts[USED] < line[HORIZON]):
        return OTHERWISE, 0
    if kept[0] == 0:
        return EMPTY, 0
    units = int(scaled) + kept[kept[0]]  # rounds toward zero
    kept[0] -= 1
    counts[USED] += 1
    line[CELLS] = units / line[REFERENCE]
    return counts[TIME], units


@njit(cache=True)
def cells(line):
    """v, r, seen and out of one step."""
    return line[CELLS : CELLS + 1], line[CELLS + 1 : CELLS + 2], line[CELLS + 2 : CELLS + 3], line[-2:].reshape(1, 2)


@njit(cache=True)
def shown(place, units, line):
    """Step, value, low, high and plain release, in the data's own units."""
    value, half = line[-2] * line[STD], math.sqrt(max(line[-1], 0.0)) * line[REACH]
    return place, value, value - half, value + half, math.ldexp(float(units), -int(line[BITS]))
