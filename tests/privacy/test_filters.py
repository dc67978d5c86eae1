"""Limits and filters: integer units, refusals without a charge, and answers that say what is left."""

from __future__ import annotations

import math
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairveil.errors import BudgetError, PrivacyError, SpecError
from fairveil.privacy.charges import Charge
from fairveil.privacy.conversions import gdp_delta, gdp_mu, zcdp_epsilon
from fairveil.privacy.events import (
    FINE_GRID,
    ApproximateEvent,
    BoundedRangeEvent,
    ComposedEvent,
    GaussianEvent,
    NothingEvent,
    ParallelEvent,
    PureEvent,
    RepeatedEvent,
    ZcdpEvent,
)
from fairveil.privacy.filters import Filter
from fairveil.privacy.limits import Limit

some_events = st.one_of(
    st.floats(1e-6, 0.5).map(PureEvent),
    st.floats(1e-6, 0.5).map(BoundedRangeEvent),
    st.floats(1e-6, 0.05).map(ZcdpEvent),
    st.floats(1e-3, 0.3).map(GaussianEvent),
    st.builds(ApproximateEvent, st.floats(1e-6, 0.5), st.floats(1e-12, 1e-7)),
)


@settings(deadline=None)
@given(st.lists(some_events, max_size=30))
def test_however_events_come_the_limit_holds_and_refusals_charge_nothing(events):
    filter = Filter(Limit.approximate(1.0, 1e-5))
    for event in events:
        before = filter
        try:
            filter = filter.spend(event)
        except BudgetError:
            assert filter is before
            assert not filter.quote(event).admitted
        assert filter.used.within(filter.limit.total)
        assert filter.remaining.units >= 0


@settings(deadline=None, max_examples=50)
@given(some_events, st.lists(some_events, max_size=6))
def test_the_largest_admissible_is_admitted_and_a_little_more_is_not(event, before):
    filter = Filter(Limit.approximate(1.0, 1e-5))
    for earlier in before:
        if filter.quote(earlier).admitted:
            filter = filter.spend(earlier)
    ((name, value),) = filter.quote(event).largest.items()
    if value > 0:
        filter.spend(type(event)(**{**vars(event), name: value}))
    with pytest.raises(BudgetError):
        filter.spend(type(event)(**{**vars(event), name: value + 2e-9 + value * 1e-6}))


def test_ten_tenths_are_one():
    filter = Filter(Limit.pure(1.0))
    for _ in range(10):
        filter = filter.spend(PureEvent(0.1))
    assert filter.remaining == Charge(0, 0)
    with pytest.raises(BudgetError):
        filter.spend(PureEvent(1e-9))
    filter.spend(NothingEvent())


def test_three_thirds_round_up_unless_they_come_as_one_event():
    filter = Filter(Limit.pure(1.0)).spend(PureEvent(1 / 3)).spend(PureEvent(1 / 3))
    with pytest.raises(BudgetError):
        filter.spend(PureEvent(1 / 3))
    assert Filter(Limit.pure(1.0)).spend(RepeatedEvent(PureEvent(1 / 3), 3)).remaining.units == 0


def test_the_refusal_says_limit_spent_reserved_asked_and_largest():
    filter, held = Filter(Limit.pure(1.0)).spend(PureEvent(0.5)).reserve(PureEvent(0.25))
    with pytest.raises(BudgetError) as found:
        filter.reserve(PureEvent(0.5))
    for words in (
        "limit epsilon 1;",
        "spent epsilon 0.5;",
        "reserved epsilon 0.25;",
        "asked epsilon 0.5;",
        "remaining epsilon 0.25;",
        "largest admissible epsilon 0.25",
        "nothing was charged",
    ):
        assert words in str(found.value)
    assert filter.settle(held).spent.units == 750_000


def test_settling_more_than_is_reserved_is_refused():
    with pytest.raises(PrivacyError, match="settled"):
        Filter(Limit.pure(1.0)).settle(Charge(1, 0))


def test_quotes_for_nested_events():
    filter = Filter(Limit.pure(1.0))
    assert filter.quote(RepeatedEvent(PureEvent(0.3), 9)).largest == {"count": 3}
    assert filter.quote(RepeatedEvent(NothingEvent(), 9)).largest == {"count": 9}
    assert filter.quote(ParallelEvent(PureEvent(3.0))).largest == {"epsilon": 1.0}
    assert filter.quote(ComposedEvent((PureEvent(0.5), PureEvent(0.6)))).largest == {"share": 0.0}
    assert filter.quote(PureEvent(0.5)).to_dict()["admitted"] is True


