"""Ledgers that were edited, cut, replaced or set back: each is refused with its own clear sentence."""

from __future__ import annotations

import contextlib
import functools
import json
import shutil
import sqlite3
from pathlib import Path

import pytest

from fairveil.errors import LedgerError, LedgerTampered
from fairveil.ledger import Ledger, Limit, Mark, verify
from fairveil.ledger.chain import START, Row, link
from fairveil.ledger.postgres import _MAKE
from fairveil.ledger.sqlite import _SCHEMA
from fairveil.privacy.events import ParallelEvent, PureEvent


def filled(path, anchor):
    """A ledger with two paid releases and one under an account, and its anchor."""
    anchor.parent.mkdir()
    with Ledger.create(path, limit=Limit.pure(1.0), anchor=anchor) as ledger:
        ledger.release("a", lambda noise: [1, 2], event=PureEvent(0.25))
        ledger.spend("run", ParallelEvent(PureEvent(0.25)))
        ledger.release("b", lambda noise: 3, account="run")
        ledger.release("c", lambda noise: 4, event=PureEvent(0.125))
    return path, anchor


@pytest.fixture
def place(ledger_path, tmp_path):
    return filled(ledger_path, tmp_path / "second" / "anchor.json")


@pytest.fixture
def file_place(tmp_path):
    return filled(tmp_path / "ledger.db", tmp_path / "second" / "anchor.json")


def connect(path):
    """The rows themselves, past the ledger."""
    if isinstance(path, Path):
        return sqlite3.connect(path)
    import psycopg

    return psycopg.connect(path.partition("#")[0])


@contextlib.contextmanager
def guards_off(path):
    """What somebody with a database browser would do: take the guards off, change, put the guards back."""
    if isinstance(path, Path):
        guards = [_SCHEMA["entries_keep"], _SCHEMA["entries_stay"]]
        off = ["DROP TRIGGER entries_keep", "DROP TRIGGER entries_stay"]
    else:
        guards = list(_MAKE[-2:])
        off = ["DROP TRIGGER entries_keep ON entries", "DROP TRIGGER entries_stay ON entries"]
    with contextlib.closing(connect(path)) as connection:
        for statement in off:
            connection.execute(statement)
        yield connection
        for statement in guards:
            connection.execute(statement)
        connection.commit()


def edit(path, *statements: str) -> None:
    with guards_off(path) as connection:
        for statement in statements:
            connection.execute(statement)


def rewrite(path) -> None:
    """Recompute every hash, as somebody who knows the format would after an edit."""
    with guards_off(path) as connection:
        previous = START
        query = "SELECT sequence, kind, name, account, facts, value, hash FROM entries ORDER BY sequence"
        for found in connection.execute(query).fetchall():
            row = Row(*found)
            previous = link(previous, row)
            connection.execute(f"UPDATE entries SET hash = '{previous}' WHERE sequence = {row.sequence}")


def refused(path, anchor, words: str) -> None:
    """Both ways in refuse it."""
    with pytest.raises(LedgerTampered, match=words):
        verify(path, anchor)
    with pytest.raises(LedgerTampered, match=words):
        Ledger.open(path, anchor=anchor)


def test_an_untouched_ledger_passes(place):
    path, anchor = place
    report = verify(path, anchor)
    assert report.anchor == "matches at entry 7"
    assert (report.published, report.lost, report.under_way) == (3, 0, 0)
    assert report.spent == "epsilon 0.625"


def test_without_an_anchor_verify_says_what_it_cannot_see(place):
    report = verify(place[0])
    assert "cannot be detected" in report.anchor
    assert any("has an anchor" in note for note in report.notes)


def test_a_file_that_never_was_a_ledger_is_no_alarm(tmp_path):
    path = tmp_path / "model.joblib"
    path.write_bytes(b"\x80\x04joblib" * 1000)
    for ask in (verify, Ledger.open, functools.partial(Ledger.create, limit=Limit.pure(1.0))):
        with pytest.raises(LedgerError, match="this is not a ledger") as seen:
            ask(path)
        assert not isinstance(seen.value, LedgerTampered)
    assert [file.name for file in tmp_path.iterdir()] == ["model.joblib"]
    with pytest.raises(LedgerTampered, match="damaged"):  # somebody who names an anchor had a ledger here
        verify(path, tmp_path / "anchor")


