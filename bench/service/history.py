"""Many clients while processes are killed and paused, the database is paused and restarted, a process is cut off from
it, and clocks are set; then what they saw is checked (`checker`): one reply for each id, rounds without gaps, nothing
lost, no window closed by a clock, charged before published.

    python bench/service/history.py [--which sqlite postgresql] [--processes 1 2] [--kills 200] [--pauses 50]

Bounded: ``kills`` of a process, ``pauses`` of a process or of the database for up to 8 s, ``steps`` of a process's
clock by up to a year, and where the database is a server ``partitions`` (each process reaches it through a proxy of its
own, which stops) and ``restarts`` of it; loopback only; at most 30 minutes a case. Processes are forked from one that
has loaded the program and nothing else, so that two hundred starts take minutes; the time of day that they see is the
machine's and a file's.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
from checker import Call, History, violations
from parts import ROOT, free_port, wait_until_ready

from fairveil.service.settings import Settings

CLIENTS, LONGEST, BETWEEN = 8, 1800.0, 8
KEY = "7" * 64
FAULTS = {"kill": 200, "pause": 50, "partition": 20, "step": 20, "restart": 3}
STEPS = (366 * 86400, 86400, 30, -30, -3600, -366 * 86400)
"""Seconds by which the clock of a process is wrong for a while."""
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
            await asyncio.sleep(random.uniform(0.02, 0.3))
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
    """A process that has loaded the program, and forks one that serves for each line it reads: settings as JSON, and
    the file that says by how many seconds its clock is wrong."""

    PROGRAM = """
import os, signal, sys, time
import fairveil.service.app, fairveil.service.door, fairveil.service.serve as serve
import fairveil.bandits.nash.private_nash, fairveil.privacy._opendp
from fairveil.loop.clock import SystemClock
from fairveil.service.settings import Settings
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
made = []
for line in sys.stdin:
    wrong, line = line.split(" ", 1)
    pid = os.fork()
    if pid == 0:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        wrong = os.open(wrong, os.O_RDONLY)
        SystemClock.now = lambda self: time.time_ns() // 1000 + 10**6 * int(os.pread(wrong, 20, 0))
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

    def start(self, store: str, port: int, wrong: Path) -> int:
        """The id of a new process that serves."""
        print(wrong, Settings(store=store, port=port).to_json(), file=self._process.stdin, flush=True)
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


class Proxy:
    """What stands between one process and the database; stopped, it swallows what both say."""

    PROGRAM = """
import asyncio, sys
async def pour(source, sink):
    try:
        while part := await source.read(65536):
            sink.write(part)
            await sink.drain()
    except OSError:
        pass
    finally:
        sink.close()
async def join(source, sink):
    try:
        there, back = await asyncio.open_connection(sys.argv[2], int(sys.argv[3]))
    except OSError:
        return sink.close()
    await asyncio.gather(pour(source, back), pour(there, sink))
async def main():
    async with await asyncio.start_server(join, "127.0.0.1", int(sys.argv[1])) as server:
        await server.serve_forever()
asyncio.run(main())
"""

    def __init__(self, url: str) -> None:
        parts, port = urlsplit(url), free_port()
        self.url = url.replace(f"{parts.hostname}:{parts.port}", f"127.0.0.1:{port}")
        words = [str(port), str(parts.hostname), str(parts.port)]
        self.process = subprocess.Popen([sys.executable, "-c", self.PROGRAM, *words])
        deadline = time.monotonic() + 30
        while time.monotonic() < deadline:
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
                return
            time.sleep(0.02)
        raise RuntimeError("the proxy did not start")

    def stop(self) -> None:
        self.process.kill()
        self.process.wait(30)


