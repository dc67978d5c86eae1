"""What the worst row, unit or answer costs, computed: in no configuration more than is promised."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from fairveil import registry
from fairveil.bandits.nash.gdp_ncb import GdpNcb
from fairveil.bandits.nash.private_nash import PrivateNash
from fairveil.classify.fair.learner import PrivateFair
from fairveil.classify.game.learners import ExponentialFair
from fairveil.classify.learners import PrivateLogistic
from fairveil.classify.perturbation import Perturbation
from fairveil.privacy.conversions import gdp_epsilon
from fairveil.privacy.mechanisms import Exponential
from fairveil.proof.engine.everything import things
from fairveil.proof.laws.algorithms import algorithm_costs
from fairveil.proof.laws.costs import NO_EXACT_COST, learner_costs, releaser_costs
from fairveil.proof.laws.fits import crowd, fitted, parts_of, total
from fairveil.proof.laws.losses import binomial_loss, choice_loss, epsilon_at, gaussian_loss
from fairveil.proof.laws.runs import policy_costs
from fairveil.proof.mutants import Weakened, method
from fairveil.streams.releasers.budget_absorption import BudgetAbsorption

COSTS = {"releaser": releaser_costs, "learner": learner_costs, "algorithm": algorithm_costs, "policy": policy_costs}
LEAST = {"releaser": 5, "learner": 8, "algorithm": 7, "policy": 2}
GUIDE = Path(__file__).parents[2] / "docs" / "guides" / "audit.md"
PRICED = [(thing.kind, thing.name, dict(thing.target)) for thing in things(tuple(COSTS))]


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "name", "target"), PRICED, ids=[f"{kind}:{name}" for kind, name, _ in PRICED])
def test_no_configuration_costs_more_than_is_promised(kind, name, target):
    plain = {key: value for key, value in target.items() if key not in ("kind", "pair")}
    found = list(COSTS[kind](registry.build(kind, plain, kind)))
    assert len(found) >= LEAST[kind], "nothing prices it: a new thing is priced, or listed with its reason"
    over = {words: (cost, claim) for words, cost, claim in found if not cost <= claim * (1 + 1e-4)}
    assert over == {}
    assert max(cost / claim for _, cost, claim in found) > 0.2


@pytest.mark.parametrize("configuration", NO_EXACT_COST)
def test_the_guide_says_which_configurations_have_no_exact_cost(configuration):
    assert f"- `{configuration}`: {NO_EXACT_COST[configuration]}\n" in GUIDE.read_text()


def test_losses_of_known_laws():
    assert epsilon_at([gaussian_loss(0.5)] * 4, 1e-5) == pytest.approx(gdp_epsilon(1.0, 1e-5), rel=1e-3)
    coin = choice_loss(np.array([0.75, 0.25]), np.array([0.25, 0.75]))
    assert epsilon_at([coin], 0.0) == pytest.approx(math.log(3))
    assert epsilon_at([coin] * 3, 0.0) == pytest.approx(3 * math.log(3), rel=1e-3)
    assert epsilon_at([binomial_loss(1000, 1)], 1e-5) == pytest.approx(0.20735, rel=1e-3)
    assert epsilon_at([choice_loss(np.array([0.9, 0.1]), np.array([1.0, 0.0]))], 0.01) == math.inf
    assert epsilon_at([coin, (np.full(1, math.inf), np.ones(1))], 0.01) == math.inf


def less_for_the_test(original):
    return lambda self: (rule := original(self))._replace(scale=rule.scale / 2)


def halved(original):
    return lambda self, *given: original(self, *given) / 2


def sharper(original):
    return lambda self, scores: original(self, 9 * np.asarray(scores))


def weakened(original):
    return lambda self, state, noise: original(self, state, Weakened(noise, 0.5))


TAKEN_OUT = PrivateLogistic(epsilon=1.0, neighbours="zero-out-row")
TESTED = GdpNcb(arms=2, horizon=40, epsilon=1.0, phase1="threshold", tau=3.0)
BLIND = PrivateFair(epsilon=1.0, delta=1e-5, awareness="blind")


@pytest.mark.parametrize(
    ("costs", "thing", "words"),
    [(policy_costs, TESTED, "phase1 threshold, tau 3.0"), (learner_costs, BLIND, "awareness blind")],
)
def test_what_is_not_linear_in_its_draws_is_priced_too(costs, thing, words):
    [(cost, claim)] = [(cost, claim) for found, cost, claim in costs(thing) if found == words]
    assert 0.5 * claim < cost <= claim


@pytest.mark.parametrize(
    ("owner", "name", "change", "costs", "thing"),
    [
        (Perturbation, "_main_scale", halved, learner_costs, TAKEN_OUT),
        (BudgetAbsorption, "scale_of", halved, releaser_costs, BudgetAbsorption.example()),
        (Exponential, "probabilities", sharper, learner_costs, ExponentialFair(epsilon=1.0)),
        (PrivateNash, "draw", weakened, policy_costs, PrivateNash(arms=3, epsilon=1.0)),
        (GdpNcb, "exploration", less_for_the_test, policy_costs, TESTED),
        (Perturbation, "_main_scale", halved, learner_costs, BLIND),
    ],
)
def test_too_little_noise_costs_more(owner, name, change, costs, thing):
    with method(owner, name, change):
        assert any(cost > claim * 1.01 for _, cost, claim in costs(thing))


def test_a_question_that_depends_on_rows_costs_infinitely_much():
    learner = replace(ExponentialFair(epsilon=1.0), norm_bound=1.0)
    recorded = fitted(learner, crowd())
    assert parts_of(recorded, recorded[:-1])[0] == math.inf
    other = fitted(learner, crowd(changed=(5.0, 1, "b")), recorded)
    assert 0 < total(learner, recorded, other) <= 1.0
    assert total(learner, recorded, recorded) == 0.0
