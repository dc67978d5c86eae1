"""A store that hangs, and what nobody waits for: limits on every wait, a table of tokens in memory, looks in the
background, and work that goes on when its answer was given up."""

from __future__ import annotations

import itertools
import os
import platform
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import postgres_server
import pytest
from running_service import LOOP, Direct, listening, until

from fairveil.client import Client
from fairveil.loop import Store, tokens
from fairveil.loop.upkeep import check
from fairveil.service import access, routes, watch
from fairveil.service.app import Service
from fairveil.service.pumps import Threads
from fairveil.service.settings import Settings
from fairveil.storage.patience import at_most

DECISIONS = "/v1/loops/trial/decisions"
QUICK = Settings(deadline=0.5)


@pytest.fixture
def quick(monkeypatch):
    """Looks that come and go faster than a person would want them."""
    monkeypatch.setattr(watch, "EVERY", 0.05)
    monkeypatch.setattr(watch, "AGAIN", 0.05)
    monkeypatch.setattr(watch, "PATIENCE", 0.5)
    monkeypatch.setattr(watch, "SILENT", 0.4)
    monkeypatch.setattr(watch, "STALE", 1.0)


def decided(http, event, path=DECISIONS):
    """The reply to an event, however often it takes: with a deadline this short a busy machine says 503 by itself."""
    asked = {"event_id": event}
    return until(lambda: (found := http.post(path, json=asked)).status_code in (200, 201) and found).json()


# A server that hangs -------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def own_server():
    """A PostgreSQL of its own, because it will be paused."""
    if postgres_server.programs() is None:
        pytest.skip("postgres: PostgreSQL is not installed")
    folder = Path(tempfile.mkdtemp(prefix="fairveil-paused-", dir="/dev/shm" if os.path.isdir("/dev/shm") else None))
    yield folder, postgres_server.start(folder)
    postgres_server.stop(folder)
    shutil.rmtree(folder)


@pytest.mark.postgres
def test_a_server_that_hangs_is_like_one_that_is_down(own_server, quick):
    folder, url = own_server
    with Store.open(postgres_server.own_schema(url), key=bytes(32)) as store:
        service = Service(store, QUICK)
        http = Direct(service, timeout=60)
        assert http.post("/v1/loops", json=LOOP).status_code == 201
        service.start()
        first = {name: decided(http, name) for name in ("a", "b")}
        with postgres_server.paused(folder):
            with ThreadPoolExecutor(8) as clients:
                asked = [clients.submit(http.post, DECISIONS, json={"event_id": f"late-{i}"}) for i in range(8)]
                alive = [http.get("/health").status_code for _ in range(20)]
                answers = [one.result(60) for one in asked]
            assert alive == [200] * 20
            assert {answer.status_code for answer in answers} == {503}
            table = answers[0].json()
            assert (table["type"], answers[0].headers["retry-after"]) == ("/problems/storage", "1")
            until(lambda: service.watch._open or not http.post(DECISIONS, json={"event_id": "x"}))
            before = len(store.loop("trial").writer.waiting)
            assert http.post(DECISIONS, json={"event_id": "refused"}).status_code == 503  # at once: it was not queued
            assert len(store.loop("trial").writer.waiting) == before
            assert http.get("/v1/loops/trial").status_code == 503
            invented = {"authorization": f"Bearer fv_{'0' * 12}_{'x' * 43}"}
            assert http.get("/v1/loops", headers=invented).status_code in (401, 503)
            ready = until(lambda: (found := http.get("/ready")).status_code == 503 and found).json()
            assert ready["store"] in ("silent", "down", "busy")
            assert http.get("/health").status_code == 200
        decided(http, "c")
        until(lambda: http.get("/ready").status_code == 200)
        for name, reply in first.items():
            assert decided(http, name) == reply
        replies = [decided(http, f"late-{i}")["round"] for i in range(8)]
        assert len(set(replies)) == 8
        assert replies == [decided(http, f"late-{i}")["round"] for i in range(8)]
        http.close()
        check(store)


