"""LDP-UCB: one-bit reports with a Hoeffding bonus, and what the figures show."""

import math

import numpy as np
import pytest

from fairveil import SeededNoise, registry
from fairveil.bandits.nash import ldp_ucb_figure
from fairveil.bandits.nash.ldp_ucb import LdpUcb, index
from fairveil.bandits.protocol import Feedback, Report


def test_the_index_decodes_the_bits():
    policy = LdpUcb(arms=2, epsilon=1.0)
    slope = (math.e - 1) / (math.e + 1)
    low = 1 / (math.e + 1)
    expected = (0.5 - low) / slope + math.sqrt(3.1 * math.log(400) / (2 * 80)) / slope
    assert index(policy.numbers(), 0.5, 80.0, math.log(400), 0) == pytest.approx(expected)


def test_reports_are_bits_whose_chance_is_linear_in_the_reward():
    policy, noise = LdpUcb(arms=2, epsilon=1.0), SeededNoise(1)
    for reward in (0.0, 0.5, 1.0):
        bits = [policy.report(Feedback(0, 0, reward), noise).value for _ in range(4000)]
        chance = (1 + (math.e - 1) * reward) / (math.e + 1)
        assert abs(np.mean(bits) - chance) < 4 * 0.5 / math.sqrt(4000)
    assert isinstance(policy.report(Feedback(0, 0, None), noise), Report)


def test_the_figure_forces_pulls_and_clips_every_report():
    table = {"name": "ldp-ucb", "arms": 2, "epsilon": 0.5, "variant": "figure"}
    policy = registry.build("policy", table, "policy")
    numbers = policy.numbers()
    assert math.isinf(ldp_ucb_figure.index(numbers, 0.5, 10.0, 3.0, 0))  # n <= 4 ln t
    expected = 0.5 + math.sqrt(32 * 3.0 / 20) / 0.5
    assert ldp_ucb_figure.index(numbers, 0.5, 20.0, 3.0, 0) == pytest.approx(expected)
    assert (ldp_ucb_figure.taken(numbers, -3.0), ldp_ucb_figure.taken(numbers, 3.0)) == (0.0, 1.0)
    assert not policy.guarantee().established
