"""Schedules never spend more than their bound, whichever steps a unit touches."""

import math

import numpy as np
import pytest

from fairveil.streams import PrivateKalman
from fairveil.streams.budget_shares import scheduled


@pytest.mark.parametrize("table", [{"kind": "geometric", "ratio": 0.999}, {"kind": "power", "power": 1.1, "offset": 3}])
def test_endless_schedules_never_spend_more_than_their_bound(table):
    shares = scheduled(table, None)
    assert sum(float(shares.at(start, 10**6).sum()) for start in range(0, 10**7, 10**6)) < shares.total


@pytest.mark.parametrize("first", [1e-4, 0.001, 0.0066, 0.01, 0.3])
@pytest.mark.parametrize("participation", [None, 60, 101, 150])
@pytest.mark.parametrize("neighbours", ["replace", "add-remove"])
def test_whoever_avoids_the_first_release_meets_no_more_than_the_budget(first, participation, neighbours):
    """The exact mu of the worst choice of steps."""
    releaser = PrivateKalman(
        mu=0.5, horizon=400, participation=participation, first=first, neighbours=neighbours, starts=None
    )
    losses = 1 / (releaser.plan.std**2 * releaser.plan.relative_variance(0, 400))
    worst = math.sqrt(np.sort(losses)[-releaser.touched :].sum())
    assert 0.4999 < worst <= 0.5 * (1 + 1e-9)
