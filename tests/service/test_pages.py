"""Pages over HTTP, without a browser: who sees what, sessions, forms, names that mean harm, and what pages may ask."""

from __future__ import annotations

import logging
import re
from html import unescape
from html.parser import HTMLParser

import numpy as np
import pytest
from running_service import LOOP, QUEUE, Direct

from fairveil.loop import ManualClock, Store, tokens
from fairveil.loop.clock import SECOND
from fairveil.service.app import ROUTER, Service
from fairveil.service.pages import PAGES
from fairveil.service.pages.making import JOBS
from fairveil.service.pages.plot.make import style_hash
from fairveil.service.pages.site import PLOT_STYLE, POLICY, STATICS
from fairveil.service.pages.visit import Asking
from fairveil.service.settings import Settings

HOSTILE = ["<script>alert(1)</script>", '=HYPERLINK("x")', '"><img src=x onerror=alert(1)>', "@SUM(1)", "-1+1"]


def made(store, *roles, loop=None, expires=None):
    with store.writing() as tx:
        return tokens.add(tx, "ann", list(roles), store.clock.now(), loop, expires)


def logged_in(http, store, *roles, **facts):
    """A cookie for a token with these roles."""
    answer = http.post("/login", data={"token": made(store, *roles, **facts), "next": "/"})
    assert answer.status_code == 303, answer.text
    return {"cookie": answer.headers["set-cookie"].partition(";")[0]}


def hidden(http, path, headers=None):
    """The field that binds forms of a page to whom it was made for."""
    return re.search(r'name="form" value="([0-9a-f]+)"', http.get(path, headers=headers).text)[1]


def address(page):
    names = {"loop": "trial", "release": "summary-0-0", "ledger": "trial", "name": "style.css"}
    return page.path.format(audit="x-1", stream="x", **names)


@pytest.fixture
def shut(trial, store, service):
    """A service with tokens: nothing is open."""
    trial.post("/v1/loops/trial/releases", json={"kind": "summary"})
    with store.writing() as tx:
        row = (store.loop("trial").facts.id, "x-1", '{"target": {"name": "ucb"}}', "interrupted", "{}", 0)
        tx.execute("INSERT INTO audits (loop, id, settings, status, value, created) VALUES (?, ?, ?, ?, ?, ?)", row)
    made(store, "decide")
    service.gate.renew()
    return trial


@pytest.mark.parametrize("roles", [(), ("decide",), ("operate",), ("audit",), ("audit", "decide", "operate")])
def test_every_page_for_every_role(shut, store, roles):
    headers = logged_in(shut, store, *roles) if roles else {}
    for page in (page for page in PAGES if page.method == "GET"):
        status = shut.get(address(page), headers=headers).status_code
        if page.role == "none":
            assert status == 200, page
        elif not roles:
            assert status == 401, page
        elif roles == ("decide",):
            assert status == 403, page
        else:
            there = 404 if page.path.startswith("/streams") else 200  # absent without --streams
            assert status == (there if page.role == "public" or page.role in roles else 403), page


def test_controls_that_a_role_may_not_use_are_absent(shut, store):
    operator = shut.get("/loops/trial", headers=logged_in(shut, store, "operate")).text
    auditor = shut.get("/loops/trial", headers=logged_in(shut, store, "audit")).text
    assert 'id="freeze"' in operator
    assert "/ledgers" not in operator
    assert "<form" not in auditor.replace('<form method="post" action="/logout">', "")
    assert "/ledgers/trial" in auditor


def test_public_pages_without_a_token(store, clock):
    client = Direct(Service(store, Settings(public=True)))
    store.create(**LOOP)
    made(store, "operate")
    try:
        assert client.get("/").status_code == client.get("/loops/trial").status_code == 200
        assert 'href="/login"' in client.get("/").text
        for path in ("/loops/new", "/ledgers", "/trail", "/status", "/tokens"):
            assert client.get(path).status_code == 401, path
    finally:
        client.close()


def test_a_token_for_one_loop_sees_that_loop(shut, store):
    headers = logged_in(shut, store, "operate", loop="trial")
    assert shut.get("/", headers=headers).headers["location"] == "/loops/trial"
    assert shut.get("/loops/trial", headers=headers).status_code == 200
    other = logged_in(shut, store, "operate", "audit", loop="other")
    assert shut.get("/loops/trial", headers=other).status_code == 403
    for path in ("/loops/new", "/tokens", "/status"):
        assert shut.get(path, headers=other).status_code == 403


# Sessions ------------------------------------------------------------------------------------------------------------


