"""What the load scripts share: a service in a process of its own, wrk, and the CPU a process has used."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path.insert(0, str(ROOT / "tests" / "support"))
TICKS = os.sysconf("SC_CLK_TCK")
CONNECTIONS = 64


@dataclass
class Running:
    """A server: its address, its process, and how to talk to it."""

    url: str
    process: subprocess.Popen[bytes]

    def cpu(self) -> float:
        return sum(cpu_of(pid) for pid in [self.process.pid, *children_of(self.process.pid)])

    def client(self) -> httpx.Client:
        return httpx.Client(base_url=self.url, timeout=60)


def children_of(pid: int) -> list[int]:
    found = subprocess.run(["ps", "-o", "pid=", "--ppid", str(pid)], capture_output=True, text=True, check=False).stdout
    return [int(word) for word in found.split()]


def cpu_of(pid: int) -> float:
    """Seconds of processor time, user and system."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / TICKS


def memory_of(pid: int) -> float:
    """Resident MiB."""
    found = re.search(r"VmRSS:\s+(\d+)", Path(f"/proc/{pid}/status").read_text())
    return int(found[1]) / 1024 if found else 0.0


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextlib.contextmanager
def serving(store: str, *options: str, python: str = sys.executable) -> Iterator[Running]:
    """`fairveil serve` on loopback until the block ends; ``python``: of another checkout."""
    port = free_port()
    environment = {**os.environ, "FAIRVEIL_KEY": "7" * 64}
    command = [python, "-m", "fairveil.cli", "serve", "--store", store, "--port", str(port), *options]
    with running(command, port, environment) as found:
        yield found


@contextlib.contextmanager
def running(command: list[str], port: int, environment: dict[str, str]) -> Iterator[Running]:
    process = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, start_new_session=True)
    url = f"http://127.0.0.1:{port}"
    try:
        wait_until_ready(url, process)
        yield Running(url, process)
    finally:
        if process.poll() is None:
            process.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(15)
        if process.poll() is None:
            process.kill()


def wait_until_ready(url: str, process: subprocess.Popen[bytes] | None = None, limit: float = 60.0) -> float:
    """Seconds until /health answers."""
    began = time.monotonic()
    with httpx.Client(timeout=2, verify=False) as http:  # loopback without TLS: no certificates to read at every look
        while time.monotonic() - began < limit:
            if process is not None and process.poll() is not None:
                raise RuntimeError(f"the server ended with {process.returncode}")
            with contextlib.suppress(httpx.TransportError):
                if http.get(f"{url}/health").status_code == 200:
                    return time.monotonic() - began
            time.sleep(0.02)
    raise RuntimeError("the server did not start")


@contextlib.contextmanager
def folder() -> Iterator[Path]:
    """On a disk, not in memory: commits are what is measured."""
    made = Path(tempfile.mkdtemp(prefix="fairveil-load-"))
    try:
        yield made
    finally:
        shutil.rmtree(made, ignore_errors=True)


@contextlib.contextmanager
def postgres() -> Iterator[str]:
    import postgres_server

    given = os.environ.get("FAIRVEIL_POSTGRES")
    if given:
        yield postgres_server.own_schema(given)
        return
    base = Path(tempfile.mkdtemp(prefix="fairveil-load-pg-"))
    base.chmod(0o755)
    try:
        yield postgres_server.start(base / "server")
    finally:
        postgres_server.stop(base / "server")
        shutil.rmtree(base, ignore_errors=True)


def wrk(url: str, script: str, seconds: float, connections: int = CONNECTIONS, **variables: Any) -> dict[str, float]:
    """One run of wrk with a script of this folder; refuses a run with errors."""
    length = f"-d{max(1, round(seconds))}s"
    words = ["wrk", "-t1", f"-c{connections}", length, "--timeout", "30s", "-s", str(HERE / script), url]
    environment = {**os.environ, **{name.upper(): str(value) for name, value in variables.items()}}
    done = subprocess.run(words, capture_output=True, text=True, check=True, env=environment, timeout=seconds + 60)
    found: dict[str, float] = json.loads(done.stdout.strip().splitlines()[-1])
    if found["errors"]:
        raise RuntimeError(f"{found['errors']} answers were errors: {done.stdout}")
    return found
