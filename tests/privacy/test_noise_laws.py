"""The laws of all noise sources: exact probabilities, limits, and what a source must never allow."""

from __future__ import annotations

import copy
import math
import os
import pickle
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binom, chisquare, ks_2samp

from fairveil.errors import PrivacyError, SpecError
from fairveil.privacy.noise import MAX_SCALE, Noise, SecureNoise, SeededNoise, ZeroNoise, make_noise

DRAWS = 200_000
FIXED = settings(deadline=None, max_examples=60, derandomize=True)


def fits(drawn, support, weights, level: float) -> bool:
    """Chi-square of integer draws against exact weights; rare cells are pooled, everything off the support fails."""
    law = np.asarray(weights, float) / np.sum(weights)
    counts = np.array([(drawn == point).sum() for point in support])
    if counts.sum() < len(drawn) - 20 * len(drawn) * max(1 - law.sum(), 1e-9) - 20:
        return False
    common = law * len(drawn) >= 20
    observed = np.append(counts[common], len(drawn) - counts[common].sum())
    expected = np.append(law[common], max(1 - law[common].sum(), 1e-12)) * len(drawn)
    if expected[-1] < 1:
        observed, expected = observed[:-1], expected[:-1] * observed[:-1].sum() / expected[:-1].sum()
    return len(expected) < 2 or chisquare(observed, expected).pvalue > level


def sources():
    # secure noise cannot be repeated: its level makes a false alarm a matter of once in a billion runs
    return [pytest.param(SeededNoise(11), 1e-5, id="seeded"), pytest.param(SecureNoise(), 1e-9, id="secure")]


@pytest.mark.parametrize("noise, level", sources())
@pytest.mark.parametrize("scale", [0.2, 1.0, 3.7])
def test_laplace_has_its_exact_law(noise, level, scale):
    draws = DRAWS if noise.simulated else 40_000
    support = np.arange(-60, 61)
    assert fits(noise.laplace(scale, draws), support, np.exp(-np.abs(support) / scale), level)


@pytest.mark.parametrize("noise, level", sources())
@pytest.mark.parametrize("sigma", [0.3, 1.0, 4.5])
def test_gaussian_has_its_exact_law(noise, level, sigma):
    draws = DRAWS if noise.simulated else 30_000
    support = np.arange(-60, 61)
    assert fits(noise.gaussian(sigma, draws), support, np.exp(-0.5 * (support / sigma) ** 2), level)


def test_a_law_test_can_fail():
    support = np.arange(-60, 61)
    assert not fits(SeededNoise(1).gaussian(4.5, DRAWS), support, np.exp(-0.5 * (support / 4.6) ** 2), 1e-5)
    assert not fits(SeededNoise(1).laplace(3.0, DRAWS), support, np.exp(-np.abs(support) / 3.1), 1e-5)


@pytest.mark.parametrize("noise, level", sources())
@pytest.mark.parametrize("high", [1, 2, 3, 10, 97])
def test_uniform_integers_are_uniform(noise, level, high):
    drawn = noise.uniform_integers(high, 50_000)
    assert drawn.min() >= 0
    assert drawn.max() < high
    assert fits(drawn, np.arange(high), np.ones(high), level)


def test_uniform_integers_reach_the_largest_range():
    drawn = SecureNoise().uniform_integers(2**62, 1000)
    assert drawn.max() > 2**61  # fails with probability 2^-1000
    assert drawn.min() >= 0
    top_third = SeededNoise(1).uniform_integers(3 * 2**60, 90_000) // 2**60
    assert fits(top_third, np.arange(3), np.ones(3), 1e-5)


@pytest.mark.parametrize("noise, level", sources())
@pytest.mark.parametrize("numerator, denominator", [(0, 5), (1, 3), (1, 1), (7, 4), (9, 2), (3 * 2**59, 2**61)])
def test_exponential_coins_are_exact(noise, level, numerator, denominator):
    coins = noise.exponential_coins(np.full(60_000, numerator), denominator)
    chance = math.exp(-numerator / denominator)
    assert set(np.unique(coins)) <= {0, 1}
    assert fits(coins, np.arange(2), [1 - chance, chance] if chance < 1 else [0, 1], level)


def test_exponential_coins_take_a_different_exponent_each_and_never_overflow():
    exponents = np.tile([0, 1, 2**62], 30_000)
    coins = SeededNoise(4).exponential_coins(exponents, 1).reshape(-1, 3).mean(0)
    assert coins[0] == 1
    assert abs(coins[1] - math.exp(-1)) < 0.012  # four standard deviations
    assert coins[2] == 0


@pytest.mark.parametrize("noise, level", sources())
@pytest.mark.parametrize("coins", [0, 1, 7, 32, 70, 200])
def test_binomial_counts_fair_coins(noise, level, coins):
    support = np.arange(coins + 1)
    assert fits(noise.binomial(coins, 40_000), support, binom.pmf(support, coins, 0.5), level)


