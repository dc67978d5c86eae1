"""What version 0.1.0 wrote is opened and continued: nothing is drawn again, no epoch is new, no account is refused.

The files are those of `make_0_1_0.py`; ``facts.json.gz`` says what a reader saw when they were written.
"""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from compat_plays import (
    FILES,
    KEY,
    WAIT,
    choice,
    command,
    driven,
    goes_on,
    kinds,
    known,
    live,
    plain,
    policy_of,
    request,
    step,
    unpacked,
    until_due,
)

from fairveil import Ledger, SeededNoise
from fairveil.errors import LedgerError
from fairveil.ledger.verify import verify
from fairveil.loop import ManualClock, Reward, Store, storage, tokens
from fairveil.loop.storage import bring_up_to_date, driver_of, steps, version_of
from fairveil.privacy.events import event_from_dict
from fairveil.state import load_state, same_state

FACTS = known()
SCHEMA = "fairveil_0_1_0"


def lost_block(ledger: Ledger, block: str, **paid: Any) -> bool:
    """Whether the ledger tells a block as lost, without a draw."""
    with pytest.raises(LedgerError) as caught:
        ledger.release(block, must_not_draw, **paid)
    return type(caught.value).__name__ == "ReleaseLost"


def must_not_draw(*_: Any) -> Any:
    raise AssertionError("a block was drawn again")


# Ledgers -------------------------------------------------------------------------------------------------------------


def check_ledger(name: str, place: str | Path, facts: dict[str, Any], anchor: Path | None) -> None:
    more: dict[str, Any] = {"keyed": {"key": KEY}, "anchored": {"anchor": anchor}, "simulated": {"simulated": True}}
    noise = SeededNoise(11) if name == "simulated" else None
    event = event_from_dict(facts["event"])
    with Ledger.open(place, **more.get(name, {})) as ledger:
        assert kinds(goes_on(ledger, facts)) == [("reserve", "blocks/2"), ("lost", "blocks/2")]
        assert [ledger.spent.units, ledger.spent.delta_units] == facts["spent"]
        for block, value in facts["values"].items():
            assert ledger.status(block) == "published"
            assert plain(ledger.value(block)) == value
        sequence = ledger.sequence
        assert ledger.release("count", must_not_draw, event=event, noise=noise) == facts["values"]["count"]
        again = ledger.release("three/0", must_not_draw, account="three", noise=noise)
        assert plain(again) == facts["values"]["three/0"]
        assert lost_block(ledger, "failed", event=event, noise=noise)
        assert lost_block(ledger, "blocks/2", account="blocks", noise=noise)
        ledger.spend("three", event, releases=3)
        ledger.spend("held", event, releases=None, holder="holder-1")
        with pytest.raises(LedgerError):
            ledger.spend("held", event, releases=None, holder="holder-2")
        assert ledger.sequence == sequence, "repeating what was done is free"
        for block in ("three/1", "three/2"):
            ledger.release(block, lambda source: source.laplace(2.0), account="three", noise=noise)
        with pytest.raises(LedgerError):
            ledger.release("three/3", must_not_draw, account="three", noise=noise)
        ledger.release("blocks/3", lambda source: source.laplace(1.0), account="blocks", noise=noise)
        assert [ledger.spent.units, ledger.spent.delta_units] == facts["spent"]
        ledger.release("fresh", lambda source: 1, event=event, noise=noise)
        assert ledger.spent.units > facts["spent"][0]
    with Ledger.open(place, **more.get(name, {})) as ledger:
        assert ledger.value("fresh") == 1


@pytest.mark.parametrize("name", FACTS["ledgers"])
def test_a_ledger_of_each_limit(tmp_path, name):
    folder = unpacked("ledgers", tmp_path)
    check_ledger(name, folder / f"{name}.db", FACTS["ledgers"][name], folder / "mark.anchor")


def test_a_key_and_an_anchor_still_guard(tmp_path):
    folder = unpacked("ledgers", tmp_path)
    for given in ({}, {"key": bytes(32)}):
        with pytest.raises(LedgerError):
            Ledger.open(folder / "keyed.db", **given)
    with pytest.raises(LedgerError):
        Ledger.open(folder / "anchored.db", anchor=folder / "another.anchor")


# Policies ------------------------------------------------------------------------------------------------------------

PAID = [name for name, facts in FACTS["states"].items() if "ledger" in facts]


