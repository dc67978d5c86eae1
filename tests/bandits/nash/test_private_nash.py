"""private-nash: the scale of its noise."""

from fractions import Fraction

import pytest

from fairveil.bandits.environments.laws import UNIT
from fairveil.bandits.nash.gdp_ncb import GdpNcb
from fairveil.bandits.nash.intake import laplace_scale
from fairveil.bandits.nash.private_nash import PrivateNash


@pytest.mark.parametrize("epsilon", [0.1, 0.3, 0.7, 1.0, 1.1, 1.5, 3.0, 7.3])
def test_no_laplace_scale_of_a_nash_policy_is_rounded_down(epsilon):
    policies = [PrivateNash(arms=2, epsilon=epsilon), PrivateNash(arms=2, epsilon=epsilon, arrivals="private")]
    for policy in [*policies, GdpNcb(arms=2, horizon=100, epsilon=epsilon, phase1="threshold", tau=4.0)]:
        scale = policy.sum.sigma if policy.clock == "settled" else policy.scale
        assert Fraction(scale) * Fraction(policy.release_epsilon) >= UNIT
    assert all(Fraction(laplace_scale(k, epsilon)) * Fraction(epsilon) >= k * UNIT for k in (1, 2, 4))
