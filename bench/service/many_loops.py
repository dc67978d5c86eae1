"""Many loops in one process: start, idling, descriptors, connections, one page of the list, pairs over one loop.

    python bench/service/many_loops.py                          # 10,000 loops in SQLite, in a temporary folder
    python bench/service/many_loops.py --which postgresql       # in a server of its own, or in $FAIRVEIL_POSTGRES

The service runs with at most 1,024 open files, beside one with an empty store and one with a single loop. CPU seconds
and ratios, because other work may run on the machine. Bounded: one store each, a few seconds of load, loopback only.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import signal
import socket
import statistics
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import httpx
from parts import Running, folder, free_port, memory_of, postgres, running, wrk
from rich.progress import track

from fairveil.loop import Reward, Store

POLICY = {"name": "private-nash", "arms": 4, "epsilon": 1.0}
KEY = b"\x77" * 32
FILES, HALF = 1024, 50
LIMITS = {
    "descriptors besides sockets": 64,
    "connections to the server": 16,
    "idle, share of a core": 0.02,
    "list page, s CPU": 0.1,
    "ready later than an empty store, s CPU": 3.0,
    "stops with half-sent bodies, s": 2.0,
}
LEAST = {"pairs/s over those of one loop": 0.8}


def make(url: str, names: list[str]) -> None:
    with Store.open(url, key=KEY) as store:
        known = set(store.names())
        for name in track([name for name in names if name not in known], f"making {len(names)} loops"):
            store.create(name, policy=POLICY, reward=Reward(0, 1, wait="1d"))
            store.memory.leave(name)


@contextlib.contextmanager
def serving(url: str) -> Iterator[tuple[Running, float]]:
    """A service with few open files, and the CPU that it needed until it was ready."""
    port = free_port()
    command = ["prlimit", f"--nofile={FILES}:{FILES}", sys.executable, "-m", "fairveil.cli", "serve"]
    environment = {**os.environ, "FAIRVEIL_KEY": KEY.hex()}
    with running([*command, "--store", url, "--port", str(port)], port, environment) as found:
        wait_for(found, lambda table: table["ready"])
        yield found, found.cpu()


def wait_for(service: Running, what: object, limit: float = 900.0) -> None:
    deadline = time.monotonic() + limit
    while not what(httpx.get(f"{service.url}/ready", timeout=30).json()):  # type: ignore[operator]
        if time.monotonic() > deadline:
            raise RuntimeError("it did not come")
        time.sleep(0.05)


def descriptors(pid: int) -> int:
    """Open files of a process that are no sockets."""
    found = 0
    for number in os.listdir(f"/proc/{pid}/fd"):
        with contextlib.suppress(OSError):
            found += not os.readlink(f"/proc/{pid}/fd/{number}").startswith("socket:")
    return found


def connections(url: str, pid: int) -> int:
    """Connections of a process to the server of the store; 0 for a file."""
    if url.startswith("sqlite"):
        return 0
    with Store.open(url, key=KEY) as store, store.reading() as tx:
        query = "SELECT client_port FROM pg_stat_activity WHERE client_port IS NOT NULL AND pid != pg_backend_pid()"
        ports = {port for (port,) in tx.execute(query)}
    inodes = {os.readlink(f"/proc/{pid}/fd/{number}") for number in _sockets(pid)}
    found = 0
    with open("/proc/net/tcp") as table:
        for line in list(table)[1:]:
            words = line.split()
            found += int(words[1].split(":")[1], 16) in ports and f"socket:[{words[9]}]" in inodes
    return found


def _sockets(pid: int) -> list[str]:
    return [one for one in os.listdir(f"/proc/{pid}/fd") if os.readlink(f"/proc/{pid}/fd/{one}").startswith("socket:")]


def idle(service: Running, seconds: float) -> float:
    before = service.cpu()
    time.sleep(seconds)
    return (service.cpu() - before) / seconds


def page(service: Running, names: list[str], count: int = 20) -> float:
    with service.client() as client:
        before = service.cpu()
        for name in names[:: max(len(names) // count, 1)][:count]:
            found = client.get(f"/v1/loops?after={name}").raise_for_status().json()["loops"]
            assert all(one["budget"] is not None for one in found)
        return (service.cpu() - before) / count


def pairs(services: dict[str, Running], turns: int) -> tuple[float, float]:
    """Pairs a second over one loop, of the many and of the one store: ratios by the clock and by CPU."""
    rates: dict[str, list[tuple[float, float]]] = {name: [] for name in services}
    for turn in range(-1, turns):
        for name, service in services.items():
            before = service.cpu()
            found = wrk(service.url, "pairs.lua", 3 if turn >= 0 else 1, run=f"m{turn}-{os.getpid()}")
            if turn >= 0:
                made = found["requests"] / found["seconds"], found["requests"] / (service.cpu() - before)
                rates[name].append(made)
    many, one = ([statistics.median(rate[at] for rate in rates[name]) for at in (0, 1)] for name in ("many", "one"))
    return many[0] / one[0], many[1] / one[1]


def stop(service: Running, names: list[str]) -> float:
    """Seconds from SIGTERM to the end, with up to a thousand loops in memory and bodies that never come whole."""
    with service.client() as client:
        for name in names[:1000]:
            client.post(f"/v1/loops/{name}/decisions", json={"event_id": "last"}).raise_for_status()
    parts = urlsplit(service.url)
    half = [socket.create_connection((parts.hostname, parts.port), 30) for _ in range(HALF)]
    for one in half:
        one.sendall(
            f"POST /v1/loops/{names[0]}/decisions HTTP/1.1\r\nHost: {parts.netloc}\r\n"
            "Content-Type: application/json\r\nContent-Length: 99\r\n\r\n{".encode()
        )
    time.sleep(0.5)
    began = time.monotonic()
    service.process.send_signal(signal.SIGTERM)
    service.process.wait(60)
    taken = time.monotonic() - began
    for one in half:
        one.close()
    return taken


def measure(urls: dict[str, str], names: list[str], seconds: float, turns: int) -> dict[str, float]:
    found: dict[str, float] = {}
    with serving(urls["empty"]) as (_, empty):
        pass
    with serving(urls["many"]) as (many, ready), serving(urls["one"]) as (one, _):
        found["ready later than an empty store, s CPU"] = ready - empty
        began, at = time.monotonic(), many.cpu()
        wait_for(many, lambda table: table["ledgers"] == "verified")
        found["all ledgers checked after, s"] = time.monotonic() - began
        found["checking all ledgers, s CPU"] = many.cpu() - at
        time.sleep(2)
        found["idle, share of a core"] = idle(many, seconds)
        found["list page, s CPU"] = page(many, names)
        found["pairs/s over those of one loop"], found["pairs by CPU over those of one loop"] = pairs(
            {"many": many, "one": one}, turns
        )
        found["descriptors besides sockets"] = descriptors(many.process.pid)
        found["connections to the server"] = connections(urls["many"], many.process.pid)
        found["memory, MiB"] = memory_of(many.process.pid)
        found["memory with one loop, MiB"] = memory_of(one.process.pid)
        found["stops with half-sent bodies, s"] = stop(many, names)
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--loops", type=int, default=10_000)
    parser.add_argument("--seconds", type=float, default=20, help="how long idling is measured")
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--which", default="sqlite", choices=["sqlite", "postgresql"])
    parser.add_argument("--place", type=Path, help="a folder of SQLite stores to use again; default: new ones")
    asked = parser.parse_args()
    names = [f"loop-{index:05}" for index in range(asked.loops - 1)]
    with contextlib.ExitStack() as stack:
        if asked.which == "sqlite":
            place = (asked.place or stack.enter_context(folder())).absolute()
            urls = {name: f"sqlite:///{place}/{name}/store.db" for name in ("empty", "one", "many")}
        else:
            urls = {name: stack.enter_context(postgres()) for name in ("empty", "one", "many")}
        make(urls["many"], [*names, "load"])
        make(urls["one"], ["load"])
        found = measure(urls, names, asked.seconds, asked.turns)
    failed = False
    for name, value in found.items():
        most, least = LIMITS.get(name), LEAST.get(name)
        bad = (most is not None and value > most) or (least is not None and value < least)
        limit = f"at most {most:g}" if most is not None else f"at least {least:g}" if least is not None else ""
        print(f"{asked.loops} loops, {asked.which}: {name:40} {value:9.3f}  {limit} {'NOT MET' if bad else ''}")
        failed |= bad
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
