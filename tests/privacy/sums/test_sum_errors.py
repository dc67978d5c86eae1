"""Error formulas: closed forms, simulation by the streaming code and by whole noise paths, and who beats whom."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from fairveil.privacy.noise import SeededNoise, ZeroNoise
from fairveil.privacy.sums import (
    BatchSum,
    HybridSum,
    ToeplitzSum,
    TreeSum,
    doubling_ends,
    square_root_coefficients,
    tree,
    tree_step,
)

STREAMS = 30_000
BAND = 4.5 / math.sqrt(2 * STREAMS)
"""A sample std of 30,000 normal draws leaves this band with probability below 1e-5."""

SIMULATED = [
    BatchSum(mu=0.5),
    BatchSum(epsilon=0.8),
    BatchSum(rho=0.1, bits=3),
    TreeSum(12, epsilon=1.0, delta=1e-5),
    TreeSum(12, mu=0.5, refine=True),
    ToeplitzSum(12, mu=0.5),
    ToeplitzSum(12, rho=0.2, band=4),
    HybridSum(mu=0.5),
    HybridSum(mu=0.5, inner="refined-tree"),
]


def label(sums):
    return f"{type(sums).__name__}-{'pure' if sums.budget.pure else 'gaussian'}-{sums.grid.bits}"


@pytest.mark.parametrize("sums", SIMULATED, ids=label)
def test_streaming_error_matches_its_formula(sums):
    wide, noise = sums.many(STREAMS), SeededNoise(3)
    state = wide.start()
    # Laplace draws have kurtosis 6: the sample std of one batch is sqrt(5/2) times less certain.
    band = BAND * (math.sqrt(2.5) if sums.budget.pure else 1.0)
    for release in range(1, 13):
        state, estimate = wide.release(state, noise)
        assert estimate.shape == (STREAMS,)
        assert estimate.std() == pytest.approx(sums.expected_std(release), rel=band)


@pytest.mark.parametrize("sums", SIMULATED, ids=label)
def test_noise_path_has_the_law_of_the_stream(sums):
    path = sums.many(STREAMS).noise_path(SeededNoise(4), 12)
    band = BAND * (math.sqrt(2.5) if sums.budget.pure else 1.0)
    expected = [sums.expected_std(t) for t in range(1, 13)]
    np.testing.assert_allclose(path.std(axis=1), expected, rtol=band)
    wide, noise, state = sums.many(STREAMS), SeededNoise(5), sums.many(STREAMS).start()
    seen = []
    for _ in range(12):
        state, estimate = wide.release(state, noise)
        seen.append(estimate)
    # Correlations between prefixes too: the law of the whole path, not of its marginals alone.
    np.testing.assert_allclose(np.corrcoef(path), np.corrcoef(seen), atol=5 * math.sqrt(2 / STREAMS))


@pytest.mark.parametrize("sums", SIMULATED, ids=label)
def test_noise_path_is_the_stream_itself(sums):
    """The same source, the same integers: a simulator that draws in one go sees what releases one by one see."""
    path, noise, state = sums.noise_path(SeededNoise(8), 12), SeededNoise(8), sums.start()
    for release in range(12):
        state, estimate = sums.release(state, noise)
        np.testing.assert_allclose(sums.grid.unpack(path[release]), estimate, rtol=1e-9, atol=1e-9)
    assert not sums.noise_path(ZeroNoise(), 12).any()


@pytest.mark.parametrize("refine", [False, True])
@pytest.mark.parametrize("shape", [{}, {"shape": "symmetric", "dimension": 2}])
def test_a_path_drawn_in_parts_is_the_path_drawn_in_one_go(monkeypatch, refine, shape):
    sums = TreeSum(64, mu=1.0, refine=refine, **shape)
    whole = sums.noise_path(SeededNoise(8), 61), sums.many(3).noise_path(SeededNoise(8), 61)
    monkeypatch.setattr(tree, "PATH_BLOCK", 7)
    np.testing.assert_array_equal(sums.noise_path(SeededNoise(8), 61), whole[0])
    np.testing.assert_array_equal(sums.many(3).noise_path(SeededNoise(8), 61), whole[1])


def test_off_diagonal_is_what_the_formula_states():
    sums = TreeSum(5, mu=1.0, shape="symmetric", dimension=4, bound=1.5)
    path = sums.grid.unpack(sums.noise_path(SeededNoise(0), 5))
    assert path.shape == (5, 4, 4)
    np.testing.assert_array_equal(path, path.transpose(0, 2, 1))
    drawn = sums.many(20_000)
    _, estimate = drawn.release(drawn.start(), SeededNoise(1))
    assert estimate[:, 0, 1].std() == pytest.approx(sums.expected_std(1), rel=0.025)
    assert estimate[:, 2, 2].std() == pytest.approx(math.sqrt(2) * sums.expected_std(1), rel=0.025)
    # Diagonal std S/mu with S = sqrt(2) L^2, off-diagonal L^2/mu, times sqrt(h) for the tree.
    assert sums.expected_std(1) == pytest.approx(1.5**2 * math.sqrt(3), rel=1e-9)


def test_closed_forms():
    batch = BatchSum(mu=0.25, bound=2.0)
    assert batch.expected_std(9) == pytest.approx(3 * 2.0 / 0.25, rel=1e-9)
    assert BatchSum(epsilon=0.5).expected_std(1) == pytest.approx(math.sqrt(2) / 0.5, rel=1e-9)
    tree = TreeSum(24_999, mu=1.0)
    assert tree.levels == 15
    assert tree.expected_std(24_575) == pytest.approx(math.sqrt(15 * 14), rel=1e-9)
    assert tree.worst_release() == 24_575
    refined = TreeSum(24_999, mu=1.0, refine=True)
    assert refined.expected_std(1) == pytest.approx(math.sqrt(15), rel=1e-9)
    assert refined.expected_std(2) == pytest.approx(math.sqrt(15 * 2 / 3), rel=1e-9)
    fine = ToeplitzSum(1000, mu=1.0, coefficient_bits=26)
    assert fine.expected_std(1000) == pytest.approx(float(np.sum(square_root_coefficients(1000) ** 2)), rel=1e-6)
    assert fine.expected_std(1000) == pytest.approx((math.log(1000) + 3.35) / math.pi, rel=0.005)


@pytest.mark.parametrize("last", [1, 2, 5, 6, 7, 8, 100, 127, 200])
@pytest.mark.parametrize("refine", [False, True])
def test_worst_release_of_a_tree_is_found_without_a_search(last, refine):
    tree = TreeSum(last, mu=1.0, refine=refine)
    largest = max(tree.expected_std(t) for t in range(1, last + 1))
    assert tree.expected_std(tree.worst_release()) == pytest.approx(largest, rel=1e-12)


def test_toeplitz_beats_the_tree_at_2_to_the_16():
    last = 2**16
    tree, refined, toeplitz = TreeSum(last, mu=1.0), TreeSum(last, mu=1.0, refine=True), ToeplitzSum(last, mu=1.0)
    worst = {sums: sums.expected_std(sums.worst_release()) for sums in (tree, refined, toeplitz)}
    assert worst[tree] / worst[toeplitz] >= 2.5
    assert worst[refined] < worst[tree]
    assert worst[toeplitz] < worst[refined]
    # Rounding the coefficients to integers costs less than a tenth of a per mille.
    assert worst[toeplitz] == pytest.approx(float(np.sum(square_root_coefficients(last) ** 2)), rel=1e-4)


def test_published_tables_of_the_regression_noise():
    """Off-diagonal noise of a prefix, rows of norm 1, 24,999 leaves, mu = 4.18."""
    common = {"shape": "symmetric", "dimension": 3, "mu": 4.18}
    tree, refined = TreeSum(24_999, **common), TreeSum(24_999, refine=True, **common)
    assert tree.expected_std(tree.worst_release()) == pytest.approx(3.46, abs=0.01)
    assert refined.expected_std(refined.worst_release()) == pytest.approx(2.59, abs=0.01)
    assert ToeplitzSum(24_999, **common).expected_std(24_999) == pytest.approx(1.03, abs=0.01)
    ends = len(doubling_ends(24_999))
    assert BatchSum(**common).expected_std(ends) == pytest.approx(0.93, abs=0.01)


def test_hybrid_error_stays_near_that_of_a_known_horizon():
    """One release before an epoch closes is the worst moment."""
    hybrid = HybridSum(mu=1.0)
    for horizon in (1, 2, 10, 362, 1_022, 8_190, 65_534):
        assert hybrid.expected_std(horizon) <= 1.72 * ToeplitzSum(horizon, mu=1.0).expected_std(horizon)


def test_tree_step_is_the_whole_kernel_a_simulator_needs():
    rng, stack, nodes = np.random.default_rng(0), np.zeros((4, 2)), {}
    for leaf in range(1, 16):
        fresh = rng.standard_normal(2)
        level = tree_step(stack, leaf, fresh)
        nodes[leaf] = fresh
        parts, rest = np.zeros(2), leaf
        while rest:
            parts = parts + nodes[rest]
            rest &= rest - 1
        np.testing.assert_allclose(stack[level], parts, rtol=1e-12)


def test_doubling_ends_cover_every_round_once():
    for rounds in range(1, 200):
        ends = doubling_ends(rounds)
        assert ends[-1] == rounds
        assert all(b > a for a, b in itertools.pairwise(ends))
        assert len(ends) <= rounds.bit_length() + 1