@pytest.mark.parametrize("noise, level", sources())
def test_selection_has_the_softmin_law(noise, level):
    gaps = np.array([3, 0, 1, 10, 2])
    for size in (1, 30_000):
        drawn = noise.select(gaps, 2, size)
        assert drawn.shape == (size,)
    assert fits(drawn, np.arange(5), np.exp(-gaps / 2), level)


@pytest.mark.parametrize("sigma", [1023.0, 1024.0, 2.0**30])
def test_wide_gaussians_have_the_right_moments(sigma):
    drawn = SeededNoise(5).gaussian(sigma, DRAWS).astype(float)
    assert abs(drawn.mean()) < 5 * sigma / math.sqrt(DRAWS)
    assert abs(drawn.std() / sigma - 1) < 5 / math.sqrt(2 * DRAWS)
    inside = (np.abs(drawn) < sigma).mean()
    assert abs(inside - 0.6827) < 5 * 0.4654 / math.sqrt(DRAWS)


@pytest.mark.parametrize("scale", [2.0**20, 2.0**40])
def test_secure_draws_have_wide_band_moments(scale):
    laplace = SecureNoise().laplace(scale, 20_000).astype(float)
    gaussian = SecureNoise().gaussian(scale, 20_000).astype(float)
    # eight standard deviations: a sound source fails once in 10^14 runs
    assert abs(laplace.mean()) < 8 * math.sqrt(2) * scale / math.sqrt(20_000)
    assert abs(np.abs(laplace).mean() / scale - 1) < 8 / math.sqrt(20_000)
    assert abs(gaussian.mean()) < 8 * scale / math.sqrt(20_000)
    assert abs(gaussian.std() / scale - 1) < 8 / math.sqrt(2 * 20_000)


@FIXED
@given(st.floats(min_value=2.0**-20, max_value=MAX_SCALE), st.integers(0, 20))
def test_every_allowed_scale_gives_integers_without_overflow(scale, size):
    noise = SeededNoise(0)
    for drawn in (noise.laplace(scale, size), noise.gaussian(scale, size)):
        assert drawn.dtype == np.int64
        assert drawn.shape == (size,)
        assert (np.abs(drawn.astype(float)) <= 60 * scale + 1).all()


@pytest.mark.parametrize("scale", [2.0**-20, 2.0**-6, 1 / 40])
def test_tiny_scales_give_zero(scale):
    assert not SeededNoise(0).laplace(scale, 10_000).any()
    assert not SeededNoise(0).gaussian(scale, 10_000).any()
    assert not SecureNoise().laplace(scale, 100).any()
    assert not SecureNoise().gaussian(scale, 100).any()


@pytest.mark.parametrize("source", [SecureNoise(), SeededNoise(0), ZeroNoise()], ids=lambda s: type(s).__name__)
@pytest.mark.parametrize(
    "scale", [0, 0.0, -1.0, math.nan, math.inf, -math.inf, 5e-324, 2.0**-21, 2.0**53, "1", None, True, 1j]
)
def test_bad_scales_are_refused(source, scale):
    for draw in (source.laplace, source.gaussian):
        with pytest.raises(PrivacyError, match="scale"):
            draw(scale)


@pytest.mark.parametrize("source", [SecureNoise(), SeededNoise(0), ZeroNoise()], ids=lambda s: type(s).__name__)
def test_bad_ranges_and_coins_are_refused(source):
    for high in (0, -1, 2**62 + 1, 1.5, True, "3"):
        with pytest.raises(PrivacyError, match="range"):
            source.uniform_integers(high)
    for numerator, denominator in ((2, 1), (-1, 2), (1, 0)):
        with pytest.raises(PrivacyError, match="probability"):
            source.bernoulli(numerator, denominator)
    for coins in (-1, 2**33, 1.0, True):
        with pytest.raises(PrivacyError, match="coins"):
            source.binomial(coins)


def test_bad_exponents_and_gaps_are_refused():
    for noise in (SecureNoise(), SeededNoise(0)):
        for numerators, denominator in (([-1], 2), ([1], 0), ([[1]], 2)):
            with pytest.raises(PrivacyError, match="exponent"):
                noise.exponential_coins(numerators, denominator)
        for gaps in ([], [1, 2], [-1, 0]):
            with pytest.raises(PrivacyError):
                noise.select(gaps, 2)


@pytest.mark.parametrize("source", [SecureNoise(), SeededNoise(0), ZeroNoise()], ids=lambda s: type(s).__name__)
def test_no_source_is_copied_or_pickled_or_changed(source):
    for attempt in (pickle.dumps, copy.copy, copy.deepcopy):
        with pytest.raises(PrivacyError, match="pickled or copied"):
            attempt(source)
    with pytest.raises(AttributeError):
        source.protects = True
    with pytest.raises(AttributeError):
        source.simulated = False


def test_only_secure_noise_protects():
    assert (SecureNoise.protects, SecureNoise.simulated) == (True, False)
    for kind in (Noise, SeededNoise, ZeroNoise):
        assert (kind.protects, kind.simulated) == (False, True)
    with pytest.raises(TypeError):
        SecureNoise(1)  # type: ignore[call-arg]
    with pytest.raises(TypeError):
        SecureNoise(SeededNoise(1))  # type: ignore[call-arg]


