"""Post-processing of noisy moments: right without noise, sensible with it."""

import numpy as np
import pytest

from fairveil.bandits.meritocratic.estimate import Moments, believed_rows, rescaled, row_weight, score_direction


def moments_of(rng, rows=20_000, columns=4, groups=3, offset=0.0, spread=1.0):
    """Second moments of [z, e_g, y] with correlated columns, group intercepts and a known slope."""
    slope = np.array([1.0, -0.5, 0.25, 0.0])
    mix = np.eye(columns) + 0.3
    z = offset + spread * rng.normal(size=(rows, columns)) @ mix / np.sqrt((mix**2).sum(axis=0))
    group = rng.integers(groups, size=rows)
    y = z @ slope + 2.0 * group + 0.1 * rng.normal(size=rows)
    full = np.concatenate([z, np.eye(groups)[group], y[:, None]], axis=1)
    return full.T @ full, slope / np.linalg.norm(slope)


def test_without_noise_the_regression_with_group_intercepts_is_exact():
    moments, truth = moments_of(np.random.default_rng(1))
    found = score_direction(Moments(moments, 4, 20_000.0, 1e-9), 0.003)
    assert found.weights @ truth == pytest.approx(1.0, abs=1e-4)


def test_under_heavy_noise_it_falls_back_to_the_products_with_the_reward():
    rng = np.random.default_rng(2)
    moments, _ = moments_of(rng, rows=300)
    product = moments[:4, -1]
    found = score_direction(Moments(moments, 4, 300.0, 1e6), 0.003)
    assert found.weights @ product / np.linalg.norm(product) == pytest.approx(1.0, abs=1e-3)
    assert found.middle == pytest.approx(0.0, abs=1e-3)
    assert found.deviation == pytest.approx(1.2, abs=1e-3)


def test_no_data_gives_a_unit_vector():
    found = score_direction(Moments(np.zeros((8, 8)), 4, 1.0, 10.0), 0.003)
    assert np.linalg.norm(found.weights) == pytest.approx(1.0)


def test_a_scale_that_is_far_off_is_noticed_only_when_it_is_known():
    rng = np.random.default_rng(3)
    moments, _ = moments_of(rng, offset=3.0, spread=2.0)
    middle, spread = rescaled(Moments(moments, 4, 20_000.0, 1.0))
    np.testing.assert_allclose(middle, 3.0, atol=0.05)
    np.testing.assert_allclose(spread, 2.0, rtol=0.05)
    assert rescaled(Moments(moments, 4, 20_000.0, 1e5)) is None
    assert rescaled(Moments(moments_of(rng)[0], 4, 20_000.0, 1.0)) is None


def test_small_batches_count_little_beside_their_noise():
    assert row_weight(0, 5.0) == 0.0
    assert row_weight(100, 1e6) == pytest.approx(1e-4, rel=0.01)
    assert row_weight(1e9, 1e2) == pytest.approx(1.0)


def test_rows_are_rounds_unless_the_noisy_counts_say_otherwise():
    moments, _ = moments_of(np.random.default_rng(4), rows=3_000)
    assert believed_rows(Moments(moments, 4, 3_500.0, 1.0)) == 3_500
    assert believed_rows(Moments(moments, 4, 30_000.0, 1.0)) == pytest.approx(3_000, abs=20)
    assert believed_rows(Moments(moments, 4, 30_000.0, 1e4)) == 30_000, "too noisy to say"
    assert believed_rows(Moments(-moments, 4, 30_000.0, 1.0)) == 30
