"""Keys of a stream spec: what is refused, where, without a value of the data; what the metrics say."""

import math
import warnings

import pytest

import fairveil
from fairveil.errors import FairveilError, SpecError
from fairveil.privacy.conversions import gdp_mu
from fairveil.streams import theory

BUDGET = {"epsilon": 1.0, "delta": 1e-7}
FOUR = {"name": "values", "values": [1.0, 2.0, 3.0, 4.0]}


def run(releaser, data=FOUR, **keys):
    return fairveil.run({"task": "stream", "releaser": releaser, "data": data, **keys})


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


@pytest.mark.parametrize("bad", ["17,25", 1725.5e308, True, [1725.0]])
def test_a_value_of_the_data_is_never_repeated(bad):
    with pytest.raises(FairveilError) as problem:
        run({"name": "baseline-gaussian", **BUDGET}, {"name": "values", "values": [1.0, bad]})
    assert problem.value.path.startswith("data.values")
    assert problem.value.given is None
    assert "17" not in str(problem.value)


def test_noise_std_is_that_of_the_last_step():
    mu = gdp_mu(1.0, 1e-7)
    data = {"name": "ar1", "rows": 150}
    power = {"kind": "power", "power": 1.1, "offset": 0}
    plain = {"name": "baseline-gaussian", **BUDGET, "horizon": None}
    first = math.sqrt(sum(t**-1.1 for t in range(1, 100_000)) + 10 * 99_999.5**-0.1) / mu
    assert run({**plain, "schedule": power}, data)["metrics"]["noise_std"] == pytest.approx(first * 150**0.55, rel=1e-3)
    window = {"name": "predictive", **BUDGET, "weight": 0.1, "unit": "window", "window": 3}
    assert run(window, data)["metrics"]["noise_std"] == pytest.approx(math.sqrt(2.01) / mu / 0.1, rel=1e-3)


@pytest.mark.parametrize("name", ["ba", "bd"])
def test_a_window_is_whom_publishing_releasers_protect(name):
    result = run({"name": name, "epsilon": 1.0, "window": 2})
    assert result["spec"]["releaser"]["unit"] == "window"
    assert "any 2 successive steps" in result["guarantee"]["unit"]


def test_values_too_large_to_square_have_no_error_and_no_warning():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        result = run({"name": "baseline-gaussian", **BUDGET}, {"name": "values", "values": [1e200, 1.0]}, runs=2)
    assert result["metrics"]["rmse"] is None


def test_theorem_9_by_its_own_letters():
    assert theory.theorem9_epsilon(m=267_187, T=100, w=1.0, delta=1e-7) == pytest.approx(1.0, rel=1e-3)
