"""Many loops: a tick touches those with something to do, and looks at the others once in the background."""

from __future__ import annotations

import pytest

from fairveil.loop import Retention, Reward, Store, ticks
from fairveil.loop.writer import Writer

POLICY = {"name": "even-blocks", "arms": 3, "epsilon": 1.0}
COUNT = 12


@pytest.fixture
def many(store_url, clock):
    with Store.open(store_url, clock=clock, key=bytes(32)) as store:
        for index in range(COUNT):
            store.create(f"loop-{index:02}", policy=POLICY, reward=Reward(0, 1, wait="10m"))
    with Store.open(store_url, clock=clock, key=bytes(32)) as store:
        yield store


@pytest.fixture
def touched(monkeypatch):
    """The names of loops whose writers ran since it was last emptied."""
    found = []
    real = Writer._commit

    def watched(self, items):
        found.append(self.facts.spec.name)
        return real(self, items)

    monkeypatch.setattr(Writer, "_commit", watched)
    return found


def settled_down(store, clock, touched):
    """Every loop was looked at, and nothing was written for a while."""
    for _ in range(4):
        store.tick()
        clock.advance(61)
    touched.clear()


def test_a_tick_of_idle_loops_touches_none(many, clock, touched):
    settled_down(many, clock, touched)
    for _ in range(5):
        many.tick()
        clock.advance(1)
    assert touched == []


def test_a_loop_is_touched_when_its_window_closes_and_not_before(many, clock, touched):
    settled_down(many, clock, touched)
    loop = many.loop("loop-03")
    for index in range(5):
        loop.decide(f"e-{index}", subject="p")
        loop.reward(f"e-{index}", 1.0)
    for _ in range(3):
        many.tick()
        clock.advance(61)
    touched.clear()
    for _ in range(5):
        assert many.tick() == 0
        clock.advance(1)
    assert touched == []
    clock.advance(600)
    assert many.tick() == 1
    assert set(touched) == {"loop-03"}


def test_what_another_process_decided_is_found(many, store_url, clock, touched):
    settled_down(many, clock, touched)
    with Store.open(store_url, clock=clock, key=bytes(32)) as other:
        for index in range(5):
            other.loop("loop-07").decide(f"e-{index}")
    clock.advance(601)
    assert many.tick() == 1


def test_retention_of_an_idle_loop_comes_when_it_is_time(store, clock, touched):
    loop = store.create("kept", policy=POLICY, reward=Reward(0, 1, wait="10m"), retention=Retention(events="1d"))
    loop.set_mode("frozen")
    loop.decide("e", subject="p")
    settled_down(store, clock, touched)
    clock.advance(700)
    store.tick()
    clock.advance(86400.0)
    store.tick()
    with store.reading() as tx:
        assert tx.execute("SELECT erased, action FROM events") == [("all", None)]


def test_ledgers_are_looked_at_in_the_background(many, monkeypatch):
    monkeypatch.setattr(ticks, "AT_LEAST", 5)
    monkeypatch.setattr(ticks, "BACKGROUND", 0.0)
    left = []
    for _ in range(4):
        many.tick()
        left.append(many.unchecked)
    assert left == [7, 2, 0, 0]


def test_one_loop_of_each_policy_is_named(many):
    assert many.kinds() == ["loop-00"]
