"""One-bit reports and randomised response: exact odds, unbiased decoding, bad input."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mpmath import mp
from scipy.stats import chisquare

from fairveil.errors import InputError, SpecError
from fairveil.privacy.grid import COINS, exp_below, float_above, grid_bits, keep_weight, sigma_above
from fairveil.privacy.mechanisms import OneBit, RandomizedResponse
from fairveil.privacy.mechanisms.one_bit import half_width
from fairveil.privacy.noise import SecureNoise, SeededNoise, ZeroNoise

FIXED = settings(deadline=None, max_examples=200, derandomize=True)
budgets = st.floats(min_value=1e-6, max_value=1e6)


@FIXED
@given(st.floats(min_value=0.0, max_value=60.0))
def test_exp_below_is_a_tight_lower_bound(exponent):
    with mp.workdps(80):
        exact = mp.e ** mp.mpf(exponent)
        below = exp_below(exponent)
        bound = mp.mpf(below.numerator) / mp.mpf(below.denominator)
        assert bound <= exact
        assert (exact - bound) / exact < mp.mpf("1e-44")


@FIXED
@given(budgets)
def test_a_kept_bit_never_spends_more_than_epsilon(epsilon):
    weight = keep_weight(epsilon)
    assert COINS // 2 < weight < COINS
    with mp.workdps(60):
        odds = mp.mpf(weight) / mp.mpf(COINS - weight)
        assert mp.log(odds) <= mp.mpf(epsilon)
        if epsilon < 30:
            assert mp.log(odds) > mp.mpf(epsilon) * (1 - mp.mpf("1e-5"))


@FIXED
@given(budgets, st.integers(2, 10**6))
def test_randomised_response_never_spends_more_than_epsilon(epsilon, categories):
    mechanism = RandomizedResponse(categories=categories, epsilon=epsilon)
    truth, other = mechanism.weights
    assert truth >= other >= 1
    assert truth + (categories - 1) * other <= COINS
    with mp.workdps(60):
        assert mp.log(mp.mpf(truth) / mp.mpf(other)) <= mp.mpf(epsilon)
    if epsilon < 20:
        exact = math.exp(epsilon) / (math.exp(epsilon) + categories - 1)
        assert mechanism.truth == pytest.approx(exact, rel=1e-6)


@pytest.mark.parametrize(
    "epsilon, at_ends, worst", [(0.2, 24.9, 25.2), (0.5, 3.92, 4.17), (1.0, 0.92, 1.17), (4.0, 0.019, 0.27)]
)
def test_one_bit_variance_matches_its_closed_form(epsilon, at_ends, worst):
    mechanism = OneBit(epsilon)
    assert mechanism.variance(0.0) == pytest.approx(at_ends, rel=0.02)
    assert mechanism.variance(1.0) == pytest.approx(at_ends, rel=0.02)
    assert mechanism.variance(0.5) == pytest.approx(worst, rel=0.02)
    e = math.exp(epsilon)
    assert mechanism.probability(0.3) == pytest.approx(1 / (e + 1) + 0.3 * (e - 1) / (e + 1), rel=1e-12)
    assert mechanism.decode([0, 1]) == pytest.approx([-1 / (e - 1), e / (e - 1)], rel=1e-9)
    assert half_width(epsilon, 100, 2.0) == pytest.approx((e + 1) / (e - 1) * math.sqrt(2.0 / 200), rel=1e-12)


@pytest.mark.parametrize("noise", [SeededNoise(1), SecureNoise()], ids=["seeded", "secure"])
@pytest.mark.parametrize("x", [0.0, 0.25, 1 / 3, 1.0])
def test_one_bit_reports_are_unbiased(noise, x):
    mechanism = OneBit(1.0)
    reports = mechanism.encode(np.full(100_000, x), noise)
    chance = float(mechanism.probability(x))
    # six standard deviations: secure noise fails once in 10^9 runs
    assert abs(reports.mean() - chance) < 6 * math.sqrt(chance * (1 - chance) / 100_000)
    assert mechanism.decode(reports).mean() == pytest.approx(x, abs=6 * math.sqrt(1.2 / 100_000))


def test_one_bit_clips_and_keeps_shapes():
    mechanism = OneBit(1.0)
    assert mechanism.encode([[2.0, -1.0, 0.75]], ZeroNoise()).tolist() == [[1, 0, 1]]
    assert mechanism.encode(0.2, SecureNoise()).shape == ()
    assert set(np.unique(mechanism.release(np.linspace(0, 1, 500), SeededNoise(1)))) == set(mechanism.decode([0, 1]))
    with pytest.raises(InputError, match="reward"):
        mechanism.encode([0.5, math.nan], SeededNoise(1))


def test_an_out_of_range_value_is_reported_like_the_end_of_the_range():
    mechanism = OneBit(1.0)
    inside = mechanism.encode(np.full(1000, 1.0), SeededNoise(9))
    assert (mechanism.encode(np.full(1000, 40.0), SeededNoise(9)) == inside).all()


@pytest.mark.parametrize("noise, level", [(SeededNoise(2), 1e-4), (SecureNoise(), 1e-9)], ids=["seeded", "secure"])
@pytest.mark.parametrize("categories", [2, 3, 7])
def test_randomised_response_follows_its_law(noise, level, categories):
    mechanism = RandomizedResponse(categories=categories, epsilon=1.0)
    for own in (0, categories - 1):
        counts = np.bincount(mechanism.releases(own, noise, 60_000), minlength=categories)
        law = np.full(categories, mechanism.lie)
        law[own] = mechanism.truth
        assert law.sum() == pytest.approx(1.0, abs=1e-12)
        assert chisquare(counts, law * 60_000).pvalue > level


def test_shares_are_estimated_without_bias():
    mechanism = RandomizedResponse(categories=3, epsilon=1.5)
    people = np.repeat([0, 1, 2], [50_000, 30_000, 20_000])
    shares = mechanism.estimate(mechanism.report(people, SeededNoise(3)))
    assert shares == pytest.approx([0.5, 0.3, 0.2], abs=0.015)
    assert shares.sum() == pytest.approx(1.0)


@pytest.mark.parametrize("epsilon", [1e-6, 0.1, 50.0])
@pytest.mark.parametrize("categories", [2, 5, 1000])
def test_without_noise_the_truth_is_reported(epsilon, categories):
    mechanism = RandomizedResponse(categories=categories, epsilon=epsilon)
    people = np.arange(categories)
    assert (mechanism.report(people, ZeroNoise()) == people).all()


def test_bad_input_is_refused():
    mechanism = RandomizedResponse(categories=3, epsilon=1.0)
    for bad in (3, -1, 1.0, "1", True, [0, 7]):
        with pytest.raises(InputError, match="category"):
            mechanism.report(bad, SeededNoise(1))
    for wrong in (1, 0, 2.0, "3"):
        with pytest.raises(SpecError, match="categories"):
            RandomizedResponse(categories=wrong, epsilon=1.0)
    for epsilon in (0.0, math.nan, math.inf, -1.0, "1", 5e-324):
        with pytest.raises(SpecError, match="epsilon"):
            OneBit(epsilon)


def test_local_guarantees_say_so():
    for mechanism in (OneBit(1.0), RandomizedResponse(categories=4, epsilon=1.0)):
        promise = mechanism.guarantee()
        assert (promise.model, promise.neighbours, promise.epsilon) == ("local", "any-two-inputs", 1.0)


@FIXED
@given(st.fractions(min_value=Fraction(1, 10**9), max_value=10**15))
def test_float_above_is_the_next_float(value):
    near = float_above(value)
    assert Fraction(near) >= value
    assert Fraction(math.nextafter(near, 0.0)) < value


@FIXED
@given(st.floats(1e-200, 1e200), st.integers(0, 40))
def test_grid_bits_make_a_length_fine_enough_and_no_finer(length, fineness):
    units = Fraction(length) * Fraction(2) ** grid_bits(length, fineness=fineness)
    assert 2**fineness <= units < 2 ** (fineness + 1)


@FIXED
@given(st.floats(1e-3, 1e6), st.floats(1e-9, 1e3))
def test_sigma_above_never_overspends(sensitivity, rho):
    sigma = sigma_above(sensitivity, rho)
    assert Fraction(sensitivity) ** 2 <= 2 * Fraction(rho) * Fraction(sigma) ** 2
    assert sigma <= sensitivity / math.sqrt(2 * rho) * (1 + 1e-12)