def test_sessions_begin_end_and_follow_their_token(shut, store, clock):
    text = made(store, "operate")
    answer = shut.post("/login", data={"token": f" {text} ", "next": "/loops/trial"})
    assert answer.headers["location"] == "/loops/trial"
    given = answer.headers["set-cookie"]
    assert {"HttpOnly", "SameSite=Strict", "Path=/", "Max-Age=43200"} <= set(given.split("; "))
    assert "Secure" not in given
    cookie = {"cookie": given.partition(";")[0]}
    with store.reading() as tx:
        rows = tx.execute("SELECT * FROM sessions")
    assert given.split("=")[1].split(";")[0] not in str(rows)
    assert shut.get("/status", headers=cookie).status_code == 200
    with store.writing() as tx:
        tokens.revoke(tx, text.split("_")[1], clock.now())
    assert shut.get("/status", headers=cookie).status_code == 401
    cookie = logged_in(shut, store, "operate")
    clock.advance(12 * 3600 - 1)
    assert shut.get("/status", headers=cookie).status_code == 200
    clock.advance(2)
    assert shut.get("/status", headers=cookie).status_code == 401
    cookie = logged_in(shut, store, "operate")
    with store.reading() as tx:
        assert tx.execute("SELECT count(*) FROM sessions") == [(1,)]  # those that are over are gone
    out = shut.post("/logout", headers=cookie, data={"x": ""})
    assert "Max-Age=0" in out.headers["set-cookie"]
    assert shut.get("/status", headers=cookie).status_code == 401


def test_a_session_ends_when_its_token_expires(shut, store, clock):
    text = made(store, "operate", expires=clock.now() + 60 * SECOND)
    cookie = {"cookie": shut.post("/login", data={"token": text}).headers["set-cookie"].partition(";")[0]}
    assert shut.get("/status", headers=cookie).status_code == 200
    clock.advance(61)
    assert shut.get("/status", headers=cookie).status_code == 401


def test_behind_tls_cookies_are_secure(store):
    client = Direct(Service(store, Settings(behind_proxy=True)))
    try:
        given = client.post("/login", data={"token": made(store, "audit")}).headers["set-cookie"]
        assert given.startswith("__Host-fairveil=")
        assert "Secure" in given.split("; ")
        plain = {"cookie": given.partition(";")[0].removeprefix("__Host-")}
        client.service.gate.renew()
        assert client.get("/", headers=plain).status_code == 401
    finally:
        client.close()


@pytest.mark.parametrize("text", ["", "fv_", "fv_000000000000_" + "x" * 43, "x" * 4000, "é"])
def test_tokens_that_are_not_valid_give_no_session(shut, text):
    answer = shut.post("/login", data={"token": text})
    assert answer.status_code == 401
    assert "set-cookie" not in answer.headers
    assert "No valid token" in answer.text


@pytest.mark.parametrize(
    "onward", ["//evil.example", "https://evil.example", "/\\evil", "javascript:alert(1)", "/a\r\nb"]
)
def test_a_login_leads_nowhere_else(shut, store, onward):
    assert shut.post("/login", data={"token": made(store, "audit"), "next": onward}).headers["location"] == "/"


def test_a_form_whose_session_ended_is_kept(shut, store):
    form = {"do": "create", "job": "trial", "name": "kept-name", "actions": "a\nb", "epsilon": "2", "form": "0"}
    answer = shut.post("/loops/new", data=form)
    assert answer.status_code == 401
    assert "What you wrote is kept" in answer.text
    kept = dict(re.findall(r'name="(kept\.[a-z]+)" value="([^"]*)"', unescape(answer.text)))
    assert kept["kept.name"] == "kept-name"
    back = shut.post("/login", data={**kept, "next": "/loops/new", "token": made(store, "operate")})
    assert back.status_code == 200
    assert "Nothing was sent" in back.text
    assert 'value="kept-name"' in back.text
    assert "set-cookie" in back.headers
    assert store.names() == ["trial"]
    refused = shut.post("/login", data={**kept, "next": "/loops/new", "token": made(store, "audit")})
    assert refused.status_code == 403


def test_forms_are_bound_to_whom_they_were_made_for(shut, store):
    ann, ben = logged_in(shut, store, "operate"), logged_in(shut, store, "operate")
    field = hidden(shut, "/loops/trial", ann)
    change = {"do": "mode", "mode": "frozen"}
    for headers, data in [(ann, change), (ben, {**change, "form": field}), (ann, {**change, "form": "0" * 32})]:
        answer = shut.post("/loops/trial", headers=headers, data=data)
        assert answer.status_code == 403
        assert "not made for you" in answer.text
    elsewhere = {**ann, "origin": "https://evil.example"}
    assert shut.post("/loops/trial", headers=elsewhere, data={**change, "form": field}).status_code == 403
    assert shut.post("/loops/trial", headers=ann, json={**change, "form": field}).status_code == 415
    assert shut.post("/loops/trial", headers=ann, data={**change, "form": field}).status_code == 303
    assert 'id="thaw"' in shut.get("/loops/trial", headers=ann).text
    api = shut.request("PUT", "/v1/loops/trial/mode", headers=ann, json={"mode": "online"})
    assert api.status_code == 401, "a cookie opens pages, never the routes of programs"


