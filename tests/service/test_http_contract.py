"""The contract over HTTP: statuses, replays, one error shape, routes that equal OpenAPI and the docs."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from running_service import QUEUE

from fairveil.service.app import ROUTES
from fairveil.service.messages import TITLES
from fairveil.service.pages import PAGES

ROOT = Path(__file__).resolve().parents[2]
PROBLEM = {"type", "title", "status", "detail", "path", "given", "allowed", "fix", "request"}


def refused(answer, status, code):
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    table = answer.json()
    assert set(table) == PROBLEM
    assert table["type"] == f"/problems/{code}"
    assert table["status"] == status
    return table


def test_a_decision_its_replay_and_its_reward(trial):
    first = trial.post("/v1/loops/trial/decisions", json={"event_id": "e-1"})
    assert first.status_code == 201
    again = trial.post("/v1/loops/trial/decisions", content=b' {"event_id" :"e-1" }', headers=JSON)
    assert again.status_code == 200
    assert again.headers["idempotent-replayed"] == "true"
    assert again.json() == first.json()
    refused(trial.post("/v1/loops/trial/decisions", json={"event_id": "e-1", "defer": True}), 422, "event-reused")
    reward = trial.post("/v1/loops/trial/decisions/e-1/reward", json={"value": 1})
    assert reward.json() == {"event_id": "e-1", "accepted": True, "learned": "pending"}
    refused(trial.post("/v1/loops/trial/decisions/e-1/reward", json={"value": 0.5}), 409, "reward-differs")
    refused(trial.post("/v1/loops/trial/decisions/e-2/reward", json={"value": 0.5}), 404, "unknown-event")
    assert trial.get("/v1/loops/trial/decisions/e-1").json()["reward"] == "pending"
    refused(trial.post("/v1/loops/trial/decisions/e-1/activate"), 422, "invalid")
    made = trial.post("/v1/loops/trial/decisions", json={}).json()
    assert re.fullmatch(r"[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}", made["event_id"])


JSON = {"content-type": "application/json"}


def test_batches_answer_each_item_and_refuse_a_malformed_whole(trial):
    items = [{"event_id": "a"}, {"event_id": "b", "exclude": [9]}, {"event_id": "a"}]
    answers = trial.post("/v1/loops/trial/decisions/batch", json={"decisions": items}).json()["decisions"]
    assert answers[0] == answers[2]
    assert answers[1]["type"] == "/problems/invalid"
    rewards = [{"event_id": "a", "value": 1}, {"event_id": "none", "value": 1}]
    answers = trial.post("/v1/loops/trial/rewards/batch", json={"rewards": rewards}).json()["rewards"]
    assert answers[0]["accepted"]
    assert answers[1]["status"] == 404
    broken = {"decisions": [{"event_id": "c"}, {"event_id": 7}]}
    table = refused(trial.post("/v1/loops/trial/decisions/batch", json=broken), 422, "invalid")
    assert table["path"] == "decisions.1.event_id"
    assert trial.get("/v1/loops/trial").json()["rounds"] == 1
    many = {"decisions": [{}] * 1001}
    refused(trial.post("/v1/loops/trial/decisions/batch", json=many), 422, "invalid")


@pytest.mark.parametrize(
    ("content", "status", "code"),
    [
        (b"{", 400, "malformed"),
        (b"", 400, "malformed"),
        (b'{"event_id": NaN}', 400, "malformed"),
        (b"\xff\xfe", 400, "malformed"),
        (b'{"event_id": "\\ud800"}', 400, "malformed"),
        (b'{"a":' * 1000 + b"1" + b"}" * 1000, 400, "malformed"),
        (b"[" * 20 + b"]" * 20, 400, "malformed"),
        (b'{"event_id": "' + b'\\"' * 500_000, 400, "malformed"),
        (b'{"event_id": ' + b'"\\' * 300_000, 400, "malformed"),
        (b"[]", 422, "invalid"),
        (b"7", 422, "invalid"),
        (b'{"event_id": null, "event_id": 3}', 400, "malformed"),
        (b'{"event_id": "a", "event_id" :"b"}', 400, "malformed"),
        (b'{"event_id": "a:b", "event\\u005fid": "c"}', 400, "malformed"),
        (b'{"baseline": 1.5}', 422, "invalid"),
        (b'{"unknown": 1}', 422, "invalid"),
        (b'{"event_id": "' + b"x" * 201 + b'"}', 422, "invalid"),
        (b'{"event_id": "a\\u0000b"}', 422, "invalid"),
        (b"x" * (2**20 + 1), 413, "too-large"),
        (b"x" * (2 * 2**20), 413, "too-large"),
    ],
)
def test_bodies_that_are_refused(trial, content, status, code):
    refused(trial.post("/v1/loops/trial/decisions", content=content, headers=JSON), status, code)


@pytest.mark.parametrize(
    ("content", "allowed"),
    [
        (b'{"event_id": 5}', "text"),
        (b'{"candidates": 3}', "a list"),
        (b'{"baseline": 1.5}', "a whole number"),
        (b'{"event_id": "' + b"x" * 201 + b'"}', "length at most 200"),
        (b'{"event_id": "a\\u0000b"}', "printable characters"),
        (b"[]", "a table"),
    ],
)
def test_what_is_allowed_is_said_in_words_of_a_spec(trial, content, allowed):
    assert trial.post("/v1/loops/trial/decisions", content=content, headers=JSON).json()["allowed"] == allowed


@pytest.mark.parametrize("value", [b"NaN", b"1e400", b"-1e999", b"Infinity", b'"1"', b"null", b"true", b"[1]"])
def test_rewards_that_are_no_numbers(trial, value):
    trial.post("/v1/loops/trial/decisions", json={"event_id": "e"})
    answer = trial.post("/v1/loops/trial/decisions/e/reward", content=b'{"value": ' + value + b"}", headers=JSON)
    assert answer.status_code in (400, 422)
    assert set(answer.json()) == PROBLEM


@pytest.mark.parametrize(
    "event", ["a/b", "../x", "'; DROP TABLE events; --", "<b>x</b>", "a%2Fb", "batch", "é✓", "a b?c#d"]
)
def test_ids_of_any_printable_kind(trial, event):
    from urllib.parse import quote

    made = trial.post("/v1/loops/trial/decisions", json={"event_id": event})
    assert made.json()["event_id"] == event
    path = f"/v1/loops/trial/decisions/{quote(event, safe='')}"
    assert trial.post(f"{path}/reward", json={"value": 1}).status_code == 200
    assert trial.get(path).json()["event_id"] == event


@pytest.mark.parametrize("after", ["%C2%B2", "--5", "x", "1e3", "-", "9" * 30])
def test_listings_go_on_after_a_number(trial, after):
    refused(trial.get(f"/v1/trail?after={after}"), 422, "invalid")


def test_errors_of_http_itself(trial):
    refused(trial.get("/nowhere"), 404, "not-found")
    refused(trial.get("/v1/loops/none"), 404, "unknown-loop")
    table = refused(trial.request("PATCH", "/v1/loops"), 405, "method")
    assert "POST" in table["allowed"]
    refused(
        trial.post("/v1/loops/trial/decisions", content=b"{}", headers={"content-type": "text/plain"}),
        415,
        "media-type",
    )
    refused(
        trial.post("/v1/loops", json={"name": "trial", "policy": {"name": "ucb", "arms": 2}}), 422, "unsound-policy"
    )
    again = {"name": "trial", "policy": {"name": "even-blocks", "arms": 3, "epsilon": 1.0}}
    refused(trial.post("/v1/loops", json=again), 409, "name-taken")
    refused(trial.post("/v1/loops", json={**again, "name": "x", "reports": {"every": 5}}), 422, "invalid")
    refused(trial.post("/v1/loops/trial/releases", json={"kind": "fairness"}), 422, "invalid")
    refused(trial.post("/v1/loops/trial/releases", json={"kind": "fairness", "epsilon": 1.0}), 409, "not-kept")
    assert trial.get("/v1/loops/trial/events").headers["content-type"] == "application/x-ndjson"
    refused(trial.get("/v1/loops/trial/releases/none"), 404, "unknown")
    refused(trial.get("/v1/ledgers/none"), 404, "unknown")


def test_candidates_over_http(http, clock, service):
    assert http.post("/v1/loops", json=QUEUE).status_code == 201
    people = [{"id": f"c-{i}", "group": "ab"[i % 2], "features": [0.1 * i, 0.2, -0.3]} for i in range(4)]
    for index in range(25):
        body = {"event_id": f"e-{index}", "candidates": people, "exclude": [0]}
        reply = http.post("/v1/loops/queue/decisions", json=body).json()
        assert reply["action"] in (1, 2, 3)
        assert reply["action_id"] == f"c-{reply['action']}"
        http.post(f"/v1/loops/queue/decisions/e-{index}/reward", json={"value": 0.5})
    clock.advance(61)
    assert service.store.tick() == 1
    loop = http.get("/v1/loops/queue").json()
    assert loop["version"] == 1
    assert loop["published"]
    for wrong, path in [
        ({"candidates": [{"features": [1.0]}]}, "candidates.0.features"),
        ({"candidates": [{"features": [1, 2, 3], "group": "zz"}]}, "candidates.0.group"),
        ({"candidates": [{"features": [1, 2, 3e7], "group": "a"}]}, "candidates.0.features.2"),
        ({}, "candidates"),
        ({"candidates": people, "subject": "x"}, "subject"),
        ({"candidates": people * 6}, "candidates"),
    ]:
        table = refused(http.post("/v1/loops/queue/decisions", json=wrong), 422, "invalid")
        assert table["path"] == path
    twice = [{**one, "subject": "ann"} for one in people]
    table = refused(http.post("/v1/loops/queue/decisions", json={"candidates": twice}), 422, "subject-twice")
    assert table["path"] == "candidates.1.subject"
    assert "ann" not in str(table)
    both = {"decisions": [{"candidates": people}, {"candidates": twice}]}
    fine, problem = http.post("/v1/loops/queue/decisions/batch", json=both).json()["decisions"]
    assert fine["action"] in range(4)
    assert problem["type"] == "/problems/subject-twice"


MADE_AGAIN = {
    "arms": {"policy": {"name": "private-nash", "arms": 2, "epsilon": 1.0}},
    "queue": {
        "policy": {"name": "batched-private-fair-greedy", "epsilon": 1.0, "delta": 1e-6, "first_batch": 4, "bins": 8},
        "groups": ["a", "b"], "features": [{"name": "x", "low": -1.0, "high": 1.0}],
    },
    "shop": {
        "policy": {"name": "batched-priv-fairx", "epsilon": 5.0, "delta": 1e-5, "horizon": 100},
        "features": [{"name": "price", "low": -1.0, "high": 1.0}],
    },
}  # fmt: skip


@pytest.mark.parametrize("name", MADE_AGAIN)
def test_a_loop_that_is_asked_for_again_is_found_whatever_was_filled_in(http, name):
    table = {"name": name, "reward": {"wait": "60s"}, **MADE_AGAIN[name]}
    first, again = (http.post("/v1/loops", json=table) for _ in range(2))
    assert (first.status_code, again.status_code) == (201, 200), again.text
    other = {**table, "reward": {"wait": "61s"}}
    refused(http.post("/v1/loops", json=other), 409, "name-taken")


def test_modes_budgets_releases_ledgers_and_the_trail(trial, clock, service):
    for index in range(5):
        trial.post("/v1/loops/trial/decisions", json={"event_id": f"e-{index}"})
    clock.advance(61)
    service.store.tick()
    assert trial.request("PUT", "/v1/loops/trial/mode", json={"mode": "frozen"}).json()["mode"] == "frozen"
    refused(trial.request("PUT", "/v1/loops/trial/mode", json={"mode": "x"}), 422, "invalid")
    assert trial.get("/v1/loops/trial/budget").json()["epsilon"] == 1.0
    assert trial.post("/v1/loops/trial/budget/quote", json={"kind": "summary"}).json()["cost"] == "nothing"
    made = trial.post("/v1/loops/trial/releases", json={"kind": "summary"})
    assert made.status_code == 201
    assert trial.post("/v1/loops/trial/releases", json={"kind": "summary"}).status_code == 200
    assert trial.get(f"/v1/loops/trial/releases/{made.json()['id']}").json() == made.json()
    assert len(trial.get("/v1/loops/trial/releases").json()["releases"]) == 1
    assert trial.get("/v1/ledgers").json()["ledgers"][0]["name"] == "trial"
    assert trial.get("/v1/ledgers/trial").json()["accounts"][0]["name"] == "trial"
    entries = trial.get("/v1/ledgers/trial/entries?after=0").json()["entries"]
    assert [entry["kind"] for entry in entries] == ["account", "reserve", "publish"]
    assert trial.get("/v1/ledgers/trial/verify").json()["verdict"] == "intact"
    assert [entry["action"] for entry in trial.get("/v1/trail").json()["entries"]] == ["create", "mode", "release"]
    refused(trial.get("/v1/trail?after=x"), 422, "invalid")
    assert trial.request("DELETE", "/v1/loops/trial/subjects", json={"subject": "p"}).json() == {"events": 0}
    assert "fairveil_requests_total" in trial.get("/metrics").text
    assert trial.get("/ready").json()["ready"]
    assert trial.request("DELETE", "/v1/loops/trial").status_code == 204
    refused(trial.post("/v1/loops/trial/decisions", json={}), 410, "closed")


def test_openapi_equals_the_routes(http):
    document = http.get("/openapi.json").json()
    found = {(method.upper(), path) for path, methods in document["paths"].items() for method in methods}
    assert found == {(route.method, route.path) for route in ROUTES}
    assert {
        name.rpartition("/")[2] for name in document["components"]["schemas"]["Problem"]["properties"]["type"]["enum"]
    } == set(TITLES)


def test_every_route_and_problem_is_documented():
    text = (ROOT / "docs" / "http.md").read_text()
    for route in (*ROUTES, *PAGES):
        assert f"`{route.method} {route.path}`" in text, route
    for code in TITLES:
        assert f"`{code}`" in text, code


def test_a_store_that_cannot_be_written_is_said_and_recovers(trial, service):
    from fairveil.storage import faults

    def full(name: str) -> None:
        if name == "store-commit":
            raise OSError(28, "No space left on device")

    faults.hook = full
    try:
        answer = trial.post("/v1/loops/trial/decisions", json={"event_id": "e"})
        table = refused(answer, 503, "storage")
        assert "free space" in table["fix"]
        assert answer.headers["retry-after"] == "1"
        assert trial.get("/ready").status_code == 503
    finally:
        faults.hook = None
    assert trial.post("/v1/loops/trial/decisions", json={"event_id": "e"}).json()["round"] == 0
    assert trial.get("/ready").status_code == 200


def test_a_report_over_http_with_its_quote_and_csv(service, trial, clock):
    body = {
        "name": "reported", "policy": {"name": "even-blocks", "arms": 2, "epsilon": 1.0}, "groups": ["a", "=b"],
        "reward": {"wait": "60s"}, "reports": {"spare": 1.0}, "explore": 0.2, "targets": [{"name": "uniform"}],
    }  # fmt: skip
    assert trial.post("/v1/loops", json=body).status_code == 201
    for number in range(40):
        trial.post("/v1/loops/reported/decisions", json={"event_id": f"r-{number}", "group": ["a", "=b"][number % 2]})
    clock.advance(120)
    service.store.tick()
    asked = {"kind": "fairness", "first": 0, "stop": 40, "epsilon": 0.5}
    quoted = trial.post("/v1/loops/reported/budget/quote", json=asked).json()
    assert (quoted["cost"], quoted["admitted"], len(quoted["half_widths"])) == ("epsilon 0.5", True, 2)
    made = trial.post("/v1/loops/reported/releases", json=asked)
    again = trial.post("/v1/loops/reported/releases", json=asked)
    assert (made.status_code, again.status_code, again.content) == (201, 200, made.content)
    assert trial.get("/v1/loops/reported/releases/report-fairness-0-40").content == made.content
    cells = trial.get("/v1/loops/reported/releases/report-fairness-0-40/csv")
    assert cells.headers["content-type"].startswith("text/csv")
    assert "\n'=b," in cells.text
    refused(trial.post("/v1/loops/reported/releases", json={**asked, "first": 20}), 409, "overlap")
    refused(trial.post("/v1/loops/reported/releases", json={**asked, "first": 40, "stop": 41}), 409, "not-due")
    refused(trial.post("/v1/loops/reported/releases", json={**asked, "kind": "evaluation"}), 422, "says-nothing")
    lines = trial.get("/v1/loops/reported/events").text.splitlines()
    assert len(lines) == 40
    said = set().union(*map(json.loads, lines))  # an explored decision has no round
    assert said >= {"seq", "event", "round", "action", "propensity", "decided"}


def test_no_answer_is_kept_by_whoever_stands_between(trial):
    """Exports of raw rows, tables and metrics did not say that nobody may keep them."""
    trial.post("/v1/loops/trial/decisions", json={"event_id": "e"})
    names = {"loop": "trial", "ledger": "trial", "event": "e"}
    paths = [
        re.sub(r"{(\w+)}", lambda name: names.get(name[1], "none"), one.path) for one in ROUTES if one.method == "GET"
    ]
    answers = {path: trial.get(path) for path in paths} | {"gone": trial.request("DELETE", "/v1/loops/trial")}
    assert "/v1/loops/trial/events" in answers
    unsafe = {path for path, one in answers.items() if one.headers.get("cache-control") != "no-store"}
    assert unsafe == set()
    assert all(one.headers["x-content-type-options"] == "nosniff" for one in answers.values())


def test_metrics_and_the_table_say_by_arm_what_waits(http, store):
    policy = {"name": "private-nash", "arms": 2, "epsilon": 1.0}
    reward = {"low": 0, "high": 1, "wait": "60s", "missing": "public"}
    assert http.post("/v1/loops", json={"name": "drugs", "policy": policy, "reward": reward}).status_code == 201
    for index in range(6):
        http.post("/v1/loops/drugs/decisions", json={"event_id": f"e-{index}"})
    for index in range(4):
        http.post(f"/v1/loops/drugs/decisions/e-{index}/reward", json={"value": 1})
    store.tick()
    http.post("/v1/loops/drugs/decisions", json={"event_id": "e-6"})
    table = {row["action"]: row for row in http.get("/v1/loops/drugs").json()["waiting"]}
    text = http.get("/metrics").text
    for arm, name in enumerate(store.loop("drugs").facts.arm_names):
        found = {
            key: float(re.search(rf'fairveil_arm_{key}{{action="{name}",loop="drugs"}} ([0-9.]+)', text)[1])
            for key in ("under_way", "answers_waiting", "rounds_since_release")
        }
        row = table[arm]
        assert found["under_way"] == row["under_way"]
        assert found["answers_waiting"] == row["answered"]
        assert found["rounds_since_release"] == (7 if row["since"] is None else row["since"])
    assert sorted(row["since"] is None for row in table.values()) == [False, True]
    assert (sum(row["under_way"] for row in table.values()), sum(row["answered"] for row in table.values())) == (4, 1)