@pytest.mark.postgres
def test_whoever_may_not_wait_gives_up_and_whoever_must_does_not(own_server):
    from fairveil.storage.postgres import driver, server_of

    folder, url = own_server
    user = threading.Event()
    server = server_of(url).join(user)
    with server.reading() as connection:
        connection.execute("SELECT 1")
    found: list[object] = []

    def patient() -> None:
        with server.writing() as connection:
            found.append(connection.execute("SELECT 7").fetchone()[0])

    with postgres_server.paused(folder):
        waiting = threading.Thread(target=patient, daemon=True)
        waiting.start()
        for _ in range(3):
            with pytest.raises((driver().Error, TimeoutError)), at_most(0.2), server.reading() as connection:
                connection.execute("SELECT 1")
        assert found == []
    waiting.join(60)
    assert found == [7]
    with server.reading() as connection:
        assert connection.execute("SHOW statement_timeout").fetchone() == ("1min",)
        assert connection.execute("SHOW idle_in_transaction_session_timeout").fetchone() == ("30s",)
    server.leave(user)


@pytest.mark.postgres
def test_a_release_that_was_charged_waits_for_a_server_that_hangs(own_server, quick):
    """The deadline ends no work between a charge and its stored value: nothing is lost by a pause."""
    from fairveil.storage import faults

    folder, url = own_server
    with Store.open(postgres_server.own_schema(url), key=bytes(32)) as store:
        service = Service(store, QUICK)
        http = Direct(service, timeout=60)
        asked = {**LOOP, "reward": {"wait": "10h", "missing": "public"}}
        assert http.post("/v1/loops", json=asked).status_code == 201
        drawing, go_on = threading.Event(), threading.Event()

        def hook(name: str) -> None:
            if name == "drawn" and not drawing.is_set():
                drawing.set()
                go_on.wait(60)

        service.start()
        for index in range(5):
            http.post(DECISIONS, json={"event_id": f"e-{index}"})
        faults.hook = hook
        try:
            for index in range(5):
                http.post(f"{DECISIONS}/e-{index}/reward", json={"value": 1.0})
            assert drawing.wait(60), "no block was drawn"
            with postgres_server.paused(folder):
                go_on.set()
                assert http.post(DECISIONS, json={"event_id": "other"}).status_code == 503
                until(lambda: service.watch._open)
        finally:
            faults.hook = None
            go_on.set()
        until(lambda: http.get("/v1/loops/trial").json().get("version") == 1)
        assert store.loop("trial").ledger.status("trial/0/block-0") == "published"
        http.close()
        check(store)


# Deadlines -----------------------------------------------------------------------------------------------------------


def test_a_loop_that_hangs_alone_is_given_up_and_its_work_is_found_again(store, quick):
    service = Service(store, QUICK)
    http = Direct(service, timeout=60)
    assert http.post("/v1/loops", json=LOOP).status_code == 201
    assert http.post("/v1/loops", json={**LOOP, "name": "other"}).status_code == 201
    service.watch.start()
    with store.loop("trial").writer._turn:
        answer = http.post(DECISIONS, json={"event_id": "a"})
        assert (answer.status_code, answer.json()["type"]) == (503, "/problems/storage")
        assert decided(http, "a", "/v1/loops/other/decisions")["round"] == 0
        until(lambda: not service.watch._open)  # the store answers: only this loop is busy
    assert decided(http, "a")["round"] == 0
    http.close()
    check(store)


def test_creating_a_loop_has_longer_and_goes_on_when_it_is_given_up(store, monkeypatch):
    service = Service(store, Settings(deadline=0.2))
    http = Direct(service, timeout=60)
    real, hold = store.create, threading.Event()

    def create(*given, **more):
        hold.wait(60)
        return real(*given, **more)

    monkeypatch.setattr(store, "create", create)
    threading.Timer(0.6, hold.set).start()
    assert http.post("/v1/loops", json=LOOP).status_code == 201
    assert {route.deadline for route in routes_of("create_loop", "make_release", "quote_loop")} == {routes.SLOW}
    hold.clear()
    monkeypatch.setattr(service, "ledger", lambda name: hold.wait(60))
    assert http.get("/v1/ledgers/trial").status_code == 503
    hold.set()
    http.close()


