"""Private histograms: privacy from the exact covariance, least squares, error formulas, distributions."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairveil.errors import InputError, SpecError
from fairveil.privacy.events import GaussianEvent, ParallelEvent, ZcdpEvent
from fairveil.privacy.histograms import Histogram, PrivateHistogram
from fairveil.privacy.histograms.codes import consistent_counts, pair_sensitivity, prefix_variance
from fairveil.privacy.noise import SecureNoise, SeededNoise, ZeroNoise

METHODS = pytest.mark.parametrize("method", ["tree", "toeplitz"])
TOTALS = pytest.mark.parametrize("total", ["public", "noisy"])
BINS = pytest.mark.parametrize("bins", [2, 5, 8, 12])
LIFT = 2.0**10


class Recorder(ZeroNoise):
    """Draw number ``index`` is ``LIFT`` times its sigma, all others are zero."""

    def __init__(self, index: int) -> None:
        self.index, self.drawn = index, 0

    def gaussian(self, sigma, size=1):
        value = np.zeros(size, np.int64)
        if 0 <= self.index - self.drawn < size:
            value[self.index - self.drawn] = round(LIFT * sigma)
        self.drawn += size
        return value


def covariance(histogram):
    """Exact covariance of the published counts, one draw at a time through the code."""
    counter = Recorder(-1)
    histogram.measure(histogram.start(), counter)
    responses = [histogram.measure(histogram.start(), Recorder(k))[0] / LIFT for k in range(counter.drawn)]
    return np.array(responses).T @ np.array(responses)


@METHODS
@TOTALS
@BINS
def test_no_pair_of_bins_pays_more_than_the_budget_and_one_pays_it_all(bins, total, method):
    histogram = Histogram(bins, method=method, total=total, mu=0.6)
    inverse = np.linalg.pinv(covariance(histogram), rcond=1e-10, hermitian=True)
    identity = np.eye(bins)
    moved = [identity[a] - identity[b] for a, b in itertools.combinations(range(bins), 2)]
    absent = list(identity) if total == "noisy" else []
    paid = [math.sqrt(shift @ inverse @ shift) for shift in moved + absent]
    assert max(paid) <= 0.6 * (1 + 1e-9)
    assert max(paid) >= 0.6 * (1 - 1e-6)


@METHODS
@TOTALS
@BINS
def test_error_formula_is_the_exact_variance(bins, total, method):
    histogram = Histogram(bins, method=method, total=total, mu=0.6)
    sums = np.tril(np.ones((bins, bins)))
    variances = np.diag(sums @ covariance(histogram) @ sums.T)
    expected = [histogram.expected_std(k) ** 2 for k in range(1, bins + 1)]
    np.testing.assert_allclose(variances, expected, rtol=1e-6, atol=1e-12)


@METHODS
@pytest.mark.parametrize("bins", [1, 2, 3, 50, 333])
def test_public_total_has_no_error_at_all(bins, method):
    assert Histogram(bins, method=method, total="public", mu=0.5).expected_std(bins) == 0.0


@METHODS
@TOTALS
def test_error_formula_by_simulation(method, total):
    histogram = Histogram(50, method=method, total=total, mu=0.5)
    state = histogram.add(histogram.start(), np.random.default_rng(0).random(300))
    errors = np.cumsum(histogram.measure(state, SeededNoise(1), 20_000) - state["open"], axis=1)
    measured, expected = errors.std(axis=0), [histogram.expected_std(k) for k in range(1, 51)]
    np.testing.assert_allclose(measured, expected, rtol=0.025, atol=1e-9)
    assert np.abs(errors.mean(axis=0)).max() < 5 * measured.max() / math.sqrt(20_000)


@pytest.mark.parametrize("bins", [2, 3, 8, 11])
@pytest.mark.parametrize("root", [0.0, 0.7])
def test_two_passes_give_the_least_squares_solution(bins, root):
    """Against the normal equations over all nodes that hold a real bin, with the total as a constraint or a reading."""
    rng, size = np.random.default_rng(bins), 1 << (bins - 1).bit_length()
    measured = rng.standard_normal((1, 2 * size)) * 3 + 5
    design, readings, weights = [], [], []
    for node in range(2, 2 * size):
        low, high = node, node
        while low < size:
            low, high = 2 * low, 2 * high + 1
        row = np.zeros(bins)
        row[low - size : max(min(high + 1 - size, bins), low - size)] = 1.0
        if row.any():
            design.append(row)
            readings.append(measured[0, node])
            weights.append(1.0)
    matrix, vector = np.array(design), np.array(readings)
    ones = np.ones(bins)
    if root > 0:
        matrix, vector = (
            np.vstack([matrix, ones / math.sqrt(root)]),
            np.append(vector, measured[0, 1] / math.sqrt(root)),
        )
        expected = np.linalg.lstsq(matrix, vector, rcond=None)[0]
    else:
        left = np.block([[matrix.T @ matrix, ones[:, None]], [ones[None, :], np.zeros((1, 1))]])
        expected = np.linalg.solve(left, np.append(matrix.T @ vector, measured[0, 1]))[:bins]
    np.testing.assert_allclose(consistent_counts(measured, bins, root)[0], expected, atol=1e-9)


def test_least_squares_beats_adding_raw_nodes():
    raw = 8  # a prefix of up to eight nodes of unit variance
    assert max(prefix_variance(256, k, 0.0) for k in range(1, 256)) < raw / 4
    tree, code = (
        max(Histogram(256, method=m, mu=1.0).expected_std(k) for k in range(1, 256)) for m in ("tree", "toeplitz")
    )
    assert code < tree < math.sqrt(2 * 8 * 8)


def test_sensitivity_of_a_moved_unit_in_the_code_is_the_largest_of_all_pairs():
    from fairveil.privacy.histograms.codes import bin_coefficients

    bins = 9
    c = bin_coefficients(bins).astype(float)
    matrix = np.array([[c[i - j] if i >= j else 0.0 for j in range(bins)] for i in range(bins)])
    largest = max(np.linalg.norm(matrix[:, a] - matrix[:, b]) for a in range(bins) for b in range(bins))
    assert pair_sensitivity(bins) == pytest.approx(largest, rel=1e-12)
    assert largest < math.sqrt(2) * np.linalg.norm(c)


@METHODS
@TOTALS
@pytest.mark.parametrize("bins", [1, 2, 7, 64])
def test_without_noise_counts_and_cdf_are_exact(bins, total, method):
    values = np.random.default_rng(1).normal(0.5, 0.4, 500)
    histogram = Histogram(bins, low=-1.0, high=2.0, method=method, total=total, mu=1.0)
    state = histogram.start()
    for part in np.split(values, 5):
        state = histogram.add(state, part)
    after, shown = histogram.release(state, ZeroNoise())
    truth = np.histogram(np.clip(values, -1, 2), bins=shown.edges)[0]
    np.testing.assert_allclose(shown.counts, truth, atol=1e-6)
    np.testing.assert_allclose(shown.cdf(shown.edges), np.append(0, np.cumsum(truth)) / 500, atol=1e-8)
    assert shown.total == pytest.approx(500)
    assert not after["open"].any()
    assert state["open"].sum() == 500


@settings(max_examples=60, deadline=None)
@given(
    bins=st.integers(1, 33),
    count=st.integers(0, 40),
    seed=st.integers(0, 10**6),
    method=st.sampled_from(["tree", "toeplitz"]),
    total=st.sampled_from(["public", "noisy"]),
)
def test_every_published_histogram_is_a_distribution(bins, count, seed, method, total):
    histogram = Histogram(bins, low=-2.0, high=3.0, method=method, total=total, mu=0.2)
    values = np.random.default_rng(seed).uniform(-4, 4, count)
    _, shown = histogram.release(histogram.add(histogram.start(), values), SeededNoise(seed))
    points = np.linspace(-5, 5, 41)
    cdf = shown.cdf(points)
    assert ((cdf >= 0) & (cdf <= 1)).all()
    assert (np.diff(cdf) >= 0).all()
    assert shown.cdf(-2.5) == 0.0
    assert shown.cdf(3.0) == 1.0
    shares = np.linspace(0, 1, 21)
    places = shown.quantile(shares)
    assert (np.diff(places) >= 0).all()
    assert ((places >= -2) & (places <= 3)).all()
    np.testing.assert_array_less(shares - 1e-9, shown.cdf(places) + 1e-12)
    assert shown.empty == (shown.total < 1)
    if total == "public":
        assert shown.total == count


def test_an_absent_group_gets_a_noisy_total_and_a_uniform_law_when_nothing_is_known():
    histogram = Histogram(16, mu=0.5, total="noisy")
    shown = [histogram.release(histogram.start(), SeededNoise(seed))[1] for seed in range(200)]
    totals = np.array([one.total for one in shown])
    assert totals.std() == pytest.approx(histogram.expected_std(16), rel=0.15)
    empty = [one for one in shown if one.empty]
    assert 60 < len(empty) < 180
    np.testing.assert_allclose(empty[0].cdf(np.linspace(0, 1, 17)), np.linspace(0, 1, 17))


def test_events_and_budgets():
    assert Histogram(8, rho=0.5).event() == ParallelEvent(ZcdpEvent(0.5))
    event = Histogram(8, mu=0.5).event().event
    assert isinstance(event, GaussianEvent)
    assert event.mu == 0.5
    assert Histogram(8, mu=0.5, bits=2, method="tree").event() == ParallelEvent(ZcdpEvent(0.125))
    both = Histogram(8, epsilon=1.0, delta=1e-5, total="noisy").event().event
    assert isinstance(both, GaussianEvent)
    assert both.mu == pytest.approx(0.268, abs=1e-3)


@pytest.mark.parametrize(
    "fields",
    [
        {"bins": 0},
        {"bins": 5000},
        {"bins": 2.0},
        {"low": 1.0, "high": 1.0},
        {"low": math.nan},
        {"method": "flat"},
        {"total": "none"},
        {"bits": -1},
        {"mu": None},
        {"mu": None, "epsilon": 1.0},
        {"mu": math.inf},
        {"mu": 1e-200},
    ],
    ids=str,
)
def test_bad_configurations(fields):
    with pytest.raises(SpecError):
        Histogram(**({"bins": 8, "mu": 1.0} | fields))


def test_bad_input_is_refused_without_showing_it():
    histogram = Histogram(8, mu=1.0)
    with pytest.raises(InputError) as caught:
        histogram.add(histogram.start(), [0.123456, math.nan])
    assert "0.1234" not in str(caught.value)
    for first in (0, 9, 1.5, True):
        with pytest.raises(InputError):
            histogram.expected_std(first)
    _, shown = histogram.release(histogram.start(), ZeroNoise())
    with pytest.raises(InputError):
        shown.quantile(1.2)
    with pytest.raises(InputError):
        shown.cdf(math.nan)
    with pytest.raises(InputError, match="no room"):
        histogram.add({"open": np.full(8, 2**50)}, 0.5)


@METHODS
def test_states_are_plain_never_shared_and_repeatable(method):
    histogram = Histogram(8, method=method, mu=1.0)
    values = np.array([0.1, 0.9])
    before = histogram.start()
    state = histogram.add(before, values)
    values[:] = 0.5
    assert not before["open"].any()
    assert state["open"].tolist() == [1, 0, 0, 0, 0, 0, 0, 1]
    kept = state["open"].copy()
    first, second = (histogram.release(state, SeededNoise(3))[1] for _ in range(2))
    np.testing.assert_array_equal(first.counts, second.counts)
    np.testing.assert_array_equal(state["open"], kept)
    assert not histogram.lost(state)["open"].any()
    secure = histogram.release(state, SecureNoise())[1]
    assert np.abs(secure.counts).max() < 60


def test_the_quantile_of_a_flat_stretch_is_its_left_end():
    shown = PrivateHistogram.of(0.0, 4.0, np.array([1.0, 0.0, 0.0, 1.0]), 2.0)
    assert float(shown.quantile(0.5)) == 1.0
    assert shown.quantile([0.0, 0.25, 0.75, 1.0]).tolist() == [0.0, 0.5, 3.5, 4.0]
