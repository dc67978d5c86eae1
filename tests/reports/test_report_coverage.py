"""Intervals of reports cover what they say: a few cells here, all of them in `bench/reports.py` and test-long."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest
import report_worlds as worlds

from fairveil.privacy.vectors import Price

RHO, PURE = Price(rho=0.02), Price(epsilon=0.2)


@pytest.mark.parametrize("price", [RHO, PURE], ids=["gaussian", "laplace"])
@pytest.mark.parametrize("shown, rate, hidden", [(100, 0.2, False), (1000, 0.2, True), (20_000, 0.02, True)])
def test_rates_cover(price, shown, rate, hidden):
    """Bands of the promise, .93 to .98: four standard errors of .95 at 1,500 repetitions reach .927; fixed seeds."""
    found = worlds.binomial(price, shown, rate, noisy_shown=hidden, seed=4, runs=1500)
    assert 0.93 <= found.single <= 0.98
    assert found.all >= 0.93


def test_an_empty_group_hardly_ever_passes():
    for price in (RHO, PURE):
        assert worlds.binomial(price, 0, 0.0, noisy_shown=True, seed=8, runs=20_000).estimable <= 1 / 500


def test_one_winner_of_four_and_groups_that_are_not_independent():
    found = worlds.one_winner(RHO, 2000, (0.5, 0.5), (1, 1.62), seed=2, runs=1500)
    assert found.true_gap == pytest.approx(0.09, abs=0.003)
    assert found.gap >= 0.95
    assert found.gap_if_independent < 0.92
    assert found.gap_width <= 0.050
    assert found.ratio_low >= 0.965
    assert 0.93 <= found.single.min() <= found.single.max() <= 0.985


def test_the_value_of_another_rule_is_covered():
    cover, width = worlds.evaluation({"rho": 0.01}, 50_000, runs=500)
    assert 0.93 <= cover <= 0.99
    assert width <= 0.027


def test_a_clip_below_the_largest_weight_is_never_silent():
    """A clip of 10 where weights reach 40 would cover 0 of all values; the interval makes room for what is cut off."""
    cover, width = worlds.evaluation({"rho": 0.01}, 50_000, target="general", clip=10.0, runs=50)
    assert cover == 1.0
    assert width > 0.7


def test_every_limit_of_the_bench_is_kept():
    path = Path(__file__).parents[2] / "bench" / "reports.py"
    spec = importlib.util.spec_from_file_location("bench_reports", path)
    bench = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(bench)
    for part in (bench.rates, bench.means, bench.winners, bench.evaluations):
        part()
    assert bench.MISSED == []
