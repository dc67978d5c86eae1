"""Two worlds, byte for byte, in an application that uses the client: one person is another and has another reward.

What the client says beside its answers is the same: its log and that of its HTTP library, at every level, and the words
of errors, from a service that refuses, is busy, breaks off or is not there. The break that began it: the error of a
client without a service repeated the request.
"""

from __future__ import annotations

import json
import logging
from tempfile import TemporaryDirectory

import httpx
import pytest

from fairveil.client import Client, verbs
from fairveil.errors import FairveilError
from fairveil.proof.adapters.served import Served, equal_coins
from fairveil.proof.engine.replay import without_chance
from fairveil.proof.mutants import method

LOOP = {
    "name": "trial",
    "policy": {"name": "private-nash", "arms": 2, "epsilon": 1.0},
    "groups": ["a", "b"],
    "reward": {"low": 0, "high": 1, "wait": "60s", "missing": "default"},
    "person": {"max_events": 1},
}
OWN = 3
WORLDS = (("ann", "a", 0.25), ("p-0", "b", 0.75))
"""Who the fourth is, and with which reward; in the second world somebody who came before."""


class Faulty:
    """A way to the service on which every third request meets a fault."""

    def __init__(self, served):
        self.served, self.count = served, 0

    def __call__(self, request):
        self.count += 1
        if self.count % 3 == 0:
            if self.count % 2:
                raise httpx.ReadTimeout("no answer", request=request)
            return httpx.Response(503, json={"title": "busy"})
        body = json.loads(request.content) if request.content else None
        status, text = self.served.call(request.method, request.url.path, body)
        return httpx.Response(status, text=text, headers={"content-type": "application/json"})


def nobody(request):
    raise httpx.ConnectError("refused", request=request)


def said(world, caplog):
    """Everything that an application hears beside the answers about that person's own event."""
    caplog.clear()
    who, group, reward = WORLDS[world]
    words = []

    def tried(what, *given, **named):
        try:
            words.append(str(what(*given, **named)))
        except FairveilError as problem:
            words.append(repr(problem) + str(problem))

    with equal_coins(), TemporaryDirectory() as folder, Served(f"sqlite:///{folder}/store.db") as served:
        assert served.call("POST", "/v1/loops", LOOP)[0] == 201
        with Client("http://service", transport=httpx.MockTransport(Faulty(served))) as client:
            trial = client.loop("trial")
            for event in range(8):
                own = event == OWN
                body = {"subject": who if own else f"p-{event}", "group": group if own else "a"}
                reply = trial.decide(f"e-{event}", **body)
                words.append("" if own else str(reply))
            for event in range(8):
                trial.reward(f"e-{event}", reward if event == OWN else 1.0)
            tried(trial.decide, "e-wrong", subject=who, exclude=[7])
            tried(trial.decide, "e-wrong", subject=who, group="colour")
            tried(trial.reward, "nobody", reward)
            tried(trial.state)
        with Client("http://service", patience=0, transport=httpx.MockTransport(nobody)) as client:
            trial = client.loop("trial")
            tried(trial.decide, "e-9", subject=who, group=group)
            tried(trial.reward, "e-9", reward)
            tried(trial.subjects.erase, who)
    own = [record for record in caplog.records if record.name.startswith(("fairveil.client", "httpx"))]
    log = [record.getMessage() for record in own]
    return {"words": without_chance(words), "log": without_chance(log)}


@pytest.fixture
def differences(caplog, monkeypatch):
    caplog.set_level(logging.DEBUG)
    monkeypatch.setattr(verbs, "pause", lambda attempt, asked: 0.0)
    monkeypatch.setattr(verbs, "SILENCE", 0.0)

    def found():
        one, other = (said(world, caplog) for world in (0, 1))
        assert "503" in one["log"]
        assert "waiting for http://service" in one["log"]
        assert one["words"].count("cannot be reached") == 3 * 2
        return [name for name in one if one[name] != other[name]]

    return found


def test_a_client_says_the_same_in_two_worlds(differences):
    assert differences() == []


def says_the_body(original):
    def broken(self, call):
        logging.getLogger("fairveil.client").debug("%s %s %s", call.method, call.path, call.body)
        return original(self, call)

    return broken


def repeats_the_body(original):
    return lambda call: f"{original(call)} {call.body}"


def test_the_harness_sees_what_differs(differences, monkeypatch):
    with method(verbs.Sender, "send", says_the_body):
        assert differences() == ["log"]
    monkeypatch.setattr(verbs, "_repeated", repeats_the_body(verbs._repeated))
    assert differences() == ["words"]
