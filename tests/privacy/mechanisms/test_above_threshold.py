"""Above-threshold: the exact law of the stopping time, its privacy, and the life of an instance."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import chisquare

from fairveil.errors import HorizonError, InputError, SpecError
from fairveil.privacy.events import PureEvent
from fairveil.privacy.mechanisms import AboveThreshold
from fairveil.privacy.noise import SecureNoise, SeededNoise, ZeroNoise

UNIT = 8
"""Lattice points per sensitivity in exact calculations."""


def stopping_law(queries, threshold_scale: float, query_scale: float) -> np.ndarray:
    """Exact law of the stopping time on the integers for Laplace noise of these scales (in lattice units)."""
    z = np.arange(-int(45 * threshold_scale), int(45 * threshold_scale) + 1)
    weights = np.exp(-np.abs(z) / threshold_scale)
    alive = weights / weights.sum()
    ratio = math.exp(-1 / query_scale)
    law = []
    for query in queries:
        gap = z - query  # above when the noise is at least this
        tail = ratio ** np.abs(gap) / (1 + ratio)
        above = np.where(gap > 0, tail, 1 - tail * ratio)
        law.append((alive * above).sum())
        alive = alive * (1 - above)
    return np.append(law, alive.sum())


def scales(mechanism: AboveThreshold) -> tuple[float, float]:
    unit = math.ldexp(mechanism.sensitivity, mechanism.bits) / UNIT
    return mechanism.threshold_scale / unit, mechanism.query_scale / unit


@pytest.mark.parametrize("monotone", [False, True])
@pytest.mark.parametrize("epsilon", [0.1, 1.0, 5.0])
def test_stopping_times_follow_the_exact_law(monotone, epsilon):
    mechanism = AboveThreshold(sensitivity=1.0, epsilon=epsilon, threshold=2.0, monotone=monotone)
    queries = np.array([0.0, 1.0, -3.0, 2.0, 4.0])
    law = stopping_law(((queries - 2.0) * 512).astype(int), *(64 * scale for scale in scales(mechanism)))
    stops = np.bincount(mechanism.releases(queries, SeededNoise(3), 100_000), minlength=6)
    assert chisquare(stops, law / law.sum() * 100_000).pvalue > 1e-4


@pytest.mark.parametrize("epsilon", [0.5, 1.0, 5.0])
def test_monotone_streams_cost_at_most_epsilon(epsilon):
    """Random, plateau and ramp streams; the neighbour is higher by at most one sensitivity from some point on."""
    mechanism = AboveThreshold(sensitivity=1.0, epsilon=epsilon, threshold=0.0, monotone=True)
    rng = np.random.default_rng(1)
    worst = 0.0
    for trial in range(60):
        length = int(rng.integers(1, 12))
        base = [rng.integers(-30, 30, length), np.full(length, rng.integers(-10, 10)), np.arange(length) * 4 - 20][
            trial % 3
        ]
        rise = rng.integers(0, UNIT + 1, length) if trial % 2 else np.full(length, UNIT)
        rise[: rng.integers(0, length)] = 0
        if trial % 4 == 0:
            rise[-1] = 0
        here, there = (stopping_law(stream, *scales(mechanism)) for stream in (base, base + rise))
        worst = max(worst, np.abs(np.log(here / there)).max())
    assert worst <= epsilon * (1 + 1e-9)
    assert worst > 0.6 * epsilon


@pytest.mark.parametrize("epsilon", [0.5, 1.0, 5.0])
def test_arbitrary_streams_cost_at_most_epsilon(epsilon):
    mechanism = AboveThreshold(sensitivity=1.0, epsilon=epsilon, threshold=0.0)
    rng = np.random.default_rng(2)
    worst = 0.0
    for trial in range(60):
        length = int(rng.integers(1, 20))
        base = rng.integers(-30, 30, length) if trial % 2 else np.full(length, rng.integers(-10, 10))
        change = rng.integers(-UNIT, UNIT + 1, length) if trial % 3 else np.append(np.full(length - 1, UNIT), -UNIT)
        here, there = (stopping_law(stream, *scales(mechanism)) for stream in (base, base + change))
        worst = max(worst, np.abs(np.log(here / there)).max())
    assert worst <= epsilon * (1 + 1e-9)
    assert worst > 0.5 * epsilon


def test_the_monotone_scales_would_be_too_small_for_arbitrary_streams():
    mechanism = AboveThreshold(sensitivity=1.0, epsilon=1.0, threshold=0.0, monotone=True)
    base = np.full(40, -12)
    change = np.append(np.full(39, UNIT), -UNIT)
    here, there = (stopping_law(stream, *scales(mechanism)) for stream in (base, base + change))
    assert np.abs(np.log(here / there)).max() > 1.2


def test_asking_one_by_one_equals_one_release():
    mechanism = AboveThreshold(sensitivity=1.0, epsilon=1.0, threshold=3.0)
    queries = [0.0, 2.5, 1.0, 3.0, 9.0, 50.0]
    stops = []
    for seed in range(1500):
        noise = SeededNoise(seed)
        state, asked = mechanism.start(noise), 0
        for query in queries:
            before = {name: array.copy() for name, array in state.items()}
            after, above = mechanism.ask(state, query, noise)
            assert all((state[name] == before[name]).all() for name in state)
            state, asked = after, asked + 1
            if above:
                break
        stops.append(asked - 1)
    released = np.bincount(mechanism.releases(queries, SeededNoise(1), 100_000), minlength=6)[:6] / 100_000
    assert np.abs(np.bincount(stops, minlength=6) / 1500 - released).max() < 5 * 0.5 / math.sqrt(1500)


def test_an_instance_answers_yes_once():
    mechanism = AboveThreshold(sensitivity=1.0, epsilon=1.0, threshold=1.0)
    state = mechanism.start(ZeroNoise())
    state, above = mechanism.ask(state, 0.5, ZeroNoise())
    assert not above
    state, above = mechanism.ask(state, 1.0, ZeroNoise())
    assert above
    with pytest.raises(HorizonError, match="passed"):
        mechanism.ask(state, 2.0, ZeroNoise())


def test_without_noise_it_is_the_first_crossing():
    mechanism = AboveThreshold(sensitivity=1.0, epsilon=1e-3, threshold=2.0)
    assert mechanism.release([0.0, 1.9, 2.0, 0.0], ZeroNoise()) == 2
    assert mechanism.release([0.0, 1.0], ZeroNoise()) == 2  # none
    assert 0 <= mechanism.release([0.0, 1e300, -1e300], SecureNoise()) <= 1
    assert mechanism.event() == PureEvent(1e-3)


def test_bad_input_is_refused():
    mechanism = AboveThreshold(sensitivity=1.0, epsilon=1.0, threshold=2.0)
    for bad in ([], [math.nan], [[1.0]]):
        with pytest.raises(InputError):
            mechanism.release(bad, SeededNoise(1))
    with pytest.raises(InputError):
        mechanism.ask(mechanism.start(SeededNoise(1)), math.nan, SeededNoise(1))
    for field, wrong in (("threshold", math.nan), ("threshold", "2"), ("epsilon", -1.0), ("sensitivity", 0.0)):
        with pytest.raises(SpecError) as caught:
            AboveThreshold(**{"sensitivity": 1.0, "epsilon": 1.0, "threshold": 2.0, field: wrong})
        assert caught.value.path.startswith(field)
