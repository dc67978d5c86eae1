"""Release by arrival in a loop: a seat with every reward, pools that fall due by themselves, crashes and restores."""

from __future__ import annotations

import itertools

import pytest

from fairveil.bandits.nash.arrivals import candidates
from fairveil.bandits.nash.private_nash import PrivateNash
from fairveil.bandits.protocol import HEADER
from fairveil.ledger.verify import verify
from fairveil.loop import Reward, Store
from fairveil.loop.public import loop_table
from fairveil.loop.upkeep import backup, check, restore
from fairveil.storage import faults

KEY = bytes(range(32))
NASH = {"name": "private-nash", "arms": 2, "epsilon": 1.0}  # turns of 3 rounds, first pools of 6


def create(store, missing="public", **more):
    return store.create("trial", policy=NASH, reward=Reward(0, 1, wait="60s", missing=missing), **more)


def decide(loop, first, count):
    return [loop.decide(f"e-{index}") for index in range(first, first + count)]


def headers(loop):
    found = [entry["name"] for entry in loop.ledger.entries() if entry["kind"] == "publish"]
    return {name: [int(n) for n in loop.ledger.value(name)[HEADER]] for name in found}


def seats(store):
    with store.reading() as tx:
        return dict(tx.execute("SELECT round, seat FROM events WHERE round IS NOT NULL ORDER BY round"))


def test_a_new_loop_releases_by_arrival_and_an_old_one_goes_on_by_blocks(store):
    assert create(store).facts.policy.released_by == "arrivals"
    other = store.create("old", policy={**NASH, "release": "blocks"}, reward=Reward(0, 1, wait="60s"))
    assert not other.facts.by_seat
    said = ', "release": "arrivals"'
    with store.writing() as tx:  # a description as an earlier version wrote it
        tx.execute("UPDATE loops SET config = replace(config, ?, '') WHERE name = 'trial'", (said,))
    store.memory.leave("trial")
    assert store.loop("trial").facts.policy.released_by == "blocks"


def test_a_new_loop_has_tried_a_release_before_anybody_asks(store, monkeypatch):
    """So that the first one neither compiles nor calibrates anything."""
    tried, real = [], PrivateNash.adopt
    monkeypatch.setattr(PrivateNash, "adopt", lambda self, *given: (tried.append(given[1]), real(self, *given))[1])
    loop = create(store)
    assert len(tried) == 1
    assert "sum" in vars(loop.facts.policy)
    assert loop.status().version == 0
    assert not loop.ledger.known.filter.reserved.units


@pytest.mark.parametrize("missing", ["public", "default"])
def test_no_mode_compiles_anything_while_somebody_waits(store, missing):
    """The writer of a loop stands still meanwhile: seconds on a cold machine, and 503 for everybody."""
    loop, known = create(store, missing), len(candidates.shared.signatures)
    decide(loop, 0, 4)
    for mode in ("frozen", "apprentice", "shadow"):
        loop.set_mode(mode)
        loop.decide(mode)
    assert len(candidates.shared.signatures) == known


def test_rewards_get_seats_in_the_order_in_which_they_come(store, clock):
    loop = create(store)
    replies = decide(loop, 0, 6)
    arms = [reply.action for reply in replies]
    assert arms == [arms[0]] * 3 + [1 - arms[0]] * 3
    loop.reward_many([("e-2", 1.0), ("e-4", 0.0), ("e-0", 1.0)])
    loop.reward("e-1", 0.0)
    assert seats(store) == {0: 1, 1: 2, 2: 0, 3: None, 4: 0, 5: None}
    assert store.tick() == 1  # nothing more can come for the first arm; the other one does not hold it up
    assert list(headers(loop).values()) == [[arms[0], 0, 3, 6]]
    assert loop.reward("e-1", 1.0).reason == "released"
    assert [loop.event(f"e-{index}")["reward"] for index in (0, 3, 4)] == ["released", "none", "pending"]
    loop.reward("e-3", 1.0)
    clock.advance(61)
    store.tick()  # e-5 never answers
    assert headers(loop)[f"trial/0/{1 - arms[0]}-0-2"] == [1 - arms[0], 0, 2, 6]
    assert loop.reward("e-5", 1.0).reason == "late"
    state = loop.status().state
    assert (state["came"].sum(), state["closed"].sum(), state["given"].sum()) == (5, 1, 6)
    status = loop.status()
    assert (status.settled, status.erased, status.released) == (6, 6, 6)
    check(store)


