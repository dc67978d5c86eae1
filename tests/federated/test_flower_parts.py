"""What stands between Flower and a federation, without Flower: the door, the front, certificates, processes."""

from __future__ import annotations

import base64
import dataclasses
import datetime
import hashlib
import os
import signal
import socket
import ssl
import struct
import subprocess
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, HTTPServer
from itertools import pairwise
from pathlib import Path
from typing import ClassVar

import pytest
from federations import host_of, plan_of

from fairveil.errors import InputError, PrivacyError, SpecError
from fairveil.federated.flower import certificates, join
from fairveil.federated.flower.carrier import ANSWER, FRAME, NOTHING, WORD, FlowerCarrier
from fairveil.federated.flower.coordinate import certificates as chain_for
from fairveil.federated.flower.coordinate import check_node_keys
from fairveil.federated.flower.front import Front
from fairveil.federated.flower.programs import KeptProgram, free_port, own_programs
from fairveil.federated.wire import Answer, LogPart

BUNDLE = hashlib.sha256(b"ours").hexdigest()


# A party's door ------------------------------------------------------------------------------------------------------


def through(folder: Path, request: bytes, bundle: str = BUNDLE, length: int | None = None) -> tuple[int, bytes]:
    with socket.socket(socket.AF_UNIX) as line:
        line.connect(f"/proc/self/fd/{os.open(folder, os.O_RDONLY)}/pipe")
        line.sendall(join.HEAD.pack(bytes.fromhex(bundle), len(request) if length is None else length) + request)
        with line.makefile("rb") as reader:
            kind, size = join.REPLY.unpack(reader.read(join.REPLY.size))
            return kind, reader.read(size)


@pytest.fixture
def door(tmp_path):
    host = host_of(plan_of(), 0, tmp_path)
    made = join.PartyDoor(host, BUNDLE)
    yield made
    made.close()
    host.close()


def test_a_door_answers_its_owner_alone(door):
    file = door.host.folder / "pipe"
    assert file.stat().st_mode & 0o777 == 0o600
    request = LogPart(door.host.plan.fingerprint(), 0, 0, ()).to_bytes()
    for _ in range(2):
        kind, found = through(file.parent, request)
        assert kind == 0
        assert [said.purpose for said in Answer.from_bytes(found).says] == ["hello"]


def test_another_bundle_is_refused_before_the_party_is_asked(door, monkeypatch):
    monkeypatch.setattr(door.host, "answer", lambda request: pytest.fail("the party was asked"))
    kind, found = through(door.host.folder, b"anything", hashlib.sha256(b"theirs").hexdigest())
    assert (kind, found) == (1, join.OTHER_BUNDLE)
    assert door.refused == "refused: another bundle"


def test_what_is_too_large_is_refused_before_it_is_read(door):
    kind, found = through(door.host.folder, b"", length=door.host.plan.most_bytes + 1)
    assert (kind, found) == (1, join.TOO_LARGE)


def test_a_request_that_breaks_off_leaves_the_door_open(door):
    with pytest.raises(struct.error):
        through_cut(door.host.folder)
    assert through(door.host.folder, b"?")[0] == 0


def through_cut(folder: Path) -> None:
    with socket.socket(socket.AF_UNIX) as line:
        line.connect(f"/proc/self/fd/{os.open(folder, os.O_RDONLY)}/pipe")
        line.sendall(join.HEAD.pack(bytes.fromhex(BUNDLE), 100) + b"half")
        line.shutdown(socket.SHUT_WR)
        join.REPLY.unpack(line.makefile("rb").read(join.REPLY.size))


# The coordinator's carrier -------------------------------------------------------------------------------------------