def test_a_ledger_without_its_first_bytes_is_damaged_even_alone(file_place, tmp_path):
    lone = tmp_path / "copy" / "ledger.db"
    lone.parent.mkdir()
    lone.write_bytes(bytes(100) + file_place[0].read_bytes()[100:])
    with pytest.raises(LedgerTampered, match="damaged"):
        verify(lone)
    lone.write_bytes(bytes(1000))
    for left in ("-wal", ".lock"):
        beside = lone.with_name(lone.name + left)
        beside.touch()
        with pytest.raises(LedgerTampered, match="damaged"):
            verify(lone)
        beside.unlink()


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE entries SET value = '9' WHERE sequence = 2",
        "UPDATE entries SET facts = replace(facts, '250000', '150000') WHERE sequence = 1",
        "UPDATE entries SET name = 'z' WHERE sequence = 1",
        "UPDATE entries SET account = 'other' WHERE sequence = 4",
        "UPDATE entries SET kind = 'lost' WHERE sequence = 5",
        "UPDATE entries SET hash = upper(hash) WHERE sequence = 6",
        "UPDATE entries SET facts = replace(facts, 'false', 'true') WHERE sequence = 0",
        "UPDATE entries SET facts = replace(facts, '1000000', '9000000') WHERE sequence = 0",
        "UPDATE entries SET facts = '{' WHERE sequence = 3",
    ],
)
def test_edited_entries(place, statement):
    edit(place[0], statement)
    refused(*place, "was changed")


def test_a_removed_entry(place):
    edit(place[0], "DELETE FROM entries WHERE sequence = 3")
    refused(*place, "missing")


def test_a_file_without_entries(file_place):
    edit(file_place[0], "DELETE FROM entries")
    refused(*file_place, "missing")


def test_a_ledger_whose_entries_are_all_gone_from_the_server(place):
    path, anchor = place
    with Ledger.open(path, anchor=anchor) as ledger:
        edit(path, "DELETE FROM entries")
        with pytest.raises(LedgerTampered, match=r"this process saw entry 7|gone"):
            ledger.spend("more", PureEvent(0.125))
    with pytest.raises(LedgerError, match=r"missing|its anchor is there"):
        Ledger.create(path, anchor=anchor, limit=Limit.pure(1.0))


def test_a_cut_tail_is_seen_by_the_anchor_alone(place):
    path, anchor = place
    edit(path, "DELETE FROM entries WHERE sequence >= 6")
    refused(path, anchor, "set back, cut or rewritten")
    assert verify(path).spent == "epsilon 0.5"  # a whole chain by itself: this is what the anchor is for


def test_an_older_copy_is_seen_by_the_anchor_alone(file_place, tmp_path):
    path, anchor = file_place
    shutil.copy(path, tmp_path / "old.db")
    with Ledger.open(path, anchor=anchor) as ledger:
        ledger.release("d", lambda noise: 5, event=PureEvent(0.125))
    shutil.copy(tmp_path / "old.db", path)
    refused(path, anchor, "its anchor has seen entry 9")
    assert verify(path).entries == 8


def test_a_chain_that_was_rewritten_as_a_whole_is_seen_by_the_anchor(place):
    path, anchor = place
    edit(path, "UPDATE entries SET value = '9' WHERE sequence = 5")
    rewrite(path)
    assert verify(path).entries == 8
    refused(path, anchor, "set back, cut or rewritten")


