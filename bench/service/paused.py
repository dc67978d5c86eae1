"""A store that stands still under many clients: how long anybody waits, what `/health` costs, what comes afterwards.

    python bench/service/paused.py [--which postgresql sqlite] [--turns 5] [--seconds 20]

PostgreSQL is stopped by a signal. For SQLite a library between the program and the kernel holds back every write to
disk (needs a C compiler). 32 clients decide and reward all the time, wait a tenth of a second after a refusal and
repeat; a process of its own asks `/health` and a no-op server in turns. Bounded: one pause a turn, loopback only.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import http.client
import json
import multiprocessing
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from parts import HERE, Running, folder, free_port, running, serving

CLIENTS, DEADLINE, AGAIN = 32, 5.0, 0.1
BEFORE, AFTER = 4.0, 6.0
LOOP = {"name": "load", "policy": {"name": "private-nash", "arms": 4, "epsilon": 1.0}, "reward": {"wait": "1h"}}
PATH = "/v1/loops/load/decisions"
STALL = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <unistd.h>
static void held(void) { const char *flag = getenv("STALLED"); while (flag && !access(flag, F_OK)) usleep(5000); }
int fsync(int file) { held(); return ((int (*)(int))dlsym(RTLD_NEXT, "fsync"))(file); }
int fdatasync(int file) { held(); return ((int (*)(int))dlsym(RTLD_NEXT, "fdatasync"))(file); }
"""


class Asker:
    """One client on one connection; remembers what was answered and how long it took."""

    def __init__(self, url: str, name: str, again: float = AGAIN) -> None:
        self.host, self.port = url.removeprefix("http://").split(":")
        self.again = again
        self.name, self.replies, self.waited = name, dict[str, Any](), list[tuple[float, float, int]]()
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def post(self, path: str, table: dict[str, Any]) -> tuple[int, Any]:
        body = json.dumps(table).encode()
        began = time.monotonic()
        if self._streams is None:
            self._streams = await asyncio.open_connection(self.host, self.port)
        reader, writer = self._streams
        writer.write(b"POST %s HTTP/1.1\r\nhost: 127.0.0.1\r\n" % path.encode())
        writer.write(b"content-type: application/json\r\ncontent-length: %d\r\n\r\n%s" % (len(body), body))
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).lower()
            length = int(head.partition(b"content-length:")[2].split(b"\r\n")[0])
            answer = json.loads(await reader.readexactly(length))
        except (asyncio.IncompleteReadError, ConnectionError):
            self._streams = None
            return 0, None
        status = int(head.split()[1])
        self.waited.append((began, time.monotonic() - began, status))
        return status, answer

    async def until(self, path: str, table: dict[str, Any]) -> Any:
        while True:
            status, answer = await self.post(path, table)
            if status in (200, 201):
                return answer
            if status not in (0, 429, 503):
                raise RuntimeError(f"{status} {answer}")
            await asyncio.sleep(self.again)

    async def run(self, until: float) -> None:
        while time.monotonic() < until:
            event = f"{self.name}-{len(self.replies)}"
            self.replies[event] = await self.until(PATH, {"event_id": event})
            await self.until(f"{PATH}/{event}/reward", {"value": 1.0})


def probe(urls: list[str], until: float, found: Any) -> None:
    """Ask every server in turn, every 10 ms: when, and how long each took."""
    lines = [http.client.HTTPConnection(url.removeprefix("http://"), timeout=30) for url in urls]
    rows = []
    while time.monotonic() < until:
        row = [time.monotonic()]
        for line in lines:
            began = time.monotonic()
            line.request("GET", "/health")
            line.getresponse().read()
            row.append(time.monotonic() - began)
        rows.append(row)
        time.sleep(0.01)
    found.send(rows)


