"""Ray: a two-node loopback cluster gives the serial result, and loses nothing when a node is killed."""

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

import pytest

import fairveil
from fairveil.errors import EngineError, SpecError
from fairveil.running.engines import make_engine
from fairveil.running.runner import REPEATED_KEYS

pytestmark = [pytest.mark.ray, pytest.mark.slow]
SPEC = {"task": "coins", "runs": 24, "seed": 4}
OPEN = {**os.environ, "RAY_AUTH_MODE": "disabled"}  # a token left on the machine must not split head, node and driver


def start(*options: str) -> subprocess.Popen:
    command = [os.path.join(os.path.dirname(sys.executable), "ray"), "start", "--block", *options]
    command += [
        "--node-ip-address=127.0.0.1",
        "--num-cpus=1",
        "--object-store-memory=100000000",
        "--disable-usage-stats",
    ]
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, "start_new_session": True, "env": OPEN}
    return subprocess.Popen(command, **quiet)


def await_port(port: int) -> None:
    """A node that is started before its head listens gives up at once."""
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
            break
        time.sleep(0.2)
    time.sleep(3)


def stop(process: subprocess.Popen) -> None:
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


@pytest.fixture
def cluster():
    folder = tempfile.mkdtemp(prefix="fv", dir="/tmp")
    port = 6400 + os.getpid() % 2000
    head = start(
        "--head",
        f"--port={port}",
        "--include-dashboard=false",
        f"--temp-dir={folder}",
        "--min-worker-port=20000",
        "--max-worker-port=20999",
    )
    await_port(port)
    node = start(f"--address=127.0.0.1:{port}", "--min-worker-port=21000", "--max-worker-port=21999")
    try:
        yield f"127.0.0.1:{port}", node
    finally:
        stop(node)
        stop(head)
        shutil.rmtree(folder, ignore_errors=True)


DRIVER = """
import json, os, signal, sys, time
from fairveil import plugins, registry
from fairveil.running.engines import make_engine
from fairveil.running.runner import run
plugin, address, spec, victim = sys.argv[1], sys.argv[2], json.loads(sys.argv[3]), int(sys.argv[4])
plugins.load_file(plugin)
engine = make_engine("ray", address=address)
import ray
deadline = time.monotonic() + 60
while sum(node["Alive"] for node in ray.nodes()) < 2 and time.monotonic() < deadline:
    time.sleep(0.2)
nodes = sum(node["Alive"] for node in ray.nodes())
class Killer:
    seen = 0
    def start(self, total, done): pass
    def finish(self): pass
    def advance(self):
        self.seen += 1
        if self.seen == 3 and victim:
            os.killpg(victim, signal.SIGKILL)
result = run(spec, engine=engine, progress=Killer())
engine.close()
print(json.dumps([nodes, result]))
"""


def drive(coins, address, spec, victim):
    import json

    command = [sys.executable, "-c", DRIVER, str(coins), address, json.dumps(spec), str(victim)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=240, check=False, env=OPEN)
    assert done.returncode == 0, done.stderr[-2000:]
    return json.loads(done.stdout.strip().splitlines()[-1])


def test_two_nodes_equal_serial_and_a_killed_node_loses_nothing(cluster, coins):
    address, node = cluster
    serial = fairveil.run(SPEC)
    nodes, result = drive(coins, address, SPEC, 0)
    assert nodes == 2
    assert all(result[key] == serial[key] for key in REPEATED_KEYS)
    slow = {**SPEC, "sleep": 0.2}
    nodes, result = drive(coins, address, slow, node.pid)
    assert nodes == 2
    assert node.poll() is not None or node.wait(20) is not None, "the node was killed in the middle"
    assert result["metrics"] == serial["metrics"]


@pytest.mark.parametrize(("address", "error"), [("127.0.0.1:1", EngineError), ("nowhere", SpecError)])
def test_an_unreachable_cluster_is_one_clear_error_at_once(address, error):
    with pytest.raises(error) as caught:
        make_engine("ray", address=address)
    assert caught.value.path == "address"
    assert caught.value.fix or caught.value.allowed
