"""Keys of releasers: what is refused, and where."""

import math

import pytest

from fairveil import registry
from fairveil.errors import FairveilError, SpecError

BAD = {
    "weight 0": ({"name": "predictive", "weight": 0.0, "horizon": 5}, "weight"),
    "weight above 1": ({"name": "predictive", "weight": 1.5, "horizon": 5}, "weight"),
    "weights of another length": ({"name": "predictive", "weight": [0.5, 0.5], "horizon": 5}, "weight"),
    "known without std": ({"name": "predictive", "known": {"mean": 0.0}, "horizon": 5}, "known"),
    "no window": ({"name": "private-kalman", "unit": "window"}, "window"),
    "no horizon": ({"name": "private-kalman"}, "horizon"),
    "schedule": ({"name": "private-kalman", "schedule": {"kind": "linear"}}, "schedule"),
    "ratio": ({"name": "private-kalman", "schedule": {"kind": "geometric", "ratio": 1.0}}, "schedule"),
    "period": ({"name": "private-kalman", "seasons": [1], "horizon": 5}, "seasons"),
    "half period": ({"name": "private-kalman", "seasons": [2.5], "horizon": 5}, "seasons"),
    "lag": ({"name": "private-kalman", "lag": -1, "horizon": 5}, "lag"),
    "fractional sensitivity": (
        {"name": "private-kalman", "law": "discrete-gaussian", "sensitivity": 0.5, "horizon": 5},
        "sensitivity",
    ),
    "more samples than steps": ({"name": "fast", "samples": 9, "horizon": 5}, "samples"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_keys_name_their_path(case):
    table, path = BAD[case]
    budget = {"epsilon": 1.0} if table["name"] in ("fast",) else {"epsilon": 1.0, "delta": 1e-6}
    with pytest.raises(SpecError) as caught:
        registry.build("releaser", {**budget, **table}, "releaser")
    assert path in caught.value.path


@pytest.mark.parametrize("value", [0.0, -1.0, math.nan, math.inf, 1e-310, "1"])
@pytest.mark.parametrize("key", ["epsilon", "delta", "mu", "rho", "sensitivity"])
def test_bad_numbers_fail_closed(key, value):
    table = {"name": "private-kalman", "horizon": 5, "epsilon": 1.0, "delta": 1e-6, key: value}
    if key in ("mu", "rho"):
        table |= {"epsilon": None, "delta": None}
    with pytest.raises(FairveilError):
        registry.build("releaser", table, "releaser")