# Forms ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("job", JOBS)
def test_each_jobs_form_quotes_and_creates(http, job):
    path = f"/loops/new?job={job}"
    assert 'id="cost"' in http.get(path).text
    form = {**JOBS[job].defaults(), "job": job, "form": hidden(http, path)}
    costs = set()
    for epsilon in ("1", "3"):
        answer = http.post("/loops/new", data={**form, "do": "quote", "epsilon": epsilon})
        costs.add(re.search(r'id="cost">([^<]+)<', answer.text)[1])
    assert len(costs) == 2
    refused = http.post("/loops/new", data={**form, "do": "create", "name": "No Spaces"})
    assert refused.status_code == 422
    assert 'id="name-wrong"' in refused.text
    answer = http.post("/loops/new", data={**form, "do": "create", "name": f"my-{job}"})
    assert answer.headers["location"] == f"/loops/my-{job}", answer.text
    page = http.get(f"/loops/my-{job}").text
    assert "Nothing is published yet" in page
    again = http.post("/loops/new", data={**form, "do": "create", "name": f"my-{job}"})  # pressed twice: one loop
    assert again.headers["location"] == f"/loops/my-{job}", again.text
    other = {**form, "do": "create", "name": f"my-{job}", "epsilon": "2"}
    assert http.post("/loops/new", data=other).status_code == 409


@pytest.mark.parametrize(
    ("field", "value"),
    [("epsilon", "much"), ("epsilon", "-1"), ("wait", "soon"), ("max_events", "1.5"), ("actions", "a\na")],
)
def test_a_refusal_stands_beside_its_field(http, field, value):
    form = {**JOBS["trial"].defaults(), "job": "trial", "form": hidden(http, "/loops/new?job=trial"), "name": "x"}
    answer = http.post("/loops/new", data={**form, "do": "create", field: value})
    assert answer.status_code == 422
    assert f'id="{field}-wrong"' in answer.text
    assert http.post("/loops/new", data={**form, "do": "quote", field: value}).status_code == 200


def test_what_an_operator_does_with_a_loop(trial, store):
    form = {"form": hidden(trial, "/loops/trial")}
    made_release = trial.post("/loops/trial", data={**form, "do": "release", "kind": "summary"})
    page = made_release.headers["location"]
    assert page == "/loops/trial/releases/summary-0-0"
    assert trial.get(page).status_code == 200
    assert trial.get(f"{page}/json").json()["id"] == "summary-0-0"
    assert trial.get(f"{page}/csv").text.startswith("what,value\r\n")
    assert "0 events" in trial.post("/loops/trial", data={**form, "do": "erase", "subject": "p"}).text
    assert trial.post("/loops/trial", data={**form, "do": "nothing"}).status_code == 422
    assert trial.post("/loops/trial", data={**form, "do": "close", "sure": "no"}).status_code == 422
    assert trial.post("/loops/trial", data={**form, "do": "close", "sure": "trial"}).status_code == 303
    assert "closed" in trial.get("/loops/trial").text
    assert trial.post("/loops/trial", data={**form, "do": "mode", "mode": "online"}).status_code == 410
    actions = [entry["action"] for entry in trial.get("/v1/trail").json()["entries"]]
    assert actions == ["create", "release", "erase-subject", "close"]


def test_tokens_are_made_and_revoked_by_pages(http, store, service):
    form = {"form": hidden(http, "/tokens"), "do": "add", "name": "first", "role": ["operate", "audit"]}
    page = http.post("/tokens", data=form)
    text = re.search(r'id="made">(fv_[^<]+)<', page.text)[1]
    service.gate.renew()
    assert http.get("/tokens").status_code == 401
    cookie = {"cookie": http.post("/login", data={"token": text}).headers["set-cookie"].partition(";")[0]}
    form["form"] = hidden(http, "/tokens", cookie)
    beyond = http.post("/tokens", data={**form, "role": "decide"}, headers=cookie)
    assert beyond.status_code == 403
    assert "cannot give what it does not have" in beyond.text
    assert http.post("/tokens", data={**form, "role": ""}, headers=cookie).status_code == 422
    revoke = {**form, "do": "revoke", "id": text.split("_")[1]}
    assert http.post("/tokens", data=revoke, headers=cookie).status_code == 303
    assert http.get("/tokens", headers=cookie).status_code == 401