def test_hidden_arrivals_get_their_seats_when_windows_close(store, clock):
    loop = create(store, missing="default")
    replies = decide(loop, 0, 6)
    for index in (5, 1, 0):
        loop.reward(f"e-{index}", 1.0)
    assert store.tick() == 0
    assert set(seats(store).values()) == {None}
    clock.advance(61)
    assert store.tick() == 2
    assert list(seats(store).values()) == [0, 1, 2, 0, 1, 2]
    assert loop.status().state["counts"].tolist() == [3.0, 3.0]
    assert {reply.action for reply in replies} == {0, 1}
    check(store)


def test_a_deferred_decision_has_its_seat_when_it_was_shown_and_answered(store, clock):
    loop = create(store)
    for index in range(3):
        loop.decide(f"e-{index}", defer=index < 2)
    loop.reward("e-0", 1.0)
    loop.reward("e-2", 1.0)
    loop.activate("e-1")
    assert seats(store) == {0: None, 1: None, 2: 0}
    loop.activate("e-0")
    assert seats(store) == {0: 1, 1: None, 2: 0}
    clock.advance(61)
    store.tick()
    assert seats(store) == {0: 1, 1: None, 2: 0}
    assert loop.status().state["closed"].sum() == 1
    check(store)


@pytest.mark.parametrize("missing", ["public", "default"])
def test_a_reward_of_a_decision_that_was_never_shown_is_said_to_be_unused(store, clock, missing):
    loop = create(store, missing)
    loop.decide("e-0", defer=True)
    loop.reward("e-0", 1.0)
    assert loop.event("e-0")["reward"] == "pending"
    clock.advance(61)
    store.tick()
    assert loop.event("e-0")["reward"] == "never"


def test_an_apprentice_closes_the_rounds_of_another_arm(store, clock):
    loop = create(store, mode="apprentice")
    own = loop.decide("e-0", baseline=0)
    other = [loop.decide(f"e-{index}", baseline=1) for index in (1, 2)]
    learned = [own, *other]
    state = loop.status().state
    closed = sum(reply.learning == "never" for reply in learned)
    assert closed in (1, 2)
    assert state["closed"].sum() == closed
    for reply in learned:
        loop.reward(reply.event_id, 1.0)
    assert store.tick() == 1
    check(store)


def test_what_comes_while_a_pool_is_drawn_has_a_later_seat(store, clock):
    loop = create(store)
    decide(loop, 0, 12)
    loop.reward_many([(f"e-{index}", 1.0) for index in range(10)])
    late = []

    def more(point):
        if point == "block-folded" and not late:
            late.append(loop.reward("e-10", 1.0))

    faults.hook = more
    try:
        store.tick()
    finally:
        faults.hook = None
    assert late[0].learned == "pending"
    loop.reward("e-11", 1.0)
    store.tick()
    for arm in (0, 1):
        mine = sorted(tuple(header[1:3]) for header in headers(loop).values() if header[0] == arm)
        assert all(before[1] == after[0] for before, after in itertools.pairwise(mine))
        assert mine[0][0] == 0
    check(store)


class Killed(BaseException):
    pass


POINTS = ["store-commit", "batch-decided", "batch-written", "draw", "drawn", "block-folded", "block-drawn",
          "block-adopted", "erased"]  # fmt: skip
INSIDE = ["batch-answers", "store-begin", "store-begun", "store-committed", "begin", "begun", "insert", "inserted",
          "commit", "committed"]  # fmt: skip
"""Inside the writes of the store and of the ledger."""


def dies(store, point, count, work):
    """Work that is killed when it passes a point for the so-many-th time; whether it was."""
    left, died = [count], []

    def hook(name):
        left[0] -= name == point
        if left[0] == 0:
            faults.hook = None
            for ledger in store.memory.ledgers.values():
                ledger._book.close()
            raise Killed

    faults.hook = hook
    try:
        work()
    except Killed:
        died.append(True)
    finally:
        faults.hook = None
    for ledger in store.memory.ledgers.values():
        ledger.draws.session.forget()
    store.memory.ledgers.clear()
    store.close()
    return bool(died)


@pytest.mark.parametrize("missing", ["public", "default"])
@pytest.mark.parametrize("point", POINTS)
def test_a_crash_at_every_write_point_loses_or_keeps_each_reward_once(store_url, clock, point, missing):
    check_crashes(store_url, clock, point, missing)


@pytest.mark.parametrize("missing", ["public", "default"])
@pytest.mark.parametrize("point", INSIDE)
def test_a_crash_inside_every_write_does_the_same(store_url, clock, point, missing):
    check_crashes(store_url, clock, point, missing)


