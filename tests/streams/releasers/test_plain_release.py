"""One noisy release a step: public ranges, rounding, and chunks of a long batch."""

import numpy as np

from fairveil.privacy.noise import SeededNoise
from fairveil.streams import BaselineGaussian
from fairveil.streams.releasers import plain_release


def test_values_are_clipped_to_the_public_range_before_noise():
    releaser = BaselineGaussian(epsilon=1.0, delta=1e-6, horizon=3, range=(0.0, 10.0))
    inside = releaser.advance(releaser.start(), np.array([0.0, 10.0, 5.0]), SeededNoise(1))
    beyond = releaser.advance(releaser.start(), np.array([-1e9, 1e9, 5.0]), SeededNoise(1))
    assert np.array_equal(inside.plain, beyond.plain)


def test_what_is_shown_can_be_rounded_and_kept_above_zero():
    keys = {"epsilon": 1.0, "delta": 1e-6, "horizon": 200}
    track = BaselineGaussian(**keys, nonnegative=True, round=True)
    shown = track.advance(track.start(), np.zeros(200), SeededNoise(1))
    plain = BaselineGaussian(**keys)
    exact = plain.advance(plain.start(), np.zeros(200), SeededNoise(1))
    assert np.array_equal(shown.value, np.rint(np.maximum(exact.value, 0.0)))
    assert np.array_equal(shown.low, np.floor(np.maximum(exact.low, 0.0)))
    assert np.array_equal(shown.high, np.ceil(np.maximum(exact.high, 0.0)))


def test_a_batch_longer_than_a_chunk_is_its_chunks_one_after_the_other(monkeypatch):
    releaser, values = BaselineGaussian(epsilon=1.0, delta=1e-6, horizon=100), np.arange(100.0)
    noise, state = SeededNoise(4), releaser.start()
    parts = [releaser.advance(state, values[first : first + 30], noise) for first in range(0, 100, 30)]
    monkeypatch.setattr(plain_release, "CHUNK", 30)
    whole = releaser.advance(releaser.start(), values, SeededNoise(4))
    assert np.array_equal(whole.value, np.concatenate([part.value for part in parts]))
    assert whole.step.tolist() == list(range(100))