def test_decisions_by_coin_and_in_modes_that_do_not_learn_are_counted(http, service):
    """50 decisions with a floor, 10 frozen, 5 paused: all of them are decided, whoever chose."""
    policy = {"name": "private-nash", "arms": 2, "epsilon": 1.0}
    rails = {"floor": 0.4, "fallback": "uniform"}
    http.post("/v1/loops", json={"name": "coins", "policy": policy, "reward": {"wait": "60s"}, "allocation": rails})
    loop, made = service.store.loop("coins"), 0
    for mode, count in (("online", 50), ("frozen", 10), ("paused", 5), ("shadow", 3)):
        loop.set_mode(mode)
        for _ in range(count):
            loop.decide(f"e-{made}")
            made += 1
        loop.decide(f"e-{made - 1}")  # a repeated request is not another decision
    table = http.get("/v1/loops/coins").json()
    assert table["decided"] == 68
    assert table["rounds"] < 50, "coins of the floor decide without a round"
    page = http.get("/loops/coins").text
    assert 'id="decided">68<' in page
    assert f'id="beside">{68 - table["rounds"]}<' in page
    assert http.get("/v1/loops").json()["loops"][0]["decided"] == 68


ARMS = {"policy": {"name": "private-nash", "arms": 2, "epsilon": 1.0}, "reward": {}}
COUNTED = ("published", "waiting", "open", "closed")


def tile(page, name):
    """A figure at the top of a loop's page, None where it has no such tile."""
    found = re.search(rf'<dd id="{name}">([\d,]+)<', page)
    return None if found is None else int(found[1].replace(",", ""))


@pytest.mark.parametrize("missing", ["public", "default"])
@pytest.mark.parametrize("given", [ARMS, QUEUE], ids=["arms", "candidates"])
def test_page_and_list_say_where_every_round_stands(http, service, clock, given, missing):
    """The second of many never answers: what was settled in a row says little, and is not what waits."""
    reward = {**given["reward"], "wait": "60s", "missing": missing}
    service.store.create(**{**given, "name": "ward", "reward": reward})
    loop = service.store.loop("ward")
    people = [{"id": f"c-{group}", "features": [0.1, 0.2, 0.3], "group": group} for group in "ab"]
    asked = {} if given is ARMS else {"candidates": people}
    for number in range(40):
        loop.decide(f"e-{number}", **asked)
        if number % 4 != 1:
            loop.reward(f"e-{number}", 1.0)
        clock.advance(1)
    clock.advance(30)
    service.store.tick()
    table, page = http.get("/v1/loops/ward").json(), http.get("/loops/ward").text
    counted = {name: tile(page, name) for name in COUNTED}
    assert sum(number or 0 for number in counted.values()) == 40, counted
    silent = 3 if missing == "public" and given is ARMS else None  # among candidates whoever is silent is learned too
    assert counted["closed"] == silent, "the windows of the first ten are over"
    assert counted["open"] == (7 if missing == "public" else 30), "what is hidden is told to nobody"
    assert tile(page, "settled") is None
    row = re.search(r'data-label="Not released yet" class="number">([\d,]+)<', http.get("/").text)[1]
    assert int(row) == counted["waiting"] + counted["open"] == sum(row["under_way"] for row in table["waiting"])


def test_a_loop_of_blocks_says_published_and_not_released_yet(http, service, clock):
    policy = {"name": "private-nash", "arms": 2, "epsilon": 1.0, "release": "blocks"}
    service.store.create(name="blocks", policy=policy, reward={"wait": "60s"})
    for number in range(30):
        service.store.loop("blocks").decide(f"e-{number}")
    page = http.get("/loops/blocks").text
    assert {name: tile(page, name) for name in COUNTED} == {
        "published": 0,
        "waiting": 30,
        "open": None,
        "closed": None,
    }


def test_a_new_loop_says_when_it_will_first_learn(http, service):
    policy = {"name": "private-nash", "arms": 2, "epsilon": 1.0}
    http.post("/v1/loops", json={"name": "fresh", "policy": policy, "reward": {"wait": "2d", "missing": "public"}})
    [first, _] = http.get("/v1/loops/fresh").json()["waiting"]
    wanted = first["due_at"]
    words = (
        "It first learns, at the latest, when {} more outcomes of one option count; outcomes count when rewards are in"
    )
    assert words.format(wanted) in http.get("/loops/fresh").text
    loop = service.store.loop("fresh")
    made = [loop.decide() for _ in range(3)]
    loop.reward(made[0].event_id, 1.0)
    assert words.format(wanted - 1) in http.get("/loops/fresh").text


