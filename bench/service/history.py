"""Many clients while processes are killed and paused, and the database is paused and restarted; then what they saw is
checked (`checker`): one reply for each id, rounds without gaps, nothing lost, charged before published.

    python bench/service/history.py [--which sqlite postgresql] [--processes 1 2] [--kills 10] [--pauses 4]

Bounded: ``kills`` of a process, ``pauses`` of a process or of the database for up to 8 s, one restart of the database
where it is a server; loopback only; at most 20 minutes a case.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import httpx
from checker import Call, History, violations
from parts import ROOT, free_port, wait_until_ready

CLIENTS, LONGEST, BETWEEN = 16, 1200.0, 60
KEY = "7" * 64
LOOP = {
    "name": "history",
    "policy": {"name": "private-nash", "arms": 3, "epsilon": 1.0},
    "reward": {"wait": "1h", "missing": "public"},
    "person": {"max_events": 1, "sticky": True},
}
PATH = "/v1/loops/history"


class Recorder:
    """Clients that repeat until they are answered, and remember every attempt and every answer."""

    def __init__(self, urls: list[str]) -> None:
        self.urls, self.calls, self.rewarded, self.stopping = urls, list[Call](), 0, False

    async def once(self, http: httpx.AsyncClient, kind: str, method: str, path: str, body: Any, **facts: Any) -> Call:
        began, status, answer = time.monotonic(), None, {}
        with contextlib.suppress(httpx.TransportError):
            found = await http.request(method, random.choice(self.urls) + path, json=body)
            status, answer = found.status_code, found.json()
        call = Call(kind, began, time.monotonic(), status, answer, **facts)
        self.calls.append(call)
        return call

    async def until(self, http: httpx.AsyncClient, kind: str, method: str, path: str, body: Any, **facts: Any) -> Call:
        while not (call := await self.once(http, kind, method, path, body, **facts)).done:
            if call.status not in (None, 429, 503):
                raise RuntimeError(f"{kind}: {call.status} {call.answer}")
            await asyncio.sleep(random.uniform(0.02, 0.2))
        return call

    async def run(self, http: httpx.AsyncClient, client: int) -> None:
        number = 0
        while not self.stopping:
            event, subject, number = f"c{client}-{number}", f"p{client}-{number}", number + 1
            await self.decide(http, event, subject)
            reward = {"value": float(number % 2)}
            path = f"{PATH}/decisions/{event}/reward"
            await self.until(http, "reward", "POST", path, reward, event=event, value=reward["value"])
            self.rewarded += 1
            if number % 4 == 0:
                old = random.randrange(number)
                await self.decide(http, f"c{client}-{old}", f"p{client}-{old}")
                await self.decide(http, f"again-{client}-{number}", f"p{client}-{old}")
                await self.once(http, "loop", "GET", PATH, None)

    async def decide(self, http: httpx.AsyncClient, event: str, subject: str) -> None:
        body = {"event_id": event, "subject": subject}
        await self.until(http, "decide", "POST", f"{PATH}/decisions", body, event=event, subject=subject)

    async def some_more(self, count: int) -> None:
        enough, deadline = self.rewarded + count, time.monotonic() + 120
        while self.rewarded < enough:
            if time.monotonic() > deadline:
                raise RuntimeError("the service did not come back")
            await asyncio.sleep(0.01)


class Case:
    """Processes on one store, and what is done to them."""

    def __init__(self, store: str, processes: int, server: Path | None) -> None:
        self.store, self.server = store, server
        self.ports = [free_port() for _ in range(processes)]
        self.processes = [self.start(port) for port in self.ports]
        self.urls = [f"http://127.0.0.1:{port}" for port in self.ports]

    def start(self, port: int) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", "fairveil.cli", "serve", "--store", self.store, "--port", str(port)]
        process = subprocess.Popen(command, env={**os.environ, "FAIRVEIL_KEY": KEY}, stdout=subprocess.DEVNULL)
        wait_until_ready(f"http://127.0.0.1:{port}", process, 120)
        return process

    def kill(self) -> None:
        at = random.randrange(len(self.processes))
        self.processes[at].kill()
        self.processes[at].wait()
        self.processes[at] = self.start(self.ports[at])

    async def pause(self) -> None:
        """A process stands still, or the whole database does."""
        import postgres_server

        seconds = random.uniform(0.5, 8.0)
        if self.server is not None and random.random() < 0.5:
            with postgres_server.paused(self.server):
                await asyncio.sleep(seconds)
            return
        process = random.choice(self.processes)
        process.send_signal(signal.SIGSTOP)
        await asyncio.sleep(seconds)
        process.send_signal(signal.SIGCONT)

    def restart_database(self) -> None:
        import postgres_server

        if self.server is not None:
            postgres_server.restart(self.server)

    def stop(self) -> None:
        for process in self.processes:
            process.send_signal(signal.SIGCONT)
            process.terminate()
        for process in self.processes:
            process.wait(30)


async def drive(case: Case, kills: int, pauses: int) -> History:
    recorder = Recorder(case.urls)
    what = random.sample(["kill"] * kills + ["pause"] * pauses, kills + pauses)
    began = time.monotonic()
    async with httpx.AsyncClient(timeout=15, limits=httpx.Limits(max_connections=4 * CLIENTS)) as http:
        (await http.post(f"{case.urls[0]}/v1/loops", json=LOOP, timeout=120)).raise_for_status()
        clients = [asyncio.create_task(recorder.run(http, client)) for client in range(CLIENTS)]
        for number, one in enumerate(what):
            await recorder.some_more(BETWEEN)
            if one == "kill":
                await asyncio.to_thread(case.kill)
            else:
                await case.pause()
            if number == len(what) // 2:
                await asyncio.to_thread(case.restart_database)
            print(f"\r{number + 1} of {len(what)} faults, {recorder.rewarded} pairs", end="", file=sys.stderr)
            if time.monotonic() - began > LONGEST:
                break
        await recorder.some_more(BETWEEN)
        recorder.stopping = True
        await asyncio.gather(*clients)
        for event in dict.fromkeys(call.event for call in recorder.calls if call.kind == "decide"):
            await recorder.until(http, "event", "GET", f"{PATH}/decisions/{event}", None, event=event)
        entries: list[Any] = []
        while True:
            after = entries[-1]["sequence"] if entries else -1
            page = (await http.get(f"{case.urls[0]}/v1/ledgers/history/entries?after={after}")).json()["entries"]
            if not page:
                break
            entries += page
        verdict = (await http.get(f"{case.urls[0]}/v1/ledgers/history/verify")).json()["verdict"]
        assert verdict == "intact", verdict
    print(file=sys.stderr)
    return History(recorder.calls, entries)


def run(which: str, processes: int, kills: int, pauses: int) -> int:
    import postgres_server

    folder = Path(tempfile.mkdtemp(prefix="fairveil-history-"))
    folder.chmod(0o755)
    server = folder / "server" if which == "postgresql" else None
    store = f"sqlite:///{folder}/store.db" if server is None else postgres_server.start(server)
    try:
        case = Case(store, processes, server)
        try:
            history = asyncio.run(drive(case, kills, pauses))
        finally:
            case.stop()
    finally:
        if server is not None:
            postgres_server.stop(server)
        shutil.rmtree(folder, ignore_errors=True)
    found = violations(history)
    unknown = sum(call.status is None for call in history.calls)
    blocks = sum(entry["kind"] == "publish" for entry in history.entries)
    print(
        f"{which}, {processes} process(es), {kills} kills, {pauses} pauses: {len(history.calls)} calls, "
        f"{len(history.of('decide'))} decisions, {unknown} without an answer, {blocks} releases, "
        f"{len(found)} violations"
    )
    for one in found[:20]:
        print("  ", one)
    return len(found)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n\n")[0])
    parser.add_argument("--which", nargs="+", default=["sqlite", "postgresql"], choices=["sqlite", "postgresql"])
    parser.add_argument("--processes", nargs="+", type=int, default=[1, 2], choices=[1, 2])
    parser.add_argument("--kills", type=int, default=10)
    parser.add_argument("--pauses", type=int, default=4)
    given = parser.parse_args()
    sys.path.insert(0, str(ROOT / "tests" / "support"))
    wrong = sum(run(which, count, given.kills, given.pauses) for which in given.which for count in given.processes)
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
