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