@pytest.mark.parametrize(
    ("statement", "words"),
    [
        ("UPDATE entries SET facts = replace(facts, '[250000,0]', '[150000,0]') WHERE sequence = 1", "smaller"),
        (
            "UPDATE entries SET facts = replace(facts, '\"charge\":[0,0]', '\"charge\":[-5,0]') WHERE sequence = 4",
            "smaller",
        ),
        ("UPDATE entries SET facts = replace(facts, '[625000', '[525000') WHERE sequence = 7", "add up"),
        (
            "UPDATE entries SET facts = replace(facts, '\"units\":1000000', '\"units\":400000') WHERE sequence = 0",
            "limit",
        ),
        ("UPDATE entries SET name = 'x' WHERE sequence = 2", "no reservation"),
        ("UPDATE entries SET account = 'free' WHERE sequence = 4", "not opened"),
        ("UPDATE entries SET kind = 'gift' WHERE sequence = 3", "kind is not known"),
        ("UPDATE entries SET facts = replace(facts, '\"version\":1', '\"version\":7') WHERE sequence = 1", "rules"),
        (
            "UPDATE entries SET facts = replace(facts, '\"format\":1', '\"format\":2') WHERE sequence = 0",
            "another format",
        ),
    ],
)
def test_a_rewritten_chain_still_has_to_obey_the_rules(place, statement, words):
    """Without the anchor: the hashes fit again, but charges, totals, accounts and the order are checked too."""
    path, _ = place
    edit(path, statement)
    rewrite(path)
    with pytest.raises(LedgerError, match=words):
        verify(path)


def test_a_block_settled_twice_in_a_rewritten_chain(place):
    path, _ = place
    with contextlib.closing(connect(path)) as connection:
        row = connection.execute("SELECT facts FROM entries WHERE sequence = 7").fetchone()[0]
    more = ("", "") if isinstance(path, Path) else ("ledger, ", "'ledger', ")
    columns = f"({more[0]}sequence, kind, name, account, facts, value, hash)"
    edit(path, f"INSERT INTO entries {columns} VALUES ({more[1]}8, 'lost', 'a', NULL, '{row}', NULL, '')")
    rewrite(path)
    with pytest.raises(LedgerTampered, match="settled before"):
        verify(path)


def test_an_account_used_too_often_in_a_rewritten_chain(ledger_path):
    path = ledger_path
    with Ledger.create(path, limit=Limit.pure(1.0)) as ledger:
        ledger.spend("run", PureEvent(0.25), releases=2)
        ledger.release("a", lambda noise: 1, account="run")
        ledger.release("b", lambda noise: 1, account="run")
    edit(path, "UPDATE entries SET facts = replace(facts, '\"releases\":2', '\"releases\":1') WHERE sequence = 1")
    rewrite(path)
    with pytest.raises(LedgerTampered, match="no release left"):
        verify(path)


@pytest.mark.parametrize("keep", [0, 10, 100, 5000, 9000])
def test_truncated_files(file_place, keep):
    path, anchor = file_place
    path.write_bytes(path.read_bytes()[:keep])
    with pytest.raises(LedgerTampered, match=r"damaged|not an unchanged fairveil ledger"):
        verify(path, anchor)
    with pytest.raises(LedgerTampered, match=r"damaged|not an unchanged fairveil ledger"):
        Ledger.create(path, anchor=anchor, limit=Limit.pure(1.0))


def test_garbage_and_flipped_bytes(file_place):
    path, anchor = file_place
    original = path.read_bytes()
    path.write_bytes(b"this is no database" * 1000)
    refused(path, anchor, "damaged")
    found = original.find(b'"totals":[250000')
    path.write_bytes(original[:found] + original[found:].replace(b"[250000", b"[240000", 1))
    refused(path, anchor, "was changed")


@pytest.mark.parametrize(
    "statement",
    [
        "CREATE INDEX more ON entries (facts)",
        "DROP INDEX entries_by_name",
        "ALTER TABLE entries ADD COLUMN more TEXT",
        "DROP TRIGGER entries_keep",
    ],
)
def test_another_schema_is_refused(place, statement):
    path, anchor = place
    server = not isinstance(path, Path)
    with contextlib.closing(connect(path)) as connection:
        connection.execute(f"{statement} ON entries" if server and "TRIGGER" in statement else statement)
        connection.commit()
    refused(path, anchor, "not as fairveil made it" if server else "not an unchanged fairveil ledger")