def test_a_carrier_asks_through_whoever_called_last_and_says_what_is_lost(tmp_path):
    tended = []
    carrier = FlowerCarrier(tmp_path / "pipe", {0: 70, 1: 71}, tended.append, 1000)
    carrier.ask(0, b"early")
    assert carrier.answers() == [(0, None)]
    lines = []
    for _ in range(2):
        lines.append(socket.socket(socket.AF_UNIX))
        lines[-1].connect(str(tmp_path / "pipe"))
        carrier.pause()
        assert carrier.answers() == []
    carrier.ask(1, b"request")
    assert lines[1].recv(100) == FRAME.pack(71, ANSWER, 7) + b"request"
    words = b"away"
    lines[1].sendall(FRAME.pack(71, ANSWER, 2) + b"ok" + FRAME.pack(99, ANSWER, 1) + b"x")
    lines[1].sendall(FRAME.pack(70, WORD, len(words)) + words + FRAME.pack(70, NOTHING, 0))
    carrier.pause()
    assert carrier.answers() == [(1, b"ok"), (0, None), (0, None)]  # the stranger's is nobody's
    carrier.ask(0, b"request")
    lines[1].close()
    carrier.pause()
    assert carrier.answers() == [(0, None)]
    assert not carrier.connected
    assert tended[0] is False
    assert tended[-1] is True
    lines[0].close()
    carrier.close()


def test_an_answer_longer_than_the_plan_allows_ends_the_line(tmp_path):
    carrier = FlowerCarrier(tmp_path / "pipe", {0: 70}, lambda connected: None, 10)
    line = socket.socket(socket.AF_UNIX)
    line.connect(str(tmp_path / "pipe"))
    carrier.answers()
    line.sendall(FRAME.pack(70, ANSWER, 11))
    carrier.pause()
    assert carrier.answers() == []
    assert not carrier.connected
    line.close()
    carrier.close()


# The front -----------------------------------------------------------------------------------------------------------


class Upstream(BaseHTTPRequestHandler):
    seen: ClassVar[list[str]] = []

    def do_POST(self):
        body = self.rfile.read(int(self.headers["content-length"]))
        self.seen.append(self.path)
        self.send_response(200)
        self.send_header("content-length", str(len(body) + 1))
        self.end_headers()
        self.wfile.write(body + b"!")

    def log_message(self, *words):
        pass


def signed(file: Path, age: float = 0.0) -> dict[str, str]:
    """The headers of a SuperNode with this key, by a clock that is so many seconds behind."""
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key = serialization.load_ssh_private_key(file.read_bytes(), None)
    assert isinstance(key, ec.EllipticCurvePrivateKey)
    style = (serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
    moment = (datetime.datetime.now(datetime.UTC) - datetime.timedelta(seconds=age)).isoformat()
    values = (key.public_key().public_bytes(*style), key.sign(moment.encode(), ec.ECDSA(hashes.SHA256())))
    public, signature = (base64.b64encode(value).decode() for value in values)
    return {"flwr-public-key": public, "flwr-timestamp": moment, "flwr-signature": signature}


NOBODY = certificates.NodeKeys([])


@pytest.fixture
def front(tmp_path):
    for name in ("node.key", "stranger.key"):
        certificates.make_node_key(tmp_path / name)
    certificates.make_certificates(tmp_path, "127.0.0.1")
    chain = (tmp_path / certificates.CERTIFICATE, tmp_path / certificates.KEY)
    server = HTTPServer(("127.0.0.1", 0), Upstream)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*chain)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    nodes = certificates.NodeKeys([certificates.node_public(tmp_path / "node.key")])
    made = Front("127.0.0.1", 0, *chain, nodes=nodes, most_bytes=100)
    made.start()
    made.open(f"https://127.0.0.1:{server.server_address[1]}", tmp_path / certificates.AUTHORITY)
    Upstream.seen = []
    yield made, tmp_path
    made.stop()
    server.shutdown()
    server.server_close()


def client_of(front, headers=None):
    import httpx

    made, folder = front
    context = ssl.create_default_context(cafile=str(folder / certificates.AUTHORITY))
    return httpx.Client(verify=context, base_url=f"https://127.0.0.1:{made.port}", headers=headers, timeout=120)