def check_crashes(store_url, clock, point, missing):
    """Killed at every passing of the point in turn: no seat is released twice, and what is answered later joins."""
    store = Store.open(store_url, clock=clock, key=KEY)
    create(store, missing=missing)
    count = 0
    for life in range(1, 7):
        loop = store.loop("trial")
        first = 12 * (life - 1)

        def work(loop=loop, first=first):
            decide(loop, first, 12)
            loop.reward_many([(f"e-{index}", 1.0) for index in range(first, first + 12) if index % 5])
            clock.advance(61)
            loop.store.tick()

        count += dies(store, point, life, work)
        store = Store.open(store_url, clock=clock, key=KEY)
        clock.advance(61)
        store.tick()
    loop = store.loop("trial")
    decide(loop, 100, 12)
    loop.reward_many([(f"e-{index}", 1.0) for index in range(100, 112)])
    clock.advance(61)
    store.tick()
    assert count
    assert loop.status().epoch == 0
    check(store)
    names = [entry["name"] for entry in loop.ledger.entries() if entry["kind"] == "reserve"]
    assert len(names) == len(set(names)) > 0
    state = loop.status().state
    taken = [max([int(n.split("-")[2]) for n in names if n.startswith(f"trial/0/{arm}-")], default=0) for arm in (0, 1)]
    assert taken == state["taken"].tolist()
    place, inside = store.driver.ledger("trial")
    assert any("releases by arrival" in note for note in verify(place, ledger=inside).notes)
    store.close()


@pytest.mark.parametrize("missing", ["public", "default"])
def test_these_are_all_write_points(store, clock, missing):
    """Whatever a loop by arrival passes, from the first decision to the erasure behind a release."""
    passed = set()
    loop = create(store, missing=missing)
    faults.hook = passed.add
    try:
        decide(loop, 0, 12)
        loop.reward_many([(f"e-{index}", 1.0) for index in range(12) if index % 5])
        clock.advance(61)
        store.tick()
    finally:
        faults.hook = None
    assert passed == {*POINTS, *INSIDE}


def released_events(store):
    """How often every event stands in a published release, from the pages beside the ledger."""
    counts, published = {}, set(headers(store.loop("trial")))
    with store.driver.beside("trial").reading() as tx:
        for block, keys in tx.execute("SELECT block, keys FROM released_pages"):
            for start in range(0, len(bytes(keys)) if block in published else 0, 16):
                key = bytes(keys)[start : start + 16]
                counts[key] = counts.get(key, 0) + 1
    return counts


@pytest.mark.parametrize("missing", ["public", "default"])
def test_after_a_restore_no_reward_of_the_lost_time_is_learned(tmp_path, clock, missing):
    data = tmp_path / "data"
    url = f"sqlite:///{data}/store.db"
    with Store.open(url, clock=clock, key=KEY) as store:
        loop = create(store, missing=missing)
        decide(loop, 0, 20)
        loop.reward_many([(f"e-{index}", 1.0) for index in range(9)])
        store.tick()
        backup(store, tmp_path / "copy")
        loop.reward_many([(f"e-{index}", 1.0) for index in range(9, 18)])
        clock.advance(61)
        store.tick()
        decide(loop, 20, 10)
        before = headers(loop)
        newest = loop.status()
        assert newest.version > 0
    for time in (1, 2):
        for file in data.glob("store.db*"):
            file.unlink()
        restore(tmp_path / "copy", data / "store.db")
        with Store.open(url, clock=clock, key=KEY) as store:
            loop = store.loop("trial")
            store.tick()
            status = loop.status()
            assert status.epoch == time
            assert status.round >= newest.settled
            assert status.state["sums"].tolist() == newest.state["sums"].tolist()
            late = [loop.reward(f"e-{index}", 1.0) for index in (12, 19)]  # of rounds that the copy knows
            assert [(one.learned, one.reason) for one in late] == [("never", "restored")] * 2
            again = loop.decide("e-25")
            # not known to the copy: in no release the first time, in one of the life before the second time
            assert (again.learning, again.reason) == (("pending", None) if time == 1 else ("never", "released"))
            fresh = [loop.decide(f"new-{time}-{index}") for index in range(12)]
            loop.reward_many([(reply.event_id, 1.0) for reply in [again, *fresh]])
            clock.advance(61)
            store.tick()
            found = headers(loop)
            assert set(found) > set(before)
            assert all(name.split("/")[1] == str(time) for name in set(found) - set(before))
            before = found
            assert set(released_events(store).values()) == {1}
            check(store)
            place, inside = store.driver.ledger("trial")
            verify(place, ledger=inside)


