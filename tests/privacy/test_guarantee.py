"""Guarantees state complete, finite numbers, or say that they are not established."""

from __future__ import annotations

import json
import math

import pytest

from fairveil.errors import SpecError
from fairveil.privacy.conversions import gdp_epsilon, zcdp_epsilon
from fairveil.privacy.guarantee import NEIGHBOURS_IN_WORDS, Definition, Guarantee, Model, Neighbours

FACTS = {"model": "global", "unit": "one user's reward", "neighbours": "replace-reward"}


def test_every_relation_has_words():
    assert set(NEIGHBOURS_IN_WORDS) == set(Neighbours)
    assert Guarantee.pure(1.0, **FACTS).neighbours_in_words.startswith("two reward tables")


@pytest.mark.parametrize(
    "guarantee",
    [
        Guarantee.pure(1.0, **FACTS),
        Guarantee.approximate(1.0, 1e-6, **FACTS, notes=("a note",)),
        Guarantee.gaussian(0.5, 1e-6, **FACTS),
        Guarantee.zcdp(0.1, 1e-6, **FACTS),
        Guarantee.pure(2.0, **FACTS, established=False),
    ],
)
def test_round_trip_through_json(guarantee):
    assert Guarantee.from_dict(json.loads(json.dumps(guarantee.to_dict()))) == guarantee


def test_conversions_beside_the_numbers():
    assert Guarantee.gaussian(0.5, 1e-6, **FACTS).epsilon == gdp_epsilon(0.5, 1e-6)
    assert Guarantee.gaussian(0.5, 1e-6, **FACTS).rho == 0.125
    assert Guarantee.zcdp(0.1, 1e-6, **FACTS).epsilon == zcdp_epsilon(0.1, 1e-6)


@pytest.mark.parametrize(
    ("field", "value"), [("definition", "exact"), ("model", "shuffled"), ("neighbours", "friends"), ("unit", " ")]
)
def test_unknown_words_name_their_field(field, value):
    facts = {"definition": "pure", "epsilon": 1.0, **FACTS, field: value}
    with pytest.raises(SpecError, match=field):
        Guarantee(**facts)


@pytest.mark.parametrize("bad", [math.nan, -1.0, math.inf, "1", True])
def test_numbers_are_finite_and_not_negative(bad):
    with pytest.raises(SpecError, match="epsilon"):
        Guarantee.pure(bad, **FACTS)


def test_delta_below_one_and_none_for_pure():
    with pytest.raises(SpecError, match="delta"):
        Guarantee.approximate(1.0, 1.0, **FACTS)
    with pytest.raises(SpecError, match="no delta"):
        Guarantee(Definition.PURE, Model.GLOBAL, "one row", Neighbours.REPLACE_ROW, epsilon=1.0, delta=1e-6)


@pytest.mark.parametrize("definition", list(Definition))
def test_an_established_guarantee_is_complete(definition):
    with pytest.raises(SpecError, match="states its"):
        Guarantee(definition, **FACTS)
    assert str(Guarantee(definition, **FACTS, established=False)).startswith("NOT ESTABLISHED")


def test_a_claim_that_is_not_established_may_be_infinite_but_not_nan():
    assert math.isinf(Guarantee.pure(math.inf, **FACTS, established=False).epsilon or 0)
    with pytest.raises(SpecError):
        Guarantee.pure(math.nan, **FACTS, established=False)


def test_unknown_keys_are_refused():
    with pytest.raises(SpecError, match="not a guarantee"):
        Guarantee.from_dict({**Guarantee.pure(1.0, **FACTS).to_dict(), "discount": 2})


def test_several_units_of_one_person():
    assert Guarantee.pure(0.3, **FACTS).for_units(5).epsilon == pytest.approx(1.5)
    wide = Guarantee.gaussian(0.2, 1e-6, **FACTS).for_units(3)
    assert (wide.mu, wide.delta) == (pytest.approx(0.6), 1e-6)
    assert wide.epsilon == gdp_epsilon(wide.mu, 1e-6)
    assert Guarantee.zcdp(0.01, 1e-6, **FACTS).for_units(3).rho == pytest.approx(0.09)
    assert Guarantee.zcdp(0.01, 1e-6, **FACTS).for_units(1) == Guarantee.zcdp(0.01, 1e-6, **FACTS)
    claimed = Guarantee.pure(1.0, **FACTS, established=False).for_units(2)
    assert not claimed.established
    assert "2 x one user's reward" in str(claimed)


def test_steps_of_a_leaky_mechanism_reach_the_stated_delta():
    """Walk k steps, each as bad as (eps, delta) allows: P <- e^eps P + delta from 0 gives exactly the stated delta."""
    epsilon, delta, count = 0.4, 1e-4, 6
    worst = 0.0
    for _ in range(count):
        worst = math.exp(epsilon) * worst + delta
    found = Guarantee.approximate(epsilon, delta, **FACTS).for_units(count)
    assert found.epsilon == pytest.approx(count * epsilon)
    assert worst <= found.delta <= worst * (1 + 1e-11)


def test_a_grid_correction_is_not_forgotten():
    corrected = Guarantee.gaussian(0.2, 1e-6, **FACTS, epsilon=gdp_epsilon(0.2, 1e-6) + 0.01).for_units(2)
    assert corrected.definition is Definition.APPROXIMATE
    assert corrected.epsilon > 2 * gdp_epsilon(0.2, 1e-6)


@pytest.mark.parametrize("count", [0, -1, 1.5, True, "2"])
def test_units_are_counted(count):
    with pytest.raises(SpecError, match="units are counted"):
        Guarantee.pure(1.0, **FACTS).for_units(count)


@pytest.mark.parametrize("count", [40, 10**6])
def test_a_promise_that_says_nothing_is_refused(count):
    with pytest.raises(SpecError, match="says nothing"):
        Guarantee.approximate(1.0, 1e-5, **FACTS).for_units(count)