@pytest.mark.parametrize("name", [name for name in FACTS["states"] if name not in PAID])
def test_a_saved_state_decides_as_before_and_goes_on(tmp_path, name):
    facts = FACTS["states"][name]
    table, rounds = facts["table"], facts["rounds"]
    policy = policy_of(table)
    state = load_state((unpacked("states", tmp_path) / f"{name}.npz").read_bytes())
    check_choice(policy, table, state, rounds, facts["next"])
    for index in range(rounds, rounds + 10):
        state = step(policy, table, state, index)
        while policy.due(state, index + 1) is not None:
            state = policy.release(state, SeededNoise(12, index))


def check_choice(policy: Any, table: dict[str, Any], state: Any, rounds: int, known: list[float]) -> None:
    arm, propensity = choice(policy, table, state, rounds)
    assert arm == known[0]
    assert propensity == pytest.approx(known[1], rel=1e-9)


@pytest.mark.parametrize("name", PAID)
def test_a_saved_state_with_its_ledger(tmp_path, name):
    """An older state gets the stored numbers, a block that died is lost, the next one is released."""
    facts, folder = FACTS["states"][name], unpacked("states", tmp_path)
    table, rounds, at = facts["table"], facts["rounds"], facts["lost_at"]
    policy = policy_of(table)
    before, after, last = (
        load_state((folder / f"{name}.{kind}.npz").read_bytes()) for kind in ("before", "after", "lost")
    )
    check_choice(policy, table, after, rounds, facts["next"])
    with Ledger.open(folder / f"{name}.db", simulated=True) as ledger:
        assert kinds(goes_on(ledger, facts["ledger"])) == [("reserve", facts["lost"]), ("lost", facts["lost"])]
        sequence = ledger.sequence
        again = driven(policy, before, rounds, ledger)
        check_choice(policy, table, again, rounds, facts["next"])
        for part in policy.released:  # what is computed from the calibration may differ in its last digits
            assert np.allclose(again[part], after[part], rtol=1e-9, atol=0, equal_nan=True), part
        state = driven(policy, last, at, ledger)
        assert not same_state(state, last)
        assert ledger.sequence == sequence, "nothing was drawn or charged"
        state, at = until_due(policy, table, state, at)
        block = f"policy/{policy.due(state, at)}"
        driven(policy, state, at, ledger)
        assert ledger.status(block) == "published"
        assert [ledger.spent.units, ledger.spent.delta_units] == facts["ledger"]["spent"]


# Loops ---------------------------------------------------------------------------------------------------------------


def check_store(url: str, facts: dict[str, Any], anchors: Path | None) -> None:
    clock = ManualClock(facts["now"])
    with Store.open(url, clock=clock, key=KEY, anchors=anchors, migrate=True) as store:
        with store.reading() as tx:
            for role, text in facts["tokens"].items():
                found = tokens.find(tokens.table(tx), text)
                assert found is not None
                assert (found.name, found.roles) == (f"the {role}", {role})
        assert store.names() == sorted(facts["loops"])
        ahead = {name: check_loop(store.loop(name), one) for name, one in facts["loops"].items()}
        clock.advance(WAIT + 1)
        store.tick()
        for name, one in facts["loops"].items():
            check_ticked(store.loop(name), one, ahead[name])
        for name in facts["loops"]:
            if name not in ("closed", "other"):
                live(store.loop(name), 300, {"census": 150, "items": 240}.get(name, 40))
        clock.advance(WAIT + 1)
        assert store.tick() > 0
        for name, one in facts["loops"].items():
            status = store.loop(name).status()
            assert status.epoch == one["status"]["epoch"]
            assert status.stopped is None
            if name not in ("closed", "other"):
                assert status.version > one["status"]["version"]
            goes_on(store.loop(name).ledger, one["ledger"])
        check_rules(store, clock)


def check_rules(store: Any, clock: ManualClock) -> None:
    """Loops that were there go on by blocks, without seats; a new one beside them releases by arrival."""
    assert not any(store.loop(name).facts.by_seat for name in store.names())
    with store.reading() as tx:
        assert tx.execute("SELECT count(*) FROM events WHERE seat IS NOT NULL") == [(0,)]
        assert tx.execute("SELECT count(*) FROM loops WHERE tally IS NOT NULL") == [(0,)]
        statuses = dict(tx.execute("SELECT status, count(*) FROM blocks GROUP BY status"))
    assert {"released", "lost"} <= set(statuses)
    assert any(loop.facts.policy.open_blocks(loop.status().state) for loop in map(store.loop, store.names()))
    fresh = store.create(
        "fresh", policy={"name": "private-nash", "arms": 3, "epsilon": 1.0}, reward=Reward(0, 1, wait=f"{WAIT}s")
    )
    assert fresh.facts.by_seat
    live(fresh, 0, 60)
    clock.advance(WAIT + 1)
    assert store.tick(["fresh"]) > 0
    place, inside = store.driver.ledger("fresh")
    assert any("releases by arrival" in note for note in verify(place, ledger=inside).notes)


