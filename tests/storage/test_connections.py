"""Connections, descriptors and the lock of the living are of the process, whatever many ledgers and loops it has."""

from __future__ import annotations

import contextlib
import os
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from children import run_child

from fairveil.errors import LedgerError
from fairveil.ledger import Ledger, Limit, ReleaseLost
from fairveil.loop import ManualClock, Store
from fairveil.loop.storage.sqlite import SqliteDriver
from fairveil.privacy.events import PureEvent
from fairveil.storage import faults
from fairveil.storage.postgres import MOST, server_of
from fairveil.storage.sqlite import MOST_KEPT

EVENT = PureEvent(0.1)
MANY = 100


def release(ledger: Ledger, block: str = "a", value: int = 1) -> int:
    return ledger.release(block, lambda noise: value, event=EVENT)


def named(database: str, name: str) -> tuple[str, str]:
    return f"{database}&application_name={name}-{os.getpid()}", f"{name}-{os.getpid()}"


def backends(database: str, name: str) -> list[int]:
    import psycopg

    with psycopg.connect(database, autocommit=True) as other:
        query = "SELECT pid FROM pg_stat_activity WHERE application_name = %s ORDER BY 1"
        return [pid for (pid,) in other.execute(query, (name,))]


@pytest.mark.postgres
def test_a_hundred_ledgers_and_a_store_share_sixteen_connections(database):
    url, name = named(database, "many")
    most = []

    def work(ledger: Ledger) -> None:
        release(ledger)
        most.append(len(backends(database, name)) if len(most) % 10 == 0 else 0)

    with Store.open(url, clock=ManualClock(), key=bytes(32)) as store:
        ledgers = [Ledger.create(url, ledger=f"l-{number}", limit=Limit.pure(1.0)) for number in range(MANY)]
        with ThreadPoolExecutor(24) as threads:
            list(threads.map(work, ledgers))
        assert 2 <= max(most) <= 16
        assert len({ledger.draws.session.token for ledger in ledgers}) == 1
        assert store.names() == []
        for ledger in ledgers:
            ledger.close()
    while backends(database, name):  # a server ends its process a moment after the connection
        pass


@pytest.mark.postgres
def test_who_waits_too_long_for_a_connection_is_told(database):
    url, _ = named(database, "full")
    with Ledger.create(url, ledger="a", limit=Limit.pure(1.0), wait=0.2) as ledger:
        held = [server_of(url).connection() for _ in range(MOST)]
        for one in held:
            one.__enter__()
        with pytest.raises(LedgerError, match=rf"for one of {MOST} connections.*nothing was charged"):
            release(ledger)
        held.pop().__exit__(None, None, None)
        assert release(ledger) == 1
        for one in held:
            one.__exit__(None, None, None)


def descriptors(folder) -> list[str]:
    found = []
    for number in os.listdir("/proc/self/fd"):
        try:
            path = os.readlink(f"/proc/self/fd/{number}")
        except OSError:
            continue
        if path.startswith(str(folder)):
            found.append(path)
    return found


def test_a_hundred_ledger_files_cost_a_bounded_number_of_descriptors(tmp_path):
    ledgers = [Ledger.create(tmp_path / f"{number}.db", limit=Limit.pure(1.0)) for number in range(MANY)]
    for ledger in ledgers:
        release(ledger)
    assert len(descriptors(tmp_path)) <= 4 * MOST_KEPT + 1
    assert len({file.stat().st_ino for file in tmp_path.glob("*.live/*")}) == 1, "one lock, linked into every folder"
    assert len(list(tmp_path.glob("*.live/*"))) == MANY
    token = ledgers[0].draws.session.token

    def look() -> None:
        """A process that was not forked from the owner's descriptors would see the same."""
        for number in range(0, MANY, 10):
            with Ledger.open(tmp_path / f"{number}.db") as other:
                assert other.draws.session.token != token
                assert other.draws.session.alive(token)

    assert run_child(look) == 0
    ledgers[0].close()  # whose file was the first: the others keep the lock
    assert run_child(lambda: [Ledger.open(tmp_path / "10.db").draws.session.alive(token) or os._exit(4)]) == 0
    for ledger in ledgers:
        ledger.close()
    assert descriptors(tmp_path) == []
    assert not list(tmp_path.glob("*.live"))


def test_where_files_cannot_be_linked_each_ledger_has_a_lock_of_its_own(tmp_path, monkeypatch):
    def refuse(*given) -> None:
        raise OSError(1, os.strerror(1))

    monkeypatch.setattr(os, "link", refuse)
    ledgers = [Ledger.create(tmp_path / f"{number}.db", limit=Limit.pure(1.0)) for number in range(3)]
    for ledger in ledgers:
        release(ledger)
    token = ledgers[0].draws.session.token
    assert len({file.stat().st_ino for file in tmp_path.glob("*.live/*")}) == 3

    def look() -> None:
        for number in range(3):
            with Ledger.open(tmp_path / f"{number}.db") as other:
                assert other.draws.session.alive(token)

    assert run_child(look) == 0
    for ledger in ledgers:
        ledger.close()
    assert descriptors(tmp_path) == []


