"""After crashes and restores: nothing is drawn twice, and a copy that is older than its ledger begins a new epoch."""

from __future__ import annotations

import os
import shutil
import sqlite3

import numpy as np
import pytest

from fairveil.errors import LedgerError
from fairveil.loop import Reward, Store, settle
from fairveil.loop.problems import StorageFailed
from fairveil.loop.upkeep import backup, check, restore
from fairveil.storage import faults

POLICY = {"name": "even-blocks", "arms": 3, "epsilon": 1.0}
KEY = bytes(range(32))


class Killed(BaseException):
    pass


def play(loop, clock, first, count):
    for index in range(first, first + count):
        loop.decide(f"e-{index}")
        loop.reward(f"e-{index}", 1.0)


@pytest.fixture
def place(tmp_path, clock):
    url = f"sqlite:///{tmp_path}/data/store.db"
    with Store.open(url, clock=clock, key=KEY) as store:
        loop = store.create("trial", policy=POLICY, reward=Reward(0, 1, wait="60s"))
        play(loop, clock, 0, 12)
        clock.advance(61)
        store.tick()
        play(loop, clock, 12, 3)
    return url, tmp_path


def dies(store, point, count=1):
    """A tick that is killed when it passes a point for the so-many-th time; nothing more reaches the ledgers."""
    left = [count]

    def hook(name: str) -> None:
        left[0] -= name == point
        if left[0] == 0:
            faults.hook = None
            for ledger in store.memory.ledgers.values():
                ledger._book.close()
            raise Killed

    faults.hook = hook
    try:
        with pytest.raises(Killed):
            store.tick()
    finally:
        faults.hook = None
    for ledger in store.memory.ledgers.values():
        ledger.draws.session.forget()
    store.memory.ledgers.clear()
    store.close()


@pytest.mark.parametrize(
    "point", ["draw", "drawn", "block-folded", "block-drawn", "block-adopted", "erased", "store-commit"]
)
def test_a_tick_that_dies_anywhere_is_completed_by_the_next(store_url, clock, point):
    store = Store.open(store_url, clock=clock, key=KEY)
    loop = store.create("trial", policy=POLICY, reward=Reward(0, 1, wait="60s"))
    play(loop, clock, 0, 5)
    clock.advance(61)
    dies(store, point)
    with Store.open(store_url, clock=clock, key=KEY) as again:
        clock.advance(61)
        again.tick()
        loop = again.loop("trial")
        status = loop.status()
        lost = point in ("draw", "drawn", "block-folded")
        assert (status.version, status.erased) == (0 if lost else 1, 5)
        assert loop.ledger.status("trial/0/block-0") == ("lost" if lost else "published")
        assert check(again)["loops"]["trial"]["rounds"] == 5


@pytest.mark.parametrize(
    ("point", "count", "version"),
    [("draw", 3, 0), ("block-folded", 2, 0), ("drawn", 4, 0), ("block-drawn", 1, 4), ("block-adopted", 3, 4)],
)
def test_blocks_that_are_due_together_share_their_commits_and_their_fate(store_url, clock, point, count, version):
    """Killed before they are stored all of them are lost; after that, none is."""
    store = Store.open(store_url, clock=clock, key=KEY)
    loop = store.create("trial", policy=POLICY, reward=Reward(0, 1, wait="60s"))
    play(loop, clock, 0, 22)
    clock.advance(61)
    dies(store, point, count)
    with Store.open(store_url, clock=clock, key=KEY) as again:
        clock.advance(61)
        again.tick()
        loop = again.loop("trial")
        status = loop.status()
        assert (status.version, status.erased, status.epoch) == (version, 20, 0)
        words = {loop.ledger.status(f"trial/0/block-{number}") for number in range(4)}
        assert words == {"published" if version else "lost"}
        check(again)


