"""The leaky sum: a finite kernel, and what a restart forgets."""

import numpy as np
import pytest

from fairveil.streams.filters.leaky_sum import OWN, LeakyBeliefs, forget_sum, leak


def test_the_sum_is_a_convolution_with_a_kernel_that_ends():
    values, coefficients = np.random.default_rng(1).normal(size=50), 0.8 ** np.arange(7)
    ring, out = np.zeros(1 + 7), np.empty(50)
    leak(ring, values[:20], coefficients, out[:20])
    leak(ring, values[20:], coefficients, out[20:])
    assert out == pytest.approx(np.convolve(values, coefficients)[:50])


def test_a_missing_value_counts_as_nothing():
    out = np.empty(3)
    leak(np.zeros(1 + 2), np.array([1.0, np.nan, 4.0]), np.array([1.0, 0.5]), out)
    assert out.tolist() == [1.0, 0.5, 4.0]


def test_a_restart_forgets_the_sum_and_nothing_else():
    numbers = np.ones(OWN * 3)
    forget_sum(numbers, 3)
    left = LeakyBeliefs(*numbers.reshape(OWN, 3))
    for name, part in left._asdict().items():
        assert part.tolist() == [0.0 if "g" in name else 1.0] * 3
