"""The public grid of experts: how many, and each in its stationary law."""

import pytest

from fairveil.streams.filters.experts import plain_experts, season_experts


def test_the_grid_is_the_documented_one():
    plain, season = plain_experts(), season_experts()
    assert (len(plain), len(set(plain)), len(season), len(set(season))) == (88, 88, 96, 96)
    assert sum(one.trend for one in plain) == 16
    assert sum(one.drift > 0 for one in plain) == 18
    assert sum(one.times for one in season) == 48


def test_deviations_begin_in_their_stationary_law():
    for one in [*plain_experts(), *season_experts()]:
        assert one.first == pytest.approx(one.noise / (1 - one.rho**2))
