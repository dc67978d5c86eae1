"""Synchronisation protocols: their times, their sizes, and what they may read."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairveil import registry
from fairveil.bandits.exposure import BatchedPrivFairx, FedFairx, PrivFairx, PrivFairxPrinted
from fairveil.errors import HorizonError, SpecError
from fairveil.federated.schedules import (
    Determinant,
    Doubling,
    EveryRound,
    Growing,
    Never,
    Paper,
    schedule_from,
)

FACTS = {"agents": 10, "dimension": 5, "horizon": 100_000}


def test_the_published_schedule_at_full_size():
    paper = Paper()
    assert paper.gap(100_000, 10, 5) == 5
    assert paper.times(100_000, 10, 5)[:7] == [1, 2, 4, 8, 13, 18, 23]
    assert paper.size(100_000, 10, 5) == 20_002
    assert paper.gap(100_000, 5, 5) == 9
    assert paper.gap(100_000, 1, 5) == 41
    assert paper.gap(100_000, 41, 5) == 1
    assert paper.times(1000, 4100, 5) == EveryRound().times(1000, 1, 5)


@settings(deadline=None)
@given(st.integers(1, 3000), st.integers(1, 50), st.integers(1, 8))
def test_times_rise_and_stay_inside(rounds, agents, dimension):
    for schedule in (Never(), EveryRound(), Doubling(), Paper(), Growing(1.3, 2), Growing(2.5)):
        times = schedule.times(rounds, agents, dimension)
        assert times == sorted(set(times))
        assert all(1 <= time <= rounds for time in times)
        assert schedule.size(rounds, agents, dimension) == len(times)


def test_names_and_tables_build_schedules():
    assert {"never", "every-round", "paper", "determinant", "doubling", "growing"} <= set(registry.names("schedule"))
    assert schedule_from("doubling") == Doubling()
    assert schedule_from({"name": "growing", "factor": 3.0}) == Growing(3.0)
    with pytest.raises(SpecError, match="did you mean"):
        schedule_from("doublin")
    with pytest.raises(SpecError, match="factor"):
        schedule_from({"name": "growing", "factor": 1.0})
    with pytest.raises(SpecError, match="name or a table"):
        schedule_from(7)


def test_the_determinant_rule_finds_the_first_round_past_its_threshold():
    rng = np.random.default_rng(3)
    root = rng.normal(size=(4, 4))
    precision, gained = root @ root.T + np.eye(4), np.diag([0.3, 0.2, 0.1, 0.0])
    limit = 40.0

    def passed(delta):
        ratio = np.linalg.slogdet(precision + delta * gained)[1] - np.linalg.slogdet(precision)[1]
        return delta * ratio > limit

    first = next(delta for delta in range(1, 10_000) if passed(delta))
    assert Determinant().following(100, precision, gained, limit, 10_000) == 100 + first
    assert Determinant().following(100, precision, gained, limit, 100 + first - 1) == 0
    assert Determinant().following(100, precision, 0 * gained, limit, 10_000) == 0


def test_the_default_threshold_is_stated_and_can_be_set():
    assert Determinant().limit(1000, 10, 5) == pytest.approx(1000 * np.log(10_000) / 50)
    assert Determinant(threshold=3.0).limit(1000, 10, 5) == 3.0
    assert Determinant(max_syncs=7).size(1000, 10, 5) == 7


def test_sound_policies_refuse_the_raw_trigger_and_printed_ones_lose_their_guarantee():
    raw = {"name": "determinant", "raw": True}
    for kind in (PrivFairx, BatchedPrivFairx):
        with pytest.raises(SpecError, match="raw"):
            kind(**FACTS, epsilon=1.0, delta=1e-5, schedule=raw)
    printed = PrivFairxPrinted(**FACTS, epsilon=1.0, delta=1e-5, schedule=raw)
    assert not printed.guarantee().established
    assert any("depends on raw rows" in note for note in printed.guarantee().notes)
    assert FedFairx(**FACTS, schedule=raw).guarantee() is None


def test_a_schedule_that_needs_more_room_than_the_sum_has_is_refused():
    with pytest.raises(SpecError, match="more often than the sum is sized for"):
        PrivFairx(**FACTS, epsilon=1.0, delta=1e-5, releases=100)
    policy = PrivFairx(**FACTS, epsilon=1.0, delta=1e-5, releases=30_000)
    assert policy.room == 30_000
    small = FedFairx(agents=1, dimension=2, horizon=4, schedule="doubling")
    state = {**small.start(), "syncs": np.array(3)}
    with pytest.raises(HorizonError, match="all synchronisations"):
        small.release(state, None)
