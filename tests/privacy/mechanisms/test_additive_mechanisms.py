"""Laplace, Gaussian, their integer versions, norm-gamma and binomial noise: closed forms, exact privacy, bad input."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binom, chisquare, kstest

from fairveil.errors import InputError, SpecError
from fairveil.privacy.conversions import GRID_CONSTANT, gdp_delta, gdp_mu, zcdp_epsilon
from fairveil.privacy.events import ApproximateEvent, GaussianEvent, PureEvent, ZcdpEvent
from fairveil.privacy.mechanisms import (
    Binomial,
    DiscreteGaussian,
    DiscreteLaplace,
    Gaussian,
    Laplace,
    NormGamma,
    binomial_delta,
    binomial_epsilon,
)
from fairveil.privacy.noise import SecureNoise, SeededNoise, ZeroNoise

FIXED = settings(deadline=None, max_examples=100, derandomize=True)
budgets = st.floats(min_value=1e-6, max_value=1e6)
lengths = st.floats(min_value=1e-150, max_value=1e150)
DRAWS = 100_000


# Laplace ------------------------------------------------------------------------------------------------------------


@FIXED
@given(lengths, budgets, st.integers(1, 50))
def test_laplace_scale_covers_the_rounded_sensitivity(sensitivity, epsilon, dimension):
    mechanism = Laplace(sensitivity=sensitivity, epsilon=epsilon, dimension=dimension)
    real_units = Fraction(sensitivity) * Fraction(2) ** mechanism.bits
    assert mechanism.sensitivity_units >= real_units + dimension - 1
    assert Fraction(mechanism.scale_units) * Fraction(epsilon) >= mechanism.sensitivity_units
    assert mechanism.sensitivity_units <= (real_units + dimension) * Fraction(1000001, 1000000)  # and hardly more
    assert 2.0**20 <= mechanism.scale_units <= 2.0**52


@FIXED
@given(st.lists(st.tuples(st.floats(-50, 50), st.floats(-1, 1)), min_size=1, max_size=8), st.floats(0.01, 20.0))
def test_rounded_neighbours_stay_within_the_charged_sensitivity(pairs, epsilon):
    """The integer vectors really are within sensitivity_units in the l1 norm, for any two vectors that are within 1."""
    value = np.array([first for first, _ in pairs])
    step = np.array([second for _, second in pairs])
    step /= max(1.0, np.abs(step).sum() * (1 + 1e-9))
    mechanism = Laplace(sensitivity=1.0, epsilon=epsilon, dimension=len(pairs))
    near = mechanism.release(value, ZeroNoise()) - mechanism.release(value + step, ZeroNoise())
    assert np.abs(near).sum() * 2.0**mechanism.bits <= mechanism.sensitivity_units


def test_laplace_std_and_law():
    mechanism = Laplace(sensitivity=2.0, epsilon=0.5)
    assert mechanism.std == pytest.approx(math.sqrt(2) * 4, rel=1e-5)
    released = mechanism.releases(10.0, SeededNoise(2), DRAWS)
    assert kstest(released, "laplace", args=(10.0, 4.0)).pvalue > 1e-4
    assert released.std() == pytest.approx(mechanism.std, rel=5 * math.sqrt(5 / DRAWS) / 2)


def test_laplace_outputs_lie_on_the_grid_whatever_the_value():
    mechanism = Laplace(sensitivity=1.0, epsilon=1.0)
    for value in (0.0, 1 / 3, 1e-9, 12345.678901):
        released = mechanism.releases(value, SecureNoise(), 50)
        assert (np.rint(released * 2.0**mechanism.bits) == released * 2.0**mechanism.bits).all()


def test_laplace_clips_to_its_public_range():
    mechanism = Laplace(sensitivity=1.0, epsilon=1.0, low=0.0, high=1.0)
    assert mechanism.release(7.0, ZeroNoise()) == 1.0
    assert mechanism.release(-7.0, ZeroNoise()) == 0.0


# Gaussian -----------------------------------------------------------------------------------------------------------


@FIXED
@given(
    st.floats(1e-3, 1e3), st.floats(1e-4, 20.0), st.floats(min_value=1e-12, max_value=0.5), st.integers(1, 100)
)  # fmt: skip
def test_gaussian_calibration_holds_with_the_grid_correction(sensitivity, epsilon, delta, dimension):
    mechanism = Gaussian(sensitivity=sensitivity, epsilon=epsilon, delta=delta, dimension=dimension)
    event = mechanism.event()
    assert isinstance(event, GaussianEvent)
    rounding = math.sqrt(dimension) if dimension > 1 else 0
    units = math.ldexp(sensitivity, mechanism.plan.bits) + rounding
    assert units / mechanism.plan.sigma_units <= event.mu * (1 + 1e-15)
    correction = (1 + math.exp(epsilon)) * dimension * GRID_CONSTANT / mechanism.plan.sigma_units**2
    assert gdp_delta(event.mu, epsilon) + correction <= delta * (1 + 1e-12)
    assert event.mu >= gdp_mu(epsilon, delta * 0.99)  # and the correction costs next to nothing


@pytest.mark.parametrize(
    "epsilon, delta, mu", [(15.0, 0.1, 4.497), (2.0, 1e-5, 0.502), (1.0, 1e-5, 0.268), (0.2, 0.1, 0.435)]
)
def test_gaussian_matches_published_conversions(epsilon, delta, mu):
    assert 1 / Gaussian(sensitivity=1.0, epsilon=epsilon, delta=delta).std == pytest.approx(mu, abs=6e-4)


def test_gaussian_law_and_budget_from_mu():
    mechanism = Gaussian(sensitivity=3.0, mu=0.5)
    assert mechanism.std == pytest.approx(6.0, rel=1e-6)
    assert kstest(mechanism.releases(1.0, SeededNoise(3), DRAWS), "norm", args=(1.0, 6.0)).pvalue > 1e-4
    promise = mechanism.guarantee()
    assert promise.mu == 0.5
    assert gdp_delta(0.5, promise.epsilon) <= promise.delta


@pytest.mark.parametrize("mu", [0.01, 1.0, 3.0, 8.0, 30.0])
def test_the_epsilon_of_a_mu_holds_on_the_grid(mu):
    mechanism = Gaussian(sensitivity=1.0, mu=mu, dimension=4)
    promise = mechanism.guarantee()
    correction = (1 + math.exp(promise.epsilon)) * 4 * GRID_CONSTANT / mechanism.plan.sigma_units**2
    by_gdp = gdp_delta(mu, promise.epsilon) + correction <= promise.delta
    by_zcdp = zcdp_epsilon(mu**2 / 2, promise.delta) <= promise.epsilon
    assert by_gdp or by_zcdp
    assert mu > 2.0 or by_gdp  # the tighter conversion wherever the grid allows it


def test_grid_loss_covers_the_exact_distance():
    """Total variation between the discrete law and a rounded normal, computed exactly at sizes where it is visible."""
    from scipy.special import ndtr

    for sigma in (3.0, 10.0, 50.0):
        z = np.arange(-int(40 * sigma), int(40 * sigma) + 1)
        discrete = np.exp(-0.5 * (z / sigma) ** 2)
        rounded = ndtr((z + 0.5) / sigma) - ndtr((z - 0.5) / sigma)
        assert 0.5 * np.abs(discrete / discrete.sum() - rounded).sum() <= GRID_CONSTANT / sigma**2


@pytest.mark.parametrize("budget", [{}, {"epsilon": 1.0}, {"delta": 0.1}, {"epsilon": 1.0, "delta": 0.1, "mu": 1.0}])
def test_gaussian_needs_one_budget(budget):
    with pytest.raises(SpecError, match="budget"):
        Gaussian(sensitivity=1.0, **budget)


def test_gaussian_refuses_what_no_grid_can_hold():
    for budget in ({"epsilon": 400.0, "delta": 1e-5}, {"mu": 1e-15}, {"mu": 5e-324}):
        with pytest.raises(SpecError, match="grid"):
            Gaussian(sensitivity=1.0, **budget)


# Integers -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 5.0])
def test_discrete_laplace_is_exactly_private_and_follows_its_law(epsilon):
    mechanism = DiscreteLaplace(sensitivity=2, epsilon=epsilon)
    z = np.arange(-400, 401) if epsilon < 1 else np.arange(-100, 101)
    law = mechanism.probability(z)
    assert law.sum() == pytest.approx(1.0, abs=1e-8)
    assert np.abs(np.log(law[2:]) - np.log(law[:-2])).max() <= epsilon * (1 + 1e-12)
    assert math.sqrt((law * z**2).sum()) == pytest.approx(mechanism.std, rel=1e-6)
    released = mechanism.releases(7, SeededNoise(4), DRAWS) - 7
    common = law * DRAWS > 20
    observed = np.array([(released == point).sum() for point in z[common]])
    tail = np.append(observed, DRAWS - observed.sum()), np.append(law[common], 1 - law[common].sum()) * DRAWS
    assert (
        chisquare(*(tail if tail[1][-1] > 5 else (observed, law[common] / law[common].sum() * observed.sum()))).pvalue
        > 1e-4
    )


@pytest.mark.parametrize("sensitivity, rho", [(1.0, 0.5), (2.0, 0.01), (math.sqrt(2), 3.0)])
def test_discrete_gaussian_is_exactly_zcdp(sensitivity, rho):
    mechanism = DiscreteGaussian(sensitivity=sensitivity, rho=rho)
    assert mechanism.event() == ZcdpEvent(rho)
    assert Fraction(sensitivity) ** 2 <= 2 * Fraction(rho) * Fraction(mechanism.sigma) ** 2
    shift = math.floor(sensitivity)
    z = np.arange(-int(20 * mechanism.sigma) - 2, int(20 * mechanism.sigma) + 3)
    law, moved = np.log(mechanism.probability(z)), np.log(mechanism.probability(z - shift))
    for order in (1.5, 2.0, 8.0):
        divergence = np.log(np.exp(order * law + (1 - order) * moved).sum()) / (order - 1)
        assert divergence <= order * rho * (1 + 1e-9)


def test_discrete_gaussian_from_epsilon_and_delta():
    mechanism = DiscreteGaussian(sensitivity=1.0, epsilon=1.0, delta=1e-5)
    assert zcdp_epsilon(mechanism.spent, 1e-5) <= 1.0
    with pytest.raises(SpecError, match="budget"):
        DiscreteGaussian(sensitivity=1.0)
    with pytest.raises(SpecError, match="fit"):
        DiscreteGaussian(sensitivity=1e30, rho=0.5)


@pytest.mark.parametrize(
    "mechanism",
    [
        DiscreteLaplace(sensitivity=1, epsilon=1.0),
        DiscreteGaussian(sensitivity=1.0, rho=0.5),
        Binomial(sensitivity=1, epsilon=1.0, delta=1e-5),
    ],
    ids=lambda m: m.name,
)
def test_integer_mechanisms_refuse_what_is_not_an_integer(mechanism):
    for value in (0.5, 1.0, math.nan, "1", True, None, [1, 2]):
        with pytest.raises(InputError, match="integers"):
            mechanism.release(value, SeededNoise(1))
    released = mechanism.release(5, SeededNoise(1))
    assert released.dtype == np.int64
    for kind in (int, np.int8, np.uint8, np.uint64, np.int64):
        assert mechanism.release(kind(5), ZeroNoise()) == 5
    assert mechanism.release(np.uint64(2**64 - 1), ZeroNoise()) == 2**61  # saturates
    assert mechanism.release(-(2**63), ZeroNoise()) == -(2**61)


# Binomial -----------------------------------------------------------------------------------------------------------


def exhaustive_delta(coins: int, shift: int, epsilon: float) -> float:
    """The hockey-stick divergence summed over every output, in both directions."""
    z = np.arange(-shift, coins + shift + 1)
    here, there = binom.pmf(z, coins, 0.5), binom.pmf(z - shift, coins, 0.5)
    one = np.maximum(here - math.exp(epsilon) * there, 0).sum()
    other = np.maximum(there - math.exp(epsilon) * here, 0).sum()
    return max(one, other)


@pytest.mark.parametrize("coins", [2, 10, 101, 1000])
@pytest.mark.parametrize("shift", [1, 2, 7])
@pytest.mark.parametrize("epsilon", [0.0, 0.1, 1.0, 5.0])
def test_binomial_delta_is_the_exact_divergence(coins, shift, epsilon):
    exact = exhaustive_delta(coins, shift, epsilon)
    found = binomial_delta(coins, shift, epsilon)
    assert exact <= found * (1 + 1e-7) + 1e-15
    assert found <= exact * (1 + 1e-6) + 1e-15


def test_binomial_divergence_grows_with_the_shift():
    deltas = [binomial_delta(200, shift, 0.5) for shift in range(1, 30)]
    assert deltas == sorted(deltas)


def test_binomial_epsilon_matches_published_values():
    """Variance 250 and 25 in the exact curve: 0.207 and 0.753 at delta 1e-5."""
    assert binomial_epsilon(1000, 1, 1e-5) == pytest.approx(0.207, abs=5e-4)
    assert binomial_epsilon(100, 1, 1e-5) == pytest.approx(0.753, abs=5e-4)
    assert binomial_epsilon(4, 1, 0.01) == math.inf  # 2^-4 of the mass sits where the neighbour has none
    assert binomial_epsilon(100, 1, 0.9) == 0.0


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 5.0])
@pytest.mark.parametrize("sensitivity", [1, 3])
def test_binomial_uses_the_fewest_coins(epsilon, sensitivity):
    mechanism = Binomial(sensitivity=sensitivity, epsilon=epsilon, delta=1e-5)
    assert mechanism.coins % 2 == 0
    assert binomial_delta(mechanism.coins, sensitivity, epsilon) <= 1e-5
    assert binomial_delta(mechanism.coins - 2, sensitivity, epsilon) > 1e-5
    released = mechanism.releases(3, SeededNoise(6), 50_000)
    assert released.mean() == pytest.approx(3.0, abs=5 * mechanism.std / math.sqrt(50_000))
    assert released.std() == pytest.approx(mechanism.std, rel=5 / math.sqrt(100_000))


def test_binomial_refuses_budgets_that_need_too_many_coins():
    with pytest.raises(SpecError, match="coins"):
        Binomial(sensitivity=1, epsilon=1e-4, delta=1e-5)


# Norm-gamma ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dimension", [1, 2, 3, 6])
def test_norm_gamma_has_gamma_norms_and_no_direction(dimension):
    mechanism = NormGamma(sensitivity=0.5, epsilon=2.0, dimension=dimension)
    draws = 20_000
    released = mechanism.releases(np.zeros(dimension), SeededNoise(7), draws)
    norms = np.linalg.norm(released, axis=1)
    assert kstest(norms, "gamma", args=(dimension, 0, 0.25)).pvalue > 1e-4
    band = 5 * mechanism.std / math.sqrt(draws)
    assert np.abs(released.mean(0)).max() < band
    directions = released / norms[:, None]
    assert np.abs(directions.T @ directions / draws - np.eye(dimension) / dimension).max() < 5 / math.sqrt(draws)
    assert released.std() == pytest.approx(mechanism.std, rel=0.04)


@pytest.mark.parametrize("dimension", [1, 2, 3])
def test_norm_gamma_is_exactly_private_on_its_lattice(dimension):
    """The rounded-up norm moves by at most S + 1 between any two lattice points S apart, as the proof says."""
    from fairveil.privacy.mechanisms.norm_gamma import _norms_above

    mechanism = NormGamma(sensitivity=1.0, epsilon=0.7, dimension=dimension)
    rng = np.random.default_rng(2)
    points = rng.integers(-(2**22), 2**22, (5000, dimension))
    steps = rng.normal(size=points.shape)
    steps *= math.ldexp(1.0, mechanism.bits) / np.linalg.norm(steps, axis=1, keepdims=True)
    moved = points + np.trunc(steps).astype(np.int64)
    loss = np.abs(_norms_above(points) - _norms_above(moved)) / mechanism.scale_units
    assert loss.max() <= 0.7
    assert loss.max() > 0.69  # the bound is used, not wasted
    exact = [math.isqrt(sum(int(c) ** 2 for c in point) - 1) + 1 for point in points[:100]]
    assert _norms_above(points[:100]).tolist() == exact


def test_norm_gamma_lattice_law_is_exact_on_a_coarse_lattice():
    """With a tiny scale single lattice points are common: their frequencies follow exp(-ceil(norm)/a) exactly."""
    from fairveil.privacy.mechanisms import norm_gamma

    class Coarse(NormGamma):
        scale_units = 16  # type: ignore[assignment]
        bits = 0  # type: ignore[assignment]

    drawn = Coarse(sensitivity=1.0, epsilon=1.0, dimension=2)._draw(SeededNoise(8), 150_000)
    norms = norm_gamma._norms_above(drawn)
    grid = np.stack(np.meshgrid(np.arange(-700, 701), np.arange(-700, 701)), -1).reshape(-1, 2)
    radii = np.ceil(np.sqrt((grid**2).sum(1))).astype(int)
    weights = np.bincount(radii) * np.exp(-np.arange(radii.max() + 1) / 16.0)
    law = weights / weights.sum()
    observed = np.bincount(norms, minlength=len(law))[: len(law)]
    common = law * len(norms) > 20
    expected = law[common] / law[common].sum() * observed[common].sum()
    assert chisquare(observed[common], expected).pvalue > 1e-4
    axis = ((drawn == [3, 0]).all(1).sum(), (drawn == [0, -3]).all(1).sum())
    mean = 150_000 * math.exp(-3 / 16) / weights.sum()
    assert max(abs(count - mean) for count in axis) < 5 * math.sqrt(mean)


def test_norm_gamma_acceptance_is_what_it_says():
    for dimension in (2, 5):
        mechanism = NormGamma(sensitivity=1.0, epsilon=1.0, dimension=dimension)

        class Counting(SeededNoise):
            drawn = 0

            def laplace(self, scale, size=1):
                type(self).drawn += size
                return super().laplace(scale, size)

        mechanism._draw(Counting(1), 20_000)
        proposals = Counting.drawn / dimension
        assert 20_000 / proposals == pytest.approx(mechanism.acceptance / 1.1, rel=0.1)


# All ----------------------------------------------------------------------------------------------------------------

ADDITIVE = [
    Laplace(sensitivity=1.0, epsilon=1.0, dimension=3),
    Gaussian(sensitivity=1.0, epsilon=1.0, delta=1e-5, dimension=3),
    NormGamma(sensitivity=1.0, epsilon=1.0, dimension=3),
]


@pytest.mark.parametrize("mechanism", ADDITIVE, ids=lambda m: m.name)
def test_real_mechanisms_take_vectors_and_refuse_bad_values(mechanism):
    value = np.array([0.5, -2.25, 1e6])
    assert mechanism.release(value, ZeroNoise()).tolist() == value.tolist()
    assert mechanism.release(value, SecureNoise()).shape == (3,)
    assert (mechanism.release(value, SeededNoise(1)) == mechanism.release(value, SeededNoise(1))).all()
    assert value.tolist() == [0.5, -2.25, 1e6]
    for bad in ([1.0, 2.0], [1.0, 2.0, math.nan], [1.0, math.inf, 0.0], 3.0, np.zeros((3, 1))):
        with pytest.raises(InputError) as caught:
            mechanism.release(bad, SeededNoise(1))
        assert "1000000" not in str(caught.value)


@pytest.mark.parametrize("epsilon", [0.0, -1.0, math.nan, math.inf, 5e-324, 1e-7, 1e7, "1", True, None])
@pytest.mark.parametrize("kind", [Laplace, DiscreteLaplace, NormGamma, Binomial])
def test_bad_budgets_fail_closed(kind, epsilon):
    more = {"dimension": 2} if kind is NormGamma else {"delta": 1e-5} if kind is Binomial else {}
    sensitivity = 1 if kind in (DiscreteLaplace, Binomial) else 1.0
    with pytest.raises(SpecError) as caught:
        kind(sensitivity=sensitivity, epsilon=epsilon, **more)
    assert caught.value.path.split(".")[0] == "epsilon"


@pytest.mark.parametrize("sensitivity", [0.0, -1.0, math.nan, math.inf, "1", None])
@pytest.mark.parametrize("kind", [Laplace, NormGamma])
def test_bad_sensitivities_fail_closed(kind, sensitivity):
    more = {"dimension": 2} if kind is NormGamma else {}
    with pytest.raises(SpecError) as caught:
        kind(sensitivity=sensitivity, epsilon=1.0, **more)
    assert caught.value.path.split(".")[0] == "sensitivity"


@pytest.mark.parametrize("delta", [0.0, 1.0, 2.0, -1e-5, math.nan, "0.1"])
def test_bad_deltas_fail_closed(delta):
    for build in (lambda: Gaussian(sensitivity=1.0, epsilon=1.0, delta=delta), lambda: Binomial(1, 1.0, delta)):
        with pytest.raises(SpecError) as caught:
            build()
        assert caught.value.path.split(".")[0] == "delta"


def test_events_state_the_budget():
    assert Laplace(sensitivity=1.0, epsilon=0.5).event() == PureEvent(0.5)
    assert NormGamma(sensitivity=1.0, epsilon=0.5, dimension=2).event() == PureEvent(0.5)
    assert Binomial(sensitivity=1, epsilon=0.5, delta=1e-6).event() == ApproximateEvent(0.5, 1e-6)
    promise = Laplace(sensitivity=1.0, epsilon=0.5).guarantee()
    assert promise is not None
    assert (promise.epsilon, promise.delta, promise.established) == (0.5, 0.0, True)
