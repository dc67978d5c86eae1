"""Who may do what, what public handlers can reach, and that no value of a person comes out anywhere."""

from __future__ import annotations

import dataclasses
import gc
import json
import logging
import re
import struct
import types

import pytest
from running_service import LOOP, QUEUE, Direct, token

from fairveil.errors import SpecError
from fairveil.loop import tokens
from fairveil.loop.loop import Loop
from fairveil.loop.public import public_view
from fairveil.loop.store import Store
from fairveil.loop.upkeep import forget
from fairveil.service.app import ROUTES, Service
from fairveil.service.settings import Settings

BODIES = {
    "/v1/loops/{loop}/decisions": {},
    "/v1/loops/{loop}/decisions/batch": {"decisions": [{}]},
    "/v1/loops/{loop}/decisions/{event}/reward": {"value": 1},
    "/v1/loops/{loop}/rewards/batch": {"rewards": [{"event_id": "e", "value": 1}]},
    "/v1/loops": {"name": "other", "policy": {"name": "ucb", "arms": 2}},
    "/v1/quote": {"name": "other", "policy": {"name": "ucb", "arms": 2}},
    "/v1/loops/{loop}/mode": {"mode": "online"},
    "/v1/loops/{loop}/budget/quote": {"kind": "summary"},
    "/v1/loops/{loop}/releases": {"kind": "summary"},
    "/v1/loops/{loop}/subjects": {"subject": "p"},
    "/v1/loops/{loop}/audits": {"trials": 100},
}


def fresh(service):
    """Read the tokens now; a running service does so once a second."""
    service.gate.renew()


def call(http, route, headers):
    path = route.path.format(loop="trial", event="e", release="r", ledger="trial", audit="a", action="1", stream="s")
    body = BODIES.get(route.path) if route.body is not None else None
    return http.request(route.method, path, headers=headers, json=body).status_code


@pytest.mark.parametrize("roles", [(), ("decide",), ("operate",), ("audit",), ("audit", "decide", "operate")])
def test_every_route_for_every_role(trial, store, service, roles, monkeypatch):
    monkeypatch.setattr(service.auditor, "_run", lambda id, spec: None)
    headers = token(store, *roles) if roles else {}
    token(store, "audit")  # tokens exist: nothing is open
    decider = token(store, "decide")
    fresh(service)
    trial.post("/v1/loops/trial/decisions", json={"event_id": "e"}, headers=decider)
    for route in sorted(ROUTES, key=lambda route: route.method == "DELETE"):
        status = call(trial, route, headers)
        if route.role == "none":
            assert status == 200, route
        elif not roles:
            assert status == 401, route
        elif route.role == "public" or route.role in roles:
            assert status not in (401, 403, 500), route
        else:
            assert status == 403, route


def test_tokens_that_are_not_valid(trial, store, service, clock):
    good = token(store, "decide")["authorization"]
    expiring = token(store, "decide", expires=clock.now() + 10_000_000)
    revoked = token(store, "decide")
    with store.writing() as tx:
        tokens.revoke(tx, revoked["authorization"].split("_")[1], clock.now())
    fresh(service)
    assert trial.get("/v1/loops", headers=expiring).status_code == 200
    clock.advance(11)
    fresh(service)
    wrong = [
        good[:-1],
        good + "x",
        good[:20],
        "Bearer",
        "Bearer fv_",
        "Basic abc",
        good.replace("fv_", "fv-"),
        "x" * 5000,
    ]
    for headers in [expiring, revoked, {}, *({"authorization": text} for text in wrong)]:
        assert trial.get("/v1/loops", headers=headers).status_code == 401, headers
    with store.reading() as tx:
        assert good.split("_", 2)[2] not in json.dumps([str(row) for row in tx.execute("SELECT * FROM tokens")])


def test_a_token_for_one_loop(trial, store, service):
    headers = token(store, "decide", "operate", "audit", loop="other")
    fresh(service)
    assert trial.get("/v1/loops", headers=headers).json() == {"loops": []}
    assert trial.get("/v1/loops/trial", headers=headers).status_code == 403
    assert trial.post("/v1/loops/trial/decisions", json={}, headers=headers).status_code == 403
    own = token(store, "decide", "operate", loop="trial")
    fresh(service)
    assert trial.post("/v1/loops/trial/decisions", json={}, headers=own).status_code == 201


def test_public_routes_without_a_token(store, clock):
    client = Direct(Service(store, Settings(public=True)))
    token(store, "operate")
    try:
        assert client.get("/v1/loops").status_code == 200
        assert client.get("/metrics").status_code == 401
        assert client.post("/v1/loops", json=LOOP).status_code == 401
    finally:
        client.close()