@pytest.mark.postgres
@pytest.mark.parametrize(
    "statement",
    [
        "ALTER TABLE entries DISABLE TRIGGER entries_keep",
        "CREATE OR REPLACE FUNCTION entries_grow() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NEW; END'",
        "CREATE RULE cheap AS ON INSERT TO entries DO INSTEAD NOTHING",
        "ALTER TABLE entries SET UNLOGGED",
    ],
)
def test_guards_of_a_server_that_were_taken_off_are_noticed(database, tmp_path, statement):
    path, anchor = filled(f"{database}#ledger", tmp_path / "second" / "anchor.json")
    with contextlib.closing(connect(path)) as connection:
        connection.execute(statement)
        connection.commit()
    refused(path, anchor, "not as fairveil made it")


@pytest.mark.postgres
def test_a_server_that_may_forget_commits_is_refused(database):
    with pytest.raises(LedgerError, match="synchronous_commit = off"):
        Ledger.create(f"{database}%20-csynchronous_commit%3Doff#ledger", limit=Limit.pure(1.0))


def test_the_table_refuses_changes_by_itself(place):
    path, _ = place
    for statement in ("UPDATE entries SET value = '1'", "DELETE FROM entries", "TRUNCATE entries"):
        if isinstance(path, Path) and statement.startswith("TRUNCATE"):
            continue
        with contextlib.closing(connect(path)) as connection, pytest.raises(Exception, match="only grows"):
            connection.execute(statement)


def test_a_missing_ledger_with_an_anchor_is_not_a_new_one(file_place):
    path, anchor = file_place
    path.unlink()
    with pytest.raises(LedgerTampered, match="the ledger is gone"):
        Ledger.create(path, limit=Limit.pure(1.0), anchor=anchor)


def test_a_ledger_with_an_anchor_does_not_open_without_it(place):
    with pytest.raises(LedgerError, match="has an anchor"):
        Ledger.open(place[0])


def test_a_lost_anchor_is_an_error_until_it_is_replaced_on_purpose(place):
    path, anchor = place
    anchor.unlink()
    refused(path, anchor, "anchor")
    with Ledger.open(path, anchor=anchor, reanchor=True) as ledger:
        ledger.release("d", lambda noise: 5, event=PureEvent(0.125))
    report = verify(path, anchor)
    assert report.anchor == "matches at entry 10"
    assert any("started anew 1 time" in note for note in report.notes)


def test_an_anchor_can_be_added_later(tmp_path):
    path, anchor = tmp_path / "ledger.db", tmp_path / "anchor.json"
    with Ledger.create(path, limit=Limit.pure(1.0)) as ledger:
        ledger.release("a", lambda noise: 1, event=PureEvent(0.25))
    with Ledger.open(path, anchor=anchor) as ledger:
        ledger.release("b", lambda noise: 1, event=PureEvent(0.25))
    assert verify(path, anchor).anchor == "matches at entry 5"
    assert verify(path, anchor).notes == ()


@pytest.mark.parametrize("text", ["", "{", "[]", '{"format": 2}', '{"format":1,"ledger":"x","sequence":"1","head":""}'])
def test_a_damaged_anchor(place, text):
    path, anchor = place
    anchor.write_text(text)
    refused(path, anchor, "anchor file is damaged")


def test_the_anchor_of_another_ledger(place, tmp_path):
    path, _ = place
    Ledger.create(tmp_path / "b.db", limit=Limit.pure(1.0), anchor=tmp_path / "b.json").close()
    refused(path, tmp_path / "b.json", "another ledger")


def test_an_anchor_that_is_behind_is_no_alarm_and_moves_on(place):
    path, anchor = place
    table = json.loads(anchor.read_text())
    with contextlib.closing(connect(path)) as connection:
        rows = list(connection.execute("SELECT sequence, hash FROM entries WHERE sequence = 6"))
    anchor.write_text(json.dumps({**table, "sequence": rows[0][0], "head": rows[0][1]}))
    assert "1 behind" in verify(path, anchor).anchor
    Ledger.open(path, anchor=anchor).close()
    assert verify(path, anchor).anchor == "matches at entry 7"


