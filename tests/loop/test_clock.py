"""Time that is not to be believed: jumps, gaps, marks that are ahead, other clocks; and what stays closed for ever."""

from __future__ import annotations

import pytest

from fairveil.loop import ManualClock, Reward, Store, SystemClock
from fairveil.loop.clock import SECOND, Time
from fairveil.loop.upkeep import believe_clock, look_at_clock

POLICY = {"name": "even-blocks", "arms": 3, "epsilon": 1.0}
DAY, YEAR = 86400.0, 365 * 86400.0


def play(loop, first, count, value=1.0):
    for index in range(first, first + count):
        loop.decide(f"e-{index}")
        if value is not None:
            loop.reward(f"e-{index}", value)


def trail_of(store):
    with store.reading() as tx:
        return [row[0] for row in tx.execute("SELECT action FROM trail ORDER BY seq")]


def test_a_clock_that_jumps_a_year_ahead_and_is_set_right_costs_nothing(store, loop, clock):
    play(loop, 0, 5, value=None)
    clock.jump(YEAR)
    assert store.tick() == 0
    assert loop.reward("e-0", 1.0).learned == "pending"  # no window is closed by a clock that nobody believes
    during = loop.decide("during")
    assert during.reward_until < loop.decide("again").reward_until or during.policy_version == 0
    assert (loop.status().settled, loop.status().clock - clock.now()) < (1, 0)
    assert store.clock.state(None) == "ahead"
    clock.jump(-YEAR)
    assert store.clock.state(None) == "sane"
    clock.advance(125)
    assert store.tick() == 1
    assert loop.reward("e-1", 1.0)[2:] == ("never", "released")


def test_while_the_clock_is_ahead_decisions_have_the_time_that_has_passed(store, loop, clock):
    first = loop.decide("a")
    clock.jump(YEAR)
    clock.advance(10)
    second = loop.decide("b")
    assert first.reward_until[:16] <= second.reward_until[:16]
    assert loop.status().clock <= clock.now() - round(YEAR * SECOND) + 61 * SECOND


@pytest.mark.parametrize("seconds", [-1.0, 1.0, 59.0])
def test_a_leap_second_and_small_steps_are_believed(store, loop, clock, seconds):
    play(loop, 0, 5)
    clock.jump(seconds)
    assert store.clock.doubt is None
    clock.advance(62)
    assert store.tick() == 1


def test_a_machine_that_was_suspended_goes_on(store, loop, clock):
    """Boot time counts while a machine sleeps: a window that closed meanwhile is closed."""
    play(loop, 0, 5)
    clock.advance(3 * DAY)
    assert store.clock.doubt is None
    assert store.tick() == 1


def test_the_clock_of_the_system_counts_while_it_sleeps():
    clock = SystemClock()
    assert clock.boot() <= clock.boot()
    assert Time(clock, None, 0).doubt is None


def test_a_gap_at_a_start_is_believed_and_noted_up_to_its_limit(store_url, clock):
    with Store.open(store_url, clock=clock, key=bytes(32)) as store:
        play(store.create("t", policy=POLICY, reward=Reward(0, 1, wait="60s")), 0, 5)
    clock.advance(6 * DAY)
    with Store.open(store_url, clock=clock, key=bytes(32)) as store:
        assert store.clock.doubt is None
        clock.advance(61)
        assert store.tick() == 1
        assert trail_of(store).count("clock-gap") == 1


def test_a_longer_gap_needs_a_word_of_an_operator(store_url, clock):
    with Store.open(store_url, clock=clock, key=bytes(32)) as store:
        play(store.create("t", policy=POLICY, reward=Reward(0, 1, wait="60s")), 0, 5)
    clock.advance(8 * DAY)
    with Store.open(store_url, clock=clock, key=bytes(32)) as store:
        assert store.clock.state(None) == "gap"
        clock.advance(120)
        assert store.tick() == 0
        assert store.loop("t").decide("while it waits").round == 5
        with Store.open(store_url, clock=clock, key=bytes(32)) as other:  # the command, in a process of its own
            assert look_at_clock(other)["state"] == "gap"
            believe_clock(other)
        assert store.tick() == 1
        assert store.clock.state(None) == "sane"
        assert "clock" in trail_of(store)
    with Store.open(store_url, clock=clock, key=bytes(32), clock_gap="1000d") as store:
        assert store.clock.doubt is None


@pytest.mark.parametrize("ticked", [True, False])
def test_a_mark_that_is_ahead_comes_down_and_what_was_closed_stays_closed(store_url, clock, ticked):
    """The law: lowering the mark never opens a window, by a tick or by the clock alone."""
    with Store.open(store_url, clock=clock, key=bytes(32)) as store:
        loop = store.create("t", policy=POLICY, reward=Reward(0, 1, wait="60s"))
        play(loop, 0, 3, value=None)
    clock.jump(3 * DAY)  # a start with a clock that is wrong by less than the gap
    with Store.open(store_url, clock=clock, key=bytes(32)) as store:
        loop = store.loop("t")
        clock.advance(61)
        loop.decide("ahead")
        if ticked:
            store.tick()
        assert loop.reward("e-0", 1.0)[2:] == ("never", "late")
        before = loop.status()
    clock.jump(-3 * DAY)
    with Store.open(store_url, clock=clock, key=bytes(32)) as store:
        assert store.clock.state(before.clock) == "behind"
        found = believe_clock(store)
        assert found["loops_ahead"] == 1
        loop = store.loop("t")
        after = loop.status()
        assert after.clock <= clock.now() + SECOND
        assert after.settled >= max(before.settled, 3)
        for event in ("e-0", "e-1", "e-2"):
            assert loop.reward(event, 1.0)[2:] == ("never", "late")
        assert loop.reward("ahead", 1.0).learned == "pending"
        play(loop, 3, 1)
        clock.advance(125)
        assert store.tick() == 1  # nothing waits for a time that has not come


def test_two_processes_of_which_one_has_another_clock(store_url, clock):
    """Ahead by less than the gap, it is believed at its start; set while it lives, it closes nothing for the other."""
    other_clock = ManualClock(clock.now())
    with (
        Store.open(store_url, clock=clock, key=bytes(32)) as one,
        Store.open(store_url, clock=other_clock, key=bytes(32)) as other,
    ):
        loop = one.create("t", policy=POLICY, reward=Reward(0, 1, wait="60s"))
        play(loop, 0, 5, value=None)
        other_clock.jump(YEAR)
        assert other.tick() == 0
        other.loop("t").decide("by the other")
        assert one.loop("t").status().clock <= clock.now() + 61 * SECOND
        assert loop.reward("e-0", 1.0).learned == "pending"
        clock.advance(125)
        assert one.tick() == 1


@pytest.mark.postgres
def test_on_a_server_the_clock_of_the_server_decides(database, monkeypatch):
    monkeypatch.setattr(SystemClock, "now", lambda self: __import__("time").time_ns() // 1000 + round(DAY * SECOND))
    with Store.open(database, key=bytes(32)) as store:
        assert store.clock.doubt == "ahead"
        assert store.clock.wall() - store.clock.now() > (DAY - 120) * SECOND
