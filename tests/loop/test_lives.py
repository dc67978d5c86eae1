"""What one loop has forgotten, another file or the loop before it remembers: promises count every life of a person.

The breaks that this reduces: a store that went on with a new key, or with its pages lost twice, or a loop that started
from another one, learned the same person and event once more each time, and said "epsilon 1, established".
"""

from __future__ import annotations

from contextlib import contextmanager

import pytest

from fairveil.errors import SpecError
from fairveil.loop import Person, Reward, Store
from fairveil.loop.problems import NameTaken, UnknownLoop
from fairveil.loop.public import loop_table
from fairveil.loop.quoting import quote
from fairveil.loop.upkeep import accept_epoch, backup, restore

POLICY = {"name": "even-blocks", "arms": 3, "epsilon": 1.0}
TRIAL = {"policy": POLICY, "reward": Reward(0, 1, wait="60s"), "person": Person(max_events=1)}
KEY, OTHER = bytes(range(32)), bytes(range(1, 33))


def play(loop, clock, count=10, name="e"):
    """The same events of the same people every time; how many of them are learned."""
    replies = [loop.decide(f"{name}-{place}", subject=f"person {place}") for place in range(count)]
    for reply in replies:
        loop.reward(reply.event_id, 1.0)
    clock.advance(61)
    loop.store.tick()
    return sum(reply.learning == "pending" for reply in replies)


def promised(loop):
    table = loop_table(loop)
    event, person = table["guarantee"], table["person_guarantee"]
    return event["epsilon"], None if person is None else person["epsilon"]


def test_people_and_events_under_a_lost_key_are_counted_again(store_url, clock, tmp_path):
    for life in range(3):
        key = tmp_path / f"key-{life}"
        with Store.open(store_url, clock=clock, key_file=key, new_key=life > 0) as store:
            loop = store.create("trial", **TRIAL) if life == 0 else store.loop("trial")
            assert play(loop, clock) == 10, "nobody is recognised"
            assert promised(loop) == (life + 1.0, life + 1.0)
            notes = " ".join(loop_table(loop)["guarantee"]["notes"])
            assert (f"the key of ids was lost {life} time(s)" in notes) == (life > 0)
            later = store.create(f"later-{life}", **TRIAL)
            assert promised(later) == (1.0, 1.0), "a loop that was made under this key has forgotten nobody"


def test_a_new_key_is_remembered_by_the_ledger_when_its_store_is_put_back(tmp_path, clock):
    """Under the old key somebody is learned in three lives, and the store that was put back knows of two."""
    data = tmp_path / "data"
    with opened(data, clock) as store:
        loop = store.create("trial", **TRIAL)
        backup(store, tmp_path / "copy")
        learned = play(loop, clock, name="first")
    with opened(data, clock, OTHER, new_key=True) as store:
        learned += play(store.loop("trial"), clock, name="second")
        assert promised(store.loop("trial")) == (2.0, 2.0)
    with put_back(data, clock) as loop:
        accept_epoch(loop.store, "trial", uncharged=True)
        loop.store.tick()
        learned += play(loop, clock, name="third")
        assert (learned, promised(loop)[1]) == (30, 3.0)
    with opened(data, clock, bytes(32), new_key=True) as store:
        assert promised(store.loop("trial"))[1] == 4.0, "a key that comes after it is one more"
    with put_back(data, clock, key=OTHER, new_key=True) as loop:
        assert promised(loop)[1] == 4.0, "two epochs, and one key under which anything was released"


@pytest.mark.parametrize("charged", [True, False])
def test_epochs_that_were_accepted_are_counted_by_the_ledger_whatever_is_lost_beside_it(tmp_path, clock, charged):
    data = tmp_path / "data"
    budget = {"budget": {"ledger": "shared", "epsilon": 9.0}} if charged else {}
    with opened(data, clock) as store:
        loop = store.create("trial", **TRIAL, **budget)
        backup(store, tmp_path / "copy")
        play(loop, clock)
    for epoch in (1, 2):
        with put_back_blind(data, clock) as loop:
            accept_epoch(loop.store, "trial", uncharged=not charged)
            loop.store.tick()
            assert play(loop, clock) == 10
            assert promised(loop) == (epoch + 1.0, epoch + 1.0)
            if charged:
                assert loop.ledger.spent.units == (epoch + 1) * 1_000_000


