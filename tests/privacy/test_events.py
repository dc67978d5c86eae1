"""Events: versioned data that is checked when made and when read back."""

from __future__ import annotations

import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairveil.errors import PrivacyError
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
    event_from_dict,
)

numbers = st.floats(1e-6, 1e6)
leaves = st.one_of(
    st.just(NothingEvent()),
    numbers.map(PureEvent),
    numbers.map(BoundedRangeEvent),
    numbers.map(ZcdpEvent),
    st.builds(ApproximateEvent, numbers, st.floats(1e-12, 0.5)),
    st.builds(GaussianEvent, numbers, st.integers(1, 10**6), st.floats(FINE_GRID, 1e12)),
)
events = st.recursive(
    leaves,
    lambda inner: st.one_of(
        inner.map(ParallelEvent),
        st.builds(RepeatedEvent, inner, st.integers(1, 1000)),
        st.lists(inner, max_size=4).map(lambda items: ComposedEvent(tuple(items))),
    ),
    max_leaves=8,
)


@given(events)
def test_round_trip_through_json(event):
    assert event_from_dict(json.loads(json.dumps(event.to_dict()))) == event


@pytest.mark.parametrize("bad", [0.0, -1.0, math.nan, math.inf, 5e-324, "1", True, None])
@pytest.mark.parametrize("make", [PureEvent, BoundedRangeEvent, ZcdpEvent, GaussianEvent])
def test_zero_negative_nan_infinite_subnormal_and_string_numbers_are_refused(make, bad):
    with pytest.raises(PrivacyError):
        make(bad)


@pytest.mark.parametrize("delta", [0.0, 1.0, 2.0, math.nan, -1e-9])
def test_delta_of_an_approximate_event_is_a_small_probability(delta):
    with pytest.raises(PrivacyError, match="delta"):
        ApproximateEvent(1.0, delta)


@pytest.mark.parametrize("grid", [0.0, 1.0, FINE_GRID * 0.999, math.nan, math.inf])
def test_a_coarse_discrete_gaussian_is_not_gaussian_dp(grid):
    with pytest.raises(PrivacyError, match="zCDP"):
        GaussianEvent(1.0, draws=1, grid_sigma=grid)
    GaussianEvent(1.0, draws=1, grid_sigma=FINE_GRID)


@pytest.mark.parametrize("draws", [-1, 1.5, True, "3"])
def test_draws_are_counted_in_integers(draws):
    with pytest.raises(PrivacyError, match="draws"):
        GaussianEvent(1.0, draws=draws, grid_sigma=FINE_GRID)


def test_a_grid_without_draws_is_refused():
    with pytest.raises(PrivacyError, match="draws"):
        GaussianEvent(1.0, grid_sigma=FINE_GRID)


@pytest.mark.parametrize("count", [0, -1, 1.0, True])
def test_repetitions_are_counted_in_integers(count):
    with pytest.raises(PrivacyError, match="count"):
        RepeatedEvent(PureEvent(1.0), count)


def test_events_are_made_of_events_only():
    for make in (lambda: RepeatedEvent(1.0, 2), lambda: ParallelEvent("pure"), lambda: ComposedEvent((1.0,))):  # type: ignore[arg-type]
        with pytest.raises(PrivacyError):
            make()
    with pytest.raises(PrivacyError, match="tuple"):
        ComposedEvent([PureEvent(1.0)])  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "table",
    [
        {},
        {"version": 2, "kind": "pure", "epsilon": 1.0},
        {"version": 1, "kind": "free"},
        {"version": 1, "kind": "pure"},
        {"version": 1, "kind": "pure", "epsilon": 1.0, "discount": 0.5},
        {"version": 1, "kind": ["pure"], "epsilon": 1.0},
        {"version": 1, "kind": "parallel", "event": 1.0},
        {"version": 1, "kind": "composed", "events": {}},
        {"version": 1, "kind": "pure", "epsilon": -1.0},
        "pure",
    ],
)
def test_what_is_not_known_is_refused_never_guessed(table):
    with pytest.raises(PrivacyError):
        event_from_dict(table)


def test_nesting_is_bounded():
    table = PureEvent(1.0).to_dict()
    for _ in range(100):
        table = {"version": 1, "kind": "parallel", "event": table}
    with pytest.raises(PrivacyError, match="deep"):
        event_from_dict(table)
