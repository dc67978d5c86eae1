"""A store that is put back: no event is released twice, or an operator has accepted that it may be.

The break that this reduces: a copy was put back twice, one event was learned in released blocks of three epochs, the
ledger still said 1 of 1, and no note named an epoch.
"""

from __future__ import annotations

import shutil

import pytest
from running_service import Direct

from fairveil.errors import BudgetError, SpecError
from fairveil.loop import Person, Reward, Store, blocks, pages, trail
from fairveil.loop.problems import NameTaken, NotKept
from fairveil.loop.public import loop_table
from fairveil.loop.upkeep import accept_epoch, backup, check, restore
from fairveil.service.app import Service
from fairveil.service.settings import Settings
from fairveil.storage import faults

POLICY = {"name": "even-blocks", "arms": 3, "epsilon": 1.0}
KEY = bytes(range(32))


def play(loop, clock, first, count):
    replies = [loop.decide(f"e-{index}") for index in range(first, first + count)]
    for reply in replies:
        loop.reward(reply.event_id, 1.0)
    clock.advance(61)
    loop.store.tick()
    return replies


@pytest.fixture
def data(tmp_path, clock):
    """A loop with a block, copied; then two more blocks of the events 5 to 14."""
    url = f"sqlite:///{tmp_path}/data/store.db"
    with Store.open(url, clock=clock, key=KEY) as store:
        loop = store.create("trial", policy=POLICY, reward=Reward(0, 1, wait="60s"))
        play(loop, clock, 0, 5)
        backup(store, tmp_path / "copy")
        play(loop, clock, 5, 10)
        assert loop.status().version == 3
    return tmp_path / "data"


def put_back(data):
    for file in data.glob("store.db*"):
        file.unlink()
    restore(data.parent / "copy", data / "store.db")


def opened(data, clock):
    return Store.open(f"sqlite:///{data}/store.db", clock=clock, key=KEY)


def released(data, clock):
    """How often each event of a page stands in a block that the ledger has published."""
    counts = {}
    with opened(data, clock) as store:
        loop = store.loop("trial")
        published = {entry["name"] for entry in loop.ledger.entries() if entry["kind"] == "publish"}
        with store.driver.beside("trial").reading() as tx:
            for block, keys in tx.execute("SELECT block, keys FROM released_pages"):
                for key in pages._split(keys) if block in published else ():
                    counts[key] = counts.get(key, 0) + 1
    return counts


def test_an_event_is_released_once_however_often_its_store_is_put_back(data, clock):
    for epoch in (1, 2):
        put_back(data)
        with opened(data, clock) as store:
            loop = store.loop("trial")
            clock.advance(61)
            store.tick()
            again = play(loop, clock, 5, 10)  # events that were released after the copy was made
            assert {(reply.learning, reply.reason) for reply in again} == {("never", "released")}
            assert {reply.round for reply in again} == {None}
            fresh = play(loop, clock, 100 * epoch, 10)
            assert {reply.learning for reply in fresh} == {"pending"}
            assert loop.status().epoch == epoch
            assert loop.status().stopped is None
            promise = loop_table(loop)["guarantee"]
            assert (promise["epsilon"], promise["established"]) == (1.0, True)
            assert f"put back {epoch} time" in " ".join(promise["notes"])
            check(store)
    counts = released(data, clock)
    assert len(counts) == 15 + 20
    assert set(counts.values()) == {1}


@pytest.mark.parametrize("fault", ["lost", "older", "changed"])
def test_without_all_pages_learning_waits_for_an_operator(data, clock, fault):
    events = data / "ledgers" / "trial.events"
    if fault == "older":
        for file in events.parent.glob("trial.events*"):
            file.unlink()
        shutil.copy(data.parent / "copy" / "ledgers" / "trial.events", events)
    put_back(data)
    if fault == "lost":
        for file in events.parent.glob("trial.events*"):
            file.unlink()
    with opened(data, clock) as store:
        loop = store.loop("trial")
        if fault == "changed":
            with store.driver.beside("trial").writing() as tx:
                tx.execute("UPDATE released_pages SET keys = ? WHERE block = 'trial/0/block-2'", (b"",))
        clock.advance(61)
        store.tick()
        waiting = play(loop, clock, 20, 5)
        assert {(reply.learning, reply.reason) for reply in waiting} == {("frozen", "epoch")}
        assert loop_table(loop)["learning"] == {"state": "frozen", "reason": "epoch"}
        assert "fairveil store accept trial" in (store.last_problem or "")
        with pytest.raises(BudgetError):
            accept_epoch(store, "trial")  # its ledger covers one epoch
        accept_epoch(store, "trial", uncharged=True, actor="ann")
        store.tick()
        learned = play(loop, clock, 30, 10)
        assert {reply.learning for reply in learned} == {"pending"}
        promise = loop_table(loop)["guarantee"]
        assert promise["epsilon"] == 2.0
        assert "without" in " ".join(promise["notes"])
        with store.reading() as tx:
            last = [entry for entry in trail.entries(tx) if entry["action"] == "accept-epoch"]
        assert [(entry["actor"], entry["facts"]) for entry in last] == [("ann", {"charged": False, "epoch": 1})]
        with pytest.raises(SpecError, match="nothing waits"):
            accept_epoch(store, "trial")
    with opened(data, clock) as store:  # it stays accepted
        clock.advance(61)
        store.tick()
        assert store.loop("trial").status().stopped is None


