"""Small rules that somebody stumbles over: what an error may say, what may be repeated, who sees what, what is JSON."""

from __future__ import annotations

import errno
import os
import sqlite3
import traceback
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest
from running_service import LOOP, Direct, token, until

from fairveil.client import Client, Problem, Unreachable
from fairveil.loop import Store
from fairveil.loop.upkeep import check
from fairveil.service.app import Service
from fairveil.service.pages.verdicts import series_of
from fairveil.service.settings import Settings
from fairveil.storage import faults

DECISIONS = "/v1/loops/trial/decisions"
JSON = {"content-type": "application/json"}


# What is JSON --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "status"),
    [
        ("application/json", 201),
        ("Application/JSON", 201),
        ("application/json; charset=UTF-8", 201),
        ('application/json;charset="utf-8"', 201),
        ("application/json; profile=x", 201),
        ("application/json; charset=latin-1", 415),
        ("application/json; charset=utf-16", 415),
        ("application/jsonp", 415),
        ("application/json-patch+json", 415),
        ("text/plain", 415),
        ("", 415),
    ],
)
def test_content_types_by_the_standard(trial, kind, status):
    assert trial.post(DECISIONS, content=b"{}", headers={"content-type": kind}).status_code == status


def test_a_key_that_is_there_twice_is_refused_wherever_it_stands(http, trial):
    for path, body in [
        (DECISIONS, b'{"event_id":"a","event_id":"b"}'),
        (f"{DECISIONS}/batch", b'{"decisions":[{"event_id":"a"},{"event_id":"b","event_id":"c"}]}'),
        (f"{DECISIONS}/x/reward", b'{"value":1,"value":0}'),
        ("/v1/loops", b'{"name":"x","policy":{"name":"even-blocks","arms":3,"epsilon":1.0,"epsilon":9.0}}'),
    ]:
        answer = trial.post(path, content=body, headers=JSON)
        assert (answer.status_code, answer.json()["type"]) == (400, "/problems/malformed"), body
    assert trial.post(DECISIONS, json={"event_id": "a:b::c"}).status_code == 201
    assert trial.get("/v1/loops/trial").json()["rounds"] == 1


def test_two_hosts_are_refused(service):
    http = Direct(service)
    headers = [("host", "127.0.0.1"), ("host", "127.0.0.1")]
    answer = http.get("/health", headers=headers)
    assert (answer.status_code, answer.json()["type"]) == (400, "/problems/malformed")
    http.close()


def test_a_reward_that_overtakes_its_own_decision_waits_for_it_and_others_are_unknown(trial, service):
    writer = service.store.loop("trial").writer
    with ThreadPoolExecutor(2) as clients:
        with writer._turn:
            reward = clients.submit(trial.post, f"{DECISIONS}/a/reward", json={"value": 1.0})
            until(lambda: len(writer.waiting) == 1)
            decision = clients.submit(trial.post, DECISIONS, json={"event_id": "a"})
            until(lambda: len(writer.waiting) == 2)
        assert (decision.result().status_code, reward.result().status_code) == (201, 200)
    assert reward.result().json()["learned"] == "pending"
    assert trial.post(f"{DECISIONS}/b/reward", json={"value": 1.0}).status_code == 404


# What an error says --------------------------------------------------------------------------------------------------


def test_a_reward_outside_its_range_says_that_it_was_clipped(trial):
    for event in ("a", "b", "c"):
        trial.post(DECISIONS, json={"event_id": event})
    assert trial.post(f"{DECISIONS}/a/reward", json={"value": 7}).json()["clipped"] is True
    assert "clipped" not in trial.post(f"{DECISIONS}/b/reward", json={"value": 1}).json()
    rewards = [{"event_id": "b", "value": 1}, {"event_id": "c", "value": -0.1}]
    parts = trial.post("/v1/loops/trial/rewards/batch", json={"rewards": rewards}).json()["rewards"]
    assert [part.get("clipped") for part in parts] == [None, True]