def test_a_file_set_back_under_a_running_process_is_noticed_without_an_anchor(tmp_path):
    path = tmp_path / "ledger.db"
    with Ledger.create(path, limit=Limit.pure(1.0)) as ledger:
        ledger.release("a", lambda noise: 1, event=PureEvent(0.25))
    shutil.copy(path, tmp_path / "old.db")
    with Ledger.open(path) as ledger:
        ledger.release("b", lambda noise: 1, event=PureEvent(0.25))
        for name in ("ledger.db", "ledger.db-wal", "ledger.db-shm"):
            (tmp_path / name).unlink(missing_ok=True)
        shutil.copy(tmp_path / "old.db", path)
        with pytest.raises(LedgerTampered, match="this process saw entry 4"):
            ledger.release("c", lambda noise: 1, event=PureEvent(0.25))
        path.unlink()
        with pytest.raises(LedgerTampered, match="gone"):
            ledger.spend("d", PureEvent(0.25))


def test_an_anchor_may_be_any_object_with_read_and_write(tmp_path):
    class Memory:
        mark: Mark | None = None

        def read(self) -> Mark | None:
            return self.mark

        def write(self, mark: Mark) -> None:
            assert self.mark is None or mark.sequence > self.mark.sequence
            self.mark = mark

    memory = Memory()
    with Ledger.create(tmp_path / "ledger.db", limit=Limit.pure(1.0), anchor=memory) as ledger:
        ledger.release("a", lambda noise: 1, event=PureEvent(0.25))
    assert memory.mark is not None
    assert memory.mark.sequence == 2
    assert verify(tmp_path / "ledger.db", memory).anchor == "matches at entry 2"


def test_only_a_key_shows_an_edit_whose_hashes_were_made_anew(tmp_path):
    """The published value becomes 9 and the chain is recomputed, as anybody with the file can."""
    key = b"sixteen bytes or more"
    for path, secret in ((tmp_path / "open.db", None), (tmp_path / "keyed.db", key)):
        with Ledger.create(path, limit=Limit.pure(1.0), key=secret) as ledger:
            ledger.release("a", lambda noise: 3, event=PureEvent(0.25))
        edit(path, "UPDATE entries SET value = '9' WHERE sequence = 2")
        rewrite(path)
    assert "no key" in " ".join(verify(tmp_path / "open.db").notes), "it cannot be seen, and the report says so"
    with pytest.raises(LedgerTampered, match="does not fit its hash"):
        verify(tmp_path / "keyed.db", key=key)
    with pytest.raises(LedgerTampered, match="does not fit its hash"):
        Ledger.open(tmp_path / "keyed.db", key=key)


def test_a_key_is_asked_for_checked_and_never_shown(tmp_path):
    path, key = tmp_path / "ledger.db", b"sixteen bytes or more"
    with Ledger.create(path, limit=Limit.pure(1.0), key=key) as ledger:
        ledger.release("a", lambda noise: 3, event=PureEvent(0.25))
        assert "sixteen" not in repr(ledger._book.state)
    with Ledger.open(path, key=key) as ledger:
        assert ledger.value("a") == 3
    assert verify(path, key=key).notes == ()
    with pytest.raises(LedgerError, match="made with a key"):
        Ledger.open(path)
    with pytest.raises(LedgerTampered, match="another key"):
        verify(path, key=b"another secret, just as long")
    with pytest.raises(LedgerError, match="at least 16") as caught:
        Ledger.create(tmp_path / "new.db", limit=Limit.pure(1.0), key=b"short")
    assert "short" not in str(caught.value)
    Ledger.create(tmp_path / "plain.db", limit=Limit.pure(1.0)).close()
    with pytest.raises(LedgerError, match="made without a key"):
        Ledger.open(tmp_path / "plain.db", key=key)


def test_opening_never_brings_a_budget_back(tmp_path):
    path = tmp_path / "ledger.db"
    with Ledger.create(path, limit=Limit.pure(1.0)) as ledger:
        ledger.release("a", lambda noise: 3, event=PureEvent(1.0))
    path.unlink()
    with pytest.raises(LedgerError, match="there is no ledger here"):
        Ledger.open(path, limit=Limit.pure(1.0))
    assert not path.exists()