def routes_of(*names):
    from fairveil.service.app import ROUTES

    return [route for route in ROUTES if route.handler.__name__ in names]


def test_a_lock_beside_a_file_is_given_up_and_then_free(tmp_path):
    from fairveil.storage.sqlite import locked

    path = str(tmp_path / "x.lock")
    with locked(path):
        for _ in range(3):
            with pytest.raises(TimeoutError), at_most(0.05), locked(path):
                pass
    for _ in range(5):
        with at_most(30.0), locked(path):
            pass


# What is known without asking ----------------------------------------------------------------------------------------


def test_nobody_is_looked_up_while_requests_come(store, service, http, monkeypatch):
    with store.writing() as tx:
        text = tokens.add(tx, "test", ["decide"], store.clock.now())
    service.start()
    until(lambda: http.get("/v1/loops", headers={"authorization": f"Bearer {text}"}).status_code == 200)
    counted: list[str] = []
    real = type(store.driver).reading

    def reading(self):
        counted.append(threading.current_thread().name)
        return real(self)

    monkeypatch.setattr(type(store.driver), "reading", reading)
    for number in range(50):
        invented = {"authorization": f"Bearer fv_{number:012x}_{'x' * 43}"}
        assert http.get("/v1/loops", headers=invented).status_code == 401
    assert set(counted) <= {"watch", "ticker"}


def test_a_revoked_token_lives_for_eleven_seconds_at_most(store, service, http):
    with store.writing() as tx:
        text = tokens.add(tx, "test", ["decide"], store.clock.now())
    service.gate.renew()
    headers = {"authorization": f"Bearer {text}"}
    assert http.get("/v1/loops", headers=headers).status_code == 200
    with store.writing() as tx:
        tokens.revoke(tx, text.split("_")[1], store.clock.now())
    service.gate.renew()
    assert http.get("/v1/loops", headers=headers).status_code == 401
    service.watch._thread = threading.current_thread()  # as if it ran, and could not read for ten seconds
    service.gate._read -= access.LOST + 0.1
    for given in (headers, {}, {"authorization": "Bearer x"}):
        assert http.get("/v1/loops", headers=given).status_code == 503
    assert http.get("/health").status_code == 200
    assert access.FRESH + access.LOST <= 11
    service.watch._thread = None


def test_a_pool_has_as_many_threads_as_had_something_to_do_at_once():
    """Work that asks for its own next turn, as a loop with more waiting does, once made a new thread each time."""
    pool, turns, over = Threads("turns", 8), [], threading.Event()

    def turn() -> None:
        turns.append(threading.current_thread().name)
        over.set() if len(turns) == 200 else pool.submit(turn)

    pool.submit(turn)
    assert over.wait(60)
    assert len(pool._threads) <= 2, set(turns)
    together = threading.Barrier(9)
    for _ in range(8):
        pool.submit(lambda: together.wait(60) and None)
    together.wait(60)  # whoever was idle before is counted once: all eight run beside each other
    assert len(pool._threads) == 8
    pool.stop(5)
    assert not any(thread.is_alive() for thread in pool._threads)


def test_where_the_system_gives_no_thread_the_others_do_the_work(store, service, http, monkeypatch):
    """Whoever asked first in such a moment left a loop that nobody wrote for any more."""
    assert http.post("/v1/loops", json=LOOP).status_code == 201
    real = threading.Thread.start

    def start(self):
        if self.name.startswith("writer"):
            raise RuntimeError("can't start new thread")
        real(self)

    monkeypatch.setattr(threading.Thread, "start", start)
    answer = http.post(DECISIONS, json={"event_id": "a"})
    assert (answer.status_code, answer.json()["type"]) == (503, "/problems/overloaded")
    monkeypatch.undo()
    assert http.post(DECISIONS, json={"event_id": "a"}).status_code in (200, 201)
    pool, over, done = Threads("few", 8), threading.Event(), []
    pool.submit(over.wait)
    monkeypatch.setattr(threading.Thread, "start", lambda self: (_ for _ in ()).throw(RuntimeError("no more")))
    pool.submit(lambda: done.append(1))
    monkeypatch.undo()
    over.set()
    until(lambda: done == [1])
    pool.stop(5)


