"""Many clients while processes are killed and paused, and the database is paused and restarted; then what they saw is
checked (`checker`): one reply for each id, rounds without gaps, nothing lost, charged before published.

    python bench/service/history.py [--which sqlite postgresql] [--processes 1 2] [--kills 10] [--pauses 4]

Bounded: ``kills`` of a process, ``pauses`` of a process or of the database for up to 8 s, one restart of the database
where it is a server; loopback only; at most 30 minutes a case. Processes are forked from one that has loaded the
program and nothing else, so that two hundred starts take minutes.
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

from fairveil.service.settings import Settings

CLIENTS, LONGEST, BETWEEN = 16, 1800.0, 20
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

    async def look(self, http: httpx.AsyncClient, events: list[str]) -> None:
        for event in events:
            await self.until(http, "event", "GET", f"{PATH}/decisions/{event}", None, event=event)

    async def some_more(self, count: int) -> None:
        enough, deadline = self.rewarded + count, time.monotonic() + 120
        while self.rewarded < enough:
            if time.monotonic() > deadline:
                raise RuntimeError("the service did not come back")
            await asyncio.sleep(0.01)


class Nursery:
    """A process that has loaded the program, and forks one that serves for each line it reads: settings as JSON."""

    PROGRAM = """
import os, signal, sys
import fairveil.service.app, fairveil.service.door, fairveil.service.serve as serve
import fairveil.bandits.nash.private_nash, fairveil.privacy._opendp
from fairveil.service.settings import Settings
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
made = []
for line in sys.stdin:
    pid = os.fork()
    if pid == 0:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        serve.run(Settings.from_json(line), 1, lambda: None)
        os._exit(0)
    made.append(pid)
    print(pid, flush=True)
for pid in made[-2:]:  # whoever still serves ends with whoever asked for it
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
"""

    def __init__(self) -> None:
        command = [sys.executable, "-c", self.PROGRAM]
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
        self._process = subprocess.Popen(command, env={**os.environ, "FAIRVEIL_KEY": KEY}, **pipes)

    def start(self, store: str, port: int) -> int:
        """The id of a new process that serves."""
        print(Settings(store=store, port=port).to_json(), file=self._process.stdin, flush=True)
        assert self._process.stdout is not None
        return int(self._process.stdout.readline())

    def stop(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(30)


def ended(pid: int, seconds: float = 30.0) -> None:
    """Wait until a process is gone."""
    deadline = time.monotonic() + seconds
    while Path(f"/proc/{pid}").exists() and time.monotonic() < deadline:
        time.sleep(0.005)


class Case:
    """Processes on one store, and what is done to them."""

    def __init__(self, store: str, processes: int, server: Path | None) -> None:
        self.store, self.server, self.nursery = store, server, Nursery()
        self.ports = [free_port() for _ in range(processes)]
        self.processes = [self.start(port) for port in self.ports]
        self.urls = [f"http://127.0.0.1:{port}" for port in self.ports]
        self.kills = self.pauses = 0

    def start(self, port: int) -> int:
        pid = self.nursery.start(self.store, port)
        wait_until_ready(f"http://127.0.0.1:{port}", None, 300)
        return pid

    def kill(self) -> None:
        at = random.randrange(len(self.processes))
        os.kill(self.processes[at], signal.SIGKILL)
        ended(self.processes[at])
        self.processes[at] = self.start(self.ports[at])
        self.kills += 1

    async def pause(self) -> None:
        """A process stands still, or the whole database does."""
        import postgres_server

        seconds = random.uniform(0.5, 8.0)
        self.pauses += 1
        if self.server is not None and random.random() < 0.5:
            with postgres_server.paused(self.server):
                await asyncio.sleep(seconds)
            return
        process = random.choice(self.processes)
        os.kill(process, signal.SIGSTOP)
        await asyncio.sleep(seconds)
        os.kill(process, signal.SIGCONT)

    def restart_database(self) -> None:
        import postgres_server

        if self.server is not None:
            postgres_server.restart(self.server)

    def stop(self) -> None:
        for process in self.processes:
            with contextlib.suppress(ProcessLookupError):
                os.kill(process, signal.SIGCONT)
                os.kill(process, signal.SIGTERM)
        for process in self.processes:
            ended(process)
        self.nursery.stop()


async def drive(case: Case, kills: int, pauses: int, longest: float) -> History:
    recorder = Recorder(case.urls)
    what = random.sample(["kill"] * kills + ["pause"] * pauses, kills + pauses)
    began = time.monotonic()
    async with httpx.AsyncClient(timeout=15, limits=httpx.Limits(max_connections=4 * CLIENTS)) as http:
        await recorder.until(http, "create", "POST", "/v1/loops", LOOP)
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
            if time.monotonic() - began > longest:
                break
        await recorder.some_more(BETWEEN)
        recorder.stopping = True
        await asyncio.gather(*clients)
        events = list(dict.fromkeys(call.event for call in recorder.calls if call.kind == "decide"))
        await asyncio.gather(*(recorder.look(http, events[client::CLIENTS]) for client in range(CLIENTS)))
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


def run(which: str, processes: int, kills: int, pauses: int, longest: float = LONGEST) -> int:
    import postgres_server

    folder = Path(tempfile.mkdtemp(prefix="fairveil-history-"))
    folder.chmod(0o755)
    server = folder / "server" if which == "postgresql" else None
    store = f"sqlite:///{folder}/store.db" if server is None else postgres_server.start(server)
    try:
        case = Case(store, processes, server)
        try:
            history = asyncio.run(drive(case, kills, pauses, longest))
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
        f"{which}, {processes} process(es), {case.kills} kills, {case.pauses} pauses: {len(history.calls)} calls, "
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
    parser.add_argument("--minutes", type=float, default=LONGEST / 60, help="after which a case makes no more faults")
    given = parser.parse_args()
    sys.path.insert(0, str(ROOT / "tests" / "support"))
    wrong = 0
    for which in given.which:
        for count in given.processes:
            wrong += run(which, count, given.kills, given.pauses, 60 * given.minutes)
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