async def turn(
    service: Running, noop: Running, number: int, pausing: Any, seconds: float, again: float
) -> dict[str, float]:
    askers = [Asker(service.url, f"t{number}-c{client}", again) for client in range(CLIENTS)]
    end = time.monotonic() + BEFORE + seconds + AFTER
    ours, theirs = multiprocessing.Pipe()
    prober = multiprocessing.Process(target=probe, args=([service.url, noop.url], end, theirs))
    prober.start()
    clients = [asyncio.create_task(one.run(end)) for one in askers]
    await asyncio.sleep(BEFORE)
    with pausing():
        began, used = time.monotonic(), service.cpu()
        await asyncio.sleep(seconds)
        used = service.cpu() - used
    ended = time.monotonic()
    await asyncio.gather(*clients)
    rows = np.array([row for row in await asyncio.to_thread(ours.recv) if began <= row[0] <= ended])
    prober.join()
    waited = [one for asker in askers for one in asker.waited]
    served = [at + taken for at, taken, status in waited if status in (200, 201) and at + taken > ended]
    changed = 0
    for asker in askers:
        for event, reply in list(asker.replies.items())[-50:]:
            again = await asker.until(PATH, {"event_id": event})
            changed += {**again, "learning": 0, "reason": 0} != {**reply, "learning": 0, "reason": 0}
    refused = [taken for _, taken, status in waited if status == 503]
    health, idle = np.quantile(rows[:, 1:], 0.99, axis=0)
    return {
        "health p99, s": float(health),
        "no-op p99, s": float(idle),
        "health slowest, s": float(rows[:, 1].max()),
        "slowest refusal, s": max(refused),
        "refusals": len(refused),
        "serving again after, s": min(served) - ended,
        "changed answers": changed,
        "CPU while paused": used / seconds,
    }


@contextlib.contextmanager
def on_postgres() -> Iterator[tuple[Running, Any]]:
    import postgres_server

    base = Path(tempfile.mkdtemp(prefix="fairveil-paused-"))
    base.chmod(0o755)
    store = postgres_server.start(base / "server")
    try:
        with serving(store) as service:
            yield service, lambda: postgres_server.paused(base / "server")
    finally:
        postgres_server.stop(base / "server")


@contextlib.contextmanager
def on_sqlite() -> Iterator[tuple[Running, Any]]:
    with folder() as place:
        source, library, flag = place / "stall.c", place / "stall.so", place / "stalled"
        source.write_text(STALL)
        subprocess.run(["cc", "-shared", "-fPIC", "-o", library, source, "-ldl"], check=True)

        @contextlib.contextmanager
        def stalled() -> Iterator[None]:
            flag.touch()
            try:
                yield
            finally:
                flag.unlink()

        os.environ |= {"LD_PRELOAD": str(library), "STALLED": str(flag)}
        try:
            with serving(f"sqlite:///{place}/store/store.db") as service:
                for name in ("LD_PRELOAD", "STALLED"):
                    del os.environ[name]
                yield service, stalled
        finally:
            os.environ.pop("LD_PRELOAD", None)


def case(which: str, turns: int, seconds: float, again: float) -> bool:
    port = free_port()
    with (
        {"postgresql": on_postgres, "sqlite": on_sqlite}[which]() as (service, pausing),
        running([sys.executable, str(HERE / "noop.py"), str(port)], port, dict(os.environ)) as noop,
    ):
        with service.client() as client:
            client.post("/v1/loops", json=LOOP).raise_for_status()
        rows = [asyncio.run(turn(service, noop, number, pausing, seconds, again)) for number in range(turns)]
    for name in rows[0]:
        values = [row[name] for row in rows]
        print(
            f"{which:11} {name:24} median {statistics.median(values):8.3f}   all "
            + " ".join(f"{v:.3f}" for v in values)
        )
    health, idle = (statistics.median(row[name] for row in rows) for name in ("health p99, s", "no-op p99, s"))
    good = {
        "health": health <= 2 * idle + 0.05,
        "deadline": max(row["slowest refusal, s"] for row in rows) <= DEADLINE + 0.5,
        "again": max(row["serving again after, s"] for row in rows) <= 2.0,
        "changed": not any(row["changed answers"] for row in rows),
    }
    print(f"{which}: " + ", ".join(f"{name} {'ok' if one else 'NOT MET'}" for name, one in good.items()))
    return all(good.values())


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--which", nargs="+", default=["postgresql", "sqlite"], choices=["postgresql", "sqlite"])
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--again", type=float, default=AGAIN, help="seconds from a refusal to the next attempt")
    given = parser.parse_args()
    results = [case(which, given.turns, given.seconds, given.again) for which in given.which]
    return 0 if all(results) else 1


if __name__ == "__main__":
    sys.exit(main())
