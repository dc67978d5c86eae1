"""Noise of sums is computed draw by draw: enough for the worst row, and not a root of two less."""

from __future__ import annotations

import math

import numpy as np
import pytest

from fairveil.errors import ContractError
from fairveil.privacy.histograms.histogram import Histogram
from fairveil.privacy.sums import BatchSum, HybridSum, ToeplitzSum, TreeSum
from fairveil.privacy.sums.shapes import Grid
from fairveil.proof.laws.sums import check_sum, exact_cost
from fairveil.proof.mutants import method

SUMS = {
    "batch": BatchSum(mu=1.0),
    "pure": BatchSum(epsilon=1.0),
    "tree": TreeSum(releases=8, mu=1.0),
    "refined": TreeSum(releases=8, mu=1.0, refine=True),
    "toeplitz": ToeplitzSum(releases=8, mu=1.0),
    "hybrid": HybridSum(mu=1.0),
    "histogram": Histogram(8, mu=1.0),
}


@pytest.mark.parametrize("name", SUMS)
def test_the_worst_row_costs_what_is_promised(name):
    assert check_sum(SUMS[name]) == ["noise_is_enough"]
    assert 0.8 < exact_cost(SUMS[name]) <= 1.0 + 1e-9


def test_a_level_too_few_and_one_draw_for_all_coordinates_are_seen():
    with (
        method(TreeSum, "_factor", lambda _: lambda self: math.sqrt(self.levels - 1)),
        pytest.raises(ContractError, match="noise_is_enough"),
    ):
        check_sum(TreeSum(releases=8, epsilon=1.0, delta=1e-5))

    def shared(original):
        return lambda self, noise, sigma, count=1: np.repeat(original(self, noise, sigma, count)[:, :1], self.width, 1)

    with method(Grid, "draw", shared), pytest.raises(ContractError, match="noise_is_enough"):
        check_sum(BatchSum(epsilon=1.0, delta=1e-5))