ALLOCATE = """
import ctypes, sys, threading
from fairveil.service.serve import one_heap
said, together = one_heap(), threading.Barrier(6)
def work():
    kept = [bytes(5000) for _ in range(100)]
    together.wait(60)
for thread in (threads := [threading.Thread(target=work) for _ in range(6)]):
    thread.start()
for thread in threads:
    thread.join()
libc = ctypes.CDLL(None)
libc.fopen.restype = ctypes.c_void_p
file = ctypes.c_void_p(libc.fopen(sys.argv[1].encode(), b"w"))
libc.malloc_info(0, file)
libc.fclose(file)
print(said)
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="other C libraries have no such heaps")
@pytest.mark.parametrize(("environment", "said"), [({}, True), ({"MALLOC_ARENA_MAX": "4"}, False)])
def test_threads_of_the_service_share_one_heap_unless_the_operator_says_otherwise(tmp_path, environment, said):
    """Each had its own, and a process grew by what one thread gave back and no other could use."""
    command = [sys.executable, "-c", ALLOCATE, str(tmp_path / "heaps")]
    given = {name: value for name, value in os.environ.items() if name != "MALLOC_ARENA_MAX"} | environment
    done = subprocess.run(command, env=given, capture_output=True, text=True, check=True)
    heaps = (tmp_path / "heaps").read_text().count("<heap nr=")
    assert done.stdout.strip() == str(said)
    assert heaps == 1 if said else heaps > 1


def test_health_and_ready_need_no_thread_and_no_store(store, service, http, monkeypatch):
    service.start()
    held = threading.Event()
    for _ in range(32):
        service.threads.submit(held.wait)

    def broken(self):
        raise OSError("nobody may ask")

    monkeypatch.setattr(type(store.driver), "writing", broken)
    monkeypatch.setattr(type(store.driver), "reading", broken)
    with ThreadPoolExecutor(16) as clients:
        answers = list(clients.map(lambda _: http.get("/health").status_code, range(50)))
    assert answers == [200] * 50
    assert until(lambda: http.get("/ready").status_code == 503)
    held.set()


def test_many_who_ask_for_readiness_share_one_look(store, http, service, monkeypatch):
    looks = []
    real = service._look
    service.watch._look = lambda: looks.append(time.monotonic()) or real()
    service.start()
    with ThreadPoolExecutor(16) as clients:
        assert set(clients.map(lambda _: http.get("/ready").status_code in (200, 503), range(200))) == {True}
    assert all(later - earlier >= min(watch.EVERY, watch.AGAIN) for earlier, later in itertools.pairwise(looks))


def test_a_service_stops_although_its_store_hangs(store):
    service = Service(store, QUICK)
    http = Direct(service, timeout=60)
    assert http.post("/v1/loops", json=LOOP).status_code == 201
    service.start()
    loop = store.loop("trial")
    with ThreadPoolExecutor(1) as other, loop.writer._turn:
        asked = other.submit(http.post, DECISIONS, json={"event_id": "a"})
        until(lambda: loop.writer.waiting)
        service.stop()  # returns: the turn is never free
        assert asked.result(60).status_code == 503
    http.close()


def test_a_reward_that_is_sent_before_its_decision_is_answered_finds_it(tmp_path):
    """Both wait in one queue, in the order in which they came."""
    store = Store.open(f"sqlite:///{tmp_path}/store.db")
    with store, listening(Service(store, Settings())) as url, Client(url) as client, ThreadPoolExecutor(2) as both:
        client.create(**LOOP)
        waiting = store.loop("trial").writer.waiting
        with store.loop("trial").writer._turn:
            decided = both.submit(client.loop("trial").decide, "early")
            until(lambda: waiting)
            rewarded = both.submit(client.loop("trial").reward, "early", 1.0)
            until(lambda: len(waiting) == 2)
        assert decided.result(60)["round"] == 0
        assert rewarded.result(60)["learned"] == "pending"
