"""The Gaussian baseline shows the plain release; where a value is missing, the last one."""

import numpy as np

from fairveil.privacy.noise import SeededNoise
from fairveil.streams import BaselineGaussian


def test_the_plain_release_is_shown_and_missing_steps_show_the_last_one():
    releaser = BaselineGaussian(epsilon=1.0, delta=1e-6, horizon=5)
    track = releaser.advance(releaser.start(), np.array([np.nan, 7.0, np.nan, 9.0]), SeededNoise(3))
    assert np.allclose(track.value, [np.nan, track.plain[1], track.plain[1], track.plain[3]], equal_nan=True)
    assert np.allclose(track.high - track.value, [np.nan, *[releaser.quantile * releaser.plan.std] * 3], equal_nan=True)
    assert [row.status for row in track.rows()] == ["missing", "released", "missing", "released"]


def test_intervals_cover_as_they_say():
    releaser = BaselineGaussian(epsilon=1.0, delta=1e-6, horizon=20_000, interval=0.8)
    track = releaser.advance(releaser.start(), np.zeros(20_000), SeededNoise(3))
    assert abs(np.mean((track.low <= 0) & (track.high >= 0)) - 0.8) < 0.0125  # 4.4 standard errors
