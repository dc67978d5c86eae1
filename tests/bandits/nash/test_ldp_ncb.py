"""LDP-NCB: Algorithm 2 of DP-NCB corrected, printed and as plotted."""

import math

import numpy as np
import pytest

from fairveil import registry
from fairveil.bandits.nash import ldp_ncb, ldp_ncb_figure, ldp_ncb_printed

TABLE = {"name": "ldp-ncb", "arms": 2, "horizon": 10_000, "epsilon": 0.5}


def build(**more):
    return registry.build("policy", {**TABLE, **more}, "policy")


def test_the_sound_index_has_the_bonus_of_bits_and_its_cross_term():
    numbers, log_t = build().numbers(), math.log(10_000)
    nash, d = 2 * 3 * math.sqrt(2 * log_t), math.sqrt(3.1 * log_t / 2) / numbers.slope
    mean = (0.5 - numbers.low) / numbers.slope
    expected = mean + nash * math.sqrt(mean / 64) + d / 8 + nash * math.sqrt(d) / 64**0.75
    assert ldp_ncb.index(numbers, 0.5, 64.0, 0.0, 0) == pytest.approx(expected)
    assert build().habits().limit == 101


def test_the_printed_index_and_stopping_rule():
    numbers, log_t = build(variant="printed").numbers(), math.log(10_000)
    cross = 4 * 3 * (2 * 3.1) ** 0.25 * log_t**0.75 / math.sqrt(0.5) / 64**0.75
    expected = 0.5 + 6 * math.sqrt(2 * 0.5 * log_t / 64) + math.sqrt(8 * 3.1 * log_t / 64) / 0.5 + cross
    assert ldp_ncb_printed.index(numbers, 0.5, 64.0, 0.0, 0) == pytest.approx(expected)
    assert not ldp_ncb_printed.explored(numbers, 9_000.0, 10_000.0)  # no horizon that a machine can run ends it
    assert ldp_ncb_printed.explored(numbers, 9e8, 1e9)
    assert ldp_ncb_printed.kept(numbers, 70.0, 64.0, True) == 64.0
    assert ldp_ncb_printed.kept(numbers, 70.0, 64.0, False) == 70.0


def test_clipping_the_running_mean_in_place_feeds_back():
    """Reports of a true mean of .05 at epsilon .2, as the listing keeps them: what is clipped away below 0 is lost."""
    numbers, rng, ends = build(variant="printed", epsilon=0.2).numbers(), np.random.default_rng(4), []
    for _ in range(150):
        total = 0.0
        for n, report in enumerate((rng.random(2000) < 0.05) + rng.laplace(0.0, 5.0, 2000), start=1):
            total = ldp_ncb_printed.kept(numbers, total + report, float(n), True)
        ends.append(total / 2000)
    assert np.mean(ends) == pytest.approx(0.1446, abs=5 * np.std(ends) / math.sqrt(len(ends)))
    assert np.mean(ends) > 0.1


def test_the_figure_has_the_logarithm_of_its_window_in_the_cross_term():
    policy = build(variant="figure")
    cross = 4 * 3 * (2 * 3.1) ** 0.25 * math.log(101) ** 0.75 / math.sqrt(0.5)
    assert policy.numbers().cross == pytest.approx(cross)
    assert policy.habits().limit == 102
    expected = 0.5 + sum((policy.numbers().nash * math.sqrt(0.5) / 8, policy.numbers().width / 8, cross / 64**0.75))
    assert ldp_ncb_figure.index(policy.numbers(), 0.5, 64.0, 0.0, 0) == pytest.approx(expected)
    assert [build(variant=v).guarantee().established for v in ("sound", "printed", "figure")] == [True, False, False]