def test_a_store_that_is_older_than_its_ledger_begins_a_new_epoch(place, clock):
    url, folder = place
    data = folder / "data"
    with Store.open(url, clock=clock, key=KEY) as store:
        backup(store, folder / "copy")
        loop = store.loop("trial")
        play(loop, clock, 15, 20)
        clock.advance(61)
        store.tick()
        before = loop.ledger.spent
        assert loop.status().version == 7
    for name in ("store.db", "store.db-wal", "store.db-shm"):
        (data / name).unlink(missing_ok=True)
    restore(folder / "copy", data / "store.db")  # the ledger survived
    with Store.open(url, clock=clock, key=KEY) as store:
        loop = store.loop("trial")
        assert loop.status().version == 2
        clock.advance(61)
        store.tick()
        status = loop.status()
        assert (status.epoch, status.version, status.round) == (1, 7, 35)
        reply = loop.decide("fresh")
        assert reply.round == status.round
        play(loop, clock, 100, 10)
        clock.advance(61)
        assert store.tick() >= 1
        assert loop.ledger.status("trial/1/block-" + str(int(status.state["number"]))) == "published"
        assert loop.ledger.spent == before
        assert check(store)["loops"]["trial"]["epoch"] == 1
        with store.reading() as tx:
            assert "epoch" in [row[0] for row in tx.execute("SELECT action FROM trail")]
            assert tx.execute("SELECT count(*) FROM blocks WHERE epoch = 0 AND status = 'released'")[0][0] == 7


def put_back(folder):
    for file in (folder / "data").glob("store.db*"):
        file.unlink()
    restore(folder / "copy", folder / "data" / "store.db")


@pytest.mark.parametrize("settled", [True, False])
def test_a_copy_with_open_blocks_behind_what_was_released_since(place, clock, settled):
    """Settled in the copy: adopted as after a crash. Else a new epoch, and what is open behind it is abandoned."""
    url, folder = place
    with Store.open(url, clock=clock, key=KEY) as store:
        loop = store.loop("trial")
        play(loop, clock, 15, 1)
        clock.advance(30)
        play(loop, clock, 16, 1)
        clock.advance(35)
        if settled:
            loop.writer.act(settle.settle)
        backup(store, folder / "copy")
        assert store.tick() == 1  # rounds 10 to 14; those from 15 on are still open
    put_back(folder)
    with Store.open(url, clock=clock, key=KEY) as store:
        loop = store.loop("trial")
        clock.advance(61)
        store.tick()
        status = loop.status()
        with store.reading() as tx:
            found = tx.execute("SELECT name, status FROM blocks ORDER BY first")
            left = tx.execute("SELECT count(*) FROM events WHERE reward IS NOT NULL")[0][0]
        assert found[2:] == [("block-2", "released"), *([] if settled else [("block-3", "abandoned")])]
        assert (status.epoch, status.version, status.round) == ((0, 3, 17) if settled else (1, 3, 20))
        assert left == (2 if settled else 0)
        assert loop.reward("e-14", 0.0)[2:] == ("never", "released")
        assert loop.ledger.status("trial/0/block-3") == "unknown"
        check(store)


def test_a_block_of_a_copy_that_was_lost_since_is_abandoned(place, clock):
    url, folder = place

    def fail(name: str) -> None:
        if name == "draw":
            raise ValueError(name)

    with Store.open(url, clock=clock, key=KEY) as store:
        loop = store.loop("trial")
        play(loop, clock, 15, 2)
        clock.advance(61)
        faults.hook = fail
        try:
            with pytest.raises(ValueError, match="draw"):
                store.tick()
        finally:
            faults.hook = None
    with Store.open(url, clock=clock, key=KEY) as store:
        loop = store.loop("trial")
        backup(store, folder / "copy")
        store.tick()
        play(loop, clock, 17, 3)
        clock.advance(61)
        store.tick()
        assert loop.ledger.status("trial/0/block-2") == "lost"
        assert loop.ledger.status("trial/0/block-3") == "published"
    put_back(folder)
    with Store.open(url, clock=clock, key=KEY) as store:
        loop = store.loop("trial")
        clock.advance(61)
        store.tick()
        with store.reading() as tx:
            found = tx.execute("SELECT name, status FROM blocks ORDER BY first")
            assert tx.execute("SELECT count(*) FROM events WHERE reward IS NOT NULL") == [(0,)]
        assert found[2:] == [("block-2", "abandoned"), ("block-3", "released")]
        assert (loop.status().epoch, loop.status().version, loop.decide("fresh").round) == (1, 3, 20)
        check(store)


