"""`private-kalman`: quality on generated data, intervals, seasons, lag and memory."""

import math

import numpy as np
import pytest

import fairveil
from fairveil.privacy.noise import SeededNoise
from fairveil.streams import PrivateKalman


def run_many(releaser, data, runs=4, **more):
    spec = {"task": "stream", "releaser": releaser, "data": data, "runs": runs, "seed": 3, **more}
    return fairveil.run(spec)


def test_intervals_of_a_lag_with_seasons_keep_their_width():
    releaser = PrivateKalman(mu=2.0, horizon=100, lag=2, seasons=(24,))
    values = 100 + 10 * np.sin(np.arange(100) * 2 * np.pi / 24)
    for seed in range(5):
        state = releaser.start()
        track = releaser.advance(state, values, SeededNoise(seed))
        wide = np.array([row.high - row.low for row in track.rows() + releaser.finish(state)])
        assert wide.min() > 0.2 * releaser.quote().noise_std


@pytest.mark.parametrize("rho, noise, limit", [(0.95, 1.0, 0.90), (0.5, 0.3, 1.03), (0.1, 3.0, 1.02)])
def test_private_kalman_told_nothing_against_the_best_weight(rho, noise, limit):
    data = {"name": "ar1", "rows": 2000, "correlation": rho}
    mu = math.sqrt(2000) / noise
    ours = run_many({"name": "private-kalman", "mu": mu}, data)["metrics"]
    best = run_many({"name": "predictive", "mu": mu, "weight": "oracle"}, data)["metrics"]
    assert ours["rmse"] < limit * best["rmse"]
    if noise <= 1:
        assert 0.85 < ours["coverage"] < 0.96


def test_seasons_lag_and_memory_pay():
    season = {"name": "seasonal", "rows": 3000}
    keys = {"name": "private-kalman", "epsilon": 2.0, "delta": 1e-6}
    none = run_many(keys, season, runs=2)["metrics"]["rmse"]
    assert run_many({**keys, "seasons": [24, 168]}, season, runs=2)["metrics"]["rmse"] < 0.8 * none
    slow = {"name": "ar1", "rows": 2000, "correlation": 0.95}
    now = run_many({"name": "private-kalman", "mu": math.sqrt(2000)}, slow)["metrics"]["rmse"]
    assert run_many({"name": "private-kalman", "mu": math.sqrt(2000), "lag": 10}, slow)["metrics"]["rmse"] < 0.88 * now
    slower = {"name": "ar1", "rows": 2000, "correlation": 0.99}
    event = {"name": "private-kalman", "mu": 1.0, "unit": "event"}
    ratio = run_many({**event, "memory": 0.7}, slower)["metrics"]["rmse"] / run_many(event, slower)["metrics"]["rmse"]
    assert ratio < 0.87
