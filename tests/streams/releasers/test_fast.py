"""FAST: the filter against its formulae, and samples that are never exceeded."""

import numpy as np
import pytest

from fairveil.errors import PrivacyError
from fairveil.privacy.noise import SeededNoise
from fairveil.streams import Fast
from fairveil.streams.filters.kernel import Memory, Signal
from fairveil.streams.protocol import COUNTERS
from fairveil.streams.releasers.fast import follow_walk


def test_every_step_is_the_random_walk_filter():
    releaser = Fast(epsilon=1.0, horizon=60, process_variance=900.0)
    track = releaser.advance(releaser.start(), np.arange(60.0), SeededNoise(2))
    r = releaser.plan.std**2
    value, variance = track.plain[0], r
    for t in range(1, 60):
        prior = variance + 900.0
        gain = prior / (prior + r)
        value, variance = value + gain * (track.plain[t] - value), (1 - gain) * prior
        assert track.value[t] == pytest.approx(value, rel=1e-9)
        assert track.high[t] - track.value[t] == pytest.approx(releaser.quantile * variance**0.5, rel=1e-9)


def test_no_more_steps_are_released_than_samples_are_paid_for():
    releaser = Fast(epsilon=1.0, horizon=500, samples=20)
    track = releaser.advance(releaser.start(), 100 + np.arange(500.0), SeededNoise(2))
    assert np.count_nonzero(~np.isnan(track.plain)) == 20
    assert releaser.quote().noise_std == Fast(epsilon=1.0, horizon=20).quote().noise_std


def test_an_oracle_releases_nothing():
    releaser = Fast(epsilon=1.0, horizon=5, process_variance="oracle")
    with pytest.raises(PrivacyError, match="oracle"):
        releaser.advance(releaser.start(), np.zeros(5), SeededNoise(1))


def test_only_the_ratio_of_the_two_variances_counts():
    """So the thesis' choice of the variance that stands for Laplace noise is lost in its search over the other one."""
    rng = np.random.default_rng(4)
    values, seen = rng.normal(size=200), np.ones(200)
    shown = []
    for factor in (1.0, 0.5, 20.0):
        out = np.empty((200, 2))
        memory = Memory(
            np.zeros(1, np.int64),
            np.array([0.3 * factor, 0.0, 1.0]),
            np.zeros(9),
            np.zeros(COUNTERS, np.int64),
            np.empty(0),
        )
        follow_walk(memory, Signal(values, np.full(200, factor), seen, out))
        shown.append(out[:, 0])
    assert shown[1] == pytest.approx(shown[0], rel=1e-9)
    assert shown[2] == pytest.approx(shown[0], rel=1e-9)