QUEUE = {
    "policy": {"name": "batched-private-fair-greedy", "epsilon": 5.0, "delta": 1e-6, "first_batch": 8},
    "groups": ["a", "b"],
    "features": [{"name": "x", "low": -1.0, "high": 1.0}],
}
NASH = {"policy": {"name": "private-nash", "arms": 3, "epsilon": 1.0}}
PEOPLE = [{"group": "a", "features": [0.5]}, {"group": "b", "features": [-0.5]}]


@pytest.mark.parametrize("table", [NASH, QUEUE], ids=["nash", "meritocratic"])
def test_a_copy_that_is_put_back_twice_goes_on_from_the_newest_release_each_time(tmp_path, clock, table):
    """The ledger has every block since the copy: none is drawn again, and ids of blocks never come back."""
    data, copy = tmp_path / "data", tmp_path / "copy"
    url = f"sqlite:///{data}/store.db"
    more = {"candidates": PEOPLE} if table is QUEUE else {}

    def live(loop, name: str, count: int = 40) -> None:
        for index in range(count):
            loop.decide(f"{name}-{index}", **more)
            loop.reward(f"{name}-{index}", 0.5)
        clock.advance(61)
        loop.store.tick()

    with Store.open(url, clock=clock, key=KEY) as store:
        loop = store.create("trial", reward=Reward(0, 1, wait="60s"), **table)
        live(loop, "first")
        loop.decide("open in the copy", **more)
        backup(store, copy)
        live(loop, "second")
        newest = loop.status()
    for time in (1, 2):
        for file in data.glob("store.db*"):
            file.unlink()
        restore(copy, data / "store.db")
        with Store.open(url, clock=clock, key=KEY) as store:
            loop = store.loop("trial")
            clock.advance(61)
            store.tick()
            status = loop.status()
            assert status.epoch == time
            assert status.version == newest.version
            public = [name for name in newest.state if name in ("sums", "counts", "direction", "tables", "moments")]
            assert all(np.array_equal(status.state[name], newest.state[name]) for name in public)
            before = set(_published(loop))
            live(loop, f"after-{time}", 150)
            assert set(_published(loop)) > before
            assert loop.ledger.spent.units > 0
            assert loop.status().settled >= newest.settled
            check(store)


def _published(loop) -> list[str]:
    found = [entry["name"] for entry in loop.ledger.entries() if entry["kind"] == "publish"]
    assert len(found) == len(set(found))
    return found


def test_a_ledger_that_was_set_back_and_has_grown_since_is_noticed(tmp_path, clock):
    """Two loops share it; the other one has made it as long as it was."""
    data = tmp_path / "data"
    url = f"sqlite:///{data}/store.db"
    shared = {"ledger": "both", "epsilon": 2.0}
    with Store.open(url, clock=clock, key=KEY) as store:
        loops = [
            store.create(name, policy=POLICY, reward=Reward(0, 1, wait="60s"), budget=shared) for name in ("one", "two")
        ]
        source, copy = sqlite3.connect(data / "ledgers" / "both.db"), sqlite3.connect(tmp_path / "old.db")
        source.backup(copy)
        source.close(), copy.close()
        play(loops[0], clock, 0, 5)
        clock.advance(61)
        store.tick()
    for path in (data / "ledgers").iterdir():
        path.unlink()
    shutil.copy(tmp_path / "old.db", data / "ledgers" / "both.db")
    with Store.open(url, clock=clock, key=KEY) as store:
        play(store.loop("two"), clock, 0, 10)
        clock.advance(61)
        store.loop("two").tick()
        assert store.ledger("both").sequence >= store.loop("one").status().ledger_sequence
        store.loop("one").tick()
        assert store.loop("one").decide("x").reason == "ledger"
        assert store.loop("two").decide("x").learning == "pending"


