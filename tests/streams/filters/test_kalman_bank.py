"""The bank of filters, compiled and from the cache."""

import os
import subprocess
import sys

import numpy as np
import pytest

from fairveil.streams.filters.experts import ExpertModels
from fairveil.streams.filters.kalman_bank import BankShape, exponentials, filter_bank, logarithms
from fairveil.streams.filters.kernel import Memory, Signal


def test_code_that_was_just_compiled_and_code_from_the_cache_agree_to_the_last_bit(tmp_path):
    script = """
import numpy as np
from fairveil.privacy.noise import SeededNoise
from fairveil.streams import PrivateKalman
releaser = PrivateKalman(epsilon=1.0, delta=1e-7, horizon=40)
values = np.where(np.arange(40) == 7, np.nan, 100.0 + np.arange(40) % 7)
for seed in range(40):
    print(releaser.advance(releaser.start(), values, SeededNoise(seed)).value.tobytes().hex())
"""
    place = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)}
    made = [
        subprocess.run([sys.executable, "-c", script], env=place, capture_output=True, check=True) for _ in range(2)
    ]
    assert made[0].stdout == made[1].stdout
    assert len(made[0].stdout) > 1000


def test_logarithm_and_exponential_are_exact_to_a_billionth():
    values = np.geomspace(1e-12, 1e12, 4001)
    copy, out, work = values.copy(), np.empty_like(values), np.empty_like(values)
    logarithms(copy, copy.view(np.int64), out)
    assert np.abs(out - np.log(values)).max() < 1e-9
    logs = np.linspace(-79.0, 0.0, 4001)
    exponentials(logs - 3.0, -3.0, out, work, work.view(np.int64))
    assert np.abs(out / np.exp(logs) - 1).max() < 1e-9


def test_one_expert_is_the_textbook_filter():
    """AR(1) about a level: the bank's rows against the matrix form, with a missing step."""
    shape = BankShape(1, 0, 0, 0, np.zeros(0, np.int64))
    rho, q, level = 0.9, 0.19, 1e-3
    shared = np.array([0.999, *ExpertModels(rho, q, level, first=1.0)])
    memory = Memory(shape.packed(), shared, np.zeros(6), np.zeros(5, np.int64), np.empty(11))
    v, seen = np.array([3.0, 4.0, 0.0, 2.5, 5.0]), np.array([1.0, 1.0, 0.0, 1.0, 1.0])
    out = np.empty((5, 2))
    filter_bank(memory, Signal(v, np.ones(5), seen, out))
    state, cover, move = np.array([0.0, 3.0]), np.diag([1.0, 1e4]), np.diag([rho, 1.0])
    see = np.ones(2)
    for t in range(5):
        state, cover = move @ state, move @ cover @ move.T + np.diag([q, level])
        gain = seen[t] * cover @ see / (see @ cover @ see + 1.0)
        state = state + gain * (v[t] - see @ state)
        cover = cover - np.outer(gain, see @ cover)
        assert out[t, 0] == pytest.approx(see @ state, rel=1e-9)
        assert out[t, 1] == pytest.approx(see @ cover @ see, rel=1e-7)
