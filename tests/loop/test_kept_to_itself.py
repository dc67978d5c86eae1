"""What a loop keeps to itself, and what it does with rows that are late, missing, unshown or of another epoch."""

from __future__ import annotations

import os
from subprocess import CompletedProcess

import pytest

from fairveil import registry
from fairveil.bandits.nash.private_nash import PrivateNash
from fairveil.errors import LedgerError
from fairveil.loop import Person, Reward, Store, blocks, recovery, trail, upkeep
from fairveil.loop.problems import LoopError, StorageFailed
from fairveil.loop.public import loop_table
from fairveil.privacy.guarantee import REFUSED

POLICY = {"name": "even-blocks", "arms": 3, "epsilon": 1.0}
SECRET = 0.123456789
QUEUE = {
    "policy": {"name": "batched-private-fair-greedy", "epsilon": 1.0, "delta": 1e-6},
    "groups": ["a"],
    "features": [{"name": "x", "low": -1.0, "high": 1.0}],
}


def refusals(store):
    strict = store.create("strict", policy=POLICY, reward=Reward(0, 0.1, wait="60s", strict=True))
    strict.decide("e")
    yield lambda: strict.reward("e", SECRET)
    local = store.create("local", policy={"name": "local-nash", "arms": 2, "epsilon": 1.0}, reward=Reward(wait="60s"))
    local.decide("e")
    yield lambda: local.reward("e", SECRET)
    twice = store.create("twice", policy=POLICY, reward=Reward(0, 1, wait="60s"))
    twice.decide("e")
    twice.reward("e", SECRET)
    yield lambda: twice.reward("e", 0.5)
    queue = store.create("queue", **QUEUE, reward=Reward(wait="60s"))
    yield lambda: queue.decide("e", candidates=[{"group": "a", "features": [SECRET, SECRET]}])


def test_no_refusal_repeats_a_reward_or_a_feature(store):
    for refused in refusals(store):
        with pytest.raises(LoopError) as caught:
            refused()
        assert str(SECRET)[:5] not in f"{caught.value} {caught.value.to_dict()} {caught.value.given}"


def test_a_candidate_without_a_name_is_refused_where_events_are_counted(store):
    loop = store.create("queue", **QUEUE, reward=Reward(wait="60s"), person=Person(max_events=1))
    people = [{"group": "a", "features": [0.1], "subject": "ann"}, {"group": "a", "features": [0.2]}]
    with pytest.raises(LoopError, match="counts events per person"):
        loop.decide("e", candidates=people)
    assert loop.decide("e", candidates=people, exclude=[1]).learning == "pending"


def test_a_strict_loop_says_that_refusals_depend_on_values(store):
    for strict in (True, False):
        loop = store.create(f"s-{int(strict)}", policy=POLICY, reward=Reward(0, 1, wait="60s", strict=strict))
        assert (REFUSED in loop.facts.guarantee.notes) == strict


def test_files_of_raw_rows_and_keys_are_their_owners_alone(tmp_path, clock):
    (tmp_path / "data").mkdir()
    with Store.open(f"sqlite:///{tmp_path}/data/store.db", clock=clock) as store:
        store.create("one", policy=POLICY, reward=Reward(0, 1, wait="60s")).decide("e")
        upkeep.backup(store, tmp_path / "copy", with_key=True)
    names = ("store.db", "store.db.key", "ledgers/one.db")
    kept = [place / name for place in (tmp_path / "data", tmp_path / "copy") for name in names]
    assert [str(file) for file in kept if file.stat().st_mode & 0o077] == []


def test_the_copy_of_a_store_on_a_server_is_its_owners_alone_from_its_first_byte(tmp_path, monkeypatch):
    """It was made for everybody, and taken away from the others when the whole of it was there."""
    modes = []
    monkeypatch.setattr(upkeep, "_schema", lambda url: "public")
    monkeypatch.setattr(upkeep, "_run", lambda *given: modes.append((tmp_path / upkeep.DUMP).stat().st_mode & 0o777))
    upkeep.dump("postgresql://localhost/store", tmp_path)
    assert modes == [0o600]


def test_the_password_of_a_server_is_in_no_command(monkeypatch):
    """Everybody on a machine reads the commands of its processes; the environment of one is its owner's."""
    pytest.importorskip("psycopg")
    told = []
    monkeypatch.setattr(upkeep, "_program", lambda name: name)
    monkeypatch.setattr(
        upkeep.subprocess, "run", lambda command, env, **_: told.append((command, env)) or CompletedProcess(command, 0)
    )
    upkeep._run("pg_dump", "postgresql://ann:canary-4711@localhost/store", "--format=custom")
    [(command, environment)] = told
    assert "canary" not in " ".join(command)
    assert environment["PGPASSWORD"] == "canary-4711"


def test_a_reward_for_a_round_that_is_settled_is_late_while_its_block_is_drawn(store, clock):
    loop = store.create("one", policy=POLICY, reward=Reward(0, 1, wait="60s", missing="default", default=0.25))
    for number in range(3):
        loop.decide(f"e-{number}")
    loop.writer.act(lambda batch: batch.change(settled=2))  # a draw is under way: its rounds are settled, not released
    assert loop.reward("e-0", 1.0).learned == "never"
    assert loop.reward("e-2", 1.0).learned == "pending"


def rows_of(loop, count):
    facts, status = loop.facts, loop.status()
    [block] = blocks.due_blocks(facts.policy, status)[:1]
    return [row for page in blocks._pages(facts, loop.store.driver, 0, block, status.state) for row in page][:count]


