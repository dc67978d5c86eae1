"""The `stream` task: keys, metrics, oracles, pairing."""

import math
import warnings

import pytest

import fairveil
from fairveil.errors import InputError, SpecError
from fairveil.privacy.conversions import gdp_mu

FOUR = {"name": "values", "values": [1.0, 2.0, 3.0, 4.0]}
BUDGET = {"epsilon": 1.0, "delta": 1e-7}


def run(releaser, data=FOUR, **keys):
    return fairveil.run({"task": "stream", "releaser": releaser, "data": data, **keys})


def run_many(releaser, data, runs=4, **more):
    spec = {"task": "stream", "releaser": releaser, "data": data, "runs": runs, "seed": 3, **more}
    return fairveil.run(spec)


@pytest.mark.parametrize(
    "name, keys, path",
    [
        ("predictive", {"weight": 1.5}, "releaser.weight"),
        ("predictive", {"weight": [0.5, 0.5, 0.5, 2.0]}, "releaser.weight.3"),
        ("private-kalman", {"seasons": [2.5]}, "releaser.seasons.0"),
        ("private-kalman", {"seasons": 7}, "releaser.seasons"),
        ("baseline-gaussian", {"window": 3}, "releaser.window"),
        ("baseline-gaussian", {"range": [0.0, 5.0], "sensitivity": 2.0}, "releaser.sensitivity"),
        ("baseline-gaussian", {"epsilon": None, "delta": None, "rho": 1e-320}, "releaser.rho"),
        ("baseline-gaussian", {"epsilon": None, "delta": None, "mu": 1e-320}, "releaser.mu"),
    ],
)
def test_refused_where_the_key_is(name, keys, path):
    with pytest.raises(SpecError) as problem:
        run({"name": name, **BUDGET, **keys})
    assert problem.value.path == path


def test_noise_std_is_that_of_the_last_step():
    mu = gdp_mu(1.0, 1e-7)
    data = {"name": "ar1", "rows": 150}
    power = {"kind": "power", "power": 1.1, "offset": 0}
    plain = {"name": "baseline-gaussian", **BUDGET, "horizon": None}
    first = math.sqrt(sum(t**-1.1 for t in range(1, 100_000)) + 10 * 99_999.5**-0.1) / mu
    assert run({**plain, "schedule": power}, data)["metrics"]["noise_std"] == pytest.approx(first * 150**0.55, rel=1e-3)
    window = {"name": "predictive", **BUDGET, "weight": 0.1, "unit": "window", "window": 3}
    assert run(window, data)["metrics"]["noise_std"] == pytest.approx(math.sqrt(2.01) / mu / 0.1, rel=1e-3)


def test_values_that_the_grid_cannot_carry_are_refused_without_a_warning_and_without_the_value():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(InputError, match="larger than the grid can carry") as refused:
            run({"name": "baseline-gaussian", **BUDGET}, {"name": "values", "values": [1e200, 1.0]}, runs=2)
    assert "e+200" not in str(refused.value)


def test_the_task_measures_and_says_that_it_reads_data():
    result = run_many(
        {"name": "private-kalman", "epsilon": 1.0, "delta": 1e-6}, {"name": "values", "values": [1.0, None, 2.0]}
    )
    metrics = result["metrics"]
    assert metrics["steps"] == 3
    assert metrics["releases"] == 2
    assert "raw data" in metrics["note"]
    assert result["meta"]["simulated"]
    assert set(result["series"]) == {"released", "plain", "true", "error"}
    assert metrics["spent"]["epsilon"] == 1.0
    known = {"mean": 0.0, "std": 1.0, "correlation": 0.9}
    told = run_many(
        {"name": "predictive", "mu": 30.0, "weight": 0.3, "known": known},
        {"name": "ar1", "rows": 900, "correlation": 0.9},
    )
    assert told["metrics"]["rmse"] == pytest.approx(told["metrics"]["expected_rmse"], rel=0.05)
    assert told["metrics"]["theorem10_rmse"] < told["metrics"]["expected_rmse"]


def test_equal_seeds_are_paired_and_oracles_are_marked():
    data = {"name": "ar1", "rows": 300, "correlation": 0.9}
    plain = run_many({"name": "baseline-gaussian", "mu": 10.0}, data)
    best = run_many({"name": "predictive", "mu": 10.0, "weight": "oracle"}, data)
    assert plain["series"]["true"] == best["series"]["true"]
    assert not best["guarantee"]["established"]
    assert best["metrics"]["oracle"]["weight"] < 1
    assert best["metrics"]["rmse"] < plain["metrics"]["rmse"]
