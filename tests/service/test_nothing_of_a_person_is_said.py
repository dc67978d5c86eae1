"""Words of errors, logs and answers, and who may ask what: found by planted mistakes."""

from __future__ import annotations

import logging
import pickle

import httpx
import pytest
from running_service import LOOP, until

from fairveil.bandits.protocol import Report
from fairveil.client import verbs
from fairveil.client.clients import LocalClient
from fairveil.loop import tokens
from fairveil.loop.keys import Keys, write_secret
from fairveil.service.app import ROUTES
from fairveil.streams import PersonCounts

CANARY = "canary-4711"

ROLES = {
    ("GET", "/v1/loops/{loop}/decisions/{event}"): "decide",
    ("POST", "/v1/loops/{loop}/decisions"): "decide",
    ("DELETE", "/v1/loops/{loop}/subjects"): "operate",
    ("DELETE", "/v1/loops/{loop}"): "operate",
    ("PUT", "/v1/loops/{loop}/mode"): "operate",
    ("POST", "/v1/loops/{loop}/releases"): "operate",
    ("POST", "/v1/loops"): "operate",
    ("GET", "/v1/ledgers/{ledger}/entries"): "audit",
    ("GET", "/v1/trail"): "audit",
    ("GET", "/metrics"): "operate",
}


def test_who_may_ask_what():
    found = {(route.method, route.path): route.role for route in ROUTES}
    assert {key: found[key] for key in ROLES} == ROLES


def broken(*given, **named):
    raise RuntimeError(f"unforeseen, about {CANARY}")


def test_an_error_that_nobody_foresaw_says_its_kind_alone(trial, service, monkeypatch, caplog):
    caplog.set_level(logging.DEBUG)
    monkeypatch.setattr(type(service.store.loop("trial")), "event", broken)
    answer = trial.get("/v1/loops/trial/decisions/e-1")
    assert answer.status_code == 500
    assert CANARY not in answer.text
    assert "RuntimeError" in caplog.text
    assert CANARY not in caplog.text


@pytest.mark.parametrize("path", ["decisions", "decisions/batch"])
def test_a_refused_decision_repeats_nothing_of_its_request(trial, path):
    asked = {"event_id": "e-1", "subject": CANARY, "exclude": [99]}
    answer = trial.post(f"/v1/loops/trial/{path}", json={"decisions": [asked]} if "batch" in path else asked)
    assert "exclude" in answer.text
    assert CANARY not in answer.text


def test_a_tick_that_fails_says_its_kind_alone(trial, service, monkeypatch, caplog):
    caplog.set_level(logging.DEBUG)
    said = service.metrics.failures._value.get
    monkeypatch.setattr(service.store, "tick", broken)
    service.start()
    until(said)
    assert CANARY not in trial.get("/ready").text
    assert CANARY not in caplog.text


@pytest.mark.parametrize(("path", "key"), [("/v1/loops", "loops"), ("/v1/ledgers", "ledgers")])
def test_a_token_of_one_loop_lists_that_one(http, service, path, key):
    for name in ("trial", "other"):
        assert http.post("/v1/loops", json={**LOOP, "name": name}).status_code == 201
    now = service.store.clock.now()
    with service.store.writing() as tx:
        text = tokens.add(tx, "one", ["operate", "audit"], now, loop="trial")
    service.gate.renew()
    found = http.get(path, headers={"authorization": f"Bearer {text}"}).json()[key]
    assert [table["name"] for table in found] == ["trial"]


def test_hashes_need_the_key():
    one, other = Keys(bytes(32)), Keys(bytes(range(32)))
    assert one.event("a") != other.event("a")
    assert one.subject("a") != other.subject("a")
    assert one.body(b"a") != other.body(b"a")
    assert one.page("a", [b"b"]) != other.page("a", [b"b"])


def test_only_the_owner_reads_a_key(tmp_path):
    write_secret(tmp_path / "key", bytes(32))
    assert (tmp_path / "key").stat().st_mode & 0o777 == 0o600


def test_counters_of_people_do_not_travel():
    with pytest.raises(TypeError, match="not stored"):
        pickle.dumps(PersonCounts())


class Remote:
    """A loop of a local policy that remembers what it was sent, and when."""

    def __init__(self, log):
        self.log = log

    def state(self):
        return {"policy": {"name": "local-nash", "arms": 2, "epsilon": 1.0}, "reward": {"low": 0.0, "high": 1.0}}

    def reward(self, event, value):
        self.log.append("sent")
        return {"value": value}


@pytest.mark.parametrize(("value", "unit"), [(7.0, 1.0), (-3.0, 0.0)])
def test_a_device_clips_and_remembers_before_it_sends(tmp_path, monkeypatch, value, unit):
    log = []
    monkeypatch.setattr("os.fsync", lambda handle: log.append("synced"))
    client = LocalClient(Remote(log), tmp_path / "bits")

    class Watched:
        def report(self, feedback, noise):
            log.append(feedback.reward)
            return Report(0, 0, 1.0)

    client.policy = Watched()
    client.reward("e-1", value)
    client.reward("e-1", value)
    assert log == [unit, "synced", "sent", "sent"]


def test_a_batch_has_ids_before_its_first_attempt():
    class Place:
        def send(self, *parts, body):
            self.body = body
            yield
            return {"decisions": []}

    place = Place()
    next(verbs.decide_many(place, [{"subject": "a"}, {"subject": "b"}]))
    ids = [one["event_id"] for one in place.body["decisions"]]
    assert len(set(ids)) == 2


def test_a_client_without_a_service_does_not_repeat_the_request():
    class Silent(verbs.Sender):
        connection = httpx.Client

    steps = Silent("http://127.0.0.1:1", retries=0).send(verbs.Call("POST", "/x", {"subject": CANARY}))
    next(steps)
    with pytest.raises(verbs.Unreachable) as caught:
        steps.throw(httpx.ReadTimeout("no answer"))
    assert CANARY not in f"{caught.value} {caught.value.given!r}"