def test_no_place_that_a_lost_copy_may_have_reported_is_reported_again(tmp_path, clock):
    url, kept = f"sqlite:///{tmp_path}/data/store.db", {"policy": POLICY, "reward": Reward(0, 1, wait="60s")}
    with Store.open(url, clock=clock, key=KEY) as store:
        loop = store.create("trial", **kept, reports={"spare": 5.0})
        play(loop, clock, 0, 20)
        backup(store, tmp_path / "copy")
        play(loop, clock, 20, 20)
        loop.release("fairness", first=0, stop=40, epsilon=0.5)
    put_back(tmp_path / "data")
    with Store.open(url, clock=clock, key=KEY) as store:
        store.tick()
        loop = store.loop("trial")
        assert loop.status().epoch == 1
        play(loop, clock, 100, 5)
        assert loop_table(loop)["places"] == {"decided": 45, "settled": 45, "first": 40, "outside": {"shadow": 0}}
        with pytest.raises(NotKept, match="at least 40"):
            loop.release("fairness", first=0, stop=20, epsilon=0.5)
        assert loop.release("fairness", epsilon=0.5)["first"] == 40


def test_an_epoch_is_charged_where_the_ledger_has_room(tmp_path, clock):
    data = tmp_path / "data"
    with opened(data, clock) as store:
        budget = {"ledger": "shared", "epsilon": 2.5}
        loop = store.create("trial", policy=POLICY, reward=Reward(0, 1, wait="60s"), budget=budget)
        play(loop, clock, 0, 5)
        backup(store, tmp_path / "copy")
        play(loop, clock, 5, 5)
    put_back(data)
    for file in (data / "ledgers").glob("shared.events*"):
        file.unlink()
    with opened(data, clock) as store:
        loop = store.loop("trial")
        clock.advance(61)
        store.tick()
        spent = loop.ledger.spent.units
        accept_epoch(store, "trial")
        assert loop.ledger.spent.units == 2 * spent


def test_a_page_is_on_disk_before_the_value_of_its_block(tmp_path, clock):
    """Wherever a process dies: a published block has its page; a page without a value names what is never learned."""
    data = tmp_path / "data"
    seen = []
    with opened(data, clock) as store:
        loop = store.create("trial", policy=POLICY, reward=Reward(0, 1, wait="60s"))

        def look(point):
            if point == "drawn":
                with store.driver.beside("trial").reading() as tx:
                    seen.append(tx.execute("SELECT count(*) FROM released_pages")[0][0])

        faults.hook = look
        try:
            play(loop, clock, 0, 10)
        finally:
            faults.hook = None
        assert seen == [2, 2]
        for block in ("block-0", "block-1"):
            value = loop.ledger.value(f"trial/0/{block}")
            assert not loop.pages.missing({f"trial/0/{block}": pages.digest_of(value)})


def test_pages_are_not_asked_before_a_store_was_put_back(store, clock, monkeypatch):
    loop = store.create("trial", policy=POLICY, reward=Reward(0, 1, wait="60s"))
    monkeypatch.setattr(pages.Pages, "among", lambda *given: pytest.fail("asked"))
    assert {reply.learning for reply in play(loop, clock, 0, 5)} == {"pending"}


def test_pages_of_a_store_on_either_database(store, clock):
    """Written and asked on PostgreSQL too, where they are tables of the same database."""
    loop = store.create("trial", policy=POLICY, reward=Reward(0, 1, wait="60s"))
    play(loop, clock, 0, 5)
    key = store.keys.event("e-3")
    loop.pages.list_events()
    loop.pages.list_events()
    with store.reading() as tx:
        assert loop.pages.among(tx, [key, store.keys.event("e-9")]) == {key}
    value = loop.ledger.value("trial/0/block-0")
    assert loop.pages.missing({"trial/0/block-0": pages.digest_of(value), "trial/0/block-1": None}) == [
        "trial/0/block-1"
    ]


