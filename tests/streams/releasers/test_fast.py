"""FAST: the filter against its formulae, and samples that are never exceeded."""

import numpy as np
import pytest

from fairveil.errors import PrivacyError
from fairveil.privacy.noise import SeededNoise
from fairveil.streams import Fast


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
