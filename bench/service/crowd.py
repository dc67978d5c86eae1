"""A well-behaved client beside 2,000 idle connections, slow and huge headers and half-sent bodies.

    python bench/service/crowd.py [--turns 5] [--requests 300] [--idle 2000]

In turns, without the crowd and with it: the client's p99, and the memory of the service over what it was before any
crowd came (what the first one leaves serves the next, so the largest counts and not the median). Then 8 and 200 clients
that all ask `/ready` at once. Bounded: so many connections, a process of their own that ends with each turn, loopback
only.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import http.client
import json
import multiprocessing
import os
import resource
import statistics
import sys
import threading
import time
from typing import Any

import numpy as np
from parts import Running, folder, memory_of, serving

LOOP = {"name": "load", "policy": {"name": "private-nash", "arms": 4, "epsilon": 1.0}, "reward": {"wait": "1h"}}
PATH = "/v1/loops/load/decisions"
SLOW, HALF, HUGE = 100, 100, 4
SLOWER, LARGER = 2.0, 1.05
"""How much slower the client may become, and how much larger the service."""


async def hold(port: int, first: bytes, drip: bytes, pause: float) -> None:
    """A connection that sends a little, then a little more now and then; a new one when it is closed."""
    while True:
        with contextlib.suppress(OSError):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            with contextlib.suppress(OSError, TimeoutError):
                writer.write(first)
                while not reader.at_eof():
                    with contextlib.suppress(TimeoutError):
                        async with asyncio.timeout(pause):
                            await reader.read(65536)
                    if drip:
                        writer.write(drip)
                        await writer.drain()
            writer.transport.abort()
        await asyncio.sleep(0.25)


async def crowd(port: int, idle: int, ready: Any) -> None:
    start = b"POST %s HTTP/1.1\r\nhost: 127.0.0.1\r\n" % PATH.encode()
    half = start + b'content-type: application/json\r\ncontent-length: 1000\r\n\r\n{"event_id": '
    once = b"GET /health HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n"  # then silence, until the service closes it
    kinds = [(idle, once, b"", 60.0), (SLOW, start, b"x", 0.5), (HALF, half, b"", 60.0)]
    kinds.append((HUGE, start + b"x-long: " + b"y" * 2**20, b"y" * 2**20, 0.25))
    tasks = []
    for count, first, drip, pause in kinds:
        for _ in range(count):
            tasks.append(asyncio.create_task(hold(port, first, drip, pause)))
            if len(tasks) % 100 == 0:
                await asyncio.sleep(0.05)
    await asyncio.sleep(2)
    ready.set()
    await asyncio.gather(*tasks)


def gather(port: int, idle: int, ready: Any) -> None:
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    os.nice(5)
    asyncio.run(crowd(port, idle, ready))


def client(service: Running, name: str, requests: int) -> list[float]:
    """Seconds for each decision and each reward of one client on one connection."""
    line, taken = http.client.HTTPConnection(service.url.removeprefix("http://"), timeout=60), []
    for number in range(requests):
        event = f"{name}-{number}"
        for path, body in ((PATH, {"event_id": event}), (f"{PATH}/{event}/reward", {"value": 1.0})):
            began = time.monotonic()
            line.request("POST", path, json.dumps(body), {"content-type": "application/json"})
            answer = line.getresponse()
            answer.read()
            taken.append(time.monotonic() - began)
            assert answer.status in (200, 201), answer.status
    return taken


def turn(service: Running, number: int, asked: argparse.Namespace, memory: float) -> dict[str, float]:
    """``memory``: MiB before the first crowd."""
    alone = client(service, f"alone-{number}", asked.requests)
    ready = multiprocessing.Event()
    port = int(service.url.rpartition(":")[2])
    others = multiprocessing.Process(target=gather, args=(port, asked.idle, ready), daemon=True)
    others.start()
    try:
        if not ready.wait(120):
            raise RuntimeError("the crowd did not come")
        crowded = client(service, f"crowded-{number}", asked.requests)
        larger = memory_of(service.process.pid) / memory
        held = len(os.listdir(f"/proc/{service.process.pid}/fd"))
    finally:
        others.kill()
        others.join()
    time.sleep(1)
    p99 = [float(np.quantile(taken, 0.99)) for taken in (alone, crowded)]
    return {"alone p99, s": p99[0], "crowded p99, s": p99[1], "slower": p99[1] / p99[0], "memory": larger, "held": held}


def all_ask_ready(service: Running, count: int) -> float:
    """The p99 of `/health` while so many clients ask `/ready` as fast as they can, over that of one that asks alone."""
    line = http.client.HTTPConnection(service.url.removeprefix("http://"), timeout=60)

    def asked(line: http.client.HTTPConnection, path: str) -> float:
        began = time.monotonic()
        line.request("GET", path)
        line.getresponse().read()
        return time.monotonic() - began

    alone = [asked(line, "/health") for _ in range(300)]
    over, lines = (
        threading.Event(),
        [http.client.HTTPConnection(line.host, line.port, timeout=60) for _ in range(count)],
    )

    def ask(mine: http.client.HTTPConnection) -> None:
        while not over.is_set():
            asked(mine, "/ready")
            time.sleep(count / 400)  # 400 a second in all, whatever many there are

    threads = [threading.Thread(target=ask, args=(mine,)) for mine in lines]
    for thread in threads:
        thread.start()
    beside = [asked(line, "/health") for _ in range(300)]
    over.set()
    for thread in threads:
        thread.join()
    return float(np.quantile(beside, 0.99) - 2 * np.quantile(alone, 0.99))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--requests", type=int, default=300)
    parser.add_argument("--idle", type=int, default=2000)
    asked = parser.parse_args()
    with folder() as place, serving(f"sqlite:///{place}/store.db") as service:
        with service.client() as http_client:
            http_client.post("/v1/loops", json=LOOP).raise_for_status()
        for name in ("first", "second"):  # what it needs for the client alone
            client(service, name, asked.requests)
        memory = memory_of(service.process.pid)
        rows = [turn(service, number, asked, memory) for number in range(asked.turns)]
        beyond = {count: all_ask_ready(service, count) for count in (8, 200)}
    found = {name: statistics.median(row[name] for row in rows) for name in rows[0]}
    for name, value in found.items():
        print(f"{name:16} median {value:9.4f}   all " + " ".join(f"{row[name]:.4f}" for row in rows))
    print(f"{memory:.1f} MiB before the first crowd")
    for count, seconds in beyond.items():
        print(f"/health p99 beside {count} who ask /ready: {seconds:+.4f} s beyond twice its own (at most .05)")
    good = {
        "client": found["slower"] <= SLOWER,
        "memory": max(row["memory"] for row in rows) <= LARGER,
        "ready": max(beyond.values()) <= 0.05,
    }
    print(", ".join(f"{name} {'ok' if one else 'NOT MET'}" for name, one in good.items()))
    return 0 if all(good.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
