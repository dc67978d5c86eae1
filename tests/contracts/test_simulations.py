"""A simulator that draws other noise than is served breaks a law, in whichever of its numbers the mistake stands."""

import dataclasses

import pytest

from fairveil.bandits.exposure.priv_fairx import PrivFairx
from fairveil.bandits.meritocratic.private_fair_greedy import PrivateFairGreedy
from fairveil.bandits.nash.adap_ucb import AdapUcb
from fairveil.bandits.nash.anytime import Anytime
from fairveil.bandits.nash.gdp_ncb import GdpNcb
from fairveil.bandits.nash.ldp_ncb import LdpNcb
from fairveil.bandits.nash.ldp_ucb_figure import FigureLdpUcb
from fairveil.bandits.nash.local_nash import LocalNash
from fairveil.bandits.nash.private_nash import PrivateNash
from fairveil.errors import ContractError
from fairveil.privacy.noise import SeededNoise
from fairveil.proof.laws.policies import fitting
from fairveil.proof.laws.simulations import simulations_are_served
from fairveil.proof.mutants.bandits import simulated_noise


def with_less(number):
    """A parameter of a Laplace law of half the scale, in a struct of numbers."""
    return number._replace(success=1 - (1 - number.success) ** 2)


def less_in(kind, name):
    sound = getattr(kind, name)

    def broken(self):
        return with_less(sound(self))

    return {name: broken}


def surer_bits(self, sound=LdpNcb.habits):
    habits = sound(self)
    return habits._replace(low=habits.low / 2, slope=1 - habits.low)


def quieter_plan(self, rounds, noise, sound=PrivFairx.planned):
    plan = sound(self, rounds, noise)
    return plan._replace(noise=plan.noise / 2)


def another_seed(kind):
    """The simulator takes its noise from a source that the steps do not have."""

    sound = kind.simulator

    def simulator(self, case, streams):
        return sound(self, case, dataclasses.replace(streams, noise=SeededNoise(99)))

    return {"simulator": simulator}


@pytest.mark.parametrize(
    ("kind", "name", "broken"),
    [
        (GdpNcb, "gdp-ncb", less_in(GdpNcb, "finish")),
        (GdpNcb, "gdp-ncb", less_in(GdpNcb, "shape")),
        (GdpNcb, "gdp-ncb", less_in(GdpNcb, "exploration")),
        (FigureLdpUcb, "ldp-ucb/figure", less_in(FigureLdpUcb, "habits")),
        (LdpNcb, "ldp-ncb", {"habits": surer_bits}),
        (PrivFairx, "priv-fairx", {"planned": quieter_plan}),
        (PrivateFairGreedy, "private-fair-greedy", another_seed(PrivateFairGreedy)),
        (Anytime, "anytime", another_seed(Anytime)),
        (PrivateNash, "private-nash", another_seed(PrivateNash)),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else getattr(value, "__name__", ""),
)
def test_other_noise_in_a_simulation_is_caught(kind, name, broken, monkeypatch):
    policy, world = fitting(name)
    simulations_are_served(policy, world)
    for method, wrong in broken.items():
        monkeypatch.setattr(kind, method, wrong)
    wrong_one, world = fitting(name)
    with pytest.raises(ContractError, match="simulated"):
        simulations_are_served(wrong_one, world)


@pytest.mark.parametrize("name", ["private-nash", "adap-ucb", "local-nash"])
def test_the_planted_mistake_is_caught(name):
    policy, world = fitting(name)
    assert isinstance(policy, PrivateNash | AdapUcb | LocalNash)
    with simulated_noise(policy), pytest.raises(ContractError, match="simulated"):
        simulations_are_served(policy, world)
    simulations_are_served(policy, world)


def test_what_is_only_played_step_by_step_is_left_alone(monkeypatch):
    monkeypatch.setattr(PrivateNash, "simulator", lambda self, case, streams: None)
    policy, world = fitting("private-nash")
    simulations_are_served(policy, world)
