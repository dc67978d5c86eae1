"""Exponential, permute-and-flip, report-noisy-max: exact laws, exact privacy, extreme scores."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chisquare

from fairveil.errors import InputError, SpecError
from fairveil.privacy.events import BoundedRangeEvent, PureEvent
from fairveil.privacy.mechanisms import Exponential, PermuteAndFlip, ReportNoisyMax
from fairveil.privacy.noise import SecureNoise, SeededNoise, ZeroNoise

KINDS = [Exponential, PermuteAndFlip, ReportNoisyMax]
FIXED = settings(deadline=None, max_examples=100, derandomize=True)
SCORES = np.array([0.0, 1.5, -2.0, 1.0])


def noisy_max_law(scores, scale: float) -> np.ndarray:
    """P(argmax of score + Laplace), by integration on a fine grid (continuous noise has no ties)."""
    x, step = np.linspace(-60 * scale, 60 * scale, 400_001, retstep=True)
    law = []
    for i, own in enumerate(scores):
        density = np.exp(-np.abs(x - own) / scale) / (2 * scale)
        for j, other in enumerate(scores):
            if j != i:
                shifted = (x - other) / scale
                density = density * np.where(
                    shifted < 0, 0.5 * np.exp(-np.abs(shifted)), 1 - 0.5 * np.exp(-np.abs(shifted))
                )
        law.append(density.sum() * step)
    return np.array(law)


def law_of(mechanism, scores) -> np.ndarray:
    if isinstance(mechanism, ReportNoisyMax):
        return noisy_max_law(scores, mechanism._factor * mechanism.sensitivity / mechanism.epsilon)
    return mechanism.probabilities(scores)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("monotone", [False, True])
@pytest.mark.parametrize("epsilon", [0.1, 1.0, 5.0])
def test_picks_follow_the_exact_law(kind, monotone, epsilon):
    mechanism = kind(sensitivity=1.0, epsilon=epsilon, monotone=monotone)
    law = law_of(mechanism, SCORES)
    assert law.sum() == pytest.approx(1.0, abs=1e-6)
    picks = np.bincount(mechanism.releases(SCORES, SeededNoise(5), 100_000), minlength=4)
    common = law * 100_000 > 5
    expected = law[common] / law[common].sum() * picks[common].sum()
    assert chisquare(picks[common], expected).pvalue > 1e-4


@pytest.mark.parametrize("kind", KINDS)
def test_secure_picks_follow_the_same_law(kind):
    mechanism = kind(sensitivity=1.0, epsilon=1.0)
    picks = np.bincount(mechanism.releases(SCORES, SecureNoise(), 4000), minlength=4)
    law = law_of(mechanism, SCORES)
    assert chisquare(picks, law / law.sum() * 4000).pvalue > 1e-9


@pytest.mark.parametrize("kind", [Exponential, PermuteAndFlip])
@pytest.mark.parametrize("monotone", [False, True])
@pytest.mark.parametrize("epsilon", [0.1, 1.0, 5.0])
def test_no_pair_of_neighbours_exceeds_epsilon(kind, monotone, epsilon):
    """Every pair in a box of score vectors whose entries differ by at most one sensitivity."""
    mechanism = kind(sensitivity=1.0, epsilon=epsilon, monotone=monotone)
    worst = 0.0
    for base in product((0.0, 0.5, 2.0), repeat=3):
        for step in product((0.0, 1.0) if monotone else (-1.0, 0.0, 1.0), repeat=3):
            here, there = mechanism.probabilities(base), mechanism.probabilities(np.add(base, step))
            worst = max(worst, np.abs(np.log(here / there)).max())
    assert worst <= epsilon * (1 + 1e-9)
    assert worst >= 0.5 * epsilon


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 5.0])
@pytest.mark.parametrize("monotone", [False, True])
def test_the_exponential_mechanism_has_bounded_range(epsilon, monotone):
    mechanism = Exponential(sensitivity=1.0, epsilon=epsilon, monotone=monotone)
    assert mechanism.event() == BoundedRangeEvent(epsilon)
    for step in product((0.0, 1.0) if monotone else (-1.0, 0.0, 1.0), repeat=3):
        base = np.array([0.0, 0.5, 2.0])
        losses = np.log(mechanism.probabilities(base) / mechanism.probabilities(base + step))
        assert losses.max() - losses.min() <= epsilon * (1 + 1e-9)


@FIXED
@given(st.floats(1e-150, 1e150), st.floats(1e-6, 1e6), st.booleans())
def test_the_scale_covers_the_rounded_sensitivity(sensitivity, epsilon, monotone):
    mechanism = Exponential(sensitivity=sensitivity, epsilon=epsilon, monotone=monotone)
    factor = 1 if monotone else 2
    units = math.ceil(Fraction(sensitivity) * Fraction(2) ** mechanism.bits)
    assert mechanism.scale_units * Fraction(epsilon) >= factor * units
    assert mechanism.scale_units <= float(factor * Fraction(units) / Fraction(epsilon)) * (1 + 1e-5)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("noise", [SecureNoise(), SeededNoise(1), ZeroNoise()], ids=lambda n: type(n).__name__)
def test_extreme_scores_neither_overflow_nor_vanish(kind, noise):
    mechanism = kind(sensitivity=1.0, epsilon=1.0)
    assert mechanism.release([-1e300, 1e9, -math.inf, 0.0], noise) == 1
    assert mechanism.release([1e300, -1e300], noise) == 0
    assert mechanism.release([5e-324], noise) == 0
    tiny = kind(sensitivity=1e-100, epsilon=1.0)
    assert tiny.release([1e-98, 0.0, 2e-97], noise) == 2
    many = mechanism.release(np.append(np.zeros(5000), 1e6), noise)
    assert many == 5000


@pytest.mark.parametrize("kind", KINDS)
def test_selection_without_noise_is_the_maximum(kind):
    assert kind(sensitivity=1.0, epsilon=1e-3).release([0.25, 0.75, 0.5], ZeroNoise()) == 1


@pytest.mark.parametrize("kind", KINDS)
def test_bad_scores_are_refused(kind):
    mechanism = kind(sensitivity=1.0, epsilon=1.0)
    for scores in ([], [1.0, math.nan], [[1.0, 2.0]], 3.0):
        with pytest.raises(InputError, match="scores"):
            mechanism.release(scores, SeededNoise(1))
    for field, wrong in (("epsilon", 0.0), ("sensitivity", math.nan), ("monotone", "yes")):
        with pytest.raises(SpecError) as caught:
            kind(**{"sensitivity": 1.0, "epsilon": 1.0, field: wrong})
        assert caught.value.path.startswith(field)


def test_permute_and_flip_is_never_less_accurate_than_exponential():
    rng = np.random.default_rng(1)
    for _ in range(50):
        scores = rng.normal(0, 3, 5)
        gaps = scores.max() - scores
        loss = [
            (kind(sensitivity=1.0, epsilon=1.0).probabilities(scores) * gaps).sum()
            for kind in (PermuteAndFlip, Exponential)
        ]
        assert loss[0] <= loss[1] + 1e-9


def test_events_of_pure_selections():
    for kind in (PermuteAndFlip, ReportNoisyMax):
        assert kind(sensitivity=1.0, epsilon=0.5).event() == PureEvent(0.5)


def test_agrees_with_the_noisy_max_of_opendp():
    """OpenDP's noisy max adds exponential noise: the law of permute-and-flip. Our law is compared with its draws."""
    import opendp.prelude as dp

    space = dp.vector_domain(dp.atom_domain(T="i64")), dp.linf_distance(T="i64")
    peer = dp.m.make_noisy_max(*space, dp.max_divergence(), scale=2.0)
    scores = [0, 3, -4, 2]
    picks = np.bincount([peer(scores) for _ in range(2000)], minlength=4)
    law = PermuteAndFlip(sensitivity=1.0, epsilon=1.0).probabilities(scores)
    assert peer.map(1) == pytest.approx(1.0, rel=1e-9)
    assert chisquare(picks, law * 2000).pvalue > 1e-9
