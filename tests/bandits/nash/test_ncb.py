"""NCB: formulas of the figure and of the paper, and the end of uniform exploration."""

import math

import pytest

from fairveil import registry
from fairveil.bandits.nash.ncb import Ncb, Numbers, PrintedNcb, explored, index
from fairveil.bandits.protocol import Round
from fairveil.errors import HorizonError, SpecError
from fairveil.randomness import generator


def test_the_bonus_is_relative_to_the_mean():
    assert index(Numbers(6.0, 1.0), 0.25, 100.0, 0.0, 0) == 0.25 + 6.0 * math.sqrt(0.25 / 100)
    assert Ncb(arms=2, horizon=100, c=1.0).numbers().width == pytest.approx(2 * math.sqrt(2 * math.log(100)))


def test_the_printed_factor_is_equation_3():
    printed = registry.build("policy", {"name": "ncb", "arms": 2, "horizon": 100, "variant": "printed"}, "policy")
    assert isinstance(printed, PrintedNcb)
    assert printed.numbers().width == pytest.approx(4 * math.sqrt(math.log(100)))
    with pytest.raises(SpecError, match="figure, printed"):
        registry.build("policy", {"name": "ncb", "arms": 2, "horizon": 100, "variant": "sound"}, "policy")


def test_uniform_exploration_ends_when_one_arm_has_earned_enough():
    numbers = Ncb(arms=2, horizon=1000, c=2.0).numbers()
    enough = 4 * math.log(1000)
    assert not explored(numbers, enough - 1e-9, 50.0)
    assert explored(numbers, enough + 1e-9, 50.0)


def test_the_horizon_is_kept():
    with pytest.raises(HorizonError):
        Ncb(arms=2, horizon=10).decide(Ncb(arms=2, horizon=10).start(), Round(10), generator(0))
