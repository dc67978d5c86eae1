"""The checker of histories: it passes one that happened, and rejects ten and more kinds of planted ones by name."""

from __future__ import annotations

import importlib.util
import sys
from dataclasses import replace
from pathlib import Path

import pytest

PLACE = Path(__file__).resolve().parents[2] / "bench" / "service" / "checker.py"
spec = importlib.util.spec_from_file_location("history_checker", PLACE)
checker = importlib.util.module_from_spec(spec)
sys.modules["history_checker"] = checker
spec.loader.exec_module(checker)
Call, History = checker.Call, checker.History


@pytest.fixture
def history(trial, service, clock):
    """What really happened: decisions with persons, repeats, an answer that never came, rewards, releases."""
    calls, now = [], [0.0]

    def call(kind, method, path, status=True, **facts):
        now[0] += 1
        body = {key: value for key, value in facts.items() if key == "value"} if kind == "reward" else None
        if kind == "decide":
            body = {"event_id": facts["event"]}
        answer = trial.request(method, path, json=body)
        seen = answer.status_code if status else None
        calls.append(Call(kind, now[0], now[0] + 0.5, seen, answer.json() if status else {}, **facts))

    for number in range(12):
        event = f"e-{number}"
        call("decide", "POST", "/v1/loops/trial/decisions", status=number != 3, event=event)
        call("decide", "POST", "/v1/loops/trial/decisions", event=event)
        call("reward", "POST", f"/v1/loops/trial/decisions/{event}/reward", event=event, value=number % 2)
        call("loop", "GET", "/v1/loops/trial")
    clock.advance(61)
    service.store.tick()
    call("loop", "GET", "/v1/loops/trial")
    for number in range(12):
        call("event", "GET", f"/v1/loops/trial/decisions/e-{number}", event=f"e-{number}")
    entries = trial.get("/v1/ledgers/trial/entries").json()["entries"]
    assert sum(entry["kind"] == "publish" for entry in entries) >= 1
    return History(calls, entries)


def test_what_happened_breaks_no_rule(history):
    assert checker.violations(history) == []


def changed(history, kind, at=-1, **fields):
    """The same with one answer changed."""
    places = [index for index, call in enumerate(history.calls) if call.kind == kind and call.done]
    calls = list(history.calls)
    calls[places[at]] = replace(calls[places[at]], answer={**calls[places[at]].answer, **fields})
    return replace(history, calls=calls)


def with_call(history, kind, at=0, **fields):
    """The same with one call more, like another one."""
    found = [call for call in history.calls if call.kind == kind and call.done][at]
    return replace(history, calls=[*history.calls, replace(found, **fields)])


def without(history, *, kind=None, entry=None):
    if kind is not None:
        last = [call for call in history.calls if call.kind == kind][-1]
        return replace(history, calls=[call for call in history.calls if call is not last])
    return replace(history, entries=[one for one in history.entries if one["kind"] != entry])


PLANTED = {
    "reply-changed": lambda h: changed(h, "decide", propensity=0.123),
    "made-twice": lambda h: with_call(h, "decide", status=201),
    "decision-lost": lambda h: without(h, kind="event"),
    "arm-changed": lambda h: replace(
        h,
        calls=[
            replace(call, subject="ann", answer={**call.answer, "action": index})
            if call.kind == "decide" and call.done
            else call
            for index, call in enumerate(h.calls)
        ],
    ),
    "round-twice": lambda h: changed(changed(h, "decide", -1, round=0), "decide", -2, round=0),
    "round-gap": lambda h: changed(changed(h, "decide", -1, round=99), "decide", -2, round=99),
    "reward-changed": lambda h: with_call(h, "reward", value=0.5),
    "reward-lost": lambda h: changed(h, "event", reward="none"),
    "block-twice": lambda h: replace(h, entries=[*h.entries, next(e for e in h.entries if e["kind"] == "publish")]),
    "charged-twice": lambda h: replace(h, entries=[*h.entries, next(e for e in h.entries if e["kind"] == "account")]),
    "not-charged": lambda h: without(h, entry="account"),
    "published-early": lambda h: without(h, entry="publish"),
    "budget-passed": lambda h: replace(
        h, entries=[{**e, "totals": [10**9, 0, 0, 0]} if e["kind"] == "reserve" else e for e in h.entries]
    ),
    "number-fell": lambda h: changed(h, "loop", settled=-1),
    "blocks-overlap": lambda h: changed(h, "loop", open_blocks=[{"first": 1, "stop": 5}, {"first": 4, "stop": 9}]),
}


@pytest.mark.parametrize("name", PLANTED)
def test_a_planted_history_is_rejected_with_its_reason(history, name):
    found = checker.violations(PLANTED[name](history))
    assert name in {one.partition(":")[0] for one in found}, found


def test_an_answer_that_never_came_proves_nothing(history):
    unknown = replace(history.calls[0], status=None, answer={})
    assert checker.violations(replace(history, calls=[*history.calls, unknown])) == []