def test_a_conflict_names_the_event_that_was_sent(trial):
    for event in ("a", "b"):
        trial.post(DECISIONS, json={"event_id": event})
        trial.post(f"{DECISIONS}/{event}/reward", json={"value": 1})
    assert trial.post(f"{DECISIONS}/a/reward", json={"value": 0}).json()["given"] == "'a'"
    assert trial.post(DECISIONS, json={"event_id": "a", "defer": True}).json()["given"] == "'a'"
    rewards = [{"event_id": "a", "value": 1}, {"event_id": "b", "value": 0}]
    parts = trial.post("/v1/loops/trial/rewards/batch", json={"rewards": rewards}).json()["rewards"]
    assert [part.get("given") for part in parts] == [None, "'b'"]
    asked = [{"event_id": "a"}, {"event_id": "b", "defer": True}]
    parts = trial.post(f"{DECISIONS}/batch", json={"decisions": asked}).json()["decisions"]
    assert [part.get("given") for part in parts] == [None, "'b'"]


def test_who_has_no_token_is_told_where_one_goes(trial, store, service):
    token(store, "decide")
    service.gate.renew()
    fix = trial.get("/v1/loops").json()["fix"]
    assert "FAIRVEIL_TOKEN" in fix
    assert "--token" in fix


@pytest.fixture
def broken(trial, service, caplog):
    """Calls while the store fails in some way: the answer, and the operator's log."""

    def broken(problem: Exception, method: str, path: str, **body):
        def hook(name: str) -> None:
            if name in ("store-begun", "insert", "create-begin"):
                raise problem

        faults.hook = hook
        try:
            return trial.request(method, path, **body), caplog
        finally:
            faults.hook = None

    return broken


@pytest.mark.parametrize(
    "problem",
    [
        sqlite3.OperationalError("unable to open database file /srv/secret/store.db"),
        OSError(errno.ENOSPC, "No space left on device", "/srv/secret/ledgers/x.db"),
        sqlite3.OperationalError("database or disk is full"),
    ],
)
def test_the_store_is_not_described_to_callers(broken, tmp_path, problem):
    words = ("/srv", "secret", str(tmp_path), "sqlite", "store.db", "Errno", "No space", "database or disk")
    for method, path, body in [
        ("POST", DECISIONS, {"event_id": "a"}),
        ("POST", f"{DECISIONS}/batch", {"decisions": [{"event_id": "a"}]}),
        ("PUT", "/v1/loops/trial/mode", {"mode": "frozen"}),
        ("POST", "/v1/loops", {**LOOP, "name": "other"}),
    ]:
        answer, log = broken(problem, method, path, json=body)
        text = answer.text
        assert [word for word in words if word in text] == [], (path, text)
        assert "/problems/storage" in text, (path, text)
        assert answer.status_code == (200 if path.endswith("batch") else 503)
    assert any(word in log.text for word in words)  # whoever operates it is told


def test_ready_says_full_when_the_disk_is(trial, service, monkeypatch):
    assert trial.get("/ready").json()["store"] == "writable"
    real = os.statvfs

    class Nearly:
        f_bavail, f_frsize = 3, 4096

    monkeypatch.setattr(os, "statvfs", lambda path: Nearly)
    answer = trial.get("/ready")
    assert (answer.status_code, answer.json()["store"]) == (503, "full")
    monkeypatch.setattr(os, "statvfs", real)
    assert trial.get("/ready").status_code == 200


def test_after_a_write_that_did_not_fit_ready_tries_one_as_large(trial, service, store, monkeypatch):
    sizes = []
    real = type(store.driver).writing

    def hook(name: str) -> None:
        if name == "store-begun":
            raise sqlite3.OperationalError("database or disk is full")

    faults.hook = hook
    assert trial.post(DECISIONS, json={"event_id": "a"}).status_code == 503
    faults.hook = None

    def writing(self):
        found = real(self)
        return Measured(found, sizes)

    monkeypatch.setattr(type(store.driver), "writing", writing)
    for _ in range(2):
        assert trial.get("/ready").status_code == 200
    assert sizes[0] > 2**17 > sizes[1]


