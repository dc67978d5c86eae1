"""The checker of histories: it passes one that happened, and rejects ten and more kinds of planted ones by name."""

from __future__ import annotations

import importlib.util
import json
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from fairveil.loop import ManualClock, Reward, Store
from fairveil.loop.public import loop_table
from fairveil.service.cold import encode_answer

PLACE = Path(__file__).resolve().parents[2] / "bench" / "service" / "checker.py"
spec = importlib.util.spec_from_file_location("history_checker", PLACE)
checker = importlib.util.module_from_spec(spec)
sys.modules["history_checker"] = checker
spec.loader.exec_module(checker)
Call, History = checker.Call, checker.History
POLICY = {"name": "private-nash", "arms": 2, "epsilon": 1.0}


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
    "window-closed-early": lambda h: replace(changed(h, "reward", learned="never", reason="late"), wait=60.0),
    "learning-stopped": lambda h: changed(h, "decide", reason="ledger"),
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


def pages_of(place, last):
    """The public pages of a run in which the last person's reward is `last`; coins are those of a seed."""
    calls, clock = [], ManualClock()
    with Store.open(f"sqlite:///{place}/store.db", clock=clock, key=bytes(32)) as store:
        loop = store.create("trial", policy=POLICY, reward=Reward(0, 1, wait="60s", missing="default"))
        loop.writer._rng = np.random.default_rng(7)

        def look():
            calls.append(Call("loop", len(calls), len(calls) + 0.5, 200, json.loads(encode_answer(loop_table(loop)))))

        for number in range(6):
            loop.decide(f"e-{number}")
            look()
            loop.reward(f"e-{number}", last if number == 5 else 1.0)
            store.tick()
            look()
        clock.advance(61)  # every window is closed, and nobody has looked
        look()
    return History(calls, [])


def test_two_runs_show_the_same_until_what_one_person_sent_is_released(tmp_path):
    one, other = (pages_of(tmp_path / name, value) for name, value in (("a", 0.0), ("b", 1.0)))
    assert len(one.calls) == 13
    assert checker.told(one, other) == []
    assert checker.told(one, changed(other, "loop", rounds=7)) == ["public-differs: page 12"]
