"""BD: publications halve what the window has left, and get it back when they leave it."""

import pytest

from fairveil.streams import BudgetDistribution
from fairveil.streams.protocol import USED


def test_publications_inside_a_window_take_half_of_what_is_left():
    releaser = BudgetDistribution(epsilon=1.0, unit="window", window=4)
    state, taken = releaser.start(), []
    for at in range(8):
        taken.append(releaser.offered(state))
        releaser.note(state, taken[-1])
        state["counts"][USED] = at + 1
    assert taken[:4] == [1 / 4, 1 / 8, 1 / 16, 1 / 32]
    assert taken[4] == pytest.approx((1 / 2 - 1 / 8 - 1 / 16 - 1 / 32) / 2)
    assert all(sum(taken[first : first + 4]) <= 1 / 2 for first in range(5))
