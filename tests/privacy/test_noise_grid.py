"""The integer grid: rounding never lets a distance or a norm grow, and symmetric noise costs what it should."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from fairveil.errors import InputError
from fairveil.privacy.grid import (
    LARGEST_UNIT,
    clip_norm,
    clip_unit,
    from_units,
    row_units,
    symmetric_gaussian,
    to_units,
)
from fairveil.privacy.noise import SecureNoise, SeededNoise, ZeroNoise

FIXED = settings(deadline=None, max_examples=200, derandomize=True)
anything = st.floats(allow_nan=False, allow_infinity=False)
bounded = st.floats(min_value=-1e6, max_value=1e6)


@FIXED
@given(bounded, bounded, st.integers(0, 30))
def test_rounding_moves_two_values_apart_by_less_than_one_unit(a, b, bits):
    distance = abs(int(to_units(a, bits)) - int(to_units(b, bits)))
    assert distance <= math.ceil(abs(Fraction(a) - Fraction(b)) * 2**bits)
    assert abs(int(to_units(a, bits))) <= abs(Fraction(a)) * 2**bits


@FIXED
@given(anything, st.integers(-60, 60))
def test_units_saturate_instead_of_overflowing(value, bits):
    units = int(to_units(value, bits))
    assert abs(units) <= LARGEST_UNIT
    if abs(Fraction(value)) * Fraction(2) ** bits >= LARGEST_UNIT:
        assert abs(units) == LARGEST_UNIT
        assert (units > 0) == (value > 0)


def test_infinity_saturates_and_nan_is_refused():
    assert to_units([math.inf, -math.inf]).tolist() == [LARGEST_UNIT, -LARGEST_UNIT]
    with pytest.raises(InputError, match="not a number"):
        to_units([1.0, math.nan])
    with pytest.raises(InputError, match="not a number"):
        clip_unit([math.nan])
    with pytest.raises(InputError, match="finite"):
        clip_norm([[1.0, math.inf]], 1.0)


def test_units_come_back():
    assert from_units(to_units([0.5, -3.25])).tolist() == [0.5, -3.25]
    assert clip_unit([-1.0, 0.25, 7.0]).tolist() == [0.0, 0.25, 1.0]
    with pytest.raises(InputError, match="out of range"):
        clip_unit([1.5], strict=True)


@FIXED
@given(
    arrays(np.float64, st.tuples(st.integers(1, 4), st.integers(1, 6)), elements=anything),
    st.floats(min_value=0.01, max_value=100.0),
)
def test_integer_rows_obey_the_bound_exactly(rows, bound):
    units = row_units(rows, bound)
    limit = Fraction(bound) ** 2 * 4**16
    for row in units:
        assert sum(int(entry) ** 2 for entry in row) <= limit


@FIXED
@given(arrays(np.float64, 3, elements=st.floats(-0.5, 0.5)))
def test_rows_inside_the_bound_are_only_rounded(row):
    assert (row_units(row, 1.0) == to_units(row, 16)).all()


def test_an_empty_block_of_rows_stays_empty():
    assert row_units(np.zeros((0, 3)), 1.0).shape == (0, 3)


def test_symmetric_noise_costs_what_is_claimed():
    """Measured covariance and the worst replacement: mu = L^2 / sigma."""
    dimension, sigma, draws = 3, 2.0**20, 40_000
    noise = SeededNoise(3)
    drawn = np.stack([symmetric_gaussian(noise, dimension, sigma) for _ in range(draws)]).astype(float)
    assert (drawn == np.swapaxes(drawn, 1, 2)).all()
    upper = np.triu_indices(dimension)
    covariance = np.cov(drawn[:, upper[0], upper[1]].T)
    expected = np.where(upper[0] == upper[1], 2 * sigma**2, sigma**2)
    band = 5 * math.sqrt(2 / draws)
    assert np.abs(np.diag(covariance) / expected - 1).max() < band
    off = covariance / np.sqrt(np.outer(expected, expected))
    assert np.abs(off - np.diag(np.diag(off))).max() < 5 / math.sqrt(draws)
    rng = np.random.default_rng(1)
    worst = 0.0
    for _ in range(300):
        v, w = rng.normal(size=(2, dimension))
        v, w = v / np.linalg.norm(v), w / np.linalg.norm(w)
        w = w - (w @ v) * v if rng.random() < 0.5 else w  # orthogonal pairs are the worst ones
        w /= np.linalg.norm(w)
        change = (np.outer(v, v) - np.outer(w, w))[upper]
        worst = max(worst, math.sqrt(change @ np.linalg.solve(covariance, change)))
    assert worst * sigma == pytest.approx(1.0, abs=0.03)


def test_symmetric_noise_can_be_zero():
    assert not symmetric_gaussian(ZeroNoise(), 4, 100.0).any()
    assert symmetric_gaussian(SeededNoise(1), 1, 100.0).shape == (1, 1)


@pytest.mark.parametrize("level", [3.0, 5000.0], ids=["inverted from its table", "rounded normal"])
def test_draws_of_many_levels_in_one_call_are_those_of_single_calls(level):
    levels = np.array([[level, level, 2 * level], [level, 3 * level, 3 * level]])
    single = SeededNoise(5)
    expected = [
        *single.gaussian(level, 2), *single.gaussian(2 * level), *single.gaussian(level), *single.gaussian(3 * level, 2)
    ]  # fmt: skip
    assert SeededNoise(5).gaussians(levels).ravel().tolist() == expected
    assert not ZeroNoise().gaussians(levels).any()
    secure = SecureNoise().gaussians(np.repeat(levels, 4000, axis=0))
    assert secure.std(axis=0) == pytest.approx(np.array([level, np.sqrt(5) * level, np.sqrt(6.5) * level]), rel=0.05)


def test_a_huge_row_is_clipped_to_a_tiny_bound():
    bound = 2.6e-16
    assert np.linalg.norm(clip_norm([[1e308, 0.0]], bound)) <= bound * (1 + 1e-12)
