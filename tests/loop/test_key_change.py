"""A key that is changed while events are under way: their rewards arrive, nobody is decided or counted twice."""

from __future__ import annotations

import shutil

import pytest

from fairveil.errors import FairveilError, SpecError
from fairveil.loop import Person, Reward, Store
from fairveil.loop.keys import EVENTS, PEOPLE, Keys
from fairveil.loop.problems import EventReused, StorageFailed
from fairveil.loop.upkeep import LIVELY, check, rekey

ARMS = {"name": "even-blocks", "arms": 2, "epsilon": 1.0}
TRIAL = {"policy": ARMS, "reward": Reward(0, 1, wait="60s"), "person": Person(max_events=2), "reports": {"spare": 1.0}}


@pytest.fixture
def file(tmp_path):
    return tmp_path / "key"


@pytest.fixture
def opened(store_url, clock, file):
    """Opens the same store again, as a restart does."""
    before = []

    def again(**options):
        for store in before:
            store.close()
        before[:] = [Store.open(store_url, clock=clock, **{"key_file": file, **options})]
        return before[0]

    yield again
    before[0].close()


def change(opened, file):
    """Key changed, as `fairveil store rekey` does it."""
    rekey(opened(keyless=True), file)
    return opened()


def test_key_changed_while_old_events_are_rewarded(opened, file):
    loop = opened().create("trial", **TRIAL)
    first = loop.decide("e-1", subject="ann")
    loop.decide("e-2", subject="ann")
    deferred = loop.decide("e-3", subject="bob", defer=True)
    old = opened().keys
    store = change(opened, file)
    loop = store.loop("trial")
    assert store.keys.name != old.name
    assert loop.reward("e-1", 1.0).accepted
    assert loop.reward("e-1", 1.0).accepted, "the same again"
    assert loop.event("e-2")["action"] is not None, "asked for under its old key"
    again = loop.decide("e-1", subject="ann")
    assert (again.replayed, again.action) == (True, first.action)
    assert loop.decide("e-3", subject="bob", defer=True).action == deferred.action
    assert loop.activate("e-3")
    with pytest.raises(EventReused):
        loop.decide("e-2", subject="eve")
    over = loop.decide("e-4", subject="ann")
    assert (over.learning, over.reason) == ("never", "limit"), "two events of ann were counted under the old key"
    assert loop.status().round == 4
    check(store)


def test_every_row_that_a_request_names_goes_by_the_new_key(opened, file):
    loop = opened().create("trial", **TRIAL)
    loop.decide("e-1", subject="ann")
    old = opened().keys
    loop = change(opened, file).loop("trial")
    loop.decide("e-1", subject="ann")
    keys = loop.store.keys
    with loop.store.reading() as tx:
        for places, new, gone in ((EVENTS, keys.event("e-1"), old.event("e-1")), (PEOPLE, keys.subject("ann"), b"")):
            for table, column in places:
                found = [bytes(row[0]) for row in tx.execute(f"SELECT {column} FROM {table}")]
                assert found == [new], (table, column)
                assert gone not in found


def test_every_column_of_hashed_ids_is_renamed(opened):
    """As the database lists them: a table that is left out would count a person from nothing under a new key."""
    store = opened()
    store.create("trial", **TRIAL).decide("e-1", subject="ann")
    query = {
        "sqlite": "SELECT m.name, c.name FROM sqlite_master m, pragma_table_info(m.name) c WHERE m.type = 'table'",
        "postgresql": "SELECT table_name, column_name FROM information_schema.columns "
        "WHERE table_schema = current_schema()",
    }
    with store.reading() as tx:
        rows = tx.execute(query[store.driver.dialect])
    others = ("meta", "released_events")  # names of settings; pages are asked under every key (`aliases.released`)
    held = {(table, column) for table, column in rows if column in ("key", "event", "subject") and table not in others}
    assert held == {*EVENTS, *PEOPLE}