def test_the_front_passes_the_fleet_and_nothing_else(front):
    import httpx

    made, folder = front
    with client_of(front, signed(folder / "node.key")) as client:
        passed = client.post("/v1/fleet/pull-messages", content=b"hello")
        assert (passed.status_code, passed.content) == (200, b"hello!")
        for path in (
            "/", "/v1/control/start-run", "/v1/control/register-node", "/v1/runtime/push-messages", "/v1/fleet",
            "/v1/fleet/",
            "/v1/fleet/..%2fcontrol/start-run", "/v1/fleet/%2e%2e/control/start-run", "/v1/fleet/a/b", "//v1/fleet/a",
            "/v1/fleet/a?b=c", "/V1/FLEET/a", "/docs", "/openapi.json", "/metrics", "/health",
        ):  # fmt: skip
            assert client.post(path, content=b"x").status_code == 404, path
        assert client.get("/v1/fleet/pull-messages").status_code == 404
        assert client.post("/v1/fleet/a", content=b"x" * 101).status_code == 413
    assert Upstream.seen == ["/v1/fleet/pull-messages"]
    with pytest.raises(httpx.HTTPError):
        httpx.post(f"http://127.0.0.1:{made.port}/v1/fleet/a", content=b"x")


def test_a_body_is_read_for_nodes_of_the_plan_alone(front):
    """Flower reads a body whole before it looks at who sent it: nothing of a stranger's gets there."""
    folder = front[1]
    known, stranger = signed(folder / "node.key"), signed(folder / "stranger.key")
    wrong = [
        {},
        stranger,
        {**known, "flwr-signature": stranger["flwr-signature"]},
        {**known, "flwr-timestamp": stranger["flwr-timestamp"]},
        {**known, "flwr-timestamp": "2026-01-01"},
        {**known, "flwr-timestamp": "\u00e9".encode("latin-1")},
        {**known, "flwr-signature": "?"},
        {**known, "flwr-public-key": ""},
        {name: known[name] for name in ("flwr-public-key", "flwr-timestamp")},
        signed(folder / "node.key", certificates.CLOCKS_APART + 60),
        signed(folder / "node.key", -certificates.CLOCKS_APART - 60),
    ]
    with client_of(front) as client:
        for headers in wrong:
            assert client.post("/v1/fleet/push-object", content=b"x" * 50, headers=headers).status_code == 412
        assert Upstream.seen == []
        for age in (0.0, 3600.0, -3600.0):
            headers = signed(folder / "node.key", age)
            assert client.post("/v1/fleet/push-object", content=b"x" * 50, headers=headers).status_code == 200


def test_a_stranger_is_answered_before_its_body_came(front):
    made, folder = front
    context = ssl.create_default_context(cafile=str(folder / certificates.AUTHORITY))
    with (
        socket.create_connection(("127.0.0.1", made.port), timeout=120) as plain,
        context.wrap_socket(plain, server_hostname="127.0.0.1") as line,
    ):
        line.sendall(b"POST /v1/fleet/push-object HTTP/1.1\r\nhost: x\r\ncontent-length: 60000000\r\n\r\nx")
        assert line.recv(100).startswith(b"HTTP/1.1 412")


def test_a_plan_whose_node_key_is_none_is_refused():
    with pytest.raises(SpecError, match="no node key"):
        certificates.NodeKeys(["ecdsa-sha2-nistp384 nonsense"])


def test_without_a_certificate_only_loopback_is_served(tmp_path):
    assert all(file.exists() for file in chain_for(tmp_path, "127.0.0.1", None, None))
    with pytest.raises(SpecError, match="loopback"):
        chain_for(tmp_path, "0.0.0.0", None, None)
    with pytest.raises(InputError, match="certificate with its key"):
        Front("127.0.0.1", 0, tmp_path / "no.pem", tmp_path / "no.key", nodes=NOBODY, most_bytes=1)