def test_an_acceptance_that_is_lost_with_its_pages_is_given_again_and_charged_once(tmp_path, clock):
    data = tmp_path / "data"
    with opened(data, clock) as store:
        loop = store.create("trial", **TRIAL)
        backup(store, tmp_path / "copy")
        play(loop, clock)
    with put_back_blind(data, clock) as loop:
        accept_epoch(loop.store, "trial", uncharged=True)
    forget_pages(data)
    with opened(data, clock) as store:
        store.tick()
        accept_epoch(store, "trial")
        with pytest.raises(SpecError, match="nothing waits"):
            accept_epoch(store, "trial")
        assert promised(store.loop("trial")) == (2.0, 2.0)


def test_no_loop_rides_on_what_an_epoch_has_paid(tmp_path, clock):
    data = tmp_path / "data"
    with opened(data, clock) as store:
        loop = store.create("trial", **TRIAL, budget={"ledger": "shared", "epsilon": 3.0})
        backup(store, tmp_path / "copy")
        play(loop, clock)
        ride = store.create("trial-epoch-1", **TRIAL, budget={"ledger": "shared"})
        assert ride.ledger.spent.units == 2_000_000
    with put_back_blind(data, clock) as loop:
        accept_epoch(loop.store, "trial")
        assert loop.ledger.spent.units == 3_000_000, "an epoch does not ride on a loop of its name"
        with pytest.raises(NameTaken):
            loop.store.create("trial", **TRIAL, budget={"ledger": "shared"})


def test_a_loop_that_starts_from_another_one_counts_whoever_was_learned_there(store, clock):
    first = store.create("first", **TRIAL)
    second = store.create("second", **TRIAL | {"person": Person(max_events=2)}, start_from="first")
    third = store.create("third", **TRIAL, start_from="second")
    assert [promised(loop)[1] for loop in (first, second, third)] == [1.0, 3.0, 4.0]
    assert [promised(loop)[0] for loop in (first, second, third)] == [1.0] * 3, "an event is one loop's"
    assert "started from" in " ".join(loop_table(third)["person_guarantee"]["notes"])
    store.create("free", **TRIAL | {"person": Person()})
    free = loop_table(store.create("fourth", **TRIAL, start_from="free"))
    assert (free["person_guarantee"], "free" in free["person_reason"]) == (None, True)


def test_a_quote_counts_what_the_loop_will_start_from(store):
    """It promised epsilon 1 of a loop that promises 2, 3, ... once it is made."""
    store.create("first", **TRIAL)
    store.create("free", **TRIAL | {"person": Person()})
    for start in ("first", "free"):
        asked = {**TRIAL, "start_from": start}
        told, made = quote({"name": "next", **asked}, store), loop_table(store.create(f"after-{start}", **asked))
        keys = ("guarantee", "person_guarantee", "person_reason")
        assert [told[key] for key in keys] == [made[key] for key in keys]
    assert quote({"name": "next", **TRIAL, "start_from": "after-first"}, store)["person_guarantee"]["epsilon"] == 3.0
    with pytest.raises(UnknownLoop):
        quote({"name": "next", **TRIAL, "start_from": "nobody"}, store)
    with pytest.raises(SpecError, match="where it is"):
        quote({"name": "next", **TRIAL, "start_from": "first"})


def opened(data, clock, key=KEY, **given):
    return Store.open(f"sqlite:///{data}/store.db", clock=clock, key=key, **given)


def forget_pages(data):
    for file in (data / "ledgers").glob("*.events*"):
        file.unlink()


@contextmanager
def put_back_blind(data, clock):
    """The loop of a store that is put back, with the keys of its released events lost."""
    with put_back(data, clock, blind=True) as loop:
        yield loop


@contextmanager
def put_back(data, clock, blind=False, **given):
    for file in data.glob("store.db*"):
        file.unlink()
    restore(data.parent / "copy", data / "store.db")
    if blind:
        forget_pages(data)
    with opened(data, clock, **given) as store:
        clock.advance(61)
        store.tick()
        yield store.loop("trial")
