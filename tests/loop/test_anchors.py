"""Anchors of a served store: a copy of store and ledger put back together is noticed, a lost mark stops learning alone.

The break that this reduces: ledger and store were restored from one backup, and blocks that had been published since
were drawn a second time, unnoticed; nothing said that no anchor was there to notice.
"""

from __future__ import annotations

import json
import shutil

import pytest

from fairveil.errors import LedgerError, SpecError
from fairveil.ledger.anchor import FileAnchor, Mark
from fairveil.loop import Reward, Store, trail
from fairveil.loop.upkeep import backup, check, reanchor, restore

POLICY = {"name": "even-blocks", "arms": 3, "epsilon": 1.0}
KEY = bytes(range(32))


def play(loop, clock, first, count):
    for index in range(first, first + count):
        loop.decide(f"e-{index}")
        loop.reward(f"e-{index}", 1.0)
    clock.advance(61)
    loop.store.tick()


@pytest.fixture
def data(tmp_path):
    (tmp_path / "data").mkdir()
    return tmp_path / "data"


def opened(data, clock, anchors):
    return Store.open(f"sqlite:///{data}/store.db", clock=clock, key=KEY, anchors=anchors)


def put_back(folder, data):
    shutil.rmtree(data)
    restore(folder / "copy", data / "store.db")


@pytest.fixture(params=["kept", "none"])
def restored_together(request, tmp_path, data, clock):
    """Store and ledger from one backup, after two more blocks were published."""
    anchors = tmp_path / "anchors" if request.param == "kept" else None
    with opened(data, clock, anchors) as store:
        loop = store.create("trial", policy=POLICY, reward=Reward(0, 1, wait="60s"))
        play(loop, clock, 0, 10)
        backup(store, tmp_path / "copy")
        play(loop, clock, 10, 10)
    put_back(tmp_path, data)
    with opened(data, clock, anchors) as store:
        assert store.anchoring == request.param
        yield request.param, store.loop("trial")


def test_a_store_and_its_ledger_put_back_together(restored_together, clock):
    """With an anchor nothing is drawn again; without one it cannot be known, and the store says so."""
    kept, loop = restored_together
    play(loop, clock, 10, 10)
    if kept == "none":
        assert loop.ledger.status("trial/0/block-2") == "published"  # a second draw: what only an anchor can show
        return
    reply = loop.decide("after")
    assert (reply.learning, reply.reason) == ("frozen", "ledger")
    assert "set back" in (loop.store.last_problem or "")
    with pytest.raises(LedgerError, match="set back"):
        reanchor(loop.store, "trial")  # the mark is there and says so: nothing to accept


def test_a_lost_anchor_stops_learning_until_somebody_accepts_it(tmp_path, data, clock):
    anchors = tmp_path / "anchors"
    with opened(data, clock, anchors) as store:
        play(store.create("trial", policy=POLICY, reward=Reward(0, 1, wait="60s")), clock, 0, 5)
    (anchors / "trial.anchor").unlink()
    with opened(data, clock, anchors) as store:
        loop = store.loop("trial")
        play(loop, clock, 5, 5)
        assert loop.status().stopped == "ledger"
        assert loop.decide("x").learning == "frozen"  # decisions go on
        assert "fairveil store reanchor trial" in (store.last_problem or "")
        reanchor(store, "trial", actor="ann")
        assert store.tick() == 1  # what waited is released
        play(loop, clock, 20, 10)
        assert (loop.status().stopped, loop.status().version) == (None, 4)
        with store.reading() as tx:
            last = trail.entries(tx)[-1]
        assert (last["actor"], last["action"], last["target"]) == ("ann", "reanchor", "trial")
        assert "started anew 1 time" in " ".join(check(store)["ledgers"]["trial"]["notes"])
    with opened(data, clock, anchors) as store, pytest.raises(SpecError, match="is not lost"):
        reanchor(store, "trial")


def test_a_damaged_anchor_is_replaced_by_the_same_command(tmp_path, data, clock):
    anchors = tmp_path / "anchors"
    with opened(data, clock, anchors) as store:
        play(store.create("trial", policy=POLICY, reward=Reward(0, 1, wait="60s")), clock, 0, 5)
    (anchors / "trial.anchor").write_text("{")
    with opened(data, clock, anchors) as store:
        play(store.loop("trial"), clock, 5, 5)
        assert store.loop("trial").status().stopped == "ledger"
        reanchor(store, "trial")
        play(store.loop("trial"), clock, 20, 5)
        assert store.loop("trial").status().stopped is None


def test_without_the_anchor_that_it_has_a_loop_does_not_learn(tmp_path, data, clock):
    with opened(data, clock, tmp_path / "anchors") as store:
        play(store.create("trial", policy=POLICY, reward=Reward(0, 1, wait="60s")), clock, 0, 5)
    with opened(data, clock, None) as store:
        play(store.loop("trial"), clock, 5, 5)
        assert store.loop("trial").status().stopped == "ledger"
        assert store.anchoring == "none"
        with pytest.raises(SpecError, match="no folder of anchors"):
            reanchor(store, "trial")


def test_a_backup_holds_no_mark(tmp_path, data, clock):
    """Also where the anchors stand in the store's own folder, which is said: who copies all of it copies them too."""
    with opened(data, clock, data / "anchors") as store:
        play(store.create("trial", policy=POLICY, reward=Reward(0, 1, wait="60s")), clock, 0, 5)
        assert store.anchoring == "beside the store"
        head = FileAnchor(data / "anchors" / "trial.anchor").read().head
        backup(store, tmp_path / "copy")
    assert not [path for path in (tmp_path / "copy").rglob("*") if "anchor" in path.name]
    manifest = (tmp_path / "copy" / "manifest.json").read_text()
    assert head not in manifest
    assert json.loads(manifest)["anchored"] == ["trial"]


def test_a_simulated_store_needs_no_anchor(tmp_path, data, clock):
    with opened(data, clock, None) as store:
        assert store.anchoring == "none"
        store.create("play", policy=POLICY, reward=Reward(0, 1, wait="60s"), simulated=True)
        assert store.anchoring == "not needed"


def test_a_mark_never_goes_back(tmp_path):
    """Two processes that share an anchor: the later one to write may have the earlier mark."""
    anchor = FileAnchor(tmp_path / "a.anchor")
    anchor.write(Mark("one", 5, "five"))
    anchor.write(Mark("one", 4, "four"))
    assert anchor.read() == Mark("one", 5, "five")
    anchor.write(Mark("one", 6, "six"))
    assert anchor.read().sequence == 6