# Certificates and keys -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "made_for, days, words",
    [("127.0.0.1", 1, ""), ("127.0.0.1", -0.5, "expired"), ("elsewhere.example", 1, "mismatch")],
)
def test_a_party_trusts_the_named_host_until_its_certificate_expires(made_for, days, words, tmp_path):
    certificates.make_certificates(tmp_path, made_for, days=days)
    made = Front("127.0.0.1", 0, tmp_path / "server.pem", tmp_path / "server.key", nodes=NOBODY, most_bytes=1)
    made.start()
    try:
        if words:
            with pytest.raises(PrivacyError, match=words):
                certificates.check_server("127.0.0.1", made.port, tmp_path / "ca.pem")
        if words == "mismatch":  # the coordinator asks about the chain, and need not listen on its name
            assert certificates.check_server("127.0.0.1", made.port, tmp_path / "ca.pem", named=False)
        elif words:
            with pytest.raises(PrivacyError, match=words):
                certificates.check_server("127.0.0.1", made.port, tmp_path / "ca.pem", named=False)
        if not words:
            assert certificates.check_server("127.0.0.1", made.port, tmp_path / "ca.pem")
        other = tmp_path / "other"
        other.mkdir()
        certificates.make_certificates(other, made_for)
        with pytest.raises(PrivacyError, match="not to be trusted"):
            certificates.check_server("127.0.0.1", made.port, other / "ca.pem")
    finally:
        made.stop()
    assert not certificates.check_server("127.0.0.1", free_port(), tmp_path / "ca.pem")  # not up yet: no refusal
    with pytest.raises(InputError, match="no certificate"):
        certificates.check_server("127.0.0.1", 1, tmp_path / "server.key")


def test_node_keys_are_kept_and_checked(tmp_path):
    certificates.make_node_key(tmp_path / "node.key")
    assert (tmp_path / "node.key").stat().st_mode & 0o777 == 0o600
    assert certificates.node_public(tmp_path / "node.key").startswith("ecdsa-sha2-nistp384 ")
    with pytest.raises(InputError, match="no node key"):
        certificates.node_public(tmp_path / "none")
    with pytest.raises(SpecError, match="node key"):
        check_node_keys(plan_of())
    host = host_of(plan_of(), 0, tmp_path)
    with pytest.raises(PrivacyError, match="node key of this party"):
        join.Joined(host, "127.0.0.1:1", authority=tmp_path / "ca.pem", node_key=tmp_path / "node.key")
    assert host.ledger.spent.units == 0
    host.close()


@pytest.fixture
def joined(tmp_path):
    """A party on its way to a coordinator that is not there yet."""
    certificates.make_node_key(tmp_path / "node.key")
    certificates.make_certificates(tmp_path, "127.0.0.1")
    member = {"node_key": certificates.node_public(tmp_path / "node.key")}
    plan = plan_of(bundle=BUNDLE)
    plan = dataclasses.replace(plan, party=(dataclasses.replace(plan.party[0], **member), *plan.party[1:]))
    host = host_of(plan, 0, tmp_path)
    yield join.Joined(host, f"127.0.0.1:{free_port()}", authority=tmp_path / "ca.pem", node_key=tmp_path / "node.key")
    assert host.ledger.spent.units == 0
    host.close()