def stopped_at(url: str, version: int | None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Upgrade a store to a version between and no further, as the release of that version would have."""
    if version is None:
        return
    driver = driver_of(url)
    with monkeypatch.context() as patched:
        found = {number: text for number, text in steps(driver.dialect).items() if number <= version}
        patched.setattr(storage, "steps", lambda dialect: found)
        bring_up_to_date(driver, migrate=True)
    with driver.reading() as tx:
        assert version_of(tx) == version
    driver.close()


BETWEEN = pytest.mark.parametrize("version", [None, 6], ids=["from 0.1.0", "from version 6"])


def check_loop(loop: Any, facts: dict[str, Any]) -> list[tuple[str, str]]:
    """Before anything moves: replies are replayed, the row is what it was. Gives what the ledger has beyond it."""
    status, known = loop.status(), facts["status"]
    assert (status.version, status.epoch, status.mode) == (known["version"], known["epoch"], known["mode"])
    assert status.settled >= known["settled"]
    assert status.released >= known["erased"]  # erased begins anew: 0.1.0 left fingerprints and times of rewards
    for event, told in facts["events"].items():
        again = plain(loop.event(event))
        assert {**again, "reward": None} == {**told, "reward": None}
        if known["mode"] == "online" and loop.name != "closed":
            reply = loop.decide(event, **request(loop.name, int(event[2:])))
            assert reply.replayed
            assert (reply.round, reply.propensity) == (told["round"], told["propensity"])
    return kinds(goes_on(loop.ledger, facts["ledger"]))


def check_ticked(loop: Any, facts: dict[str, Any], ahead: list[tuple[str, str]]) -> None:
    """After the first tick: drawn blocks are adopted as they were stored, reserved ones are lost, in the same epoch."""
    own = [(kind, name) for kind, name in ahead if name.startswith(f"{loop.name}/")]
    status, ledger = loop.status(), loop.ledger
    assert status.epoch == facts["status"]["epoch"]
    assert status.stopped is None
    published = {name for kind, name in own if kind == "publish"}
    gone = {name for kind, name in own if kind == "reserve"} - published
    assert {"nash": (True, False), "ucb": (False, True), "items": (False, True)}.get(loop.name, (False, False)) == (
        bool(published), bool(gone),
    )  # fmt: skip
    assert gone <= set(ledger.lost())
    assert all(ledger.status(name) == "published" for name in published)
    entries = kinds(plain(list(ledger.entries())))
    drawn = [name for kind, name in entries if kind == "publish" and name.startswith(f"{loop.name}/")]
    assert len(set(drawn)) == len(drawn)
    assert status.version == len(drawn), "every published block is in the loop, and none twice"
    names = {name.split("/")[1] for name in drawn}
    assert names <= {str(facts["status"]["epoch"])}


@BETWEEN
def test_a_store_of_loops_of_each_family(tmp_path, version, monkeypatch):
    folder = unpacked("loops", tmp_path)
    stopped_at(f"sqlite:///{folder}/store.db", version, monkeypatch)
    check_store(f"sqlite:///{folder}/store.db", FACTS["loops"], folder / "anchors")
    place = ["--store", f"sqlite:///{folder}/store.db", "--anchor", str(folder / "anchors")]
    found = command("store", "check", *place, folder=folder)
    assert found.returncode == 0, found.stderr


def restored(database: str) -> None:
    """The dump of 0.1.0 in the schema of this test."""
    import psycopg

    text = gzip.decompress((FILES / "postgres.sql.gz").read_bytes()).decode()
    with psycopg.connect(database, autocommit=True) as connection:
        [schema] = connection.execute("SELECT current_schema()").fetchone()
        script = text.replace(f"CREATE SCHEMA {SCHEMA};", "").replace(SCHEMA, schema)
        connection.execute(script)


@pytest.mark.postgres
def test_ledgers_on_a_server(database, tmp_path):
    restored(database)
    (tmp_path / "mark").write_text(FACTS["postgres"]["anchor"])
    for name, facts in FACTS["postgres"]["ledgers"].items():
        check_ledger(name, f"{database}#{name}", facts, tmp_path / "mark")


@pytest.mark.postgres
@BETWEEN
def test_a_store_on_a_server(database, version, monkeypatch):
    restored(database)
    stopped_at(database, version, monkeypatch)
    check_store(database, FACTS["postgres"]["store"], None)