def test_everybody_of_a_request_is_recognised_under_the_new_key(opened, file):
    """Candidates who were counted under the old key: at the limit, whichever seat they come back to."""
    queue = {"policy": {"name": "batched-private-fair-greedy", "epsilon": 1.0, "delta": 1e-6}, "groups": ["a"],
             "features": [{"name": "x", "low": -1.0, "high": 1.0}], "person": Person(max_events=1)}  # fmt: skip

    def shown(*people):
        return [{"group": "a", "features": [0.1], "subject": one} for one in people]

    opened().create("queue", **queue).decide("e-1", candidates=shown("ann", "bob"))
    loop = change(opened, file).loop("queue")
    again = loop.decide("e-2", candidates=shown("eve", "bob"))
    assert (again.learning, again.reason) == ("never", "limit")


def test_erasure_finds_a_person_under_every_key(opened, file):
    opened().create("trial", **TRIAL).decide("e-1", subject="ann")
    change(opened, file).loop("trial").decide("e-2", subject="ann")
    loop = change(opened, file).loop("trial")
    assert len(loop.store.keys.old) == 2
    assert loop.erase_subject("ann") == 2
    with loop.store.reading() as tx:
        assert not tx.execute("SELECT 1 FROM appearances")
        assert not tx.execute("SELECT 1 FROM place_appearances")


@pytest.mark.parametrize("store_url", ["sqlite"], indirect=True)
def test_released_events_of_a_lost_copy_are_known_under_their_old_key(opened, file, clock, tmp_path):
    store = opened()
    loop = store.create("trial", **{**TRIAL, "reports": None})
    store.close()
    shutil.copy(tmp_path / "store.db", tmp_path / "copy.db")
    store = opened()
    loop = store.loop("trial")
    for index in range(40):
        loop.decide(f"e-{index}", subject=f"p-{index}")
        loop.reward(f"e-{index}", 1.0)
    clock.advance(3600)
    store.tick()
    assert loop.status().version > 0
    store.close()
    shutil.copy(tmp_path / "copy.db", tmp_path / "store.db")
    opened().tick()
    loop = change(opened, file).loop("trial")
    loop.store.tick()
    assert loop.status().epoch == 1
    assert loop.decide("e-1", subject="p-1").reason == "released"
    assert loop.decide("e-new", subject="p-new").learning == "pending"


def test_a_change_that_was_interrupted_is_finished_by_the_same_command(opened, file, monkeypatch):
    opened().create("trial", **TRIAL).decide("e-1", subject="ann")
    store = opened(keyless=True)
    monkeypatch.setattr("fairveil.loop.upkeep.change_key", lambda *given: (_ for _ in ()).throw(RuntimeError("killed")))
    with pytest.raises(RuntimeError, match="killed"):
        rekey(store, file)
    monkeypatch.undo()
    with pytest.raises(StorageFailed, match="not finished"):
        opened()
    made = file.read_text()
    rekey(opened(keyless=True), file)
    assert file.read_text() == made, "the key that was made is the key"
    assert opened().loop("trial").reward("e-1", 1.0).accepted
    file.write_text(made.splitlines()[0] + "\n")
    with pytest.raises(StorageFailed, match="older key"):
        opened()
    file.write_text(made)


def test_a_key_in_the_environment_is_put_before_the_old_one(opened, monkeypatch):
    old, new = bytes(range(32)).hex(), bytes(range(1, 33)).hex()
    monkeypatch.setenv("FAIRVEIL_KEY", old)
    opened(key_file=None).create("trial", **TRIAL).decide("e-1", subject="ann")
    with pytest.raises(SpecError, match="in the environment"):
        rekey(opened(keyless=True))
    monkeypatch.setenv("FAIRVEIL_KEY", f"{new} {old}")
    rekey(opened(keyless=True))
    store = opened(key_file=None)
    assert store.keys.name == Keys(bytes.fromhex(new)).name
    assert store.loop("trial").reward("e-1", 1.0).accepted


def test_no_change_beside_a_running_service(opened, file):
    store = opened()
    with store.writing() as tx:
        tx.execute("INSERT INTO meta (key, value) VALUES ('ready', ?)", (str(store.clock.now()),))
    with pytest.raises(FairveilError, match="a moment ago"):
        rekey(opened(keyless=True), file)
    with store.writing() as tx:
        tx.execute("UPDATE meta SET value = ? WHERE key = 'ready'", (str(store.clock.now() - LIVELY),))
    rekey(opened(keyless=True), file)
