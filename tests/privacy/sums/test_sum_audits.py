"""Audits of the sums: the sound ones pass at every budget, planted broken twins are caught."""

from __future__ import annotations

import math

import numpy as np
import pytest

from fairveil.errors import SpecError
from fairveil.privacy.conversions import gdp_epsilon
from fairveil.privacy.histograms import Histogram
from fairveil.privacy.noise import Noise, ZeroNoise
from fairveil.privacy.sums import BatchSum, HybridSum, ToeplitzSum, TreeSum
from fairveil.privacy.sums.shapes import Grid
from fairveil.proof import audit, estimate_mu, find_pair, outputs
from fairveil.proof.pairs.privacy import (
    absent_value,
    moved_value,
    outlying_row,
    replaced_row,
    run_prefixes,
    worst_rows,
)

BUDGETS = [{"epsilon": 0.1, "delta": 1e-3}, {"epsilon": 1.0, "delta": 1e-3}, {"epsilon": 5.0, "delta": 1e-3}]
SOUND = {
    "batch": lambda **b: BatchSum(**b),
    "tree": lambda **b: TreeSum(8, **b),
    "refined tree": lambda **b: TreeSum(8, refine=True, **b),
    "toeplitz": lambda **b: ToeplitzSum(8, **b),
    "banded": lambda **b: ToeplitzSum(8, band=3, **b),
    "hybrid": lambda **b: HybridSum(**b),
    "symmetric": lambda **b: TreeSum(2, shape="symmetric", dimension=2, **b),
}


@pytest.mark.parametrize("budget", BUDGETS, ids=str)
@pytest.mark.parametrize("name", SOUND)
def test_sound_sums_pass(name, budget):
    found = audit(replaced_row(SOUND[name](**budget)), trials=100_000, seed=1)
    assert found.verdict == "consistent", found
    # A budget that is spent must also be seen: an audit that finds nothing proves nothing.
    assert found.finer is not None
    if budget["epsilon"] >= 1.0 and name != "refined tree":
        assert found.epsilon_lower > 0.5
        assert found.finer.lower > 0.88 * found.finer.claimed


@pytest.mark.parametrize("name", SOUND)
def test_sound_sums_clip(name):
    found = audit(outlying_row(SOUND[name](epsilon=1.0, delta=1e-3)), trials=20_000, seed=1)
    assert found.verdict == "consistent", found


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 5.0])
def test_pure_batches_pass_and_are_tight(epsilon):
    found = audit(replaced_row(BatchSum(epsilon=epsilon)), trials=100_000, seed=2)
    assert 0.75 * epsilon < found.epsilon_lower <= epsilon


@pytest.mark.parametrize("budget", BUDGETS, ids=str)
@pytest.mark.parametrize("method", ["tree", "toeplitz"])
def test_sound_histograms_pass(method, budget):
    noisy = Histogram(8, method=method, total="noisy", **budget)
    pairs = [moved_value(Histogram(8, method=method, **budget))]
    if budget["epsilon"] == 1.0:
        pairs += [moved_value(noisy), absent_value(noisy)]
    for pair in pairs:
        assert audit(pair, trials=100_000, seed=3).verdict == "consistent"


def test_presence_is_promised_only_with_a_noisy_total():
    with pytest.raises(SpecError, match="public total"):
        absent_value(Histogram(8, mu=1.0))


def test_observed_mu_is_the_budget():
    """Project the released nodes of the first leaf on the difference of two orthogonal rows: mu, not less, not more."""
    sums = TreeSum(4, mu=1.5, shape="symmetric", dimension=2)
    zero, one = outputs(replaced_row(sums).run, 40_000, seed=5)
    # Nodes of leaf 1 from prefixes at 1, 2 and 4; the mean of independent nodes is the sufficient statistic.
    found = estimate_mu(zero[:, [0, 1, 3]].mean(axis=1), one[:, [0, 1, 3]].mean(axis=1), confidence=0.9999)
    assert found.low < 1.5 < found.high
    assert found.high - found.low < 0.1