@pytest.mark.parametrize("currency", ["zcdp", "gaussian"])
@pytest.mark.parametrize("epsilon", [0.1, 1.0, 8.0])
@pytest.mark.parametrize("delta", [1e-3, 1e-6, 1e-9])
def test_a_full_filter_keeps_its_promise(currency, epsilon, delta):
    """Spend everything on one Gaussian: its exact delta, and the added delta that was kept apart, fit."""
    limit = Limit.approximate(epsilon, delta, currency=currency)
    scale = Fraction(limit.units, 10**12) * (2 if currency == "zcdp" else 1)
    added = Fraction(limit.delta_units, 10**18)
    assert gdp_delta(math.sqrt(scale), epsilon) + added <= delta
    if currency == "zcdp":
        assert zcdp_epsilon(limit.units / 1e12, delta * 0.99) <= epsilon
    else:
        assert math.sqrt(scale) == pytest.approx(gdp_mu(epsilon, 0.99 * delta), rel=1e-5)


def test_gaussian_limits_count_the_correction_of_discrete_noise():
    limit = Limit.approximate(1.0, 1e-5, currency="gaussian")
    event = GaussianEvent(0.05, draws=1000, grid_sigma=FINE_GRID)
    expected = (1 + math.e) * 1000 * 0.021 / FINE_GRID**2
    assert limit.charge(event).delta_units == pytest.approx(expected * 1e18, rel=1e-6)
    with pytest.raises(BudgetError):
        Filter(limit).spend(GaussianEvent(0.05, draws=10**8, grid_sigma=FINE_GRID))


def test_pure_limits_take_no_delta_and_approximate_ones_add_it_up():
    with pytest.raises(BudgetError):
        Filter(Limit.pure(1.0)).spend(ApproximateEvent(0.1, 1e-12))
    filter = Filter(Limit.approximate(1.0, 1e-6, currency="epsilon"))
    filter = filter.spend(ApproximateEvent(0.1, 5e-7)).spend(ApproximateEvent(0.1, 5e-7))
    with pytest.raises(BudgetError):
        filter.spend(ApproximateEvent(0.1, 1e-9))


@pytest.mark.parametrize(
    "event",
    [
        ParallelEvent(PureEvent(0.7)),
        ApproximateEvent(0.3, 1e-7),
        GaussianEvent(0.268, 100, FINE_GRID),
        ZcdpEvent(0.123),
        ComposedEvent((PureEvent(0.1), ZcdpEvent(0.2), ApproximateEvent(0.1, 1e-9))),
    ],
)
def test_a_covering_limit_lets_exactly_this_event_pass(event):
    filter = Filter(Limit.covering(event)).spend(event)
    assert filter.remaining == Charge(0, 0)


def test_limits_round_down_and_round_trip():
    assert Limit.pure(0.1234567).units == 123_456
    for limit in (Limit.pure(0.5), Limit.approximate(1.0, 1e-5), Limit.zcdp(0.1), Limit.gaussian(0.5, 1e-6)):
        assert Limit.from_dict(limit.to_dict()) == limit
    with pytest.raises(SpecError):
        Limit.from_dict({"currency": "epsilon", "units": 1})


@pytest.mark.parametrize("bad", [0.0, -1.0, math.nan, math.inf, 5e-324, "1", True, None, 1e7])
def test_bad_budgets_name_their_field(bad):
    for make, field in (
        (lambda: Limit.pure(bad), "limit.epsilon"),
        (lambda: Limit.approximate(bad, 1e-5), "limit.epsilon"),
        (lambda: Limit.approximate(1.0, bad), "limit.delta"),
        (lambda: Limit.zcdp(bad), "limit.rho"),
        (lambda: Limit.gaussian(bad), "limit.mu"),
    ):
        with pytest.raises(SpecError, match=field):
            make()


def test_other_bad_limits():
    with pytest.raises(SpecError, match=r"limit\.delta"):
        Limit.approximate(1.0, 1.0)
    with pytest.raises(SpecError, match="currency"):
        Limit.approximate(1.0, 1e-5, currency="euro")
    with pytest.raises(SpecError, match="added_share"):
        Limit.approximate(1.0, 1e-5, added_share=1.0)
    with pytest.raises(SpecError, match="units"):
        Limit("epsilon", -1)


def test_one_limit_on_two_machines_is_one_limit():
    limit = Limit.approximate(1.0, 1e-5)
    rounded = Limit(limit.currency, limit.units - 3, limit.delta_units, limit.epsilon, limit.delta)
    assert limit.same(rounded)
    assert Limit.gaussian(0.5, 1e-6).same(Limit.gaussian(0.5, 1e-6))
    for other in (Limit.approximate(1.01, 1e-5), Limit.approximate(1.0, 2e-5), Limit.pure(1.0), Limit.zcdp(0.5)):
        assert not limit.same(other)
    assert not Limit.pure(1.0).same(Limit("epsilon", 1_000_001, 0, 1.0, 0.0))
    assert not Limit.zcdp(0.5).same(Limit.zcdp(0.5, 1e-6))
