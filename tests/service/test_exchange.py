"""A request that came whole is answered without a task; whichever way it takes, the answer is the same."""

from __future__ import annotations

import gc
import json
import random
import re
import socket
import threading
import time

import pytest
from running_service import LOOP, PATIENT, listening, token, until

from fairveil.loop import Store
from fairveil.loop.writer import Item
from fairveil.service.app import Service
from fairveil.service.door import Door

PATH = "/v1/loops/trial/decisions"


@pytest.fixture
def served(tmp_path):
    """A running service, its address, and for each request whether it was taken whole."""
    with Store.open(f"sqlite:///{tmp_path}/store.db") as store:
        store.create(**LOOP)
        service, taken = Service(store, PATIENT), []
        original = service.take

        def take(exchange, body):
            place = len(taken)
            taken.append(True)  # before the answer leaves: its reader looks here at once
            taken[place] = original(exchange, body)
            return taken[place]

        service.take = take
        with listening(service) as url:
            store.loop("trial")
            yield service, int(url.rpartition(":")[2]), taken


def request(path=PATH, body=b"{}", *more, kind="application/json", host="127.0.0.1", method="POST"):
    lines = [
        f"{method} {path} HTTP/1.1",
        f"Host: {host}",
        f"Content-Type: {kind}",
        f"Content-Length: {len(body)}",
        *more,
    ]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


def answers(connection, count):
    """So many answers: status, headers without the order, and the body."""
    data, found = b"", []
    connection.settimeout(30)
    while len(found) < count:
        head, mark, rest = data.partition(b"\r\n\r\n")
        length = int(re.search(rb"content-length: (\d+)", head)[1]) if mark else None
        if length is None or len(rest) < length:
            part = connection.recv(65536)
            assert part, data
            data += part
            continue
        first, *lines = head.decode().split("\r\n")
        found.append((int(first.split()[1]), sorted(lines), json.loads(rest[:length])))
        data = rest[length:]
    assert data == b""
    return found


def whole(port, text):
    with socket.create_connection(("127.0.0.1", port)) as connection:
        connection.sendall(text)
        return answers(connection, 1)[0]


@pytest.fixture
def in_parts(monkeypatch):
    """The same in two pieces, the second when the first was read."""
    read, received = [], Door.data_received

    def data_received(self, data):
        read.append(len(data))  # before an answer can leave: whoever reads it counts at once
        received(self, data)

    def ask(port, text):
        with socket.create_connection(("127.0.0.1", port)) as connection:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            before = sum(read)
            connection.sendall(text[:-1])
            until(lambda: sum(read) - before == len(text) - 1)
            connection.sendall(text[-1:])
            return answers(connection, 1)[0]

    monkeypatch.setattr(Door, "data_received", data_received)
    return ask


def without_request(answer):
    """An answer but for the number of its request, which may stand in each part of it."""
    if isinstance(answer, dict):
        return {name: without_request(value) for name, value in answer.items() if name != "request"}
    return [without_request(one) for one in answer] if isinstance(answer, list | tuple) else answer


REQUESTS = {
    "a decision": request(body=b'{"event_id": "known"}'),
    "its reward": request(f"{PATH}/known/reward", b'{"value": 1}'),
    "another reward": request(f"{PATH}/known/reward", b'{"value": 0}'),
    "a reward outside": request(f"{PATH}/known/reward", b'{"value": 9}'),
    "no such event": request(f"{PATH}/nobody/reward", b'{"value": 1}'),
    "a batch": request(
        f"{PATH}/batch", b'{"decisions": [{"event_id": "known"}, {"event_id": "known", "exclude": [0]}]}'
    ),
    "rewards": request("/v1/loops/trial/rewards/batch", b'{"rewards": [{"event_id": "known", "value": 1}]}'),
    "all refused": request(f"{PATH}/batch", b'{"decisions": [{"event_id": "x", "exclude": [0, 1, 2]}]}'),
    "not deferred": request(f"{PATH}/known/activate", b"{}"),
    "not JSON": request(body=b"{"),
    "a key twice": request(body=b'{"event_id": "a", "event_id": "b"}'),
    "an unknown key": request(body=b'{"name": 1}'),
    "another kind": request(body=b"{}", kind="text/plain"),
    "another host": request(host="elsewhere.example"),
    "from a page elsewhere": request(PATH, b"{}", "Origin: http://elsewhere.example"),
    "a wrong token": request(PATH, b"{}", "Authorization: Bearer fv_none_none"),
    "an escaped name": request("/v1/loops/tri%61l/decisions", b'{"event_id": "known"}'),
}


