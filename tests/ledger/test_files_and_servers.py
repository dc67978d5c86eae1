"""What a ledger asks of files and servers, and what passes from a process to its child; found by planted mistakes."""

from __future__ import annotations

import os
import threading
from dataclasses import replace

import pytest

from fairveil.errors import LedgerError
from fairveil.ledger import Ledger, Limit
from fairveil.ledger.anchor import FileAnchor, Mark
from fairveil.ledger.chain import RESERVE, START, link, make_row
from fairveil.ledger.places import place_of
from fairveil.privacy.events import PureEvent
from fairveil.storage import faults, postgres


class Settings:
    """A connection to a server with these settings."""

    def __init__(self, **given):
        self.given = {"synchronous_commit": "on", "fsync": "on", "full_page_writes": "on"} | given

    def execute(self, query):
        return self

    def fetchone(self):
        return tuple(self.given[name] for name in ("synchronous_commit", "fsync", "full_page_writes"))


@pytest.mark.parametrize(
    "given",
    [{"synchronous_commit": "off"}, {"synchronous_commit": "local"}, {"fsync": "off"}, {"full_page_writes": "off"}],
)
def test_a_server_that_may_forget_is_refused_by_each_setting(given):
    postgres.check_durable(Settings())
    with pytest.raises(postgres.Undurable, match=next(iter(given))):
        postgres.check_durable(Settings(**given))


@pytest.mark.postgres
def test_one_writer_of_a_ledger_at_a_time_on_a_server(database):
    Ledger.create(database, ledger="one", limit=Limit.pure(1.0)).close()
    first, second = place_of(database, "one"), place_of(database, "one")
    first.check(5.0)
    second.check(5.0)
    seen = []

    def write():
        try:
            with second.writing(0.3):
                seen.append("in")
        except second.failures:
            seen.append("kept out")

    with first.writing(5.0):
        thread = threading.Thread(target=write)
        thread.start()
        thread.join(60)
    assert seen == ["kept out"]
    for place in (first, second):
        place.close()


@pytest.mark.postgres
def test_a_ledger_that_is_there_is_not_made_again_on_a_server(database):
    Ledger.create(database, ledger="one", limit=Limit.pure(1.0)).close()
    place = place_of(database, "one")
    place.create(5.0, lambda: pytest.fail("a second first row"))
    place.close()


@pytest.mark.parametrize("field", ["sequence", "kind", "name", "account", "facts", "value"])
def test_every_part_of_a_row_is_in_its_hash(field):
    row = make_row(START, 3, RESERVE, "block", {"charge": [1, 0]}, account="one", value="7")
    other = {"sequence": 4, "kind": "lost", "name": "other", "account": "two", "facts": "{}", "value": "8"}[field]
    assert link(START, row) == row.hash
    assert link(START, replace(row, **{field: other})) != row.hash


def test_a_crash_leaves_the_whole_old_mark(tmp_path):
    anchor = FileAnchor(tmp_path / "a.anchor")
    anchor.write(Mark("one", 1, "a"))
    for point in ("anchor-open", "anchor-written", "anchor-synced"):

        def die(name, at=point):
            if name == at:
                raise KeyboardInterrupt

        faults.hook = die
        try:
            with pytest.raises(KeyboardInterrupt):
                anchor.write(Mark("one", 2, "b"))
        finally:
            faults.hook = None
        assert anchor.read() == Mark("one", 1, "a")


def test_a_mark_is_synced_before_it_has_its_name(tmp_path, monkeypatch):
    done = []
    monkeypatch.setattr(os, "fsync", lambda handle: done.append("sync"))
    replaced = os.replace
    monkeypatch.setattr(os, "replace", lambda *given: (done.append("rename"), replaced(*given)))
    FileAnchor(tmp_path / "a.anchor").write(Mark("one", 1, "a"))
    assert done[:2] == ["sync", "rename"]


def in_child(work):
    """The exit code of a forked child that did this."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            code = work()
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def test_a_block_that_a_living_process_draws_is_not_lost(tmp_path):
    path = tmp_path / "ledger.db"
    Ledger.create(path, limit=Limit.pure(1.0)).close()

    def look():
        with Ledger.open(path) as other:  # which settles what the dead left
            return 0 if other.status("block") == "reserved" else 3

    with Ledger.open(path) as ledger:
        codes = []

        def draw(noise):
            codes.append(in_child(look))
            return 7

        assert ledger.release("block", draw, event=PureEvent(0.5)) == 7
    assert codes == [0]


def test_a_child_has_drawn_nothing(tmp_path):
    """What a parent has drawn and could not store is the parent's to store."""
    with Ledger.create(tmp_path / "ledger.db", limit=Limit.pure(1.0)) as ledger:

        def fail(name):
            if name == "drawn":
                faults.hook = broken

        def broken(name):
            if name == "begin":
                raise OSError("no space left on device")

        faults.hook = fail
        try:
            with pytest.raises(LedgerError):
                ledger.release("block", lambda noise: 7, event=PureEvent(0.5))
        finally:
            faults.hook = None
        assert ledger.draws._drawn
        assert in_child(lambda: 3 if ledger.draws._drawn or ledger.draws._under_way else 0) == 0
