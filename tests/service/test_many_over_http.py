"""Many loops behind one process: pages of the list, threads, metrics, readiness, what a start loads."""

from __future__ import annotations

import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from running_service import LOOP, Direct, listening

from fairveil.client import Client
from fairveil.loop import listing, tokens
from fairveil.loop.loop import Loop
from fairveil.service import pumps, routes
from fairveil.service.app import Service
from fairveil.service.pages import PAGES, published
from fairveil.service.settings import Settings

NAMES = [f"loop-{index}" for index in range(5)]


@pytest.fixture
def many(http, monkeypatch):
    monkeypatch.setattr(listing, "PAGE", 2)
    monkeypatch.setattr(published, "LISTED", 2)
    for name in NAMES:
        assert http.post("/v1/loops", json={**LOOP, "name": name}).status_code == 201
    return http


def test_loops_are_listed_in_pages_with_budget_and_last_release(many, service):
    assert many.post("/v1/loops/loop-1/releases", json={"kind": "summary"}).status_code == 201
    found, after = [], ""
    while page := many.get("/v1/loops", params={"after": after}).json()["loops"]:
        assert len(page) <= 2
        found += page
        after = page[-1]["name"]
    assert [row["name"] for row in found] == NAMES
    assert {row["budget"]["spent"] for row in found} == {many.get("/v1/loops/loop-0/budget").json()["spent"]}
    assert [row["last_release"] and row["last_release"]["kind"] for row in found] == [None, "summary", None, None, None]


def test_the_client_asks_for_all_pages(many, service):
    with listening(service) as url, Client(url) as client:
        assert [row["name"] for row in client.loops()] == NAMES


def test_ledgers_are_listed_in_pages_and_no_other_is_opened(many, service, monkeypatch):
    opened, really = [], service.ledger
    monkeypatch.setattr(service, "ledger", lambda name: opened.append(name) or really(name))
    assert [row["name"] for row in many.get("/v1/ledgers").json()["ledgers"]] == NAMES[:2] == opened
    rest = many.get("/v1/ledgers", params={"after": "loop-2"}).json()["ledgers"]
    assert [row["name"] for row in rest] == NAMES[3:]
    page = many.get("/ledgers?after=loop-0", headers={"accept": "text/html"}).text
    assert 'href="/ledgers?after=loop-2"' in page
    assert "No ledger comes after" in many.get("/ledgers?after=zzz", headers={"accept": "text/html"}).text
    names = {item["name"] for item in service.document["paths"]["/v1/ledgers"]["get"]["parameters"]}
    assert names == {"after"}


def test_a_token_of_one_loop_finds_it_on_its_page(many, store, service):
    with store.writing() as tx:
        text = tokens.add(tx, "one", ["decide"], store.clock.now(), "loop-4")
    service.gate.renew()
    headers = {"authorization": f"Bearer {text}"}
    assert [row["name"] for row in many.get("/v1/loops", headers=headers).json()["loops"]] == ["loop-4"]


def test_the_page_of_all_loops_leads_to_the_next(many):
    first = many.get("/", headers={"accept": "text/html"}).text
    assert 'href="/?after=loop-1"' in first
    assert "/loops/loop-2" not in first
    last = many.get("/?after=loop-3", headers={"accept": "text/html"}).text
    assert "/loops/loop-4" in last
    assert "more-loops" not in last
    assert "No loop comes after" in many.get("/?after=zzz", headers={"accept": "text/html"}).text


def test_a_few_threads_write_for_all_loops(many, store, monkeypatch):
    monkeypatch.setattr(pumps, "MOST", 2)
    service = Service(store, Settings())
    http = Direct(service)
    with ThreadPoolExecutor(10) as clients:
        asked = [(name, index) for index in range(6) for name in NAMES]
        decide = lambda one: http.post(f"/v1/loops/{one[0]}/decisions", json={"event_id": f"e-{one[1]}"})  # noqa: E731
        assert {answer.status_code for answer in clients.map(decide, asked)} == {201}
    assert len(service.pumps.threads._threads) <= 2
    assert service.pumps.waiting() == 0
    http.close()


def test_at_most_eight_threads_write():
    assert pumps.MOST == 8


def test_metrics_ask_once_for_all_loops(many, store, monkeypatch):
    text = many.get("/metrics").text
    assert all(f'fairveil_loop_wait_seconds{{loop="{name}"}}' in text for name in NAMES)
    counted = list[str]()
    real = type(store.driver).reading

    def reading(self):
        counted.append(threading.current_thread().name)
        return real(self)

    monkeypatch.setattr(type(store.driver), "reading", reading)
    assert [name for name, _, _ in listing.unsettled_ages(store)] == NAMES
    assert len(counted) == 1


def test_a_ledger_that_does_not_fit_is_no_readiness(many, store):
    assert many.get("/ready").status_code == 200
    with store.writing() as tx:
        tx.execute("UPDATE loops SET stopped = 'ledger' WHERE name = 'loop-2'")
    answer = many.get("/ready")
    assert (answer.status_code, answer.json()["ledgers"], answer.json()["learning_stopped"]) == (503, "failed", 1)


def test_forms_that_create_or_report_have_longer():
    slow = {route.path for route in PAGES if route.deadline == routes.SLOW}
    assert {"/loops/new", "/loops/{loop}"} <= slow


def test_a_start_loads_no_library_for_people_who_analyse():
    heavy = {"sklearn", "pandas", "polars", "scipy.stats", "scipy.special", "fairveil.lab"}
    code = (
        "import sys, fairveil.service.app, fairveil.service.door\n"
        "from fairveil.loop.play import warm_noise; warm_noise()\n"
        f"print(sorted({heavy!r} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_a_start_serves_before_it_packs_and_forgets(store, service, clock, monkeypatch):
    """What a busy minute had left was done before anybody was served, and a start took the longer for it."""
    done = []
    store.create(**LOOP).decide("e")
    store.tick()
    store.memory.leave("trial")
    monkeypatch.setattr(type(store.driver), "tidy", lambda self: done.append("tidy") or True)
    monkeypatch.setattr(Loop, "forget", lambda self: done.append("forget"))
    store.erased()
    store.serve_first()
    for seconds, expected in ((1, []), (3, []), (2, ["forget", "tidy"])):
        clock.advance(seconds)
        store.tick(["trial"])
        assert done == expected
    begun = []
    monkeypatch.setattr(store, "serve_first", lambda: begun.append(service._ticker))
    service.start()
    assert begun == [None]  # before the first tick
    service.stop()