@pytest.mark.parametrize("what", REQUESTS)
def test_both_ways_answer_alike(served, in_parts, what):
    _, port, taken = served
    whole(port, REQUESTS["a decision"])
    whole(port, REQUESTS["its reward"])
    taken.clear()
    first = whole(port, REQUESTS[what])
    assert taken == [True]
    assert without_request(in_parts(port, REQUESTS[what])) == without_request(first)
    assert taken == [True]  # what came in parts was not even offered


@pytest.mark.parametrize(
    "text",
    [
        request("/v1/loops/nobody/decisions"),
        request("/v1/loops/trial", b'{"mode": "frozen"}'),
        request("/v1/loops/trial/decisions/known/reward/more"),
        request(PATH, b"{}", "Expect: 100-continue", method="GET"),
    ],
)
def test_what_is_no_request_for_a_writer_takes_the_way_of_others(served, text):
    _, port, taken = served
    assert whole(port, text)[0] in (404, 405)
    assert not any(taken)


def test_one_behind_the_other_on_one_connection(served):
    _, port, taken = served
    texts = [request(body=json.dumps({"event_id": f"e-{number}"}).encode()) for number in range(20)]
    with socket.create_connection(("127.0.0.1", port)) as connection:
        connection.sendall(b"".join(texts))  # the first is taken, the others wait behind it
        found = answers(connection, 20)
    assert [body["event_id"] for _, _, body in found] == [f"e-{number}" for number in range(20)]
    assert sorted(body["round"] for _, _, body in found) == list(range(20))
    assert taken == [True]
    with socket.create_connection(("127.0.0.1", port)) as connection:
        for text in texts:
            connection.sendall(text)
            [(status, headers, _)] = answers(connection, 1)
            assert (status, "idempotent-replayed: true" in headers) == (200, True)
    assert taken == [True] * 21


def test_a_connection_ends_when_its_client_says_so(served):
    _, port, taken = served
    with socket.create_connection(("127.0.0.1", port)) as connection:
        connection.sendall(request(PATH, b"{}", "Connection: close"))
        [(status, headers, _)] = answers(connection, 1)
        assert (status, "connection: close" in headers, connection.recv(1), taken) == (201, True, b"", [True])


def test_who_waits_in_vain_is_told_and_the_work_is_done(served):
    service, port, taken = served
    writer = service.store.loop("trial").writer
    service.pumps.deadline = 0.2
    with writer._turn:  # the store lets everybody wait
        began = time.monotonic()
        status, headers, body = whole(port, request(body=b'{"event_id": "slow"}'))
        assert (status, body["type"], "retry-after: 1" in headers) == (503, "/problems/storage", True)
        assert time.monotonic() - began > 0.15
        with socket.create_connection(("127.0.0.1", port)) as leaves:
            leaves.sendall(request(body=b'{"event_id": "left"}'))
            until(lambda: len(taken) == 2)
    service.pumps.deadline = PATIENT.deadline
    assert whole(port, request(body=b'{"event_id": "slow"}'))[0] == 200
    assert whole(port, request(body=b'{"event_id": "left"}'))[0] == 200
    assert service.pumps.waiting() == 0


def test_many_at_once_and_every_answer_is_counted(served):
    service, port, taken = served

    def ask(number):
        for turn in range(10):
            assert whole(port, request(body=json.dumps({"event_id": f"{number}-{turn}"}).encode()))[0] == 201

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert taken == [True] * 80
    counted = 'fairveil_requests_total{route="/v1/loops/{loop}/decisions",status="201"} 80.0'
    until(lambda: counted in service.metrics.page(service).decode())  # the last is counted when its answer has left
    page = service.metrics.page(service).decode()
    assert 'fairveil_request_seconds_count{route="/v1/loops/{loop}/decisions"} 80.0' in page
    assert 'fairveil_request_seconds_bucket{le="+Inf",route="/v1/loops/{loop}/decisions"} 80.0' in page


def test_an_answered_request_is_gone_without_a_collection(served):
    """Its items once held whoever had waited for them, who held the items: thousands of batches stayed for a while."""
    _, port, taken = served
    gc.collect()
    gc.disable()
    try:
        for first in range(0, 500, 50):
            body = {"decisions": [{"event_id": f"e-{first + index}"} for index in range(50)]}
            assert whole(port, request(f"{PATH}/batch", json.dumps(body).encode()))[0] == 200
        left = sum(type(one) is Item for one in gc.get_objects())
    finally:
        gc.enable()
    assert taken == [True] * 10
    assert left <= 100, "the last one or two, of ten"