def test_a_budget_is_reports_and_half_widths_first(http, service, store):
    policy = {"name": "private-nash", "arms": 2, "epsilon": 1.0}
    given = {"name": "spared", "policy": policy, "reward": {"wait": "60s"}, "groups": ["a", "b"]}
    http.post("/v1/loops", json={**given, "reports": {"spare": 3.0}})
    left = http.get("/v1/loops/spared/budget").json()["left"]
    assert left["places"] == 1000
    numbers = [(one["reports"], one["half_width"]) for one in left["choices"]]
    assert [number for number, _ in numbers] == [1, 3, 10]
    quoted = http.post(
        "/v1/loops/spared/budget/quote", json={"kind": "fairness", "first": 0, "stop": 1000, "epsilon": 1.0}
    )
    widest = max(max(one["at"].values()) for one in quoted.json()["half_widths"])
    assert numbers[1][1] == pytest.approx(widest), "a third of what is kept is what a quote says of it"
    page = unescape(http.get("/loops/spared").text)
    section = page[page.index('id="h-budget"') : page.index('id="h-releases"')]
    assert section.index("3 reports") < section.index("epsilon"), "epsilon comes second"
    http.post("/v1/loops", json={**given, "name": "bare"})
    assert http.get("/v1/loops/bare/budget").json()["left"] is None
    assert "no release by hand is left" in unescape(http.get("/loops/bare").text)


# Names that mean harm, and what leaves ------------------------------------------------------------------------------


def every_page(http, headers=None, loop="trial", release="summary-0-0"):
    found = {}
    for page in PAGES:
        if page.method == "GET" and page.path != "/static/{name}":
            path = page.path.format(loop=loop, release=release, ledger=loop, name="", audit="x", stream="s")
            found[path] = http.get(path, headers=headers)
    return found


class Tags(HTMLParser):
    """Notes elements and attributes that no template has."""

    def __init__(self):
        super().__init__()
        self.wrong, self.inside = [], ""

    def handle_starttag(self, tag, attributes):
        self.inside = tag
        names = [name for name, _ in attributes]
        if tag in ("img", "style", "iframe") or (tag == "script" and "src" not in names):
            self.wrong.append(tag)
        self.wrong += [name for name in names if name == "style" or name.startswith("on")]

    def handle_data(self, text):
        if self.inside == "script" and text.strip():
            self.wrong.append(text)

    def handle_endtag(self, tag):
        self.inside = ""


def test_hostile_names_are_text_everywhere(http, store, clock, caplog):
    caplog.set_level(logging.DEBUG)
    loop = {**LOOP, "policy": {"name": "private-nash", "arms": 5, "epsilon": 1.0}, "actions": HOSTILE}
    assert http.post("/v1/loops", json=loop).status_code == 201
    for index in range(40):
        http.post("/v1/loops/trial/decisions", json={"event_id": f"e-{index}"})
    clock.advance(61)
    store.tick()
    version = http.get("/v1/loops/trial").json()["version"]
    http.post("/v1/loops/trial/releases", json={"kind": "summary"})
    with store.writing() as tx:
        text = tokens.add(tx, HOSTILE[0], ["operate", "audit"], clock.now())
    cookie = {"cookie": http.post("/login", data={"token": text}).headers["set-cookie"].partition(";")[0]}
    for path, answer in every_page(http, cookie, release=f"summary-0-{version}").items():
        if answer.headers["content-type"].startswith("text/html"):
            found = Tags()
            found.feed(answer.text)
            assert not found.wrong, path
    assert "&lt;script&gt;alert(1)" in http.get("/loops/trial", headers=cookie).text
    lines = http.get(f"/loops/trial/releases/summary-0-{version}/csv", headers=cookie).text.splitlines()
    cells = [cell for line in lines for cell in re.findall(r'(?:^|,)"?([^,]*)', line)]
    assert not [cell for cell in cells if cell[:1] in "=+@" and cell]
    assert any(cell.startswith("'=HYPERLINK") for cell in cells)
    odd = http.get("/loops/trial/releases/..%2F%22%0d%0ax/csv", headers=cookie)
    assert odd.status_code == 404
    assert HOSTILE[0] not in caplog.text


def test_every_answer_carries_the_policy(trial):
    assert "unsafe" not in POLICY
    for path, answer in every_page(trial).items():
        assert answer.headers["content-security-policy"] == POLICY, path
        assert answer.headers["x-content-type-options"] == "nosniff"
        for script in re.findall(r"<script[^>]*>([^<]*)", answer.text):
            assert script == ""
        for address in re.findall(r'(?:src|href|action)="([^"]*)"', answer.text):
            assert address.startswith(("/", "#", "?")), address


def test_the_bundle_is_small_and_its_style_is_the_one_the_policy_allows():
    assert sum(len(one.packed) for one in STATICS.values()) <= 110_000
    assert style_hash(STATICS["plot.js"].plain.decode()) == PLOT_STYLE
    assert "eval(" not in STATICS["plot.js"].plain.decode()