class Measured:
    """A transaction that notes how much a look writes."""

    def __init__(self, found, sizes):
        self.found, self.sizes = found, sizes

    def __enter__(self):
        tx = self.found.__enter__()
        real = tx.execute

        def execute(statement, values=()):
            if statement.startswith("INSERT") and "ready" in values:
                self.sizes.append(len(values[1]))
            return real(statement, values)

        tx.execute = execute
        return tx

    def __exit__(self, *problem):
        return self.found.__exit__(*problem)


# What may be repeated ------------------------------------------------------------------------------------------------


def test_a_loop_that_is_created_again_is_the_same_one(trial, service):
    assert trial.post("/v1/loops", json=LOOP).status_code == 200
    written = {**LOOP, "mode": "online", "explore": 0.0, "person": {}}  # what is said is what was meant
    assert trial.post("/v1/loops", json=written).json()["name"] == "trial"
    assert trial.request("PUT", "/v1/loops/trial/mode", json={"mode": "frozen"}).status_code == 200
    again = trial.post("/v1/loops", json=LOOP)
    assert (again.status_code, again.json()["mode"]) == (200, "frozen")
    for other in ({"explore": 0.1}, {"mode": "shadow"}, {"policy": {**LOOP["policy"], "epsilon": 2.0}}):
        answer = trial.post("/v1/loops", json={**LOOP, **other})
        assert (answer.status_code, answer.json()["type"]) == (409, "/problems/name-taken")
    assert trial.request("DELETE", "/v1/loops/trial").status_code == 204
    assert trial.post("/v1/loops", json=LOOP).status_code == 409
    assert [entry["action"] for entry in trial.get("/v1/trail").json()["entries"]] == ["create", "mode", "close"]


@pytest.mark.parametrize("again", [False, True], ids=["at once", "after a restart"])
@pytest.mark.parametrize("point", ["create-done", "inserted", "store-begun", "store-commit", "store-committed"])
def test_a_creation_that_broke_is_finished_by_its_repeat(tmp_path, clock, point, again):
    left = [1]

    def hook(name: str) -> None:
        if name == point and left[0]:
            left[0] -= 1
            raise OSError(errno.EIO, "the disk")

    url = f"sqlite:///{tmp_path}/store.db"
    store = Store.open(url, clock=clock)
    http = Direct(Service(store, Settings()))
    faults.hook = hook
    try:
        assert http.post("/v1/loops", json=LOOP).status_code in (503, 500)
    finally:
        faults.hook = None
    assert left == [0]
    if again:
        http.close()
        store.close()
        store = Store.open(url, clock=clock)
        http = Direct(Service(store, Settings()))
    answer = http.post("/v1/loops", json=LOOP)
    assert answer.status_code in (200, 201), answer.text
    assert http.get("/v1/loops/trial/budget").json()["epsilon"] == 1.0  # charged once
    assert http.post(DECISIONS, json={}).status_code == 201
    check(store)
    http.close()
    store.close()


def test_the_client_repeats_a_creation_too():
    seen = []

    def answer(request: httpx.Request) -> httpx.Response:
        seen.append(request.content)
        if len(seen) == 1:
            raise httpx.ReadError("cut")
        if len(seen) == 2:
            return httpx.Response(503, headers={"retry-after": "0"}, json={"detail": "later"})
        return httpx.Response(200, json={"name": "x"})

    assert Client("http://service", transport=httpx.MockTransport(answer)).create("x")["name"] == "x"
    assert len(seen) == 3


