"""Errors that nobody foresaw: one request fails with an answer, the next one is served, and no thread ends."""

from __future__ import annotations

import asyncio
import threading

import pytest
from running_service import LOOP, Direct, until

from fairveil.loop import facts
from fairveil.loop import store as stores
from fairveil.loop.clock import SECOND, clock_state
from fairveil.loop.upkeep import check
from fairveil.service import app, messages
from fairveil.service.app import Service
from fairveil.service.settings import Settings
from fairveil.storage import faults

DECISIONS = "/v1/loops/trial/decisions"


def strike(monkeypatch, place: object, name: str, times: int = 1):
    """The next calls fail as CPython itself sometimes does."""
    real, left = getattr(place, name), [times]

    def broken(*given, **more):
        if left[0]:
            left[0] -= 1
            raise SystemError("not of this program")
        return real(*given, **more)

    monkeypatch.setattr(place, name, broken)


def test_a_state_that_cannot_be_read_once(trial, monkeypatch, service):
    assert trial.post(DECISIONS, json={"event_id": "a"}).status_code == 201
    service.store.loop("trial").writer.status = None
    strike(monkeypatch, facts, "load_state")
    answer = trial.post(DECISIONS, json={"event_id": "b"})
    assert (answer.status_code, answer.headers["content-type"]) == (500, "application/problem+json")
    assert answer.json()["type"] == "/problems/internal"
    assert trial.post(DECISIONS, json={"event_id": "b"}).json()["round"] == 1
    strike(monkeypatch, stores, "load_state")
    assert trial.get("/v1/loops/trial").status_code == 500
    assert trial.get("/v1/loops/trial").json()["rounds"] == 2


@pytest.mark.parametrize("point", ["store-begun", "batch-decided", "store-commit", "store-committed", "batch-answers"])
def test_a_commit_that_fails_in_any_way(trial, service, point):
    left = [1]

    def hook(name: str) -> None:
        if name == point and left[0]:
            left[0] -= 1
            raise SystemError("not of this program")

    faults.hook = hook
    try:
        first = trial.post(DECISIONS, json={"event_id": "a"})
    finally:
        faults.hook = None
    assert first.status_code == 500
    again = trial.post(DECISIONS, json={"event_id": "a"})
    assert again.status_code == (200 if point in ("store-committed", "batch-answers") else 201)
    assert again.json()["round"] == 0
    assert trial.post(DECISIONS, json={"event_id": "b"}).json()["round"] == 1
    check(service.store)


def test_of_requests_that_share_a_commit_one_fails_alone(trial, service, monkeypatch):
    loop = service.store.loop("trial")
    real = loop.facts.play.choose

    def choose(state, round, ask, rng, burning):
        if ask.event == "poison":
            raise ZeroDivisionError
        return real(state, round, ask, rng, burning)

    monkeypatch.setattr(loop.facts.play, "choose", choose)
    asked = [{"event_id": name} for name in ("a", "poison", "b")]
    replies = trial.post(f"{DECISIONS}/batch", json={"decisions": asked}).json()["decisions"]
    assert [reply.get("round") for reply in replies] == [0, None, 1]
    assert replies[1]["type"] == "/problems/internal"
    assert trial.post(DECISIONS, json={"event_id": "c"}).json()["round"] == 2
    check(service.store)


def test_ticks_go_on_after_any_error(trial, service, clock, monkeypatch):
    monkeypatch.setattr(app, "TICK", 0.01)
    monkeypatch.setattr(app, "SHORTEST", 0.01)
    for number in range(5):
        trial.post(DECISIONS, json={"event_id": str(number)})
    loop = service.store.loop("trial")
    service.start()
    strike(monkeypatch, type(loop.facts.policy), "draw")
    strike(monkeypatch, type(service), "_pause")
    strike(monkeypatch, service.store.ticks, "due", 2)
    clock.advance(61)
    until(lambda: loop.status().erased == 5)
    assert service._ticker.is_alive()
    service.stop()
    assert loop.status().version == 0
    assert loop.ledger.status("trial/0/block-0") == "lost"
    assert trial.service.metrics.failures._value.get() >= 3
    check(service.store)


def test_a_body_that_never_ends_is_given_up(service, monkeypatch):
    monkeypatch.setattr(messages, "PATIENCE", 0.05)
    sent: list[dict] = []

    async def receive():
        await asyncio.sleep(0.04)
        return {"type": "http.request", "body": b"{", "more_body": True}

    async def send(message):
        sent.append(message)

    headers = [(b"host", b"127.0.0.1:8080"), (b"content-type", b"application/json")]
    scope = {"type": "http", "method": "POST", "raw_path": b"/v1/loops", "headers": headers, "query_string": b""}
    asyncio.run(service(scope, receive, send))
    assert sent[0]["status"] == 400
    assert (b"connection", b"close") in sent[0]["headers"]


def test_readiness_looks_at_the_clock_and_the_ledgers(trial, service, clock, store):
    table = trial.get("/ready").json()
    assert (table["ready"], table["clock"], table["learning_stopped"]) == (True, "sane", 0)
    trial.post(DECISIONS, json={"event_id": "a"})
    clock.advance(-3600)
    answer = trial.get("/ready")
    assert (answer.status_code, answer.json()["clock"]) == (503, "behind")
    assert trial.post(DECISIONS, json={"event_id": "b"}).status_code == 201  # time stands still, decisions go on
    clock.advance(3600)
    assert trial.get("/ready").status_code == 200
    fresh = Service(store, Settings())
    fresh._ticker = threading.Thread(target=lambda: None)  # started, and not yet through its first tick
    fresh._ticker.start()
    client = Direct(fresh)
    assert client.get("/ready").json()["ledgers"] == "not yet"
    client.close()


def test_clocks():
    now = 1_800_000_000 * SECOND
    assert clock_state(now, now + 59 * SECOND, 0) == "sane"
    assert clock_state(now, None, 61 * SECOND) == "ahead"
    assert clock_state(5 * SECOND, None, 0) == "unset"


def test_a_block_is_released_when_its_last_reward_comes(http, service, monkeypatch):
    monkeypatch.setattr(app, "TICK", 3600.0)
    asked = {**LOOP, "reward": {"wait": "10h", "missing": "public"}}
    assert http.post("/v1/loops", json=asked).status_code == 201
    loop = service.store.loop("trial")
    service.start()
    try:
        for number in range(5):
            http.post(DECISIONS, json={"event_id": str(number)})
        for number in range(5):
            assert loop.status().version == 0
            answer = http.post(f"{DECISIONS}/{number}/reward", json={"value": 1.0})
            assert answer.status_code == 200
        until(lambda: loop.status().version == 1)
    finally:
        service.stop()
    check(service.store)