@pytest.mark.parametrize("page", [1, 2, 5, 2000])
def test_a_page_holds_every_key_once_in_the_order_of_rounds_however_many_are_read_together(
    store, clock, monkeypatch, page
):
    monkeypatch.setattr(blocks, "PAGE", page)
    loop = store.create("trial", policy=POLICY, reward=Reward(0, 1, wait="60s"))
    replies = play(loop, clock, 0, 5)
    with store.driver.beside("trial").reading() as tx:
        [(block, digest, keys)] = tx.execute("SELECT block, digest, keys FROM released_pages")
    expected = [store.keys.event(reply.event_id) for reply in sorted(replies, key=lambda reply: reply.round)]
    assert bytes(keys) == b"".join(expected)
    assert digest == store.keys.page(block, expected)


def test_digests_say_nothing_without_the_key(store, clock):
    loop = store.create("trial", policy=POLICY, reward=Reward(0, 1, wait="60s"))
    play(loop, clock, 0, 5)
    digest = pages.digest_of(loop.ledger.value("trial/0/block-0"))
    assert digest != type(store.keys)(bytes(32)).page("trial/0/block-0", [store.keys.event(f"e-{n}") for n in range(5)])
    assert digest == store.keys.page("trial/0/block-0", [store.keys.event(f"e-{n}") for n in range(5)])


@pytest.mark.parametrize("what", ["learned", "reported"])
def test_a_loop_that_a_store_has_forgotten_is_not_made_again_under_its_name(tmp_path, clock, what):
    """Put back to before it was made, the store does not know the loop, its ledger does: made again, the loop took the
    published numbers of the lost one for its own, and who stood in both lives was in two releases."""
    place, key = f"sqlite:///{tmp_path}/store.db", KEY
    more = {"reports": {"spare": 2.0}, "groups": ["a", "b"]} if what == "reported" else {}
    table = {"policy": POLICY, "reward": Reward(0, 1, wait="60s"), **more}
    with Store.open(place, clock=clock, key=key):
        pass
    shutil.copy(tmp_path / "store.db", tmp_path / "old.db")
    with Store.open(place, clock=clock, key=key) as store:
        loop = store.create("trial", **table, mode="frozen" if more else "online")
        for number in range(60):
            loop.decide(f"e-{number}", **({"group": "a"} if more else {}))
            loop.reward(f"e-{number}", 1.0)
        clock.advance(120)
        store.tick()
        if more:
            loop.release("fairness", epsilon=1.0)
        spent = loop.ledger.spent.units
    for end in ("", "-wal", "-shm"):
        (tmp_path / f"store.db{end}").unlink(missing_ok=True)
    shutil.copy(tmp_path / "old.db", tmp_path / "store.db")
    with Store.open(place, clock=clock, key=key) as store:
        with pytest.raises(NameTaken, match="does not know"):
            store.create("trial", **table)
        http = Direct(Service(store, Settings()))
        body = {"name": "trial", "policy": POLICY, "reward": {"wait": "60s"}, **more}
        assert http.post("/v1/loops", json=body).json()["type"] == "/problems/name-taken"
        http.close()
        assert store.create("other", **table).ledger.spent.units <= spent


def reported(loop):
    """Places in all reports that the ledger has published, and how often each scheduled kind was charged."""
    entries = list(loop.ledger.entries())
    names = [one["name"].rsplit("-", 2) for one in entries if one["kind"] == "publish" and "/report-" in one["name"]]
    paid = sum(one["kind"] == "account" and one["name"].startswith("trial-reports-") for one in entries)
    return sum(int(stop) - int(first) for _, first, stop in names), paid


def test_an_event_that_is_sent_again_takes_another_place_in_reports_and_that_is_said(tmp_path, clock):
    """A lost copy has reported it and is forgotten: once more for one charge, which epochs of a person count."""
    reports, person = {"every": 5, "epsilon": 0.5}, Person(max_events=1)

    def ask(loop, first, stop):
        for number in range(first, stop):
            loop.decide(f"e-{number}", subject=f"p-{number}")
            loop.reward(f"e-{number}", 1.0)
        clock.advance(61)
        loop.store.tick()

    with Store.open(f"sqlite:///{tmp_path}/data/store.db", clock=clock, key=KEY) as store:
        about = {"policy": POLICY, "reward": Reward(0, 1, wait="60s"), "groups": ["a"], "person": person}
        loop = store.create("trial", **about, reports=reports)
        ask(loop, 0, 5)
        backup(store, tmp_path / "copy")
        ask(loop, 5, 15)
        assert reported(loop) == (15, 1)
        before = loop_table(loop)
    put_back(tmp_path / "data")
    with opened(tmp_path / "data", clock) as store:
        loop = store.loop("trial")
        clock.advance(61)
        store.tick()
        ask(loop, 5, 15)
        assert reported(loop) == (25, 1)
        after = loop_table(loop)
    assert after["person_guarantee"]["epsilon"] == 2 * before["person_guarantee"]["epsilon"] == 3.0
    assert "another place in reports" in " ".join(after["guarantee"]["notes"])
    assert "another place in reports" not in " ".join(before["guarantee"]["notes"])
