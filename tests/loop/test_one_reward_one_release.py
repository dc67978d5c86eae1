"""The promise of a served loop that releases by arrival, exactly: one changed reward changes one released number.

Coins, noise, arrivals, restarts and restores are the same in both worlds; one reward differs (and, where arrivals are
hidden, when it came, or whether). Everything published before the release that holds it is equal, and of that release
everything but one number, which moves by at most one unit.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fairveil.bandits.environments.arms import UNIT
from fairveil.bandits.protocol import HEADER
from fairveil.loop import ManualClock, Reward, Store, batch, seats
from fairveil.loop.loop import Loop
from fairveil.loop.seats import close_windows
from fairveil.loop.upkeep import backup, check, restore
from fairveil.privacy.noise import SeededNoise
from fairveil.randomness import generator

FAST = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
KEY = bytes(32)
NASH = {"name": "private-nash", "arms": 2, "epsilon": 1.0}
steps = st.one_of(
    st.tuples(st.just("decide"), st.integers(1, 8)),
    st.tuples(st.just("reward"), st.lists(st.integers(0, 40), min_size=1, max_size=6)),
    st.tuples(st.just("wait"), st.sampled_from([5, 30, 61])),
    st.tuples(st.sampled_from(["tick", "restart", "backup", "restore", "freeze", "thaw", "other"]), st.just(0)),
)
scripts = st.lists(steps, min_size=4, max_size=24)


class World:
    """A script played in a store of its own; rewards by event, None for one that never comes."""

    def __init__(self, folder: Path, missing: str, rewards: dict[int, float | None], default: float) -> None:
        self.folder, self.missing, self.rewards, self.default = folder, missing, rewards, default
        self.clock, self.lives, self.decided, self.copied, self.beside = ManualClock(), 0, 0, False, None
        self.open()
        reward = Reward(0, 1, wait="60s", missing=missing)
        self.loop = self.store.create("t", policy=NASH, reward=reward, simulated=True)

    def open(self) -> None:
        self.store = Store.open(f"sqlite:///{self.folder}/data/store.db", clock=self.clock, key=KEY)
        self.store.noise, self.store.rng = SeededNoise(self.lives), generator(self.lives, "coins")
        self.lives += 1

    def play(self, script, sound: bool = True) -> list[tuple]:
        for name, number in script:
            getattr(self, name)(number)
        self.wait(61)
        self.tick(0)
        if sound:
            check(self.store)
        ledger = self.store.loop("t").ledger
        names = [entry["name"] for entry in ledger.entries() if entry["kind"] == "publish"]
        values = [ledger.value(name) for name in names]
        self.leave()
        return [
            (name, value[HEADER].tolist(), int(value["total"][0]), float(value["count"][0]))
            for name, value in zip(names, values)
        ]

    def decide(self, count) -> None:
        for _ in range(count):
            self.store.loop("t").decide(f"e-{self.decided}")
            self.decided += 1

    def reward(self, events) -> None:
        value = [(event, self.rewards.get(event, self.default)) for event in events if event < self.decided]
        self.store.loop("t").reward_many([(f"e-{event}", given) for event, given in value if given is not None])

    def wait(self, seconds) -> None:
        self.clock.advance(seconds)

    def tick(self, _) -> None:
        self.store.tick(["t"])

    def freeze(self, _) -> None:
        self.store.loop("t").set_mode("frozen")

    def thaw(self, _) -> None:
        self.store.loop("t").set_mode("online")

    def other(self, _) -> None:
        """Another process of the same store goes on."""
        here, self.store = self.store, self.beside
        if self.store is None:
            self.open()
        self.beside = here

    def leave(self) -> None:
        for store in (self.store, self.beside):
            if store is not None:
                store.close()
        self.beside = None

    def restart(self, _) -> None:
        self.leave()
        self.open()

    def backup(self, _) -> None:
        if not self.copied:
            self.copied = True
            backup(self.store, self.folder / "copy")

    def restore(self, _) -> None:
        if not self.copied:
            return
        self.leave()
        for file in (self.folder / "data").glob("store.db*"):
            file.unlink()
        restore(self.folder / "copy", self.folder / "data" / "store.db")
        self.open()
        self.store.tick(["t"])


def published(script, missing, changed, value, sound=True) -> list[tuple]:
    with tempfile.TemporaryDirectory(dir=FAST) as folder:
        return World(Path(folder), missing, {changed: value}, 1.0).play(script, sound)


def differ_in_one(first: list[tuple], second: list[tuple]) -> bool:
    """Equal up to one release, which has the same header and number of rewards; its sum moves by one unit at most."""
    for one, other in zip(first, second):
        if one != other:
            same_header = one[:2] == other[:2] and one[3] == other[3]
            return same_header and abs(one[2] - other[2]) <= UNIT
    return len(first) == len(second)


QUICK = settings(max_examples=12, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))


@QUICK
@given(script=scripts, changed=st.integers(0, 20))
def test_one_reward_changes_one_released_number(script, changed):
    assert differ_in_one(*(published(script, "public", changed, value) for value in (1.0, 0.0)))


@QUICK
@given(script=scripts, changed=st.integers(0, 20))
def test_hidden_arrivals_are_protected_with_the_reward(script, changed):
    assert differ_in_one(*(published(script, "default", changed, value) for value in (1.0, None)))


@QUICK
@given(script=scripts, missing=st.sampled_from(["public", "default"]), end=st.sampled_from(["frozen", "closed"]))
def test_a_trial_that_has_ended_leaves_nothing_behind(script, missing, end):
    """Whatever happened before: once nobody waits every seat is in one release, and nothing comes after it."""
    with tempfile.TemporaryDirectory(dir=FAST) as folder:
        world = World(Path(folder), missing, {}, 1.0)
        for name, number in script:
            getattr(world, name)(number)
        loop = world.store.loop("t")
        loop.set_mode("frozen") if end == "frozen" else loop.close()
        world.reward(range(world.decided))  # in flight when it ended
        world.wait(61)
        world.tick(0)
        state = loop.status().state
        assert state["taken"].tolist() == state["came"].tolist()
        assert not (state["closed"] < 0).any()
        released = len(list(loop.ledger.entries()))
        answers = loop.reward_many([(f"e-{event}", 0.0) for event in range(world.decided)])
        assert {getattr(answer, "learned", "never") for answer in answers} <= {"never"}  # unknown after a restore
        world.wait(61)
        world.tick(0)
        assert len(list(loop.ledger.entries())) == released
        check(world.store)
        world.leave()


SCRIPT = [("decide", 3), ("reward", [0, 1, 2]), ("tick", 0), ("decide", 3), ("reward", [3, 4, 5]), ("tick", 0),
          ("decide", 12), ("reward", [6, 8, 9, 10, 11]), ("wait", 61), ("tick", 0)]  # fmt: skip
ENDED = [("decide", 5), ("reward", [0, 1, 2, 3, 4]), ("freeze", 0), ("tick", 0), ("thaw", 0), ("decide", 2),
         ("freeze", 0), ("wait", 61), ("tick", 0)]  # fmt: skip
"""A trial that ends in the middle of a turn, goes on after all, and ends again."""


def test_the_script_of_the_mutants_is_kept_by_the_loop():
    for missing, value in (("public", 0.0), ("default", None)):
        for script in (SCRIPT, ENDED):
            found = [published(script, missing, 4, reward) for reward in (1.0, value)]
            assert differ_in_one(*found)
            assert found[0] != found[1]


def _no_seat_for_nothing(original):
    def broken(self, row):
        return row if row.reward == 0.0 else original(self, row)

    return broken


def _at_the_answer(original):
    def broken(self, row):
        ready = row.reward is not None and row.seat is None and row.queue is not None
        return row._replace(seat=self.take(row.queue)) if ready else row

    return broken


def _answers_alone(original):
    def broken(batch, low, stop):
        query = "UPDATE events SET learn = 'never' WHERE loop = ? AND round >= ? AND round < ? AND rewarded IS NULL"
        batch.tx.execute(query, (batch.facts.id, low, stop))
        original(batch, low, stop)

    return broken


def _by_content(original):
    def broken(facts, status):
        found = original(facts, status)
        return [] if not found or _raw[0] < 5.5 else found

    return broken


_raw = [0.0]


def _noting(original):
    def broken(self, row, value):
        _raw[0] += value or 0.0
        return original(self, row, value)

    return broken


def _once_all_answered(original):
    """A frozen pool is over when everybody has answered, although that is hidden."""

    def broken(batch):
        if batch.before.mode == "frozen":
            query = "SELECT count(*) FROM events WHERE loop = ? AND rewarded IS NULL"
            [(silent,)] = batch.tx.execute(query, (batch.facts.id,))
            if not silent:
                close_windows(batch, batch.before.settled, batch.round)
                batch.change(settled=batch.round)
        return original(batch)

    return broken


MUTANTS = {
    "frozen-by-answers": ("default", [("settle", "settle", _once_all_answered)]),
    "seat-by-value": ("public", [(seats.Seating, "at_answer", _no_seat_for_nothing)]),
    "seat-at-the-answer": ("default", [(seats.Seating, "at_answer", _at_the_answer)]),
    "pool-count-read": ("default", [("settle", "close_windows", _answers_alone)]),
    "pool-by-content": ("public", [("blocks", "due_seats", _by_content), (batch.Batch, "answer", _noting)]),
}


@pytest.mark.parametrize("name", MUTANTS)
def test_mistakes_planted_in_the_loop_are_caught(name, monkeypatch):
    from fairveil.loop import blocks, settle

    missing, changes = MUTANTS[name]
    for place, attribute, change in changes:
        owner = {"settle": settle, "blocks": blocks}.get(place, place)
        monkeypatch.setattr(owner, attribute, change(getattr(owner, attribute)))
    found = []
    for reward in (1.0, None if missing == "default" else 0.0):
        _raw[0] = 0.0
        found.append(published(ENDED if "frozen" in name else SCRIPT, missing, 4, reward, sound=False))
    assert not differ_in_one(*found)


def test_a_second_seat_after_a_restart_is_refused_by_the_database(tmp_path):
    """A restart that forgot a seat would give it to somebody else: the unique index says no."""
    world = World(tmp_path, "public", {}, 1.0)
    world.decide(3)
    world.reward([0, 1])
    with world.store.writing() as tx:
        tx.execute("UPDATE loops SET tally = ?", (bytes(32),))
    world.restart(0)
    refused = world.store.loop("t").reward_many([("e-2", 1.0)])
    assert "UNIQUE" in str(refused[0])
    world.store.close()


def _sorted(original):
    def broken(self, rewards):
        return original(self, sorted(rewards, key=lambda one: one[1]))

    return broken


GREEDY = {
    "policy": {"name": "batched-private-fair-greedy", "epsilon": 5.0, "delta": 1e-6, "first_batch": 4},
    "features": [{"name": "x", "low": -1.0, "high": 1.0}],
}


@pytest.mark.parametrize("twin", [False, True])
@pytest.mark.parametrize("table", [{"policy": NASH}, GREEDY], ids=["nash", "meritocratic"])
def test_seats_inside_one_batch_follow_the_order_of_arrival_not_values(tmp_path, monkeypatch, table, twin):
    if twin:
        monkeypatch.setattr(Loop, "reward_many", _sorted(Loop.reward_many))
    found = []
    for number, value in enumerate((1.0, 0.0)):
        with Store.open(f"sqlite:///{tmp_path}/{number}/store.db", clock=ManualClock(), key=KEY) as store:
            store.rng = generator(0, "coins")
            reward = Reward(0, 1, wait="60s", missing="public")
            loop = store.create("t", reward=reward, simulated=True, **table)
            more = {"candidates": [{"features": [0.1]}, {"features": [0.4]}]} if table is GREEDY else {}
            for event in range(3):
                loop.decide(f"e-{event}", **more)
            loop.reward_many([("e-2", 0.5), ("e-1", value), ("e-0", 0.5)])
            with store.reading() as tx:
                found.append(tx.execute("SELECT round, queue, seat FROM events ORDER BY round"))
    assert (found[0] == found[1]) is not twin
    assert twin or [seat for _, _, seat in found[0]] == [2, 1, 0]