def test_a_person_who_is_erased_keeps_the_seat_and_no_reward(store, clock):
    loop = create(store)
    for index in range(3):
        loop.decide(f"e-{index}", subject=f"s-{index}")
        loop.reward(f"e-{index}", 1.0)
    loop.erase_subject("s-1")
    assert seats(store) == {0: 0, 1: 1, 2: 2}
    store.tick()
    assert next(iter(headers(loop).values()))[1:3] == [0, 3]
    assert loop.status().state["counts"].sum() == 2.0
    check(store)


def test_frozen_loops_release_what_they_have(store, clock):
    loop = create(store)
    decide(loop, 0, 3)
    loop.set_mode("frozen")
    loop.reward_many([(f"e-{index}", 1.0) for index in range(3)])
    assert loop.decide("x").round is None
    assert store.tick() == 1
    assert loop.status().state["given"].sum() == 3


def half_a_turn(store, missing, answered):
    """Four rounds: the first turn is over, of the second one round is decided; so many of them are answered."""
    loop = create(store, missing=missing)
    arms = [reply.action for reply in decide(loop, 0, 4)]
    loop.reward_many([(f"e-{index}", 1.0) for index in range(answered)])
    return loop, arms[3]


def freeze(loop):
    loop.set_mode("frozen")


def close(loop):
    loop.close()


@pytest.mark.parametrize("end", [freeze, close])
@pytest.mark.parametrize("missing", ["public", "default"])
def test_at_the_end_of_a_trial_no_answer_waits_for_rounds_that_never_come(store, clock, missing, end):
    loop, arm = half_a_turn(store, missing, 4)
    clock.advance(61)
    assert store.tick() == 1
    clock.advance(10_000)
    assert store.tick() == 0  # two rounds of the turn are undecided: they may still come
    assert loop_table(loop)["waiting"][arm]["answered"] == 1
    end(loop)
    assert store.tick() == 1  # nobody has to write anything first
    assert headers(loop)[f"trial/0/{arm}-0-1"] == [arm, 0, 1, 4]
    status = loop.status()
    assert (status.settled, status.released, status.erased) == (4, 4, 4)
    assert status.state["given"].sum() == 6
    check(store)


@pytest.mark.parametrize("missing", ["public", "default"])
def test_a_frozen_pool_waits_for_everybody_whose_window_is_open(store, clock, missing):
    loop = create(store, missing=missing)
    arm = decide(loop, 0, 3)[0].action
    clock.advance(30)
    decide(loop, 3, 2)
    loop.reward_many([(f"e-{index}", 1.0) for index in range(4)])
    freeze(loop)
    clock.advance(31)
    assert store.tick() == 1  # the arm of e-3 and e-4 waits for e-4
    assert {header[0] for header in headers(loop).values()} == {arm}
    clock.advance(30)
    assert store.tick() == 1
    size = 1 if missing == "public" else 2
    assert headers(loop)[f"trial/0/{1 - arm}-0-{size}"] == [1 - arm, 0, size, 5]
    check(store)


@pytest.mark.parametrize("missing", ["public", "default"])
def test_after_thawing_the_turn_goes_on_and_later_answers_join_the_next_pool(store_url, clock, missing):
    with Store.open(store_url, clock=clock, key=KEY) as store:
        loop, arm = half_a_turn(store, missing, 4)
        freeze(loop)
    with Store.open(store_url, clock=clock, key=KEY) as store, Store.open(store_url, clock=clock, key=KEY) as other:
        clock.advance(61)
        assert store.tick() == 2  # the mode is stored: a restart goes on with it
        other.loop("trial").set_mode("online")
        loop = store.loop("trial")
        assert [reply.action for reply in decide(loop, 4, 1)] == [arm]
        other.loop("trial").reward("e-4", 1.0)
        clock.advance(61)
        assert store.tick() == 0  # one round of the turn is undecided again
        freeze(other.loop("trial"))
        assert store.tick() == 1
        loop.set_mode("online")
        assert decide(loop, 5, 1)[0].action == arm
        loop.reward("e-5", 1.0)
        clock.advance(61)
        assert store.tick() == 1
        mine = [header[1:3] for header in headers(loop).values() if header[0] == arm]
        assert mine == [[0, 1], [1, 2], [2, 3]]
        check(store)
        place, inside = store.driver.ledger("trial")
        assert any("releases by arrival" in note for note in verify(place, ledger=inside).notes)