def test_a_ledger_that_is_older_than_its_store_stops_learning_and_nothing_else(place, clock):
    url, folder = place
    data = folder / "data"
    old = folder / "old.db"
    with Store.open(url, clock=clock, key=KEY) as store:
        source = sqlite3.connect(data / "ledgers" / "trial.db")
        copy = sqlite3.connect(old)
        source.backup(copy)
        source.close(), copy.close()
        loop = store.loop("trial")
        play(loop, clock, 15, 10)
        clock.advance(61)
        store.tick()
    for path in (data / "ledgers").iterdir():
        path.unlink()
    shutil.copy(old, data / "ledgers" / "trial.db")
    with Store.open(url, clock=clock, key=KEY) as store:
        loop = store.loop("trial")
        clock.advance(61)
        assert store.tick() == 0
        reply = loop.decide("after")
        assert (reply.round, reply.learning, reply.reason) == (None, "frozen", "ledger")


def test_a_ledger_set_back_is_noticed_by_its_anchor(tmp_path, clock):
    url, anchors = f"sqlite:///{tmp_path}/store.db", tmp_path / "anchors"
    anchors.mkdir()
    with Store.open(url, clock=clock, key=KEY, anchors=anchors) as store:
        loop = store.create("trial", policy=POLICY, reward=Reward(0, 1, wait="60s"))
        shutil.copytree(tmp_path / "ledgers", tmp_path / "old", ignore=shutil.ignore_patterns("*.live"))
        play(loop, clock, 0, 5)
        clock.advance(61)
        store.tick()
    shutil.rmtree(tmp_path / "ledgers")
    shutil.copytree(tmp_path / "old", tmp_path / "ledgers")
    with Store.open(url, clock=clock, key=KEY, anchors=anchors) as store:
        clock.advance(61)
        store.tick()
        assert store.loop("trial").decide("x").reason == "ledger"
        assert "set back" in (store.last_problem or "")
        with pytest.raises(LedgerError):
            check(store)


def test_a_backup_is_refused_when_it_was_changed_and_put_back_whole(place, clock):
    url, folder = place
    with Store.open(url, clock=clock, key=KEY) as store:
        backup(store, folder / "copy")
    other = folder / "other" / "store.db"
    restore(folder / "copy", other)
    with Store.open(f"sqlite:///{other}", clock=clock, key=KEY) as store:
        assert check(store)["loops"]["trial"]["version"] == 2
        assert store.loop("trial").decide("e-3").replayed
    changed = folder / "copy" / "ledgers" / "trial.db"
    changed.write_bytes(changed.read_bytes() + b"x")
    with pytest.raises(Exception, match="changed"):
        restore(folder / "copy", folder / "third" / "store.db")


@pytest.mark.postgres
def test_a_server_that_cuts_every_connection_is_asked_again(database, clock):
    """Refused at most once, nothing is lost or doubled, and releases go on."""
    import psycopg

    url = f"{database}&application_name=cut-{os.getpid()}"

    def cut() -> None:
        with psycopg.connect(database, autocommit=True) as other:
            other.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = %s",
                (f"cut-{os.getpid()}",),
            )

    def until_answered(work):
        for _ in range(4):
            try:
                return work()
            except (StorageFailed, LedgerError) as problem:
                refused.append(problem)
        raise AssertionError(refused)

    refused: list[Exception] = []
    with Store.open(url, clock=clock, key=KEY) as store:
        loop = store.create("trial", policy=POLICY, reward=Reward(0, 1, wait="60s"))
        for number in range(6):
            until_answered(lambda number=number: loop.decide(f"e-{number}"))
            with store.reading(), store.reading():
                pass  # idle connections, all of which are cut off
            cut()
            until_answered(lambda number=number: loop.reward(f"e-{number}", 1.0))
        assert len(refused) <= 7
        clock.advance(61)
        cut()
        until_answered(store.tick)
        until_answered(store.tick)
        assert (loop.status().version, loop.status().round, loop.status().stopped) == (1, 6, None)
        assert [until_answered(lambda n=n: loop.decide(f"e-{n}")).round for n in range(6)] == list(range(6))
        check(store)
