"""Relative ranks, fair regret and parity."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairveil.errors import InputError
from fairveil.fairness.ranks import fair_regret, parity_gap, relative_rank, within_group_correlation


@given(st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=50))
def test_a_member_of_the_population_counts_itself(scores):
    ordered = np.sort(scores)
    ranks = relative_rank(ordered, ordered)
    assert ranks[-1] == 1.0
    assert (ranks >= np.arange(1, len(ordered) + 1) / len(ordered)).all()
    assert (np.diff(ranks) >= 0).all()


def test_relative_ranks_are_uniform_in_every_group_whatever_its_scores():
    rng = np.random.default_rng(0)
    for scores in (rng.normal(size=5000), rng.exponential(3.0, 5000) + 100):
        ranks = relative_rank(np.sort(scores), scores)
        assert abs(ranks.mean() - 0.5) < 1e-3
        assert abs(ranks.var() - 1 / 12) < 1e-3


def test_an_unsorted_or_empty_population_is_refused():
    for wrong in ([2.0, 1.0], []):
        with pytest.raises(InputError):
            relative_rank(wrong, [1.0])


def test_fair_regret_ignores_empty_slots_and_empty_rounds():
    ranks = [[0.3, -np.inf, 0.8], [-np.inf, -np.inf, -np.inf]]
    assert fair_regret(ranks, [0, 0]).tolist() == [0.5, 0.0]


def test_parity_counts_chances_of_shown_people():
    assert parity_gap([10, 20], [100, 200]) == 0.0
    assert parity_gap([0, 0], [0, 0]) == 0.0
    with pytest.raises(InputError):
        parity_gap([3], [2])


def test_correlation_within_groups_does_not_see_group_offsets_or_scale():
    rng = np.random.default_rng(1)
    true = rng.normal(size=(3, 200))
    assert within_group_correlation(5 * true + np.array([[1.0], [9.0], [-4.0]]), true) == pytest.approx(1.0)
    assert abs(within_group_correlation(rng.normal(size=(3, 200)), true)) < 0.15