@pytest.mark.parametrize("missing", ["default", "public"])
def test_what_is_missing_or_never_shown_enters_a_block_as_declared(store, clock, missing):
    reward = Reward(0, 1, wait="60s", missing=missing, **({"default": 0.25} if missing == "default" else {}))
    loop = store.create("one", policy=POLICY, reward=reward)
    for number in range(5):
        loop.decide(f"e-{number}", defer=number == 2)
        if number != 1:
            loop.reward(f"e-{number}", 1.0)
    clock.advance(61)
    loop.writer.act(lambda batch: batch.change(settled=5))
    found = {row.index: row.reward for row in rows_of(loop, 5)}
    assert 2 not in found
    assert found[1] == (0.25 if missing == "default" else None)


@pytest.mark.parametrize("missing", ["default", "public"])
def test_what_was_never_shown_is_counted_exactly_and_said_to_be_public(store, clock, missing):
    policy, closed = {"name": "private-nash", "arms": 2, "epsilon": 1.0}, []
    for shown in (True, False):
        loop = store.create(f"shown-{shown}".lower(), policy=policy, reward=Reward(0, 1, wait="60s", missing=missing))
        for number in range(8):
            loop.decide(f"e-{number}", defer=number == 2)
            loop.reward(f"e-{number}", 1.0)
        if shown:
            loop.activate("e-2")
        clock.advance(61)
        store.tick()
        table = loop_table(loop)
        closed.append(sum(row["closed"] for row in table["waiting"]))
        assert any("shown in time is public" in note for note in table["guarantee"]["notes"])
    assert closed == [0, 1]


def test_numbers_of_another_epoch_are_not_adopted(store, clock):
    loop = store.create("one", policy=POLICY, reward=Reward(0, 1, wait="60s"))
    for number in range(5):
        loop.decide(f"e-{number}")
        loop.reward(f"e-{number}", 1.0)
    loop.writer.act(lambda batch: batch.change(settled=5))
    due = blocks.due_blocks(loop.facts.policy, loop.status())
    drawn = blocks.draw(loop.facts, loop.status(), due, store.driver, loop.ledger, None, loop.pages)
    loop.writer.act(lambda batch: batch.change(epoch=1))  # the store was put back while they were drawn
    assert loop.writer.act(lambda batch: blocks.adopt(batch, due, 0, drawn, 0)) == 0
    assert loop.status().version == 0


def test_a_ledger_that_has_grown_without_the_last_release_is_not_gone_on_with(store, clock):
    loop = store.create("one", policy=POLICY, reward=Reward(0, 1, wait="60s"))
    for number in range(5):
        loop.decide(f"e-{number}")
    clock.advance(61)
    loop.tick()
    recovery._check_last(loop, loop.status())
    with store.writing() as tx:
        tx.execute("UPDATE blocks SET name = ? WHERE loop = ?", ("block-77", loop.facts.id))
    with pytest.raises(LedgerError, match="older than the releases"):
        recovery._check_last(loop, loop.status())


def test_a_reward_changes_nothing_that_is_public_before_its_release(store, clock):
    loop = store.create("one", policy=POLICY, reward=Reward(0, 1, wait="60s", missing="default"))
    loop.decide("e")
    before = loop_table(loop)
    clock.advance(1)
    loop.reward("e", 1.0)
    assert loop_table(loop) == before


def test_a_child_throws_coins_of_its_own(store):
    loop = store.create("one", policy=POLICY, reward=Reward(0, 1, wait="60s"))
    loop.decide("e-0")
    before, loop.writer._owner = loop.writer._rng, os.getpid() + 1
    loop.decide("e-1")
    assert loop.writer._rng is not before
    assert loop.writer._owner == os.getpid()


@pytest.mark.parametrize("column", ["facts", "target", "actor"])
def test_every_column_of_the_trail_is_linked(store, column):
    store.create("one", policy=POLICY, reward=Reward(0, 1, wait="60s")).set_mode("frozen")
    with store.reading() as tx:
        count = trail.check(tx)
    with store.writing() as tx:
        tx.execute(f"UPDATE trail SET {column} = ? WHERE seq = ?", ("{}", count))
    with store.reading() as tx, pytest.raises(StorageFailed, match="changed"):
        trail.check(tx)


def test_a_trail_whose_end_was_cut_has_not_the_hash_that_somebody_kept(store):
    """The chain alone does not show it: the threat model says so, and what does."""
    loop = store.create("one", policy=POLICY, reward=Reward(0, 1, wait="60s"))
    loop.set_mode("frozen")
    with store.writing() as tx:
        kept = trail.entries(tx)[-1]
        tx.execute("DELETE FROM trail WHERE seq = ?", (kept["seq"],))
        assert trail.check(tx) == kept["seq"] - 1
    loop.set_mode("shadow")
    with store.reading() as tx:
        assert trail.check(tx) == kept["seq"]
        assert kept["hash"] not in [entry["hash"] for entry in trail.entries(tx)]


def test_a_plug_in_that_breaks_a_law_is_not_served(tmp_path, clock):
    class Bare(PrivateNash):
        def draw(self, state, noise):
            return super().draw(state, quiet())

    def quiet():
        from fairveil.privacy.noise import ZeroNoise

        return ZeroNoise()

    with registry.isolated():
        registry.register("policy", "bare-nash")(Bare)
        with Store.open(f"sqlite:///{tmp_path}/store.db", clock=clock) as store:
            with pytest.raises(LoopError, match="cannot serve people"):
                store.create("one", policy={"name": "bare-nash", "arms": 2, "epsilon": 1.0}, reward=Reward())
            store.create("two", policy={"name": "private-nash", "arms": 2, "epsilon": 1.0}, reward=Reward())
