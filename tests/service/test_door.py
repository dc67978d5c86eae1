"""What a connection may cost, over raw sockets and over TLS: headers, time, numbers, and an end that comes soon."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
import re
import resource
import signal
import socket
import ssl
import struct
import subprocess
import sys
import time

import pytest
from running_service import LOOP, bound, listening, until

from fairveil.errors import SpecError
from fairveil.loop import Store
from fairveil.service import door, serve
from fairveil.service.app import Service
from fairveil.service.door import Door, Flow
from fairveil.service.settings import Settings

BODY_ENDS = door.BODY
"""Seconds after which even a body that is waited for is given up."""
HOST = b"Host: 127.0.0.1\r\n"
GET = b"GET /health HTTP/1.1\r\n" + HOST


@pytest.fixture
def doors(monkeypatch):
    """The connections of the service as it sees them."""
    found, made = [], Door.connection_made

    def connection_made(self, transport):
        made(self, transport)
        found.append(self)

    monkeypatch.setattr(Door, "connection_made", connection_made)
    monkeypatch.setattr(door, "SWEEP", 0.02)
    monkeypatch.setattr(door, "CLOSING", 0.2)
    return found


@pytest.fixture(params=["plain", "tls"])
def connect(request, tmp_path):
    """A way to open connections to a running service."""
    given = {}
    if request.param == "tls":
        given = dict(zip(("tls_cert", "tls_key"), request.getfixturevalue("certificate"), strict=True))
    with Store.open(f"sqlite:///{tmp_path}/store.db") as store, listening(Service(store, Settings(**given))) as url:
        port = int(url.rpartition(":")[2])

        def connect():
            raw = socket.create_connection(("127.0.0.1", port), 60)
            if not given:
                return raw
            context = ssl.create_default_context()
            context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
            return context.wrap_socket(raw)

        yield connect


def everything(connection):
    """What comes until the other side ends."""
    parts = []
    try:
        while part := connection.recv(65536):
            parts.append(part)
    except (ConnectionError, ssl.SSLError):
        pass
    return b"".join(parts)


def status(answer):
    return int(answer.split(b" ", 2)[1]) if answer else None


def asked(connection, text):
    """Send all of it, or as much as the other side takes; its answer."""
    with contextlib.suppress(ConnectionError, ssl.SSLError):
        connection.sendall(text)
    return everything(connection)


def test_headers_that_are_too_large_or_too_many(connect):
    with connect() as connection:
        answer = asked(connection, GET + b"X: " + b"y" * (4 * 2**20))
        assert status(answer) in (431, None)  # a reset may overtake the answer while much is on its way
    with connect() as connection:
        connection.sendall(GET + b"X: " + b"y" * 60_000)
        answer = asked(connection, b"y" * 10_000)
        assert status(answer) == 431
        table = json.loads(answer.partition(b"\r\n\r\n")[2])
        assert (table["type"], table["allowed"]) == ("/problems/too-large", "64 KiB and 100 lines")
    with connect() as connection:
        lines = b"".join(b"X-%d: 1\r\n" % number for number in range(100))
        assert status(asked(connection, GET + lines + b"\r\n")) == 431
    with connect() as connection:
        lines = b"".join(b"X-%d: %s\r\n" % (number, b"z" * 600) for number in range(99))
        assert status(asked(connection, GET + lines + b"Connection: close\r\n\r\n")) in (200, 431)
        lines = lines[:55_000].rpartition(b"\r\n")[0] + b"\r\n"
    with connect() as connection:
        assert status(asked(connection, GET + lines + b"Connection: close\r\n\r\n")) == 200


def test_one_header_of_seventy_megabytes_is_not_read(tmp_path):
    with Store.open(f"sqlite:///{tmp_path}/store.db") as store, listening(Service(store, Settings())) as url:
        sent = 0
        with socket.create_connection(("127.0.0.1", int(url.rpartition(":")[2])), 60) as connection:
            connection.sendall(GET + b"X: ")
            try:
                for _ in range(70):
                    connection.sendall(b"y" * 2**20)
                    sent += 1
            except ConnectionError:
                pass
            everything(connection)
        assert sent < 70


def test_what_never_becomes_a_request_is_closed(doors, connect):
    body = b"POST /v1/loops HTTP/1.1\r\n" + HOST + b"Content-Type: application/json\r\nContent-Length: 100\r\n\r\n{"
    unread = GET + b"Content-Length: 100\r\n\r\n{"
    opened = []
    for text, patience in ((GET[:-10], door.HEAD), (b"", door.HEAD), (body, door.BODY), (unread, door.BODY)):
        began = time.monotonic()
        opened.append(connect())
        opened[-1].sendall(text)
        until(lambda: len(doors) == len(opened) and doors[-1]._read == len(text))  # noqa: B023 - asked here and now
        assert began - 0.1 <= doors[-1]._until - patience <= time.monotonic() + door.CLOSING
    for one in doors:
        one._until = 0.0  # that time has passed
    assert [status(everything(connection)) for connection in opened] == [408, None, None, 200]
    for connection in opened:
        connection.close()


def test_a_request_that_is_slow_but_in_time_is_served(connect):
    with connect() as connection:
        for part in (GET[:10], GET[10:], b"Connection: close\r\n", b"\r", b"\n"):
            connection.sendall(part)
            time.sleep(0.01)
        assert status(everything(connection)) == 200


def test_chunks_that_carry_nothing_are_counted(connect):
    head = (
        b"POST /v1/loops HTTP/1.1\r\n" + HOST + b"Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
    )
    with connect() as connection:
        answer = asked(connection, head + (b"1;" + b"x" * 4000 + b"\r\n \r\n") * 4000)
        assert status(answer) in (400, 413, None)


def test_more_connections_than_allowed_are_refused(connect, monkeypatch):
    monkeypatch.setattr(Door, "most", 3)
    held = [connect() for _ in range(3)]
    for connection in held:
        connection.sendall(GET + b"\r\n")
        assert connection.recv(12) == b"HTTP/1.1 200"
    with connect() as connection:
        answer = everything(connection)
        assert (status(answer), b"retry-after: 1" in answer) == (503, True)
    held[0].close()
    deadline = time.monotonic() + 60
    while True:
        with connect() as connection:
            if status(asked(connection, GET + b"Connection: close\r\n\r\n")) == 200:
                break
        assert time.monotonic() < deadline
    for connection in held:
        connection.close()


def test_who_never_agrees_on_tls_is_counted_and_closed(tmp_path, certificate, doors, monkeypatch, caplog):
    """Such a connection stood for a minute beside all limits, until no file was left for anybody."""
    monkeypatch.setattr(Door, "most", 3)
    monkeypatch.setattr(door, "POLITE", 2)
    entered, made = [], door.Entrance.connection_made

    def connection_made(self, transport):
        made(self, transport)
        entered.append(self)

    monkeypatch.setattr(door.Entrance, "connection_made", connection_made)
    settings = Settings(**dict(zip(("tls_cert", "tls_key"), certificate, strict=True)))
    with Store.open(f"sqlite:///{tmp_path}/store.db") as store, listening(Service(store, settings)) as url:
        place, began = ("127.0.0.1", int(url.rpartition(":")[2])), time.monotonic()
        silent = [socket.create_connection(place, 60) for _ in range(5)]
        silent[0].sendall(b"\x16\x03\x01\x02")  # the beginning of a hello
        until(lambda: len(entered) == 5)
        assert [began - 0.1 <= one._until - door.HEAD <= time.monotonic() for one in entered] == [True] * 5
        with socket.create_connection(place, 60) as further:
            assert everything(further) == b""  # cut: there is no room for it
        for one in entered[:4]:
            one._until = 0.0
        for connection in silent[:4]:
            assert everything(connection) == b""
        silent[4].sendall(GET + b"\r\n")  # which is no TLS
        assert status(everything(silent[4])) is None
        for connection in silent:
            connection.close()
        context = ssl.create_default_context()
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        for _ in range(20):
            with socket.create_connection(place, 60) as leaves:  # at once, without a word
                leaves.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        until(lambda: not entered[0]._state.connections)
        with context.wrap_socket(socket.create_connection(place, 60)) as connection:
            assert status(asked(connection, GET + b"Connection: close\r\n\r\n")) == 200
        before, left = len(entered), socket.create_connection(place, 60)
        until(lambda: len(entered) > before)
    assert everything(left) == b""  # the service has ended, and did not wait for it
    left.close()
    assert [record for record in caplog.records if record.levelno >= logging.WARNING] == []


def test_a_certificate_that_cannot_be_used_is_refused_before_anybody_comes(tmp_path):
    for name in ("cert", "key"):
        (tmp_path / name).write_text("none")
    with pytest.raises(SpecError, match="cannot be used"):
        serve.server_options(Settings(tls_cert=str(tmp_path / "cert"), tls_key=str(tmp_path / "key")))


def test_pipelined_requests_are_all_answered(connect):
    with connect() as connection:
        answer = asked(connection, (GET + b"\r\n") * 5 + GET + b"Connection: close\r\n\r\n")
        assert answer.count(b"HTTP/1.1 200") == 6


def test_a_silent_connection_keeps_nothing_of_its_last_request(doors, connect):
    with connect() as connection:
        for _ in range(2):
            connection.sendall(GET + b"X-Long: " + b"x" * 5000 + b"\r\n\r\n")
            answer = b""
            while not answer.endswith(b"}"):
                answer += connection.recv(65536)
            assert status(answer) == 200
            until(lambda: doors[-1].cycle is doors[-1].scope is doors[-1].headers is None)
        assert len(vars(doors[-1])) <= 30  # with more every connection has a table of names of its own


def test_who_writes_waits_for_whoever_reads_slowly():
    async def slow():
        flow = Flow(None)
        await flow.drain()
        flow.pause_writing()
        waiting = [asyncio.create_task(flow.drain()) for _ in range(2)]
        await asyncio.sleep(0)
        assert not any(one.done() for one in waiting)
        flow.resume_writing()
        await asyncio.gather(*waiting)
        await flow.drain()

    asyncio.run(slow())


def test_open_files_are_raised_and_checked_against_need():
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(256, hard), hard))
        assert serve.most_connections(Settings()) <= serve.MOST_CONNECTIONS
        assert resource.getrlimit(resource.RLIMIT_NOFILE)[0] == hard
        if hard != resource.RLIM_INFINITY:
            with pytest.raises(SpecError, match="open files"):
                serve.most_connections(Settings(max_connections=hard))
        assert serve.most_connections(Settings(max_connections=5)) == 5
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


# The whole command ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("workers", [1, 2])
def test_serve_speaks_when_it_listens_and_stops_with_half_sent_bodies(tmp_path, workers):
    (held, port), channel = bound(), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    channel.bind(str(tmp_path / "notify"))
    channel.settimeout(120)
    url = f"sqlite:///{tmp_path}/store.db"
    with Store.open(url) as store:
        store.create(**{**LOOP, "policy": {"name": "private-nash", "arms": 2, "epsilon": 1.0}})
    command = [sys.executable, "-m", "fairveil.cli", "serve", "--store", url, "--port", str(port)]
    command += ["--workers", str(workers), "--max-connections", "500"]
    environment = {**os.environ, "NOTIFY_SOCKET": str(tmp_path / "notify"), "PYTHONUNBUFFERED": "1"}
    running = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment)
    try:
        line = running.stdout.readline()
        assert re.match(rf"fairveil serves http://127.0.0.1:{port} \(open", line), running.stderr.read()
        half = socket.create_connection(("127.0.0.1", port), 60)  # it listens: no second attempt
        assert channel.recv(100) == b"READY=1"
        half.sendall(
            b"POST /v1/loops HTTP/1.1\r\n" + HOST + b"Content-Type: application/json\r\nContent-Length: 9\r\n\r\n{"
        )
        with socket.create_connection(("127.0.0.1", port), 60) as other:
            assert status(asked(other, GET + b"Connection: close\r\n\r\n")) == 200
        running.send_signal(signal.SIGTERM)
        assert running.wait(BODY_ENDS) in (0, -signal.SIGTERM)  # a body that never comes is not waited for
        assert "Traceback" not in running.stderr.read()
        half.close()
    finally:
        running.kill()
        running.communicate()
        channel.close()
        held.close()