@pytest.mark.parametrize("status", [None, 503])
def test_the_client_tries_for_as_long_as_it_says_and_ends_in_a_sentence(monkeypatch, status):
    now, pauses, seen = [0.0], [], []
    monkeypatch.setattr("fairveil.client.verbs.time.monotonic", lambda: now[0])

    def sleep(seconds: float) -> None:
        pauses.append(seconds)
        now[0] += seconds

    monkeypatch.setattr("fairveil.client.clients.time.sleep", sleep)

    def gone(request: httpx.Request) -> httpx.Response:
        seen.append(request.content)
        if status is None:
            raise httpx.ConnectError("refused")
        return httpx.Response(status, headers={"retry-after": "1"}, json={"detail": "the store does not answer"})

    client = Client("http://service", transport=httpx.MockTransport(gone))
    with pytest.raises(Unreachable if status is None else Problem) as caught:
        client.loop("t").decide("e")
    assert 50 < now[0] <= 60
    assert max(pauses) <= 5
    assert len(set(pauses)) == len(pauses)  # jitter
    assert len(set(seen)) == 1
    lines = traceback.format_exception(caught.value)
    assert "During handling" not in "".join(lines)
    assert "httpcore" not in "".join(lines)
    if status is None:
        assert "http://service: the service cannot be reached" in str(caught.value)
        now[0], before = 0.0, len(seen)
        assert client.loop("t").decide("f", fallback=1)["source"] == "fallback"
        assert now[0] <= 2
        assert len(seen) > before
    short = Client("http://service", patience=0, transport=httpx.MockTransport(gone))
    seen.clear()
    with pytest.raises((Unreachable, Problem)):
        short.loops()
    assert len(seen) == 1


# Who sees what -------------------------------------------------------------------------------------------------------


def test_a_token_of_one_loop_lists_its_own_loop_ledger_and_trail(trial, store, service):
    assert trial.post("/v1/loops", json={**LOOP, "name": "other"}).status_code == 201
    for _ in range(3):
        for mode in ("frozen", "online"):
            trial.request("PUT", "/v1/loops/other/mode", json={"mode": mode})
    headers = token(store, "decide", "operate", "audit", loop="trial")
    decide = token(store, "decide", loop="trial")
    service.gate.renew()
    assert [loop["name"] for loop in trial.get("/v1/loops", headers=headers).json()["loops"]] == ["trial"]
    assert [one["name"] for one in trial.get("/v1/ledgers", headers=headers).json()["ledgers"]] == ["trial"]
    entries = trial.get("/v1/trail", headers=headers).json()["entries"]
    assert [entry["target"] for entry in entries] == ["trial"]
    assert trial.get("/v1/trail", headers=decide).status_code == 403
    assert trial.get("/v1/ledgers/trial/verify", headers=headers).json()["verdict"] == "intact"
    for path in ("/v1/loops/other", "/v1/ledgers/other", "/v1/ledgers/other/entries", "/metrics"):
        assert trial.get(path, headers=headers).status_code == 403, path


def test_a_trail_of_one_loop_goes_on_behind_many_entries_of_others(trial, store):
    from fairveil.loop import trail

    with store.writing() as tx:
        for number in range(700):
            trail.note(tx, store.clock.now(), "x", "mode", "other" if number < 650 else "trial")
        found = trail.entries(tx, 0, 500, "trial")
    assert len(found) == 51


def test_ledger_files_are_for_their_owner_alone(tmp_path, clock):
    before = os.umask(0o022)
    try:
        with Store.open(f"sqlite:///{tmp_path}/store.db", clock=clock) as store:
            loop = store.create(**LOOP)
            for number in range(5):
                loop.decide(str(number))
            clock.advance(61)
            assert store.tick() == 1
            files = [path for path in tmp_path.rglob("*") if path.is_file() and ".live" not in str(path)]
            assert len(files) >= 4
            assert {oct(path.stat().st_mode & 0o777) for path in files} == {"0o600"}, files
    finally:
        os.umask(before)


@pytest.mark.parametrize(("rounds", "charts"), [([301, 301, 301], 0), ([301, 301, 402], 3), ([301], 0)])
def test_nothing_is_drawn_over_rounds_while_all_releases_are_of_one_round(rounds, charts):
    """It would be one upright line."""
    table = {"published": {"arms": [{"action_id": "old"}, {"action_id": "new"}]}, "reward": {"low": 0.0, "high": 1.0}}
    arms = [[0.2, 0.1, 0.3], [0.6, 0.5, 0.7]]
    releases = [{"rounds": at, "arms": arms, "shares": [0.5, 0.5]} for at in rounds]
    assert len(series_of(table, releases)) == charts