def test_a_forked_child_has_connections_and_a_token_of_its_own(ledger_path):
    with Ledger.create(ledger_path, limit=Limit.pure(1.0)) as ledger:
        release(ledger)
        token = ledger.draws.session.token

        def work() -> None:
            assert ledger.draws.session.token != token
            assert ledger.draws.session.alive(token), "the parent lives"
            assert release(ledger, "child", 2) == 2
            ledger.close()

        assert run_child(work) == 0
        assert ledger.draws.session.token == token
        assert ledger.value("child") == 2
        assert release(ledger, "b", 3) == 3


@pytest.mark.postgres
def test_what_a_child_inherits_is_left_to_its_parent(database):
    url, name = named(database, "fork")
    with Store.open(url, clock=ManualClock(), key=bytes(32)) as store, store.reading() as held:
        ledger = Ledger.create(url, ledger="a", limit=Limit.pure(1.0))
        release(ledger)
        before = backends(database, name)

        def work() -> None:
            assert store.names() == []
            assert release(ledger, "child", 2) == 2
            ledger.close()
            store.close()

        assert run_child(work) == 0
        assert held.execute("SELECT 1") == [(1,)], "a transaction of the parent goes on"
        assert release(ledger, "b", 3) == 3
        while set(backends(database, name)) - set(before):  # the child's own end a moment after it
            pass
        assert backends(database, name) == before
        ledger.close()


def test_a_child_that_outlives_its_parent_does_not_keep_its_lock(ledger_path):
    """The child has a copy of the descriptor or of the socket; the parent's death must show all the same."""
    ready, go_on = os.pipe(), os.pipe()
    parent = os.fork()
    if parent == 0:
        ledger = Ledger.create(ledger_path, limit=Limit.pure(1.0))

        def draw(noise) -> int:
            if os.fork() == 0:
                os.write(ready[1], b"x")
                os.read(go_on[0], 1)  # lives on
            os._exit(0)

        release(ledger, "before")
        ledger.release("a", draw, event=EVENT)
    os.waitpid(parent, 0)
    assert os.read(ready[0], 1) == b"x"
    try:
        with Ledger.open(ledger_path) as ledger, pytest.raises(ReleaseLost):
            ledger.release("a", lambda noise: pytest.fail("drawn"), event=EVENT)
    finally:
        os.write(go_on[1], b"x")
        for one in (*ready, *go_on):
            os.close(one)


def test_what_one_could_not_store_another_of_the_same_ledger_stores(ledger_path):
    """Two objects of one process have one token: what the first has drawn is neither lost nor drawn again."""
    with Ledger.create(ledger_path, limit=Limit.pure(1.0)) as first, Ledger.open(ledger_path) as second:
        drawn = []

        def full(name: str) -> None:
            if drawn and name == "begin":
                raise OSError(28, os.strerror(28))

        faults.hook = full
        try:
            with pytest.raises(LedgerError, match="free space"):
                first.release("a", lambda noise: drawn.append(7) or 7, event=EVENT)
        finally:
            faults.hook = None
        with Ledger.open(ledger_path) as third:
            assert third.status("a") == "reserved", "opening does not give up what is still held"
        assert second.release("a", lambda noise: pytest.fail("drawn"), event=EVENT) == 7
        assert first.release("a", lambda noise: pytest.fail("drawn"), event=EVENT) == 7


def test_a_draw_of_one_object_is_under_way_for_another(ledger_path):
    started, go_on, seen = threading.Event(), threading.Event(), []
    with Ledger.create(ledger_path, limit=Limit.pure(1.0)) as first:

        def draw(noise) -> int:
            started.set()
            assert go_on.wait(60)
            return 5

        thread = threading.Thread(target=lambda: seen.append(first.release("a", draw, event=EVENT)))
        thread.start()
        assert started.wait(60)
        with Ledger.open(ledger_path) as second:
            assert second.status("a") == "reserved"
            go_on.set()
            assert second.release("a", lambda noise: pytest.fail("drawn"), event=EVENT) == 5
        thread.join()
    assert seen == [5]


@pytest.mark.postgres
def test_a_transaction_that_the_server_rolled_back_is_not_done(database):
    import psycopg

    def fails(connection):
        with pytest.raises(psycopg.Error):
            connection.execute("SELECT nothing_of_this_name")

    with pytest.raises(psycopg.OperationalError, match="rolled back"), server_of(database).writing() as connection:
        fails(connection)


def test_what_connections_to_a_store_keep_in_memory_is_bounded_whatever_many_read(tmp_path):
    """Eight readers beside a writer: once each of them kept up to 16 MiB of pages, as the store grew. So did who writes
    the keys of released events, which nobody reads."""
    driver = SqliteDriver(tmp_path / "store.db")
    driver.prepare()
    beside = driver.beside("trial")
    kept, used = [], set()
    with contextlib.ExitStack() as stack:
        for tx in [stack.enter_context(one()) for one in (beside.writing, driver.writing, *[driver.reading] * 8)]:
            [(size,)] = tx.execute("PRAGMA cache_size")
            kept.append(-size)
    for _ in range(3):
        with driver.reading(), driver.writing() as tx:
            used.add(id(tx._connection))
    driver.close()
    beside.close()
    assert kept[0] <= 1024, kept
    assert sum(kept) <= 17 * 1024, kept
    assert len(used) == 1, "writers share one connection, so its pages stay true"
