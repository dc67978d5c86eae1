"""Audits of a loop: beside the service, one at a time, their fate in the store; and the history of its releases."""

from __future__ import annotations

import json
import os
import sys
import threading

import pytest
from running_service import LOOP, Direct

from fairveil.loop import Store, audits
from fairveil.loop.audits import NICE, Auditor
from fairveil.service.app import Service
from fairveil.service.settings import Settings

FOUND = {
    "verdict": "consistent", "epsilon_lower": 0.8, "claimed": {"epsilon": 1.0, "delta": 0.0}, "confidence": 0.95,
    "pair": "one reward", "statistic": "sums", "hits": [5, 1], "trials": [10, 10],
}  # fmt: skip
SAYS = f"""
import json, os, time
until = time.monotonic() + 60
while os.nice(0) != {NICE} and time.monotonic() < until:  # whoever began it says so a moment later
    time.sleep(0.01)
print(json.dumps(dict(metrics={FOUND!r} | dict(pair=str(os.nice(0))))))
"""
WAITS = "import time; time.sleep(60)"


def played(monkeypatch, service, program):
    """The process of an audit is this program, and it begins when the event that this gives is set."""
    ours, begin = [sys.executable, "-c", program], threading.Event()

    def watched(command):
        begin.wait(60)
        return Auditor._watched(service.auditor, ours)

    monkeypatch.setattr(service.auditor, "_watched", watched)
    return begin


def ended(service):
    service.auditor._thread.join(audits.LONGEST)
    assert not service.auditor._thread.is_alive()


def test_an_audit_attacks_the_policy_as_it_is_declared(http, store, service, monkeypatch):
    monkeypatch.setattr("fairveil.loop.audits.NICE", 0)  # at the lowest priority a busy machine never gets to it
    store.create("trial", policy={"name": "private-nash", "arms": 2, "epsilon": 1.0})
    begun = http.post("/v1/loops/trial/audits", json={"trials": 400})
    assert begun.status_code == 202
    assert begun.json()["spec"]["target"] == {"kind": "policy", **http.get("/v1/loops/trial").json()["policy"]}
    ended(service)
    [made] = http.get("/v1/loops/trial/audits").json()["audits"]
    assert made == http.get(f"/v1/loops/trial/audits/{made['id']}").json()
    assert (made["status"], made["value"]["verdict"]) == ("done", "consistent"), made
    assert made["value"]["epsilon_lower"] <= made["value"]["claimed"]["epsilon"]
    assert "No attack got further than promised" in http.get(f"/loops/trial/audits/{made['id']}").text
    assert f"/loops/trial/audits/{made['id']}" in http.get("/loops/trial").text
    assert [entry["action"] for entry in http.get("/v1/trail").json()["entries"]].count("audit") == 1


def test_one_at_a_time_at_low_priority_and_stopped_after_the_longest_time(trial, service, monkeypatch):
    played(monkeypatch, service, SAYS).set()
    trial.post("/v1/loops/trial/audits", json={})
    ended(service)
    assert trial.get("/v1/loops/trial/audits").json()["audits"][0]["value"]["pair"] == str(NICE)
    longest, service.auditor.longest = service.auditor.longest, 0.5
    begin = played(monkeypatch, service, WAITS)
    trial.post("/v1/loops/trial/audits", json={})
    second = trial.post("/v1/loops/trial/audits", json={})
    assert (second.status_code, second.json()["type"]) == (409, "/problems/busy")
    begin.set()
    ended(service)
    stopped = trial.get("/v1/loops/trial/audits").json()["audits"][-1]
    assert (stopped["status"], stopped["value"]["words"]) == ("stopped", "it took longer than 0.5 s")
    service.auditor.longest = longest  # a busy machine takes its time to begin
    played(monkeypatch, service, "raise SystemExit('no such policy')").set()
    trial.post("/v1/loops/trial/audits", json={})
    ended(service)
    failed = trial.get("/v1/loops/trial/audits").json()["audits"][-1]
    assert (failed["status"], failed["value"]["words"]) == ("failed", "no such policy")


@pytest.mark.parametrize("how", ["stopped", "killed"])
def test_what_became_of_an_audit_survives_a_restart(tmp_path, clock, monkeypatch, how):
    url, key = f"sqlite:///{tmp_path}/store.db", bytes(range(32))
    with Store.open(url, clock=clock, key=key) as store:
        service = Service(store, Settings(store=url))
        http = Direct(service)
        http.post("/v1/loops", json=LOOP)
        played(monkeypatch, service, SAYS).set()
        http.post("/v1/loops/trial/audits", json={})
        ended(service)
        played(monkeypatch, service, WAITS).set()
        http.post("/v1/loops/trial/audits", json={})
        if how == "killed":  # the row of a process that died without a word
            monkeypatch.setattr(audits, "end", lambda *facts: None)
        service.auditor.stop()
        ended(service)
        if how == "killed":
            with store.writing() as tx:
                dead = json.dumps({"host": os.uname().nodename, "pid": 2**22 + 1})
                tx.execute("UPDATE audits SET value = ? WHERE status = 'running'", (dead,))
    monkeypatch.undo()
    with Store.open(url, clock=clock, key=key) as store:
        service = Service(store, Settings(store=url))
        http = Direct(service)
        found = http.get("/v1/loops/trial/audits").json()["audits"]
        assert [one["status"] for one in found] == ["done", "interrupted"]
        assert "interrupted by a restart" in http.get(f"/loops/trial/audits/{found[1]['id']}").text
        played(monkeypatch, service, SAYS).set()
        assert http.post("/v1/loops/trial/audits", json={}).status_code == 202
        ended(service)


def test_history_is_what_was_published_after_each_release(http, store, clock):
    loop = store.create("past", policy={"name": "private-nash", "epsilon": 1.0}, actions=["a", "b"])
    seen = []
    for number in range(120):
        loop.decide(f"e-{number}")
        loop.reward(f"e-{number}", float(number % 2))
        clock.advance(86_401)
        if loop.tick():
            arms = http.get("/v1/loops/past").json()["published"]["arms"]
            seen.append([None if arm["mean"] is None else [arm["mean"], arm["low"], arm["high"]] for arm in arms])
    told = http.get("/v1/loops/past/history").json()["releases"]
    assert len(seen) > 3
    assert [one["arms"] for one in told] == seen
    assert [one["rounds"] for one in told] == sorted(one["rounds"] for one in told)
    page = http.get("/loops/past").text
    for words in ("Mean reward after each release", "Chance to be best after each release", "&quot;releases&quot;"):
        assert words in page or words.replace("&quot;", "&#34;") in page