def test_hosts_rates_and_exposure(store):
    client = Direct(Service(store, Settings(rate_limit=3, allow_host=("loops.example",))))
    try:
        assert client.get("/v1/loops", headers={"host": "evil.example"}).status_code == 400
        assert client.get("/openapi.json", headers={"host": "evil.example"}).status_code == 400
        assert client.get("/health", headers={"host": "10.0.0.7:8080"}).status_code == 200, "probes come by address"
        assert client.get("/openapi.json", headers={"host": "loops.example:443"}).status_code == 200
        assert client.get("/health", headers={"origin": "https://evil.example"}).status_code == 403
        assert client.get("/health", headers={"origin": "null"}).status_code == 403
        assert client.get("/health", headers={"origin": "https://loops.example"}).status_code == 200
        statuses = [client.get("/v1/loops").status_code for _ in range(6)]
        assert statuses.count(429) >= 2
        assert statuses[0] == 200
    finally:
        client.close()
    with pytest.raises(SpecError, match="no token"):
        Settings(host="0.0.0.0").check_exposure(False)
    with pytest.raises(SpecError, match="encrypts"):
        Settings(host="192.0.2.1").check_exposure(True)
    Settings(host="0.0.0.0", behind_proxy=True).check_exposure(True)
    Settings().check_exposure(False)


def test_a_public_view_has_no_way_to_the_store(trial, service):
    trial.post("/v1/loops/trial/decisions", json={"event_id": "e"})
    view = public_view(service.store, "trial")
    seen, waiting = set(), [view]
    while waiting:
        thing = waiting.pop()
        if id(thing) in seen or isinstance(thing, type | types.ModuleType | types.FunctionType):
            continue
        seen.add(id(thing))
        assert not isinstance(thing, Store | Loop | Service), type(thing)
        waiting += [one for one in gc.get_referents(thing) if not isinstance(one, type | types.ModuleType)]
    assert len(seen) > 20
    assert dataclasses.is_dataclass(view)


def public_bytes(http, loop="queue", release="x"):
    """Every public page and route."""
    paths = [route.path for route in ROUTES if route.channel == "public" and route.method == "GET"]
    return {path: http.get(path.format(loop=loop, release=release, audit="x", stream="s")).text for path in paths}


def test_public_routes_do_not_depend_on_one_persons_data_before_its_release(tmp_path):
    """Two worlds that differ in one person's features and reward, with equal coins and noise."""
    from fairveil.loop import ManualClock
    from fairveil.privacy.noise import SeededNoise
    from fairveil.randomness import generator

    seen = []
    for world in (0, 1):
        clock = ManualClock()
        store = Store.open(f"sqlite:///{tmp_path}/{world}/store.db", clock=clock, key=bytes(32))
        store.noise, store.rng = SeededNoise(5), generator(5, "coins")
        client = Direct(Service(store, Settings()))
        pages = []
        client.post("/v1/loops", json={**QUEUE, "simulated": True, "reward": {"wait": "60s", "missing": "default"}})
        for index in range(30):
            features = [0.9, -0.9, 0.5] if world and index == 7 else [0.1, 0.2, 0.3]
            people = [{"group": "a", "features": features}, {"group": "b", "features": [0.3, 0.1, 0.2]}]
            client.post("/v1/loops/queue/decisions", json={"event_id": f"e-{index}", "candidates": people})
            if index != 9 or not world:  # whether this reward came is protected too
                value = 0.0 if world and index == 7 else 1.0
                client.post(f"/v1/loops/queue/decisions/e-{index}/reward", json={"value": value})
            store.tick()
            pages.append(public_bytes(client))
        clock.advance(59)
        store.tick()
        pages.append(public_bytes(client))
        clock.advance(2)
        store.tick()
        pages.append(public_bytes(client))
        seen.append([json.dumps(page).replace(f"/{world}/", "/") for page in pages])
        client.close()
        store.close()
    times = len(seen[0]) - 1
    for at in range(times):
        first, second = (_without_times(pages[at]) for pages in seen)
        assert first == second
    assert seen[0][-1] != seen[1][-1]  # the block is released: now the data may show, noised


def test_public_pages_and_routes_do_not_depend_on_a_person_before_a_report_is_released(tmp_path):
    """Two services; one person has another group and another reward; coins and noise are the same."""
    from fairveil.loop import ManualClock
    from fairveil.privacy.noise import SeededNoise
    from fairveil.randomness import generator

    spec = {
        "name": "queue", "policy": {"name": "private-nash", "arms": 2, "epsilon": 1.0}, "groups": ["a", "b"],
        "reward": {"wait": "60s"}, "reports": {"every": 20, "epsilon": 1.0, "spare": 4.0}, "explore": 0.5,
        "targets": [{"name": "uniform"}], "simulated": True, "mode": "frozen",
    }  # fmt: skip
    seen = []
    for world in (0, 1):
        clock = ManualClock()
        store = Store.open(f"sqlite:///{tmp_path}/{world}/store.db", clock=clock, key=bytes(32))
        store.noise, store.rng = SeededNoise(5), generator(5, "coins")
        client, told = Direct(Service(store, Settings())), []
        client.post("/v1/loops", json=spec)

        def look(told=told, client=client):
            text = json.dumps(public_bytes(client, release="report-fairness-0-20"))
            told.append(_without_times(text))

        for index in range(40):
            odd = world and index == 27
            body = {"event_id": f"e-{index}", "group": "b" if odd else "a", "subject": f"p-{index}"}
            client.post("/v1/loops/queue/decisions", json=body)
            client.post(f"/v1/loops/queue/decisions/e-{index}/reward", json={"value": float(not odd)})
            if index % 10 == 9:
                look()
            if index == 19:
                clock.advance(120)
                store.tick()  # the first report is of others
                look()
        asked = {"kind": "fairness", "first": 20, "stop": 40, "epsilon": 1.0}
        client.post("/v1/loops/queue/budget/quote", json=asked)
        clock.advance(59)
        store.tick()
        look()
        clock.advance(60)
        store.tick()  # the report of that person
        look()
        seen.append(told)
        client.close()
        store.close()
    *before, after = zip(*seen, strict=True)
    for first, second in before:
        one, other = json.loads(first), json.loads(second)
        for path in one:
            assert one[path].splitlines() == other[path].splitlines(), path
    assert "report-fairness-0-20" in before[-1][0]
    assert after[0] != after[1]