def test_a_page_asks_only_routes_of_its_channel(trial, service):
    from fairveil.service.access import ANYBODY

    public = Asking(service, ROUTER, "public", ANYBODY)
    assert public("GET", "/v1/loops")["loops"]
    for method, path in [("GET", "/v1/trail"), ("GET", "/ready"), ("PUT", "/v1/loops/trial/mode"), ("GET", "/status")]:
        with pytest.raises(PermissionError):
            public(method, path)
    with pytest.raises(PermissionError):
        Asking(service, ROUTER, "audit", ANYBODY)("POST", "/v1/loops/trial/releases", {"kind": "summary"})
    for page in PAGES:
        assert page.channel in ("public", "operator", "audit")
        assert (page.role == "public") == (page.channel == "public"), page


def test_public_pages_do_not_depend_on_one_persons_data_before_its_release(tmp_path):
    """Two worlds that differ in one person's features and reward, with equal coins, noise and clocks: byte for byte."""
    from fairveil.privacy.noise import SeededNoise
    from fairveil.randomness import generator

    seen = []
    for world in (0, 1):
        clock = ManualClock()
        store = Store.open(f"sqlite:///{tmp_path}/{world}/store.db", clock=clock, key=bytes(32))
        store.noise, store.rng = SeededNoise(5), generator(5, "coins")
        client = Direct(Service(store, Settings(public=True)))
        loop = {**QUEUE, "simulated": True, "reward": {"wait": "60s", "missing": "default"}}
        client.post("/v1/loops", json=loop)
        client.post("/v1/loops/queue/releases", json={"kind": "summary"})
        with store.writing() as tx:
            tokens.add(tx, "x", ["operate"], clock.now())
        writing = {"authorization": f"Bearer {made(store, 'decide')}"}
        client.service.gate.renew()
        moments = []
        for index in range(24):
            features = [0.9, -0.9, 0.5] if world and index == 7 else [0.1, 0.2, 0.3]
            people = [{"group": "a", "features": features}, {"group": "b", "features": [0.3, 0.1, 0.2]}]
            body = {"event_id": f"e-{index}", "candidates": people}
            assert client.post("/v1/loops/queue/decisions", json=body, headers=writing).status_code == 201
            if index != 9 or not world:
                value = {"value": 0.0 if world and index == 7 else 1.0}
                client.post(f"/v1/loops/queue/decisions/e-{index}/reward", json=value, headers=writing)
            if index % 6 == 5:
                moments.append(public_pages(client))
        clock.advance(59)
        store.tick()
        moments.append(public_pages(client))
        clock.advance(2)
        store.tick()
        moments.append(public_pages(client))
        seen.append(moments)
        client.close()
        store.close()
    assert seen[0][:-1] == seen[1][:-1]
    assert seen[0][-1] != seen[1][-1]  # the block is released: now the data may show, noised


def public_pages(http):
    return {
        path: answer.content
        for path, answer in every_page(http, loop="queue").items()
        if answer.status_code == 200 and not path.startswith("/login")
    }


def test_canaries_are_on_no_page_of_any_role_in_no_log_and_in_no_manifest(tmp_path, clock, caplog):
    """Of a loop with blocks and reports: before, while and after they are released, and in what a backup says."""
    from fairveil.loop.upkeep import backup

    caplog.set_level(logging.DEBUG)
    store = Store.open(f"sqlite:///{tmp_path}/data/store.db", clock=clock)
    http = Direct(Service(store, Settings()))
    words = ["canary-person-4711", "canary-event-0815", "0.7310585786300049", "0.8807970779778823"]
    http.post("/v1/loops", json={**QUEUE, "person": {"max_events": 5}, "reports": {"spare": 1.0}})
    for index in range(25):
        people = [{"group": "a", "features": [0.7310585786300049, 0.2, 0.3], "subject": f"{words[0]}-{index}"},
                  {"group": "b", "features": [0.1, 0.2, 0.3], "subject": f"other-{index}"}]  # fmt: skip
        http.post("/v1/loops/queue/decisions", json={"event_id": f"{words[1]}-{index}", "candidates": people})
        http.post(f"/v1/loops/queue/decisions/{words[1]}-{index}/reward", json={"value": 0.8807970779778823})
    texts = []
    form = {"form": hidden(http, "/loops/queue")}
    for path in ("/loops/queue", "/loops/new", "/tokens"):
        texts += [
            http.post(path, data={**form, "do": do, "job": "trial"}).text for do in ("mode", "close", "release", "x")
        ]
    erased = http.post("/loops/queue", data={**form, "do": "erase", "subject": f"{words[0]}-3"}).text
    texts.append(erased)
    clock.advance(61)
    store.tick()
    asked = {**form, "kind": "fairness", "currency": "rho", "amount": "0.5", "first": "0", "stop": "20"}
    texts += [http.post("/loops/queue", data={**asked, "do": do}).text for do in ("price", "release", "release")]
    made = http.get("/v1/loops/queue/releases").json()["releases"]
    assert [one["kind"] for one in made if one["kind"] != "summary"] == ["fairness"]
    backup(store, tmp_path / "copy")
    texts.append((tmp_path / "copy" / "manifest.json").read_text())
    roles = [logged_in(http, store, role) for role in ("operate", "audit", "decide")]
    http.service.gate.renew()
    for headers in roles:
        for release in [one["id"] for one in made]:
            texts += [answer.text for answer in every_page(http, headers, "queue", release).values()]
    assert "1 event" in erased
    logging.getLogger("httpx").setLevel(logging.WARNING)
    own = [record.getMessage() for record in caplog.records if record.name.startswith("fairveil")]
    for text in [*texts, *own]:
        assert not [word for word in words if word in text]
    http.close()
    store.close()