def test_a_node_key_that_was_taken_back_ends_join_with_a_sentence_and_a_killed_node_does_not(joined, monkeypatch):
    joined.node.log.write_text(f"{join.NOT_ACTIVATED}\n")
    now = [1000.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    joined._check_end()  # killed: refused until it was missed for a minute
    now[0] += 120.0
    joined._check_end()
    now[0] += join.REFUSED_SECONDS
    with pytest.raises(PrivacyError, match="does not take this node key"):
        joined._check_end()


def test_a_party_waits_for_its_coordinator_and_says_so(joined, monkeypatch):
    asked = []
    monkeypatch.setattr(join, "check_server", lambda *where: asked.append(where) or len(asked) > 1)
    assert not joined.reached
    assert "no coordinator at 127.0.0.1" in _party_line_of(joined)
    assert not joined._reach()  # asked a moment ago
    assert asked == []
    joined._tried -= joined.node.pause
    assert not joined._reach()
    joined._tried -= joined.node.pause
    assert joined._reach()
    assert "no coordinator" not in _party_line_of(joined)


def _party_line_of(joined) -> str:
    from fairveil.cli.federate import _party_line

    joined.door = join.PartyDoor(joined.host, BUNDLE)
    try:
        return _party_line(joined)
    finally:
        joined.door.close()


def test_a_party_that_has_all_stays_until_the_coordinator_is_gone_or_must_have_given_up(joined, monkeypatch):
    """Its last answer may have been lost: gone too early, the coordinator would wait for it until the timeout."""
    there, now = [True], [1000.0]
    joined.door = type("Door", (), {"last": 1000.0})()
    monkeypatch.setattr(join, "answers", lambda *where: there[0])
    monkeypatch.setattr(join.time, "monotonic", lambda: now[0])
    assert not joined._over()  # it has not all yet
    monkeypatch.setattr(type(joined.host), "finished", True)
    now[0] += joined.host.plan.timeout - 1.0
    assert not joined._over()
    there[0] = False
    assert joined._over()
    there[0] = True
    now[0] += 2.0
    assert joined._over()


def test_a_silent_supernode_is_started_again(joined, monkeypatch):
    """Flower's waits for ever for a reply that its message process never gave."""
    started, stopped, now = [], [], [1000.0]
    monkeypatch.setattr(join, "check_server", lambda *where: True)
    monkeypatch.setattr(joined, "_start_node", lambda: started.append(now[0]) or setattr(joined, "started", now[0]))
    monkeypatch.setattr(joined.node, "stop", lambda: stopped.append(now[0]))
    monkeypatch.setattr(joined.node, "due", lambda: len(started) <= len(stopped))
    monkeypatch.setattr(joined, "_over", lambda: now[0] > 3000.0)
    monkeypatch.setattr(join.time, "monotonic", lambda: now[0])
    monkeypatch.setattr(join.time, "sleep", lambda seconds: now.__setitem__(0, now[0] + 100.0))
    joined.reached, joined.started, joined._tried = True, 1000.0, 1000.0
    joined.run()
    assert len(started) == 3
    assert [later - first for first, later in pairwise(started)] == [700.0, 700.0]


class Link:
    """A SuperLink that takes a run or not, and answers or not."""

    def __init__(self):
        self.calls, self.takes, self.up, self.running = [], True, True, True
        self.kept = self

    def answers(self):
        return self.up

    def submit(self):
        self.calls.append("submit")
        return self.takes

    def stop(self):
        self.calls.append("stop")


def test_a_run_is_submitted_again_when_it_was_not_taken_or_its_serverapp_went_or_never_came(monkeypatch):
    from fairveil.federated.flower import coordinate

    made, now = object.__new__(coordinate.FlowerFederation), [1000.0]
    made._called, made._revoked, made._next_submission, made.link = False, set(), 0.0, Link()
    made.coordinator = type("Coordinator", (), {"retired": set()})()
    made._start = lambda: made.link.calls.append("start")
    monkeypatch.setattr(coordinate.time, "monotonic", lambda: now[0])

    def tended(connected, seconds=0.0):
        now[0] += seconds
        made.link.calls.clear()
        made._tend(connected)
        return made.link.calls

    made.link.takes = False
    assert tended(False) == ["submit"]
    assert tended(False, 1.0) == []
    made.link.takes = True
    assert tended(False, coordinate.REFUSED_SECONDS) == ["submit"]
    assert tended(False, 30.0) == []
    assert tended(False, coordinate.RESUBMIT_SECONDS) == ["submit"]  # its ServerApp never called
    assert tended(True, 1000.0) == []
    made.link.up = False
    assert tended(False) == []  # hung up because the SuperLink was killed: its port is dead, nobody would take a run
    made.link.running = False
    made.link.up = True
    made.carrier = type("Carrier", (), {"hang_up": lambda self: made.link.calls.append("hang up")})()
    assert tended(True) == ["stop", "hang up", "start", "submit"]  # also while a ServerApp that outlived it holds on
    made.link.running = True
    assert tended(False) == []


# Processes -----------------------------------------------------------------------------------------------------------


def gone(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    stat = Path(f"/proc/{pid}/stat")
    return stat.exists() and stat.read_text().rpartition(")")[2].split()[0] == "Z"


def until(ready) -> None:
    end = time.monotonic() + 120
    while not ready():
        assert time.monotonic() < end
        time.sleep(0.05)


SLEEPER = [sys.executable, "-c", "import time; time.sleep(600)"]


def test_a_kept_program_starts_again_and_ends_with_its_group(tmp_path):
    kept, pidfile = KeptProgram("sleeper", tmp_path, pause=0.0), tmp_path / "sleeper.pid"
    assert kept.due()
    kept.start(SLEEPER, os.environ, tmp_path)
    until(lambda: pidfile.exists() and pidfile.read_text())
    first = int(pidfile.read_text())
    assert not kept.due()
    os.kill(first, signal.SIGKILL)
    until(kept.due)
    kept.start(SLEEPER, os.environ, tmp_path)
    until(lambda: int(pidfile.read_text() or first) != first)
    second = int(pidfile.read_text())
    kept.stop()
    until(lambda: gone(second))


POLITE = """
import pathlib, signal, sys, time
signal.signal(15, lambda *_: (pathlib.Path("said").write_text("goodbye"), sys.exit()))
pathlib.Path("up").touch()
time.sleep(600)
"""


def test_a_kept_program_has_the_time_to_say_goodbye_when_its_owner_is_killed(tmp_path):
    """A SuperNode that is killed is let back after a minute; one that signs off is let back at once."""
    code = f"""
import os, pathlib, sys, time
from fairveil.federated.flower.programs import KeptProgram
kept = KeptProgram("polite", pathlib.Path({str(tmp_path)!r}))
kept.start([sys.executable, "-c", {POLITE!r}], os.environ, pathlib.Path({str(tmp_path)!r}))
time.sleep(600)
"""
    owner, pidfile = subprocess.Popen([sys.executable, "-c", code]), tmp_path / "polite.pid"
    until(lambda: (tmp_path / "up").exists() and pidfile.exists() and pidfile.read_text())
    owner.kill()
    owner.wait()
    until(lambda: gone(int(pidfile.read_text())))
    assert (tmp_path / "said").read_text() == "goodbye"


STUBBORN = "import signal, time; [signal.signal(n, signal.SIG_IGN) for n in (2, 15)]; time.sleep(600)"
PARENT = f"""
import pathlib, subprocess, sys, time
found = subprocess.Popen([sys.executable, "-c", {STUBBORN!r}], start_new_session=True)
pathlib.Path(sys.argv[1]).write_text(str(found.pid))
time.sleep(600)
"""


@pytest.mark.parametrize("ending", ["killed", "stopped", "ended by itself"])
def test_nothing_of_a_kept_program_stays_behind(ending, tmp_path):
    """Flower's programs start others in sessions of their own, and those wait for ever when the first one is gone."""
    kept, file = KeptProgram("parent", tmp_path), tmp_path / "stubborn"
    code = PARENT.removesuffix("time.sleep(600)\n") if ending == "ended by itself" else PARENT
    kept.start([sys.executable, "-c", code, str(file)], os.environ, tmp_path)
    until(lambda: file.exists() and file.read_text())
    if ending == "killed":
        os.kill(int((tmp_path / "parent.pid").read_text()), signal.SIGKILL)
    elif ending == "stopped":
        kept.stop()
    until(lambda: gone(int(file.read_text())))
    until(lambda: not kept.running)


def test_a_supernode_finds_no_program_but_ours(tmp_path, monkeypatch):
    monkeypatch.setattr("fairveil.federated.flower.programs.program", lambda name: "/bin/true")
    folder = own_programs(tmp_path / "bin")
    assert "pipe.py" in (folder / "flwr-clientapp").read_text()
    for name in ("flwr-agentapp", "flwr-serverapp", "flwr-simulation", "flwr-model", "flwr-connector", "uv"):
        assert subprocess.run([folder / name], capture_output=True).returncode == 1
