"""A copy made under load, the store destroyed, the copy put back: on both databases nothing that it held is lost."""

from __future__ import annotations

import shutil
import threading
from pathlib import Path

import pytest

from fairveil.errors import SpecError
from fairveil.loop import Reward, Store
from fairveil.loop.upkeep import backup, check, restore

KEY = bytes(range(32))
ARMS = {"name": "even-blocks", "arms": 3, "epsilon": 1.0}


def destroy(url):
    if url.startswith("sqlite:///"):
        shutil.rmtree(Path(url.removeprefix("sqlite:///")).parent)
        return
    import psycopg

    schema = url.rpartition("%3D")[2]
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(f"DROP SCHEMA {schema} CASCADE")
        connection.execute(f"CREATE SCHEMA {schema}")


@pytest.fixture
def place(store_url, tmp_path):
    """Not the folder of the copy."""
    return f"sqlite:///{tmp_path}/data/store.db" if store_url.startswith("sqlite") else store_url


def test_backup_under_load_destroy_restore(place, tmp_path, clock):
    store = Store.open(place, clock=clock, key=KEY)
    loop = store.create("trial", policy=ARMS, reward=Reward(0, 1, wait="60s"))
    acknowledged, over, enough = [], threading.Event(), threading.Event()

    def load():
        while not over.is_set():
            id = f"e-{len(acknowledged)}"
            loop.decide(id)
            loop.reward(id, 1.0)
            acknowledged.append(id)
            if len(acknowledged) == 60:
                enough.set()

    worker = threading.Thread(target=load)
    worker.start()
    assert enough.wait(60)
    clock.advance(61)
    store.tick()
    before = len(acknowledged)
    made = backup(store, tmp_path / "copy")
    over.set()
    worker.join()
    assert made["files"]
    store.close()
    destroy(place)
    restore(tmp_path / "copy", place)
    with pytest.raises(SpecError, match="already"):
        restore(tmp_path / "copy", place)
    with Store.open(place, clock=clock, key=KEY) as found:
        assert check(found)["loops"]["trial"]["version"] > 0
        again = found.loop("trial")
        assert all(again.event(id)["action"] is not None for id in acknowledged[:before])
        found.tick()
        assert again.decide("after").learning == "pending"
        assert again.reward("after", 1.0).accepted
        check(found)


def test_the_age_of_a_backup_is_a_metric(store, tmp_path, clock):
    from fairveil.loop.listing import backup_age

    assert backup_age(store) == 0.0, "nothing can be lost"
    store.create("trial", policy=ARMS, reward=Reward(0, 1, wait="60s"))
    clock.advance(100)
    assert backup_age(store) == 100.0
    backup(store, tmp_path / "copy")
    clock.advance(7)
    assert backup_age(store) == 7.0


def test_a_copy_of_one_kind_is_not_put_into_the_other(store, tmp_path, clock):
    backup(store, tmp_path / "copy")
    other = "postgresql://nobody@127.0.0.1:1/x" if store.driver.dialect == "sqlite" else tmp_path / "new" / "store.db"
    with pytest.raises(SpecError, match="another kind"):
        restore(tmp_path / "copy", other)