def test_at_the_horizon_the_turn_is_over_too(store, clock):
    """No policy of these arms has a horizon of its own; one of a plug-in may."""
    loop = create(store)
    vars(loop.facts).update(horizon=4)
    decide(loop, 0, 3)
    loop.reward_many([(f"e-{index}", 1.0) for index in range(3)])
    assert store.tick() == 1
    arm = decide(loop, 3, 1)[0].action
    loop.reward("e-3", 1.0)
    assert store.tick() == 1
    assert headers(loop)[f"trial/0/{arm}-0-1"] == [arm, 0, 1, 4]
    assert loop.decide("x").reason == "horizon"


def test_a_copy_from_before_the_frozen_release_adopts_it(tmp_path, clock):
    url = f"sqlite:///{tmp_path}/data/store.db"
    with Store.open(url, clock=clock, key=KEY) as store:
        loop, _ = half_a_turn(store, "public", 4)
        backup(store, tmp_path / "copy")
        freeze(loop)
        assert store.tick() == 2
        sums = loop.status().state["sums"].tolist()
    for file in (tmp_path / "data").glob("store.db*"):
        file.unlink()
    restore(tmp_path / "copy", tmp_path / "data" / "store.db")
    with Store.open(url, clock=clock, key=KEY) as store:
        store.tick()
        loop = store.loop("trial")
        status = loop.status()
        assert (status.epoch, status.mode, status.state["sums"].tolist()) == (1, "online", sums)
        assert loop.reward("e-3", 0.0).reason == "restored"
        assert not (status.state["closed"] < 0).any()
        check(store)


def test_a_copy_from_the_middle_of_a_turn_that_was_released_to_its_end(tmp_path, clock):
    """The copy knows one round of three; the ledger has released all of them. No count of rounds falls below zero."""
    url = f"sqlite:///{tmp_path}/data/store.db"
    with Store.open(url, clock=clock, key=KEY) as store:
        loop, _ = half_a_turn(store, "public", 3)
        backup(store, tmp_path / "copy")
        decide(loop, 4, 2)
        loop.reward_many([(f"e-{index}", 1.0) for index in (3, 4, 5)])
        assert store.tick() == 2
        published = loop.status().state
    for file in (tmp_path / "data").glob("store.db*"):
        file.unlink()
    restore(tmp_path / "copy", tmp_path / "data" / "store.db")
    with Store.open(url, clock=clock, key=KEY) as store:
        store.tick()
        loop = store.loop("trial")
        state = loop.status().state
        for name in ("given", "came", "sums"):
            assert state[name].tolist() == published[name].tolist()
        assert state["closed"].tolist() == [0, 0]
        assert [row["under_way"] for row in loop_table(loop)["waiting"]] == [0, 0]
        check(store)


def test_reports_of_people_are_released_when_a_local_loop_is_frozen(store, clock):
    policy = {"name": "local-nash", "arms": 2, "epsilon": 1.0}
    loop = store.create("trial", policy=policy, reward=Reward(0, 1, wait="60s", missing="public"))
    while loop.status().round == loop.facts.policy.reach(loop.status().state) or loop.status().round < 40:
        index = loop.status().round
        decide(loop, index, 1)
        loop.reward(f"e-{index}", 1.0)
        store.tick()
    assert sum(row["answered"] for row in loop_table(loop)["waiting"]) > 0
    freeze(loop)
    store.tick()
    assert sum(row["answered"] for row in loop_table(loop)["waiting"]) == 0
    check(store)


def test_the_table_of_a_loop_can_be_written(store, clock):
    loop = create(store)
    decide(loop, 0, 5)
    table = loop_table(loop)
    assert sum(row["decided"] for row in table["published"]["arms"]) == 5


def test_a_release_of_another_process_between_two_steps_of_a_tick_stops_nothing(store, store_url, clock, monkeypatch):
    """What is due is drawn from the state that has it, not from the one that was read before somebody else released."""
    loop, refused = create(store), []
    monkeypatch.setattr(store, "report", refused.append)
    with Store.open(store_url, clock=clock, key=KEY) as other:
        theirs = other.loop("trial")

        def settle():
            found = type(loop)._settle(loop)
            assert theirs.tick() >= 1
            decide(loop, 6, 60)
            loop.reward_many([(f"e-{index}", 1.0) for index in range(6, 66)])
            return found

        decide(loop, 0, 6)
        loop.reward_many([(f"e-{index}", 1.0) for index in range(6)])
        monkeypatch.setattr(loop, "_settle", settle)
        assert loop.tick() >= 1
    assert not refused
    assert loop.status().stopped is None
    assert loop.decide("last").learning == "pending"
    check(store)