def test_roles_and_loops_of_a_token_count_here_too(served):
    service, port, taken = served
    right = token(service.store, "decide", loop="trial")["authorization"]
    wrong = token(service.store, "audit")["authorization"]
    service.gate.renew()
    assert whole(port, request(PATH, b"{}"))[0] == 401
    assert whole(port, request(PATH, b"{}", f"Authorization: {wrong}"))[0] == 403
    assert whole(port, request(PATH, b"{}", f"Authorization: {right}"))[0] == 201
    assert taken == [True] * 3


def test_an_answer_that_cannot_be_given_keeps_nobody_else_waiting(served, monkeypatch, caplog):
    """One of a batch once took the answers of all others with it, and the looks for deadlines with it too."""
    service, port, _ = served
    real, writer = service.told, service.store.loop("trial").writer

    def told(scope, *facts):
        if b"broken" in dict(scope["headers"]).get(b"traceparent", b""):
            raise RuntimeError("unforeseen")
        real(scope, *facts)

    monkeypatch.setattr(service, "told", told)
    first = request(PATH, b'{"event_id": "a"}', "traceparent: broken")
    with socket.create_connection(("127.0.0.1", port)) as broken, writer._turn:
        broken.sendall(first)
        until(lambda: len(writer.waiting) == 1)
        with socket.create_connection(("127.0.0.1", port)) as other:
            other.sendall(request(body=b'{"event_id": "b"}'))
            until(lambda: len(writer.waiting) == 2)
            writer._turn.release()
            assert answers(other, 1)[0][0] == 201
            writer._turn.acquire()
            service.pumps.deadline, service.pumps._looking = 0.2, False  # the next look is not in a minute
            for one in (first, request(body=b'{"event_id": "c"}')):
                other.sendall(one)
                assert answers(other, 1)[0][0] == 503
    assert "an answer was not given: RuntimeError" in caplog.text


def test_no_bytes_behind_a_request_are_answered_before_it(served):
    """What is no HTTP was told so at once, and its client took that for the answer to what it had asked before."""
    service, port, _ = served
    writer = service.store.loop("trial").writer
    with socket.create_connection(("127.0.0.1", port)) as connection, writer._turn:
        connection.sendall(request(body=b'{"event_id": "a"}') + b"\0\0 no such thing\r\n\r\n")
        connection.settimeout(30)
        assert connection.recv(1) == b""
    assert whole(port, request(body=b'{"event_id": "a"}'))[0] == 200, "its work was done all the same"
    status, _, body = whole(port, b"\0\0 no such thing\r\n\r\n")
    assert (status, body["type"]) == (400, "/problems/malformed")


@pytest.mark.parametrize("seed", range(12))
def test_however_requests_are_cut_and_kept_waiting_each_is_answered_once_and_in_its_order(served, seed):
    """One connection: requests of both ways, in pieces that end anywhere, some given up before they are done."""
    service, port, _ = served
    dice, writer = random.Random(seed), service.store.loop("trial").writer
    decisions = [request(body=b'{"event_id": "e-%d"}' % number) for number in range(8)]
    others = [request("/health", b"", method="GET"), request("/v1/loops/nobody/decisions"), request(body=b"{")]
    asked = [dice.choice(decisions if dice.random() < 0.7 else others) for _ in range(12)]
    text, found, over = b"".join(asked), [], threading.Event()

    def hold():
        while not over.is_set():
            with writer._turn:
                over.wait(random.choice([0.0, 0.01, 0.05]))
            over.wait(0.01)

    service.pumps.deadline = 0.03
    holder = threading.Thread(target=hold)
    holder.start()
    try:
        with socket.create_connection(("127.0.0.1", port)) as connection:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            while text:
                cut = dice.choice([1, 20, 150, 150, 400, len(text)])
                connection.sendall(text[:cut])
                text = text[cut:]
                over.wait(dice.choice([0.0, 0.0, 0.002]))
            found = answers(connection, len(asked))
    finally:
        over.set()
        holder.join()
    for one, (status, _, body) in zip(asked, found, strict=True):
        if b"/health" in one:
            assert (status, body) == (200, {"status": "alive"})
        elif b"nobody" in one:
            assert status == 404
        elif one.endswith(b"\r\n\r\n{"):
            assert status == 400
        else:
            event = json.loads(one.partition(b"\r\n\r\n")[2])["event_id"]
            assert status in (200, 201, 503)
            assert status == 503 or body["event_id"] == event
    service.pumps.deadline = PATIENT.deadline
    rounds = {}
    for one, (status, _, body) in zip(asked, found, strict=True):
        if status in (200, 201) and "event_id" in body:
            assert rounds.setdefault(body["event_id"], body["round"]) == body["round"]
            assert whole(port, one)[2]["round"] == body["round"]
    assert len(set(rounds.values())) == len(rounds)