def test_the_page_of_what_is_kept_is_the_table_that_erasure_reads(trial):
    from fairveil.loop.kept import TABLE

    text = unescape(trial.get("/docs/kept").text)
    for line in TABLE:
        assert line.what in text


def test_a_browser_that_is_lost_gets_a_page(trial):
    answer = trial.get("/nowhere", headers={"accept": "text/html"})
    assert answer.status_code == 404
    assert answer.headers["content-type"].startswith("text/html")
    assert trial.get("/nowhere").headers["content-type"] == "application/problem+json"
    assert trial.get("/loops/none").status_code == 404
    assert trial.get("/loops/trial/releases/none/json").status_code == 404
    assert trial.get("/static/none").status_code == 404
    assert trial.get("/static/style.css", headers={"accept-encoding": "identity"}).text.startswith(":root")


def test_a_report_by_hand_shows_its_price_then_its_page(http, store, clock):
    assert http.post("/v1/loops", json={**QUEUE, "reports": {"spare": 0.03}}).status_code == 201
    people = [{"group": "ab"[k % 2], "features": [0.1 * k, 0.2, 0.3]} for k in range(4)]
    for index in range(40):
        http.post("/v1/loops/queue/decisions", json={"event_id": f"e-{index}", "candidates": people})
    clock.advance(61)
    store.tick()
    form = {"form": hidden(http, "/loops/queue"), "kind": "fairness", "currency": "rho", "first": "0", "stop": "30"}
    priced = http.post("/loops/queue", data={**form, "do": "price", "amount": "0.02"}).text
    assert "It costs rho 0.02" in priced
    assert http.get("/v1/loops/queue/releases").json()["releases"] == []
    page = http.post("/loops/queue", data={**form, "do": "release", "amount": "0.02"}).headers["location"]
    text = http.get(page).text
    assert "In this period" in text
    assert "rho 0.02" in text
    assert http.get(f"{page}/csv").status_code == 200
    assert 'id="fairness"' in http.get("/loops/queue").text
    overlap = http.post("/loops/queue", data={**form, "do": "release", "amount": "0.01"})
    assert overlap.status_code == 409
    assert "overlaps" in overlap.text
    gone = http.post("/loops/queue", data={**form, "do": "release", "first": "30", "stop": "40", "amount": "0.02"})
    assert gone.status_code == 409
    assert "budget" in gone.text


def test_guard_rails_and_shares_stand_on_the_page_and_an_option_is_closed(http, store):
    rails = {"floor": 0.1, "holdout": "b", "holdout_share": 0.2, "burn_in": 10, "fallback": "a"}
    policy = {"name": "private-nash", "epsilon": 1.0}
    loop = store.create("rails", policy=policy, actions=["a", "b", "c"], allocation=rails)
    for number in range(30):
        loop.decide(f"e-{number}")
    page = http.get("/loops/rails").text
    for words in ("They fit.", "every option gets at least 10 %", "b is the holdout: 20 %", "in a pause a decides"):
        assert words in page
    form = {"form": hidden(http, "/loops/rails")}
    assert http.post("/loops/rails", data={**form, "do": "mode", "mode": "paused"}).status_code == 303
    assert "mode paused" in http.get("/loops/rails").text
    assert http.post("/loops/rails", data={**form, "do": "close-action", "action": "c"}).status_code == 303
    assert '<span class="state closed">closed</span>' in http.get("/loops/rails").text
    refused = http.post("/loops/rails", data={**form, "do": "close-action", "action": "nothing"})
    assert refused.status_code == 404
    assert 'fairveil_loop_shares_fit{loop="rails"} 1.0' in http.get("/metrics").text
    with store.writing() as tx:  # coins that fall otherwise than declared
        tx.execute("UPDATE serving SET counts = ?", (np.array([[90.0, 5, 5], [40, 30, 30], [20, 20, 20]]).tobytes(),))
    assert "They do not fit" in http.get("/loops/rails").text
    assert "shares served are not those declared" in http.get("/").text
    assert 'fairveil_loop_shares_fit{loop="rails"} 0.0' in http.get("/metrics").text


