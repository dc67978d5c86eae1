"""Limits: what they charge, and that they keep their promise."""

import re

import pytest

from fairveil import registry
from fairveil.errors import BudgetError, SpecError
from fairveil.privacy.events import GaussianEvent, PureEvent, RepeatedEvent
from fairveil.privacy.filters import Filter
from fairveil.privacy.limits import Limit


@pytest.mark.parametrize(("currency", "epsilon", "power"), [("zcdp", 1e-170, 340), ("gaussian", 1e-17, 34)])
def test_a_tiny_epsilon_repeated_often_enough_is_never_free(currency, epsilon, power):
    """rho and mu^2 of these add up to half a unit and more; as floats a single one rounded to zero."""
    limit = Limit.approximate(1.0, 1e-5, currency=currency)
    one, many = RepeatedEvent(PureEvent(epsilon), 10 ** (power - 1)), RepeatedEvent(PureEvent(epsilon), 10**power)
    assert limit.charge(many).units > 0.4 * 10**12
    assert limit.charge(many).units == pytest.approx(10 * limit.charge(one).units, rel=1e-9)


@pytest.mark.parametrize(
    "facts",
    [
        ("epsilon", 2_000_000, 0, 1.0, 0.0),
        ("epsilon", 1_000_000, 10**13, 1.0, 1e-6),
        ("zcdp", 10**12, 0, 1.0, 1e-5),
        ("gaussian", 10**12, 0, 1.0, 1e-5),
        ("zcdp", 10**6, 10**13, 1.0, 1e-5),
        ("zcdp", 10**6, 0, 1.0, None),
        ("zcdp", 10**6, 0, "1", 1e-5),
    ],
)
def test_a_limit_cannot_promise_more_than_its_units(facts):
    with pytest.raises(SpecError):
        Limit(*facts)


@pytest.mark.parametrize("currency", ["epsilon", "zcdp", "gaussian"])
def test_every_limit_that_is_made_keeps_its_promise_when_it_is_read_back(currency):
    for epsilon in (1e-6, 1e-3, 0.7, 30.0, 1e4):
        for delta in (1e-300, 1e-18, 1e-5, 0.3):
            limit = Limit.approximate(epsilon, delta, currency=currency)
            assert Limit.from_dict(limit.to_dict()) == limit


def test_the_distance_of_a_very_fine_grid_is_paid_for_when_it_is_repeated():
    limit = Limit.gaussian(1.0, 1e-5)
    fine = RepeatedEvent(GaussianEvent(1e-300, draws=1, grid_sigma=1e200), 10**385)
    assert limit.charge(fine).delta_units > 0


EXAMPLES = {
    "private-nash": {"arms": 3, "epsilon": 1.0},
    "batched-priv-fairx": {"agents": 1, "dimension": 3, "horizon": 1000, "epsilon": 1.0, "delta": 1e-5},
    "priv-fairx": {"agents": 1, "dimension": 3, "horizon": 1000, "epsilon": 5.0, "delta": 1e-6},
}


@pytest.mark.parametrize("name", EXAMPLES)
def test_the_limit_for_a_policy_keeps_its_promise_and_lets_it_run(name):
    policy = registry.build("policy", {"name": name, **EXAMPLES[name]}, "policy")
    limit, promise = Limit.for_policy(policy), policy.guarantee()
    assert (limit.epsilon, limit.delta) == (promise.epsilon, promise.delta)
    spent = Filter(limit).spend(policy.event())
    assert spent.remaining.units <= max(1, limit.units // 10**6), "nothing is left over"
    with pytest.raises(BudgetError):
        spent.spend(policy.event())


@pytest.mark.parametrize("currency", ["zcdp", "gaussian"])
def test_a_refusal_names_the_smallest_limit_that_would_do(currency):
    policy = registry.build("policy", {"name": "priv-fairx", **EXAMPLES["priv-fairx"], "epsilon": 1.0}, "policy")
    with pytest.raises(BudgetError, match=r"Limit\.for_policy") as caught:
        Filter(Limit.approximate(1.0, 1e-6, currency=currency)).spend(policy.event())
    named = float(re.search(r"epsilon ([0-9.]+) at delta", caught.value.allowed)[1])
    assert 1.0 < named < 1.2
    Filter(Limit.approximate(named, 1e-6, currency=currency)).spend(policy.event())
    with pytest.raises(BudgetError):
        Filter(Limit.approximate(named - 1e-4, 1e-6, currency=currency)).spend(policy.event())


def test_a_pure_refusal_names_the_sum():
    with pytest.raises(BudgetError, match=r"at least epsilon 1\.25"):
        Filter(Limit.pure(1.0)).spend(PureEvent(0.75)).spend(PureEvent(0.5))
