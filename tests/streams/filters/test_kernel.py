"""One step in compiled code: the line of a stream, the grid, and noise that is left."""

import math

import numpy as np

from fairveil.streams.filters.kernel import EMPTY, OTHERWISE, Line, line_of, plain_release, shown, signal_of
from fairveil.streams.protocol import COUNTERS, USED

LINE = Line(bits=4, first=1, horizon=3.0, reference=2.0, std=0.5, reach=0.75)


def test_a_line_is_read_as_it_was_packed():
    read = line_of(LINE.packed())
    assert read[:-1] == LINE[:-1]
    signal = signal_of(read)
    assert [part.tolist() for part in signal] == [[0.0], [1.0], [1.0], [[0.0, 0.0]]]


def test_a_step_takes_the_next_draw_and_refuses_what_is_not_its_kind():
    counts, kept, line = np.zeros(COUNTERS, np.int64), np.array([2, 30, 50]), line_of(LINE.packed())
    assert plain_release(counts, kept, line, 1.0) == (OTHERWISE, 0)  # the first release has noise of its own
    counts[USED] = 1
    for other in (math.nan, math.inf, 1e300):
        assert plain_release(counts, kept, line, other) == (OTHERWISE, 0)
    assert plain_release(counts, kept, line, -1.03) == (0, -16 + 50)  # rounded toward zero
    assert line.cells[0] == 34 / 2.0
    assert plain_release(counts, kept, line, 0.0) == (0, 30)
    assert plain_release(counts, kept, line, 0.0) == (OTHERWISE, 0)  # beyond the horizon
    counts[USED] = 1
    assert plain_release(counts, kept, line, 0.0) == (EMPTY, 0)


def test_what_is_shown_is_in_the_data_s_own_units():
    line = line_of(LINE._replace(cells=(0.0, 1.0, 1.0, 10.0, 4.0)).packed())
    assert shown(7, 48, line) == (7, 5.0, 3.5, 6.5, 3.0)