def _without_times(text):
    """Times of the wall clock and ids of requests differ between any two runs."""
    text = re.sub(r"20[0-9]{2}-[0-9]{2}-[0-9]{2}T[0-9:.+]+(?:Z|00:00)?", "T", text)
    return re.sub(r'request\\*":\s*\\*"[0-9a-f]+', "R", text)


CANARY = {
    "feature": 0.7310585786300049,
    "reward": 0.8807970779778823,
    "subject": "canary-person-4711",
    "event": "canary-event-0815",
}


def test_canaries_come_out_nowhere(tmp_path, clock, caplog):
    """Features, rewards, persons and event ids: in no log, error, metric or public route, and after release and
    retention in no byte of the files, as text or as doubles."""
    caplog.set_level(logging.DEBUG)
    folder = tmp_path / "data"
    store = Store.open(f"sqlite:///{folder}/store.db", clock=clock)
    http = Direct(Service(store, Settings(log_level="debug")))
    logging.getLogger("fairveil").setLevel(logging.DEBUG)
    logging.getLogger("httpx").setLevel(logging.WARNING)  # the caller's own log
    outputs = []
    http.post("/v1/loops", json={**QUEUE, "retention": {"events": "1d"}, "person": {"max_events": 5}})
    for index in range(25):
        people = [
            {
                "group": "a",
                "features": [CANARY["feature"], 0.2, 0.3],
                "subject": f"{CANARY['subject']}-{index}",
                "id": "x",
            },
            {"group": "b", "features": [0.3, CANARY["feature"], 0.2], "subject": f"other-{index}"},
        ]
        event = f"{CANARY['event']}-{index}"
        http.post("/v1/loops/queue/decisions", json={"event_id": event, "candidates": people})
        http.post(f"/v1/loops/queue/decisions/{event}/reward", json={"value": CANARY["reward"]})
    bad = {"candidates": [{"group": CANARY["subject"], "features": [CANARY["feature"]] * 3, "subject": "s"}]}
    worse = {"candidates": [{"group": "a", "features": [CANARY["feature"]] * 7, "subject": CANARY["subject"]}]}
    key = {CANARY["subject"]: CANARY["feature"]}
    for body in (bad, worse, key, {"event_id": CANARY["event"] + "\n"}, {"event_id": f"{CANARY['event']}-1"}):
        outputs.append(http.post("/v1/loops/queue/decisions", json=body).text)
    conflict = http.post(f"/v1/loops/queue/decisions/{CANARY['event']}-1/reward", json={"value": 0.1}).json()
    assert conflict.pop("given") == f"'{CANARY['event']}-1'"  # to who sent it, and to nobody else
    outputs.append(json.dumps(conflict))
    outputs.append(
        http.post(f"/v1/loops/queue/decisions/{CANARY['event']}-x/reward", json={"value": CANARY["reward"]}).text
    )
    clock.advance(61)
    store.tick()
    for route in ROUTES:
        if route.method == "GET" and "{event}" not in route.path:
            outputs.append(
                http.get(route.path.format(loop="queue", release="r", ledger="queue", audit="a", stream="s")).text
            )
    outputs.append(caplog.text)
    words = [str(value) for value in CANARY.values()]
    for text in outputs:
        assert not [word for word in words if word in text]
    clock.advance(2 * 86400)
    store.tick()
    forget(store)
    http.close()
    store.close()
    patterns = [word.encode() for word in words]
    patterns += [struct.pack(order, CANARY[name]) for name in ("feature", "reward") for order in ("<d", ">d")]
    released = Store.open(f"sqlite:///{folder}/store.db", clock=clock)
    assert released.loop("queue").status().erased == 20
    released.close()
    for path in folder.rglob("*"):
        if path.is_file():
            content = path.read_bytes()
            left = [pattern for pattern in patterns if pattern in content]
            assert not left or path.name == "store.db", path
    content = (folder / "store.db").read_bytes()
    assert not [word for word in words if word.encode() in content]
    # five rounds wait for their block: their doubles stay, those of the released block are gone
    assert content.count(struct.pack("<d", CANARY["feature"])) <= 2 * 5
