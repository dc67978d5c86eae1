"""The client: safe retries, fallback, batches, local reports, both sync and async; and the scripts of the guide."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import time
from pathlib import Path

import even_blocks  # noqa: F401 - registers the policy of these tests
import httpx
import numpy as np
import pytest
from running_service import LOOP, listening

from fairveil.client import AsyncClient, Client, LocalClient, Problem, Unreachable, verbs
from fairveil.errors import InputError
from fairveil.loop import Store
from fairveil.service.app import Service
from fairveil.service.settings import Settings

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def url(tmp_path):
    with Store.open(f"sqlite:///{tmp_path}/store.db") as store, listening(Service(store, Settings())) as found:
        yield found


def test_without_httpx_the_cure_is_named():
    """A checkout that was installed without the service ended in thirty lines of traceback."""
    code = "import sys; sys.modules['httpx'] = None; from fairveil import cli; cli.main()"
    words = ["report", "--url", "http://127.0.0.1:1", "--loop", "ward"]
    done = subprocess.run([sys.executable, "-c", code, *words], capture_output=True, text=True, check=False)
    assert done.returncode == 3
    assert "pip install 'fairveil[service]'" in done.stderr
    assert "Traceback" not in done.stderr


def test_all_calls(url):
    with Client(url) as client:
        assert client.quote(**LOOP)["cost"] == "epsilon 1"
        assert client.create(**LOOP)["name"] == "trial"
        assert [loop["name"] for loop in client.loops()] == ["trial"]
        trial = client.loop("trial")
        reply = trial.decide(exclude=[1])
        assert trial.decide(reply["event_id"], exclude=[1]) == reply
        assert trial.reward(reply["event_id"], 1.0)["learned"] == "pending"
        many = trial.decide_many([{}, {"defer": True}])
        assert trial.activate(many[1]["event_id"])["activated"]
        assert [one["accepted"] for one in trial.reward_many((one["event_id"], 0.5) for one in many)] == [True, True]
        assert trial.event(reply["event_id"])["reward"] == "pending"
        assert trial.state()["rounds"] == 3
        assert trial.budget()["epsilon"] == 1.0
        assert trial.release()["kind"] == "summary"
        trial.decide("hers", subject="ada")
        assert [trial.subjects.erase(subject) for subject in ("ada", "nobody")] == [1, 0]
        assert trial.set_mode("frozen")["mode"] == "frozen"
        with pytest.raises(Problem) as caught:
            trial.reward(reply["event_id"], 0.2)
        assert (caught.value.type, caught.value.status) == ("reward-differs", 409)
        trial.close()
        with pytest.raises(Problem, match="closed"):
            trial.decide()


def test_the_same_calls_awaited(url):
    async def run():
        async with AsyncClient(url) as client:
            await client.create(**LOOP)
            trial = client.loop("trial")
            reply = await trial.decide("e")
            assert await trial.decide("e") == reply
            assert (await trial.reward("e", 1.0))["accepted"]
            assert len(await trial.decide_many([{}, {}])) == 2
            assert (await trial.state())["rounds"] == 3
            assert (await trial.decide("x", fallback=2))["round"] == 3
            assert await trial.subjects.erase("nobody") == 0

    asyncio.run(run())


def test_retries_repeat_the_event_and_stop_at_refusals():
    seen = []

    def answer(request: httpx.Request) -> httpx.Response:
        seen.append(request.content)
        if len(seen) == 1:
            raise httpx.ConnectError("refused")
        if len(seen) < 4:
            return httpx.Response(
                503 if len(seen) == 2 else 429, headers={"retry-after": "0"}, json={"detail": "later"}
            )
        return httpx.Response(201, json={"event_id": "x", "action": 1})

    client = Client("http://service", transport=httpx.MockTransport(answer))
    assert client.loop("t").decide()["action"] == 1
    assert len(seen) == 4
    assert len(set(seen)) == 1  # the same id in every attempt

    def refuse(request: httpx.Request) -> httpx.Response:
        seen.append(request.content)
        return httpx.Response(409, json={"type": "/problems/budget", "detail": "no", "given": "'e-17'"})

    seen.clear()
    with pytest.raises(Problem, match="no; given 'e-17'"):
        Client("http://service", transport=httpx.MockTransport(refuse)).loop("t").decide()
    assert len(seen) == 1


def test_a_fallback_is_marked_and_its_reward_is_not_sent():
    def gone(request: httpx.Request) -> httpx.Response:
        raise httpx.ConnectError("refused")

    loop = Client("http://service", retries=1, transport=httpx.MockTransport(gone)).loop("t")
    reply = loop.decide(fallback=2)
    assert (reply["action"], reply["source"]) == (2, "fallback")
    assert loop.reward(reply["event_id"], 1.0)["reason"] == "fallback"
    with pytest.raises(Unreachable):
        loop.decide()


@pytest.mark.parametrize(
    ("slow", "problem", "seconds"),
    [(False, httpx.ConnectError, 60), (True, httpx.ConnectError, 60), (True, httpx.ReadTimeout, 60 + verbs.SLOW)],
)
def test_a_client_that_waits_says_so_once_and_names_serve_in_the_end(monkeypatch, caplog, slow, problem, seconds):
    now, said_at = [0.0], []
    monkeypatch.setattr(verbs.time, "monotonic", lambda: now[0])

    def nobody(steps):
        step = next(steps)
        while True:
            if isinstance(step, verbs.Pause):
                said_at.extend([now[0]] * len(caplog.records))
                now[0] += step.seconds
                step = next(steps)
            else:
                step = steps.throw(problem("no answer"))

    with pytest.raises(Unreachable) as end:
        nobody(Client("http://127.0.0.1:9").send(verbs.Call("POST", "/v1/loops", slow=slow)))
    assert [record.getMessage() for record in caplog.records] == [
        f"waiting for http://127.0.0.1:9: no answer yet ({problem.__name__}), tries for at most {seconds:.0f} s"
    ]
    assert said_at[0] <= 2
    assert seconds - verbs.LONGEST <= now[0] <= seconds
    assert "http://127.0.0.1:9" in str(end.value)
    assert "fairveil serve" in str(end.value)


def test_a_loop_that_is_long_in_the_making_is_spoken_of_before_it_is_there(monkeypatch, caplog):
    """A first loop compiles on the service for six seconds, in which a script said nothing."""
    monkeypatch.setattr(verbs, "SILENCE", 0.05)
    begun = time.monotonic()

    def slow(request: httpx.Request) -> httpx.Response:
        while not caplog.records and time.monotonic() < begun + 5:
            time.sleep(0.01)
        return httpx.Response(201, json={"name": "trial", "said": len(caplog.records)})

    client = Client("http://service", transport=httpx.MockTransport(slow))
    assert client.create("trial")["said"] == 1
    assert caplog.messages[0].startswith("waiting for http://service: it works on POST /v1/loops")
    assert len(caplog.records) == 1


def test_what_is_only_read_has_no_advice_on_event_ids():
    def gone(request: httpx.Request) -> httpx.Response:
        raise httpx.ConnectError("no")

    loop = Client("http://service", retries=0, transport=httpx.MockTransport(gone)).loop("t")
    with pytest.raises(Unreachable, match="same event id is safe"):
        loop.decide()
    with pytest.raises(Unreachable) as read:
        loop.state()
    assert "event id" not in str(read.value)


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_a_reward_that_json_cannot_carry_is_refused_in_our_words(value):
    loop = Client("http://service", transport=httpx.MockTransport(lambda request: httpx.Response(500))).loop("t")
    for send in (lambda: loop.reward("e", value), lambda: loop.reward_many([("e", value)])):
        with pytest.raises(InputError, match="a reward is a finite number"):
            send()


def test_what_json_cannot_carry_is_refused_by_its_place_before_anything_is_sent():
    sent = []
    client = Client("http://service", transport=httpx.MockTransport(sent.append))
    table = {"name": "t", "policy": {"name": "private-nash", "epsilon": float("nan")}}
    with pytest.raises(InputError, match=r"policy\.epsilon: this is not a finite number; allowed: no NaN"):
        client.create(**table)
    for features, said in (([0.5, float("nan")], "not a finite number"), (np.ones(2), "given 'ndarray'"),
                           ([0.5, np.int64(7)], "given 'int64'")):  # fmt: skip
        with pytest.raises(InputError, match=r"candidates\.0\.features.*" + said):
            client.loop("t").decide("e", candidates=[{"features": features}])
    assert sent == []


@pytest.mark.parametrize("status", [200, 404, 501])
def test_another_program_on_the_port_is_told_apart(status):
    def page(request: httpx.Request) -> httpx.Response:
        return httpx.Response(status, html="<p>Hello</p>")

    client = Client("http://service", transport=httpx.MockTransport(page))
    with pytest.raises(Unreachable, match=f"what answers at http://service is not fairveil; given '{status} text/html"):
        client.create(**LOOP)


def test_a_local_loop_sees_one_bit_per_event(url, tmp_path):
    with Client(url) as client:
        client.create(
            "local",
            policy={"name": "local-nash", "arms": 2, "epsilon": 1.0},
            reward={"low": 0, "high": 10, "wait": "60s"},
        )
        local = LocalClient(client.loop("local"))
        for index in range(20):
            local.decide(f"e-{index}")
            local.reward(f"e-{index}", 7.0)
            drawn = dict(local._bits)
            assert local.reward(f"e-{index}", 7.0)["accepted"]  # released meanwhile, or not
            assert local._bits == drawn  # the bit is drawn once
        assert set(local._bits.values()) <= {0.0, 1.0}
        memory = tmp_path / "bits"
        for index in range(4):  # a program that dies after every attempt
            client.loop("local").decide(f"m-{index}")
            bits = set()
            for _ in range(3):
                again = LocalClient(client.loop("local"), memory)
                again.reward(f"m-{index}", 5.0)  # another bit would be refused: reward-differs
                bits.add(again._bits[f"m-{index}"])
            assert len(bits) == 1
            with open(memory, "a") as file:
                file.write('["torn", 1')
        assert memory.stat().st_mode & 0o777 == 0o600
        assert len(LocalClient(client.loop("local"), memory)._bits) == 4
        client.loop("local").decide("raw")
        with pytest.raises(Problem) as caught:
            client.loop("local").reward("raw", 0.7)
        assert caught.value.type == "out-of-range"


@pytest.mark.parametrize("name", ["trial", "screening", "recommender"])
def test_the_scripts_of_the_guide(url, name):
    script = ROOT / "examples" / "service" / f"{name}.py"
    done = subprocess.run([sys.executable, str(script), url], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert done.stdout
    assert f"examples/service/{name}.py" in (ROOT / "docs" / "guides" / "service.md").read_text()


def test_the_tour_of_the_service(tmp_path):
    """`make demo-service` with fewer decisions: every job, every kind of report, the page, and a clean stop."""
    script = ROOT / "examples" / "demo_service.py"
    command = [sys.executable, str(script), "--decisions", "2000", "--out", str(tmp_path / "tour")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    for words in ("fairness of the trial", "fairness of the queue", "evaluation of the trial", "everybody at random"):
        assert words in done.stdout
    assert "the service stops" in done.stdout
    assert "private-nash" in (tmp_path / "tour" / "trial.html").read_text()


def test_a_name_that_the_service_has_erased_comes_from_the_callers_own_request(url):
    queue = {
        "name": "queue",
        "policy": {"name": "batched-private-fair-greedy", "epsilon": 1.0, "delta": 1e-6, "first_batch": 8},
        "groups": ["a"],
        "features": [{"name": "x", "low": -1.0, "high": 1.0}],
        "reward": {"wait": "60s"},
    }
    candidates = [{"id": name, "features": [0.5], "subject": name} for name in ("ann", "bob")]
    with Client(url) as client:
        client.create(**queue)
        place = client.loop("queue")
        first = place.decide("e", candidates=candidates)
        client._http.request("DELETE", "/v1/loops/queue/subjects", json={"subject": "ann"})
        raw = client._http.post("/v1/loops/queue/decisions", json={"event_id": "e", "candidates": candidates}).json()
        assert raw["action_id"] is None
        assert place.decide("e", candidates=candidates)["action_id"] == first["action_id"]
        assert place.decide_many([{"event_id": "e", "candidates": candidates}])[0]["action_id"] == first["action_id"]