def test_make_noise_knows_two_words():
    assert isinstance(make_noise("secure", 1), SecureNoise)
    assert isinstance(make_noise("seeded", 1, "run", 2), SeededNoise)
    for word in ("Secure", "zero", "", None):
        with pytest.raises(SpecError, match="noise"):
            make_noise(word, 1)  # type: ignore[arg-type]


def test_seeded_noise_repeats_and_paths_are_independent():
    first = SeededNoise(7, "run", 1).gaussian(2.0**30, 4)
    assert (first == SeededNoise(7, "run", 1).gaussian(2.0**30, 4)).all()
    assert (first != SeededNoise(7, "run", 2).gaussian(2.0**30, 4)).any()
    assert (first != SeededNoise(8, "run", 1).gaussian(2.0**30, 4)).any()


def test_zero_noise_is_zero():
    zero = ZeroNoise()
    assert not zero.laplace(2.0**20, 5).any()
    assert not zero.gaussian(2.0**20, 5).any()
    assert zero.binomial(10, 2).tolist() == [5, 5]
    assert zero.select([4, 0, 2], 1, 2).tolist() == [1, 1]
    assert zero.exponential_coins([0, 1], 5).tolist() == [1, 0]


def _draws(noise: SecureNoise) -> list[int]:
    parts = [noise.laplace(2.0**50, 4), noise.gaussian(2.0**50, 4), noise.uniform_integers(2**62, 4)]
    return [int(value) for part in parts for value in part]


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_forked_children_draw_their_own_values():
    noise = SecureNoise()
    _draws(noise)  # warm: whatever state the samplers keep would now be inherited
    children = []
    for _ in range(3):
        reader, writer = os.pipe()
        child = os.fork()
        if child == 0:  # pragma: no cover  (runs in the child)
            os.write(writer, repr(_draws(noise)).encode())
            os._exit(0)
        os.close(writer)
        os.waitpid(child, 0)
        with os.fdopen(reader) as pipe:
            children.append(eval(pipe.read()))
    seen = [value for values in [*children, _draws(noise)] for value in values]
    assert len(seen) == 48
    assert len(set(seen)) == 48  # two equal draws out of 2^50 values: once in 10^12 runs


def test_threads_draw_their_own_values():
    noise = SecureNoise()
    with ThreadPoolExecutor(4) as pool:
        seen = [value for values in pool.map(lambda _: _draws(noise), range(8)) for value in values]
    assert len(set(seen)) == len(seen)


@pytest.mark.parametrize("kind", [np.int16, np.int32, np.int64, np.uint64])
@pytest.mark.parametrize("high", [3, 4, 2**14])
def test_uniform_integers_take_numpy_integers(kind, high):
    """The product with 2^64 overflowed: another law, an error, or (for powers of two) a loop without end."""
    drawn = SecureNoise().uniform_integers(kind(high), 4000)
    assert drawn.min() >= 0
    assert drawn.max() < high
    assert abs(drawn.mean() / (high - 1) - 0.5) < 0.05


@pytest.mark.parametrize("sigma", [1024.0, 2.0**26, 2.0**45 / 3])
def test_many_gaussian_draws_are_those_of_few(sigma):
    """A compiled loop draws them from some size on: the same integers, from the same place of the stream."""
    few, many, levels = SeededNoise(3), SeededNoise(3), SeededNoise(3)
    expected = np.concatenate([few.gaussian(sigma, 5000) for _ in range(4)])
    np.testing.assert_array_equal(many.gaussian(sigma, 20_000), expected)
    np.testing.assert_array_equal(levels.gaussians(np.broadcast_to(sigma, (2, 100, 100))).ravel(), expected)
    assert few.gaussian(sigma) == many.gaussian(sigma) == levels.gaussian(sigma)


@pytest.mark.parametrize("scale", [0.7, 12.0, 2.0**20])
def test_compiled_draws_have_the_law_of_the_served_draw(scale):
    """Against the discrete Laplace law itself, and bit for bit against seeded draws made one at a time."""
    from fairveil.privacy.noise import compiled_laplace, laplace_parameter

    source, success = SeededNoise(5), laplace_parameter(scale)
    drawn = np.array([compiled_laplace(source.stream, success) for _ in range(40_000)])
    one_by_one = SeededNoise(5)
    assert drawn[:200].tolist() == [int(one_by_one.laplace(scale)[0]) for _ in range(200)]
    many, ratio = SeededNoise(6).laplace(scale, 40_000), np.exp(-1.0 / scale)
    std = np.sqrt(2 * ratio) / (1 - ratio)
    for values in (drawn, many):
        assert abs(values.mean()) < 4 * std / 200
        assert abs(values.std() / std - 1) < 0.04
        assert abs((values == 0).mean() - (1 - ratio) / (1 + ratio)) < 4 * np.sqrt(0.25 / 40_000)
    assert ks_2samp(drawn, many).pvalue > 1e-4
