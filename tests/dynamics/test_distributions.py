"""Densities, distribution functions and quantiles against scipy, and refusals of wrong specs."""

from __future__ import annotations

import math

import numpy as np
import pytest
import scipy.stats as st

from fairveil.dynamics import distribution, empirical
from fairveil.dynamics.distributions import stack
from fairveil.errors import SpecError
from fairveil.randomness import generator

CASES = [
    (["normal", 1, 2], st.norm(1, 2)),
    (["normal", -5, 0.3], st.norm(-5, 0.3)),
    (["truncnorm", 4, 5, -8, 19], st.truncnorm((-8 - 4) / 5, (19 - 4) / 5, 4, 5)),
    (["beta", 2.57, 1.24], st.beta(2.57, 1.24)),
    (["beta", 0.89, 4.94], st.beta(0.89, 4.94)),
    (["beta", 10, 1], st.beta(10, 1)),
    (["beta", 1, 7.5], st.beta(1, 7.5)),
    (["beta", 300, 5000], st.beta(300, 5000)),
    (["uniform", -1, 2], st.uniform(-1, 3)),
    (["histogram", [0, 1, 3, 4], [1, 2, 0.5]], st.rv_histogram(([1, 2, 0.5], [0, 1, 3, 4]), density=False)),
]


@pytest.mark.parametrize("spec, truth", CASES, ids=lambda item: str(item)[:30])
def test_agrees_with_scipy(spec, truth):
    ours = distribution(spec)
    q = np.concatenate([generator(1, "q").random(300), 10.0 ** -np.linspace(1, 9, 40)])
    x = truth.ppf(q)
    np.testing.assert_allclose(ours.cdf(x), truth.cdf(x), rtol=1e-6, atol=1e-15)
    np.testing.assert_allclose(ours.sf(x), truth.sf(x), rtol=1e-6, atol=1e-15)
    inner = slice(0, 300)
    np.testing.assert_allclose(ours.cdf(x[inner]), truth.cdf(x[inner]), rtol=2e-12)
    np.testing.assert_allclose(ours.pdf(x[inner]), truth.pdf(x[inner]), rtol=2e-11)
    np.testing.assert_allclose(ours.ppf(q[inner]), x[inner], rtol=1e-10, atol=1e-13)
    np.testing.assert_allclose(np.exp(ours.logpdf(x[inner])), truth.pdf(x[inner]), rtol=2e-11)


@pytest.mark.parametrize("spec, truth", CASES, ids=lambda item: str(item)[:30])
def test_samples_have_the_right_distribution(spec, truth):
    drawn = distribution(spec).sample(generator(4, str(spec)), 4000)
    # One fixed seed per case: the Kolmogorov statistic of 4000 draws is below 1.95/sqrt(4000) at level 0.1 %.
    assert st.kstest(drawn, truth.cdf).statistic < 1.95 / math.sqrt(4000)


def test_upper_tail_keeps_its_digits():
    assert distribution(["normal", 0, 1]).sf(30.0) == pytest.approx(st.norm.sf(30.0), rel=1e-10)
    assert distribution(["beta", 2, 8]).sf(0.999) == pytest.approx(st.beta(2, 8).sf(0.999), rel=1e-10)


def test_tempered_moves_mass_out_of_an_interval():
    base = distribution(["truncnorm", 0, 1, -3, 3])
    less = distribution(["tempered", ["truncnorm", 0, 1, -3, 3], 0.0, 2.0, 0.5])
    x = np.linspace(-3, 3, 2001)
    assert less.cdf(3.0) == pytest.approx(1.0)
    np.testing.assert_allclose(less.pdf(np.array([0.5, 1.5])), 0.5 * base.pdf(np.array([0.5, 1.5])))
    assert less.cdf(2.0) - less.cdf(0.0) == pytest.approx(0.5 * (base.cdf(2.0) - base.cdf(0.0)))
    np.testing.assert_allclose(less.cdf(x) + less.sf(x), 1.0, atol=1e-12)
    assert np.all(np.diff(less.cdf(x)) > 0)


def test_values_are_equal_and_round_trip():
    first, second = distribution(["beta", 2, 3]), distribution(("beta", 2.0, 3.0))
    assert first == second
    assert hash(first) == hash(second)
    assert distribution(first.to_list()) == first
    nested = distribution(["tempered", ["histogram", [0, 1, 2], [1, 1]], 0.5, 1.5, 0.5])
    assert distribution(nested.to_list()) == nested


def test_empirical_is_a_histogram():
    made = empirical([0.1, 0.2, 0.2, 0.9], bins=[0.0, 0.5, 1.0], floor=1.0)
    assert made.cdf(0.5) == pytest.approx(4 / 6)
    codes, params = stack([made, distribution(["normal", 0, 1])])
    assert codes.tolist() == [4, 0]
    assert params.shape[0] == 2


@pytest.mark.parametrize(
    "spec",
    [
        ["cauchy", 0, 1],
        ["normal", 0],
        ["normal", 0, 0],
        ["normal", 0, float("nan")],
        ["normal", "0", 1],
        ["beta", -1, 2],
        ["uniform", 2, 1],
        ["truncnorm", 0, 1, 5, 4],
        ["truncnorm", 0, 1, 60, 61],
        ["histogram", [0, 1], [1, 2]],
        ["histogram", [0, 2, 1], [1, 2]],
        ["histogram", [0, 1, 2], [1, -2]],
        ["tempered", ["normal", 0, 1], 0.0, 1.0, 50.0],
        "normal",
        [],
    ],
)
def test_wrong_specs_are_refused_with_the_path(spec):
    with pytest.raises(SpecError, match=r"groups\.a\.features\.0"):
        distribution(spec, "groups.a.features.0")


def test_quantile_levels_must_be_probabilities():
    with pytest.raises(SpecError):
        distribution(["normal", 0, 1]).ppf(1.2)
    assert distribution(["normal", 0, 1]).ppf(0.0) == -math.inf
