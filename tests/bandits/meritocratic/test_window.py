"""Rank counts by reference scores and bands must equal plain counting, always."""

import numpy as np
import pytest

from fairveil.bandits.meritocratic.estimate import solve_positive, weights_of
from fairveil.bandits.meritocratic.window import add_member, count_at_most, dot, grown, new_store


def plain(rows, theta, threshold):
    return sum(dot(row, theta) <= threshold for row in rows)


@pytest.mark.parametrize("step", [0.0, 1e-9, 1e-4, 1e-2, 1.0], ids=lambda s: f"theta moves by {s}")
def test_counts_equal_plain_counting_while_theta_moves(step):
    rng = np.random.default_rng(3)
    features, theta = 7, rng.normal(size=7)
    store = new_store(2, 600, features)
    rows = [[], []]
    for turn in range(500):
        x = rng.normal(size=features) + 3.0
        add_member(store, turn % 2, x)
        rows[turn % 2].append(x)
        if turn % 5 == 0:
            theta = theta * rng.uniform(0.5, 2.0) + step * rng.normal(size=features)
            store.start[:] = turn // 4
        for group in (0, 1):
            members = rows[group][store.start[group] :]
            own = dot(rng.normal(size=features) + 3.0, theta)
            assert count_at_most(store, group, theta, own) == plain(members, theta, own)
            if members:  # a threshold that is exactly a member's score counts that member
                own = dot(members[len(members) // 2], theta)
                assert count_at_most(store, group, theta, own) == plain(members, theta, own)


def test_few_scores_are_recomputed_when_theta_moves_slowly():
    rng = np.random.default_rng(4)
    store = new_store(1, 4000, 10)
    for _ in range(4000):
        add_member(store, 0, rng.normal(size=10))
    theta = rng.normal(size=10)
    for turn in range(100):
        count_at_most(store, 0, theta + 1e-5 * turn, 0.3)
    scored, compared, rechecked = store.work
    assert compared == 100 * 4000
    assert scored + rechecked < 0.1 * compared


def test_zero_and_reversed_theta_are_counted_correctly():
    rng = np.random.default_rng(5)
    rows = rng.normal(size=(100, 3))
    store = new_store(1, 100, 3)
    for row in rows:
        add_member(store, 0, row)
    theta = rng.normal(size=3)
    assert count_at_most(store, 0, theta, 0.1) == plain(rows, theta, 0.1)
    assert count_at_most(store, 0, -theta, 0.1) == plain(rows, -theta, 0.1)
    assert count_at_most(store, 0, np.zeros(3), 0.0) == 100
    assert count_at_most(store, 0, np.zeros(3), -1e-300) == 0


def test_an_empty_window_counts_nobody_and_a_grown_store_keeps_its_members():
    store = new_store(1, 1, 2)
    assert count_at_most(store, 0, np.ones(2), 1.0) == 0
    add_member(store, 0, np.array([0.5, 0.25]))
    bigger = grown(store, 10)
    assert count_at_most(bigger, 0, np.ones(2), 0.75) == 1
    assert bigger.end[0] == 1


def test_cholesky_solves_and_reports_indefinite_matrices():
    rng = np.random.default_rng(6)
    root = rng.normal(size=(6, 6))
    matrix, right = root @ root.T + np.eye(6), rng.normal(size=6)
    found, good = solve_positive(matrix, right)
    assert good
    np.testing.assert_allclose(found, np.linalg.solve(matrix, right), rtol=1e-9)
    assert not solve_positive(np.diag([1.0, -1.0]), np.ones(2))[1]


def test_indefinite_moments_get_floored_eigenvalues():
    moments = np.diag([4.0, -9.0, 1.0])
    moments[0, 2] = moments[2, 0] = 2.0
    moments[1, 2] = moments[2, 1] = 3.0
    np.testing.assert_allclose(weights_of(moments, 0.0, 1.5), [0.5, 2.0])
