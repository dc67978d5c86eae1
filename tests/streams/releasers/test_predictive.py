"""Algorithms 3 and 4 against formulae computed from all values."""

import math

import numpy as np

from fairveil.privacy.noise import SeededNoise
from fairveil.streams import Predictive


def test_running_estimates_are_algorithm_3():
    """The running sums against the formulae computed from all values, step by step."""
    releaser = Predictive(epsilon=1.0, delta=1e-6, horizon=200, weight=0.3)
    values = (1e6 + np.random.default_rng(1).normal(0, 80, 200)).tolist()
    x = releaser.run(releaser.start(), values, SeededNoise(1))[1]
    noise = releaser.noise_in_shown
    y, shown = x.plain, x.value
    for t in range(2, 200):
        past = shown[:t]
        mean = past.mean()
        variance = max(((past - mean) ** 2).sum() / (t - 1) - noise**2, 0.0)
        rho = ((past[:-1] - mean) * (past[1:] - mean)).sum() / ((past[:-1] - mean) ** 2).sum() + 1 / t
        r = min(max(rho, -1.0), 1.0) * variance / (variance + noise**2)
        expected = 0.7 * (mean * (1 - r) + r * past[-1]) + 0.3 * y[t]
        assert math.isclose(shown[t], expected, rel_tol=1e-9)