# What reports say, on the page of their loop --------------------------------------------------------------------------


def shelf(http, service, clock, job):
    policy = {
        "screening": {"name": "batched-private-fair-greedy", "epsilon": 5.0, "delta": 1e-6, "first_batch": 20},
        "recommender": {"name": "batched-priv-fairx", "epsilon": 5.0, "delta": 1e-6, "horizon": 5000},
    }[job]
    body = {
        "name": job, "policy": policy, "groups": ["north", HOSTILE[0]], "reports": {"spare": 50.0}, "explore": 0.5,
        "features": [{"name": "score", "low": -1, "high": 1}], "reward": {"wait": "60s"}, "max_candidates": 4,
        "targets": [{"name": "uniform"}],
    }  # fmt: skip
    assert http.post("/v1/loops", json=body).status_code == 201
    loop = service.store.loop(job)
    for number in range(200):
        people = [{"group": ["north", HOSTILE[0]][k % 2], "features": [0.1 * k]} for k in range(4)]
        loop.decide(f"e-{number}", candidates=people)
        loop.reward(f"e-{number}", float(number % 2))
    clock.advance(61)
    service.store.tick()
    for kind in ("fairness", "evaluation"):
        made = http.post(f"/v1/loops/{job}/releases", json={"kind": kind, "rho": 5.0})
        assert made.status_code == 201, made.text
    return unescape(http.get(f"/loops/{job}").text)


@pytest.mark.parametrize("job, sentence, tables", [
    ("screening", "are chosen at rates that differ by",
     ("How often each group is chosen", "Mean outcome of who was chosen", "Impact ratio")),
    ("recommender", "of the exposure than its merit", ("Exposure by group", "By merit", "Distance")),
])  # fmt: skip
def test_a_loops_page_says_what_its_last_report_says(trial, service, clock, job, sentence, tables):
    page = shelf(trial, service, clock, job)
    verdict = re.search(r'id="verdict">(.*?)</p>', page, re.DOTALL)[1]
    assert sentence in verdict
    for words in (*tables, "What other rules would have earned", "as decided" if job == "screening" else "uniform"):
        assert words in page
    assert ("vary by a standard deviation of 0.5, as declared" in page) == (job == "recommender")
    figure = re.search(r'id="chart-told" data-figure="(.*?)">', trial.get(f"/loops/{job}").text)[1]
    assert '"lines": [{"at"' in unescape(figure), "the line of parity"
    assert "<script>alert" not in trial.get(f"/loops/{job}").text


def test_the_form_of_a_report_finds_the_price_of_how_sure_it_must_be(trial, service, clock):
    shelf(trial, service, clock, "screening")
    loop = service.store.loop("screening")
    for number in range(200, 400):
        loop.decide(
            f"e-{number}", candidates=[{"group": "north", "features": [0.1]}, {"group": HOSTILE[0], "features": [0.2]}]
        )
    clock.advance(61)
    service.store.tick()
    spent = loop.ledger.spent.units
    form = {"form": hidden(trial, "/loops/screening"), "do": "price", "kind": "fairness", "currency": "rho",
            "first": "200", "stop": "400", "amount": "", "half_width": "0.08"}  # fmt: skip
    page = unescape(trial.post("/loops/screening", data=form).text)
    asked = {"kind": "fairness", "first": 200, "stop": 400, "half_width": 0.08}
    wanted = trial.post("/v1/loops/screening/budget/quote", json=asked).json()
    assert f'id="amount" name="amount" inputmode="decimal" value="{wanted["rho"]}"' in page
    assert "It costs rho" in page
    assert "on made-up rows" in page
    assert loop.ledger.spent.units == spent
    refused = trial.post("/v1/loops/screening/releases", json={"kind": "fairness", "rho": 1.0, "dry_run": True})
    assert refused.status_code == 422


def test_the_price_of_a_new_loop_names_what_is_kept_for_reports(http):
    form = {**JOBS["trial"].defaults(), "form": hidden(http, "/loops/new?job=trial"), "job": "trial", "name": "x"}
    page = unescape(http.post("/loops/new", data={**form, "do": "quote", "spare": "2"}).text)
    assert re.search(r'id="kept-for-reports">epsilon 2<', page)
    assert "kept-for-reports" not in http.post("/loops/new", data={**form, "do": "quote"}).text
