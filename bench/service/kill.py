"""The whole service killed under load, and again: nothing acknowledged is lost or doubled, no round has a gap.

    python bench/service/kill.py [--times 10] [--between 150] [--filled 200000]
        [--which sqlite postgresql two workers rolling]

``sqlite``, ``postgresql``: a single process, killed and started again ``times`` times. ``two``: two processes on one
PostgreSQL, one of them killed, in turn. ``workers``: ``--workers 2`` on SQLite, a worker killed. ``rolling``: two
processes on one PostgreSQL that holds ``filled`` events, each asked to stop and started again, in turn. 64 clients ask
and reward all the time, between two kills at least ``between`` decisions; after every kill each of them repeats what
was not acknowledged.
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
from collections.abc import Iterator
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
PAGE = 1000


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

    async def some_more(self, count: int) -> None:
        """Until so many more decisions and their rewards are acknowledged, and a moment longer."""
        enough = len(self.rewarded) + count
        deadline = time.monotonic() + 120
        while len(self.rewarded) < enough:
            if time.monotonic() > deadline:
                raise RuntimeError(f"only {len(self.rewarded)} of {enough} decisions were answered")
            await asyncio.sleep(0.002)
        await asyncio.sleep(random.uniform(0, 0.05))

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

    async def run(self, http: httpx.AsyncClient, client: int) -> None:
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
    limits = httpx.Limits(max_connections=2 * CLIENTS, max_keepalive_connections=2 * CLIENTS)
    async with httpx.AsyncClient(timeout=10, limits=limits) as http:
        clients = [asyncio.create_task(crowd.run(http, client)) for client in range(CLIENTS)]
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


def one(store: str, times: int, between: int) -> None:
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    processes = [start(store, port)]
    create(url)

    async def drive(crowd: Crowd) -> None:
        for _ in range(times):
            await crowd.some_more(between)
            processes[0].kill()
            processes[0].wait()
            processes[0] = await asyncio.to_thread(start, store, port)
        await crowd.some_more(between)

    with ended(processes):
        crowd = asyncio.run(under_load([url], drive))
    print(f"one process, killed {times} times:", end=" ")
    verify(store, crowd)


def fill(url: str, events: int) -> None:
    """So many decisions of before, by the batch route."""
    with httpx.Client(base_url=url, timeout=120) as http:
        for first in range(0, events, PAGE):
            asked = [{"event_id": f"before-{number}"} for number in range(first, min(first + PAGE, events))]
            http.post("/v1/loops/kill/decisions/batch", json={"decisions": asked}).raise_for_status()


def two(store: str, times: int, between: int, filled: int = 0, gently: bool = False) -> None:
    """One of two processes is killed, in turn; ``gently``: asked to stop, as an upgrade does."""
    ports = [free_port(), free_port()]
    urls = [f"http://127.0.0.1:{port}" for port in ports]
    processes = [start(store, ports[0])]
    create(urls[0])
    fill(urls[0], filled)
    processes.append(start(store, ports[1]))

    async def drive(crowd: Crowd) -> None:
        for number in range(times):
            await crowd.some_more(between)
            (processes[number % 2].terminate if gently else processes[number % 2].kill)()
            await crowd.some_more(between)  # the other one goes on alone
            processes[number % 2].wait()
            processes[number % 2] = await asyncio.to_thread(start, store, ports[number % 2])
        await crowd.some_more(between)

    with ended(processes):
        crowd = asyncio.run(under_load(urls, drive))
    what = f"restarted over {filled:,} events" if gently else "killed"
    print(f"two processes on PostgreSQL, one {what}, {times} times:", end=" ")
    verify(store, crowd)


def workers(store: str, times: int, between: int) -> None:
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    processes = [start(store, port, "--workers", "2")]
    create(url)

    async def drive(crowd: Crowd) -> None:
        for _ in range(times):
            await crowd.some_more(between)
            os.kill(random.choice(workers_of(processes[0].pid)), signal.SIGKILL)
        await crowd.some_more(between)

    with ended(processes):
        crowd = asyncio.run(under_load([url], drive))
    print(f"two workers on SQLite, one killed, {times} times:", end=" ")
    verify(store, crowd)


def workers_of(pid: int) -> list[int]:
    found = []
    for child in children_of(pid):
        with contextlib.suppress(OSError):
            if b"spawn_main" in Path(f"/proc/{child}/cmdline").read_bytes():
                found.append(child)
    return found


@contextlib.contextmanager
def ended(processes: list[subprocess.Popen[bytes]]) -> Iterator[None]:
    """Whatever happens, no service and no worker is left behind."""
    try:
        yield
    finally:
        below = [pid for process in processes for pid in workers_of(process.pid)]
        for process in processes:
            process.terminate()
        for process in processes:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(30)
            if process.poll() is None:
                process.kill()
        time.sleep(0.5)
        for pid in below:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--times", type=int, default=10)
    options.add_argument("--between", type=int, default=150)
    options.add_argument("--filled", type=int, default=200_000, help="events of before a rolling restart")
    options.add_argument("--which", nargs="+", default=["sqlite", "postgresql", "two", "workers"])
    given = options.parse_args()
    random.seed(3)
    with folder() as place, contextlib.ExitStack() as stack:
        kinds = {
            "sqlite": lambda: one(f"sqlite:///{place}/one/store.db", given.times, given.between),
            "postgresql": lambda: one(stack.enter_context(postgres()), given.times, given.between),
            "two": lambda: two(stack.enter_context(postgres()), given.times, given.between),
            "rolling": lambda: two(
                stack.enter_context(postgres()), given.times, given.between, given.filled, gently=True
            ),
            "workers": lambda: workers(f"sqlite:///{place}/workers/store.db", given.times, given.between),
        }
        for which in given.which:
            kinds[which]()


if __name__ == "__main__":
    main()