class Case:
    """Processes on one store, and what is done to them."""

    def __init__(self, store: str, processes: int, server: Path | None, folder: Path) -> None:
        self.server, self.nursery, self.done = server, Nursery(), Counter[str]()
        self.proxies = [] if server is None else [Proxy(store) for _ in range(processes)]
        self.stores = [proxy.url for proxy in self.proxies] or [store] * processes
        self.clocks = [folder / f"clock-{at}" for at in range(processes)]
        for at in range(processes):
            self.set_clock(at, 0)
        self.ports = [free_port() for _ in range(processes)]
        self.processes = [self.start(at) for at in range(processes)]
        self.urls = [f"http://127.0.0.1:{port}" for port in self.ports]

    def start(self, at: int) -> int:
        pid = self.nursery.start(self.stores[at], self.ports[at], self.clocks[at])
        wait_until_ready(f"http://127.0.0.1:{self.ports[at]}", None, 300)
        return pid

    def set_clock(self, at: int, seconds: int) -> None:
        """In one write of one length: whoever reads it sees the old or the new."""
        handle = os.open(self.clocks[at], os.O_WRONLY | os.O_CREAT)
        os.pwrite(handle, f"{seconds:20}".encode(), 0)
        os.close(handle)

    async def fault(self, what: str) -> None:
        self.done[what] += 1
        at, seconds = random.randrange(len(self.processes)), _seconds()
        if what == "kill":
            await asyncio.to_thread(self.kill, at)
        elif what == "pause":
            await self.pause(at, seconds)
        elif what == "partition":
            await _stopped(self.proxies[at].process.pid, seconds)
        elif what == "step":
            self.set_clock(at, random.choice(STEPS))
            await asyncio.sleep(min(seconds, 2.0))
            self.set_clock(at, 0)
        else:
            await asyncio.to_thread(self.restart_database)

    def kill(self, at: int) -> None:
        os.kill(self.processes[at], signal.SIGKILL)
        ended(self.processes[at])
        self.processes[at] = self.start(at)

    async def pause(self, at: int, seconds: float) -> None:
        """A process stands still, or the whole database does."""
        import postgres_server

        if self.server is not None and random.random() < 0.5:
            with postgres_server.paused(self.server):
                await asyncio.sleep(seconds)
        else:
            await _stopped(self.processes[at], seconds)

    def restart_database(self) -> None:
        import postgres_server

        assert self.server is not None
        postgres_server.restart(self.server)

    def stop(self) -> None:
        for process in self.processes:
            with contextlib.suppress(ProcessLookupError):
                os.kill(process, signal.SIGCONT)
                os.kill(process, signal.SIGTERM)
        for process in self.processes:
            ended(process)
        self.nursery.stop()
        for proxy in self.proxies:
            proxy.stop()


def _seconds() -> float:
    """How long a fault lasts: one in five longer than the deadline of a request."""
    return random.uniform(5.0, 8.0) if random.random() < 0.2 else random.uniform(0.2, 2.0)


async def _stopped(process: int, seconds: float) -> None:
    os.kill(process, signal.SIGSTOP)
    try:
        await asyncio.sleep(seconds)
    finally:
        os.kill(process, signal.SIGCONT)


async def drive(case: Case, faults: Counter[str], longest: float) -> History:
    recorder, what = Recorder(case.urls), list(faults.elements())
    random.shuffle(what)
    began = time.monotonic()
    async with httpx.AsyncClient(timeout=15, limits=httpx.Limits(max_connections=4 * CLIENTS)) as http:
        await recorder.until(http, "create", "POST", "/v1/loops", LOOP)
        clients = [asyncio.create_task(recorder.run(http, client)) for client in range(CLIENTS)]
        for number, one in enumerate(what):
            await recorder.some_more(BETWEEN)
            await case.fault(one)
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
    return History(recorder.calls, entries, wait=3600.0)


def run(which: str, processes: int, faults: Counter[str], longest: float = LONGEST) -> int:
    import postgres_server

    folder = Path(tempfile.mkdtemp(prefix="fairveil-history-"))
    folder.chmod(0o755)
    server = folder / "server" if which == "postgresql" else None
    store = f"sqlite:///{folder}/store.db" if server is None else postgres_server.start(server)
    try:
        case = Case(store, processes, server, folder)
        try:
            history = asyncio.run(drive(case, faults, longest))
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
        f"{which}, {processes} process(es), {', '.join(f'{n} {name}s' for name, n in case.done.items())}: "
        f"{len(history.calls)} calls, "
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
    for name, count in FAULTS.items():
        parser.add_argument(f"--{name}s", type=int, default=count)
    parser.add_argument("--minutes", type=float, default=LONGEST / 60, help="after which a case makes no more faults")
    given = parser.parse_args()
    sys.path.insert(0, str(ROOT / "tests" / "support"))
    wrong = 0
    for which in given.which:
        for count in given.processes:
            faults = Counter({name: getattr(given, f"{name}s") for name in FAULTS})
            if which == "sqlite":
                del faults["partition"], faults["restart"]
            wrong += run(which, count, faults, 60 * given.minutes)
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
