"""The Laplace baseline: pure, and intervals of the Laplace law."""

import numpy as np

from fairveil.privacy.noise import SeededNoise
from fairveil.streams import BaselineLaplace


def test_it_is_pure_and_its_intervals_cover_as_they_say():
    releaser = BaselineLaplace(epsilon=1.0, horizon=20_000, interval=0.8)
    promise = releaser.guarantee()
    assert (promise.definition, promise.epsilon, promise.delta) == ("pure", 1.0, 0.0)
    track = releaser.advance(releaser.start(), np.zeros(20_000), SeededNoise(3))
    assert abs(np.mean((track.low <= 0) & (track.high >= 0)) - 0.8) < 0.0125  # 4.4 standard errors
