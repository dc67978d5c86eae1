"""The whole service killed under load, and again: nothing acknowledged is lost or doubled, no round has a gap.

    python bench/service/kill.py [--times 10] [--seconds 1.5] [--which one two workers]

``one``: a single process on SQLite, killed and started again ``times`` times. ``two``: two processes on one PostgreSQL,
one of them killed under load. ``workers``: ``--workers 2`` on SQLite, one worker killed under load. 64 clients ask and
reward all the time; after every kill each of them repeats what was not acknowledged.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import httpx
from parts import children_of, folder, free_port, postgres, wait_until_ready

from fairveil.loop.store import Store
from fairveil.loop.upkeep import check

LOOP = {
    "name": "kill",
    "policy": {"name": "private-nash", "arms": 3, "epsilon": 1.0},
    "reward": {"wait": "1h", "missing": "public"},
}
CLIENTS = 64
KEY = "7" * 64


def start(store: str, port: int, *options: str) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "fairveil.cli", "serve", "--store", store, "--port", str(port), *options]
    environment = {**os.environ, "FAIRVEIL_KEY": KEY}
    process = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, start_new_session=True)
    wait_until_ready(f"http://127.0.0.1:{port}", process)
    return process


class Crowd:
    """Clients that go from one service to another, repeat until they are answered, and remember every answer."""

    def __init__(self, urls: list[str]) -> None:
        self.urls, self.replies, self.rewarded, self.stopping = urls, {}, set(), False  # type: ignore[var-annotated]
        self.repeats = self.changed = 0

    async def ask(self, http: httpx.AsyncClient, path: str, body: dict[str, object]) -> dict[str, object]:
        while True:
            for url in random.sample(self.urls, len(self.urls)):
                with contextlib.suppress(httpx.TransportError):
                    answer = await http.post(url + path, json=body)
                    if answer.status_code < 300:
                        return dict(answer.json())
                    if answer.status_code not in (429, 503):
                        raise RuntimeError(answer.text)
                self.repeats += 1
            await asyncio.sleep(0.05)

    async def run(self, client: int) -> None:
        limits = httpx.Limits(max_connections=4)
        async with httpx.AsyncClient(timeout=10, limits=limits) as http:
            number = 0
            while not self.stopping:
                event, number = f"c{client}-{number}", number + 1
                reply = await self.ask(http, "/v1/loops/kill/decisions", {"event_id": event})
                self.replies[event] = reply
                await self.ask(http, f"/v1/loops/kill/decisions/{event}/reward", {"value": number % 2})
                self.rewarded.add(event)
                if number % 5 == 0:
                    old = f"c{client}-{number // 2}"
                    again = await self.ask(http, "/v1/loops/kill/decisions", {"event_id": old})
                    self.changed += again != self.replies[old]


async def under_load(urls: list[str], drive) -> Crowd:  # type: ignore[no-untyped-def]
    crowd = Crowd(urls)
    clients = [asyncio.create_task(crowd.run(client)) for client in range(CLIENTS)]
    await drive(crowd)
    crowd.stopping = True
    await asyncio.gather(*clients)
    return crowd


def verify(store: str, crowd: Crowd) -> dict[str, int]:
    """What the store holds against what the clients were told."""
    with Store.open(store, key=bytes.fromhex(KEY)) as opened:
        loop = opened.loop("kill")
        opened.tick()
        check(opened)
        lost = sum(not loop.decide(event).replayed for event in crowd.replies)
        unpaid = sum(loop.event(event)["reward"] == "none" for event in crowd.rewarded)
        with opened.reading() as tx:
            query = "SELECT count(*), count(DISTINCT round), max(round) FROM events"
            [(count, distinct, last)] = tx.execute(query)
        status = loop.status()
        entries = list(loop.ledger.entries())
        published = [entry["name"] for entry in entries if entry["kind"] == "publish"]
        charged = sum(entry["kind"] == "account" for entry in entries)
    rounds = {reply["round"] for reply in crowd.replies.values()}
    found = {
        "decisions": len(crowd.replies),
        "rewards": len(crowd.rewarded),
        "repeats": crowd.repeats,
        "lost decisions": lost,
        "lost rewards": unpaid,
        "changed replies": crowd.changed,
        "rounds given twice": len(crowd.replies) - len(rounds) + count - distinct,
        "gaps": last + 1 - distinct,
        "blocks published twice": len(published) - len(set(published)),
        "charges": charged,
        "releases": status.version,
    }
    wrong = [name for name in list(found)[3:9] if found[name]]
    print(found, "WRONG: " + ", ".join(wrong) if wrong or charged != 1 else "ok")
    if wrong or charged != 1:
        sys.exit(1)
    return found


def create(url: str) -> None:
    httpx.post(f"{url}/v1/loops", json=LOOP, timeout=120).raise_for_status()


def one(place: Path, times: int, seconds: float) -> None:
    store, port = f"sqlite:///{place}/one/store.db", free_port()
    url = f"http://127.0.0.1:{port}"
    process = start(store, port)
    create(url)

    async def drive(crowd: Crowd) -> None:
        nonlocal process
        for _ in range(times):
            await asyncio.sleep(seconds * random.uniform(0.3, 1.0))
            process.kill()
            process.wait()
            process = await asyncio.to_thread(start, store, port)
        await asyncio.sleep(0.5)

    crowd = asyncio.run(under_load([url], drive))
    process.terminate()
    process.wait(30)
    print(f"one process, killed {times} times:", end=" ")
    verify(store, crowd)


def two(seconds: float) -> None:
    with postgres() as store:
        ports = [free_port(), free_port()]
        urls = [f"http://127.0.0.1:{port}" for port in ports]
        processes = [start(store, ports[0])]
        create(urls[0])
        processes.append(start(store, ports[1]))

        async def drive(crowd: Crowd) -> None:
            await asyncio.sleep(2 * seconds)
            processes[1].kill()
            await asyncio.sleep(2 * seconds)

        crowd = asyncio.run(under_load(urls, drive))
        processes[0].terminate()
        processes[0].wait(30)
        print("two processes on PostgreSQL, one killed:", end=" ")
        verify(store, crowd)


def workers(place: Path, seconds: float) -> None:
    store, port = f"sqlite:///{place}/workers/store.db", free_port()
    url = f"http://127.0.0.1:{port}"
    process = start(store, port, "--workers", "2")
    create(url)

    async def drive(crowd: Crowd) -> None:
        await asyncio.sleep(2 * seconds)
        victims = [
            pid for pid in children_of(process.pid) if b"spawn_main" in Path(f"/proc/{pid}/cmdline").read_bytes()
        ]
        os.kill(random.choice(victims), signal.SIGKILL)
        await asyncio.sleep(2 * seconds)

    crowd = asyncio.run(under_load([url], drive))
    process.terminate()
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(30)
    if process.poll() is None:
        process.kill()
    time.sleep(0.5)
    print("two workers on SQLite, one killed:", end=" ")
    verify(store, crowd)


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--times", type=int, default=10)
    options.add_argument("--seconds", type=float, default=1.5)
    options.add_argument("--which", nargs="+", default=["one", "two", "workers"])
    given = options.parse_args()
    random.seed(3)
    with folder() as place:
        if "one" in given.which:
            one(place, given.times, given.seconds)
        if "two" in given.which:
            two(given.seconds)
        if "workers" in given.which:
            workers(place, given.seconds)


if __name__ == "__main__":
    main()
