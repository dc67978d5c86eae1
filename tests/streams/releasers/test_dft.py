"""DFT: the printed and the sound scale, windows, and what the last one still holds."""

import math

import numpy as np
import pytest

from fairveil.privacy.noise import SeededNoise
from fairveil.streams import BaselineLaplace, Dft
from fairveil.streams.releasers.dft import from_coefficients, to_coefficients


def test_windows_of_one_step_are_the_laplace_baseline():
    one = Dft(epsilon=1.0, horizon=50, delay=1, frequencies=1).quote().noise_std
    assert one == pytest.approx(BaselineLaplace(epsilon=1.0, horizon=50).quote().noise_std, rel=1e-3)


def test_the_printed_scale_is_too_small_by_the_root_of_the_length():
    keys = {"epsilon": 1.0, "horizon": 100, "frequencies": 1}
    sound, printed = Dft(**keys), Dft(**keys, variant="printed")
    assert sound.quote().noise_std / printed.quote().noise_std == pytest.approx(math.sqrt(100), rel=1e-3)
    assert sound.guarantee().established
    assert not printed.guarantee().established


@pytest.mark.parametrize("length", [1, 7, 8])
def test_every_frequency_together_is_the_sequence(length):
    values = np.random.default_rng(1).normal(size=length)
    assert from_coefficients(to_coefficients(values, length), length) == pytest.approx(values)


def test_every_step_is_shown_once_and_late():
    releaser = Dft(epsilon=1e6, horizon=20, delay=8, frequencies=5)
    values = 100 + 10 * np.sin(np.arange(20))
    state = releaser.start()
    rows = releaser.advance(state, values, SeededNoise(1)).rows() + releaser.finish(state)
    assert [row.step for row in rows] == list(range(20))
    assert [row.value for row in rows] == pytest.approx(values, abs=0.01)
