"""The p-mean family: special cases, order in p, logarithms, bad input."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairveil.errors import InputError, SpecError
from fairveil.fairness.welfare import log_p_mean, nash_welfare, p_mean

VALUES = st.lists(st.floats(1e-6, 1.0), min_size=1, max_size=12)


@given(VALUES)
def test_special_cases(values):
    assert math.isclose(p_mean(values, 1.0), np.mean(values), rel_tol=1e-9)
    assert math.isclose(p_mean(values, 0.0), math.exp(np.log(values).mean()), rel_tol=1e-9)
    assert math.isclose(p_mean(values, -1.0), 1 / np.mean(1 / np.array(values)), rel_tol=1e-9)
    assert math.isclose(p_mean(values, -math.inf), min(values), rel_tol=1e-12)


@settings(max_examples=60)
@given(VALUES, st.floats(-30, 1), st.floats(-30, 1))
def test_never_falls_when_p_rises(values, first, second):
    low, high = sorted((first, second))
    assert p_mean(values, low) <= p_mean(values, high) * (1 + 1e-9)


def test_continuous_at_zero_and_weighted():
    values = [0.1, 0.4, 0.9]
    assert math.isclose(p_mean(values, 1e-7), nash_welfare(values), rel_tol=1e-6)
    assert math.isclose(p_mean(values, 0.0, [1, 2, 0]), (0.1 * 0.4**2) ** (1 / 3))


def test_logarithms_do_not_underflow():
    tiny = -1000 * math.log(2 * math.e)
    assert math.isclose(log_p_mean([tiny, 0.0], 0.0), tiny / 2)
    assert math.isclose(log_p_mean([tiny, 0.0], -1.0), tiny + math.log(2))
    assert math.isclose(log_p_mean([tiny, tiny], 0.5), tiny)


def test_zero_values():
    assert p_mean([0.0, 1.0], 1.0) == 0.5
    assert p_mean([0.0, 1.0], 0.0) == p_mean([0.0, 1.0], -2.0) == 0.0
    assert p_mean([0.0, 0.0], 0.5) == 0.0


@pytest.mark.parametrize("p", [1.0001, math.nan, math.inf, True, "1"])
def test_powers_above_one_are_no_welfare(p):
    with pytest.raises(SpecError):
        p_mean([1.0], p)


@pytest.mark.parametrize(
    ("values", "weights"), [([], None), ([-1.0], None), ([math.nan], None), ([1.0], [0.0]), ([1.0], [1, 2])]
)
def test_bad_values_are_refused(values, weights):
    with pytest.raises(InputError):
        p_mean(values, 0.0, weights)