class SameNoise(ZeroNoise):
    """Broken on purpose: every node gets the noise of the first one."""

    def __init__(self, source: Noise) -> None:
        self.source, self.kept = source, None

    def gaussian(self, sigma, size=1):
        if self.kept is None or len(self.kept) != size:
            self.kept = self.source.gaussian(sigma, size)
        return self.kept


def test_reused_node_noise_is_caught():
    sums = TreeSum(8, epsilon=1.0, delta=1e-3)

    def run(world, trials, noise, rng):
        return run_prefixes(sums, worst_rows(sums), world, trials, SameNoise(noise), rng)

    assert audit(run, epsilon=1.0, delta=1e-3, trials=20_000).epsilon_lower > 3


class NoClip(Grid):
    """Broken on purpose: rows go to the grid as they are."""

    def rows(self, values):
        return np.trunc(np.ldexp(np.array(values, float).reshape(-1, 1), self.bits)).astype(np.int64)


@pytest.mark.parametrize("make", [SOUND["batch"], SOUND["tree"], SOUND["toeplitz"]])
def test_a_missing_clip_is_caught(make):
    sums = make(epsilon=1.0, delta=1e-3)
    good = sums.grid
    sums.__dict__["grid"] = NoClip(good.shape, good.dimension, good.bound, good.neighbours, good.bits)
    found = audit(outlying_row(sums), trials=20_000)
    assert found.verdict == "violated"
    assert found.epsilon_lower > 3
    # The ordinary pair cannot see it: that is why the second one exists.
    assert audit(replaced_row(sums), trials=20_000).verdict == "consistent"


class OneLevel(TreeSum):
    """Broken on purpose: the noise is calibrated as if a leaf lay in one node."""

    def _factor(self):
        return 1.0


class FirstCoefficient(ToeplitzSum):
    """Broken on purpose: the sensitivity is that of the diagonal of C, not of its column."""

    def _factor(self):
        return self._weight()


class WholeBudgetTwice(HybridSum):
    """Broken on purpose: the inner sum and the total of an epoch both spend all of the budget."""

    def epoch_sum(self, epoch):
        return ToeplitzSum(2**epoch, mu=self._calibration[0], bits=self.grid.bits).many(self.grid.copies)


@pytest.mark.parametrize(
    "twin",
    [OneLevel(8, mu=1.5), FirstCoefficient(8, mu=1.5), WholeBudgetTwice(mu=1.5)],
    ids=lambda twin: type(twin).__name__,
)
def test_a_wrong_level_count_or_sensitivity_is_caught(twin):
    claim = gdp_epsilon(1.5, 0.05)
    found = audit(replaced_row(twin), epsilon=claim, delta=0.05, trials=100_000)
    assert found.verdict == "violated", found


class OneBin(Histogram):
    """Broken on purpose: a moved value is counted as one change, not two."""

    @property
    def _moved(self):
        return math.sqrt(self.levels)


def test_a_histogram_that_forgets_the_second_bin_is_caught():
    twin = OneBin(8, method="tree", mu=2.0)
    found = audit(moved_value(twin), epsilon=gdp_epsilon(2.0, 0.05), delta=0.05, trials=50_000)
    assert found.verdict == "violated"


def test_pairs_are_registered_for_the_command_line():
    sums, pair = find_pair({"kind": "sum", "name": "tree", "releases": 4, "mu": 1.0})
    assert isinstance(sums, TreeSum)
    assert "first row" in pair.worlds
    for name in ("batch", "toeplitz", "hybrid"):
        find_pair(
            {"kind": "sum", "name": name, "pair": "outlier", "mu": 1.0} | ({"releases": 4} if name[0] == "t" else {})
        )
    find_pair({"kind": "sum", "name": "histogram", "pair": "absent", "bins": 4, "mu": 1.0, "total": "noisy"})
