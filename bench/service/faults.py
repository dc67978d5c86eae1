"""What is done to the processes of a service and to their database while clients ask (`history`).

Processes are forked from one that has loaded the program and played a loop of its own, so that two hundred starts take
minutes; the time of day that they see is the machine's and a file's.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import signal
import socket
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from urllib.parse import urlsplit

from parts import free_port, wait_until_ready

from fairveil.service.settings import Settings

KEY = "7" * 64
STEPS = (366 * 86400, 86400, 30, -30, -3600, -366 * 86400)
"""Seconds by which the clock of a process is wrong for a while."""


class Nursery:
    """A process that has loaded the program, and forks one that serves for each line it reads: the file that says by
    how many seconds its clock is wrong, and settings as JSON."""

    PROGRAM = """
import os, signal, sys, tempfile, threading, time
import fairveil.service.app, fairveil.service.door, fairveil.service.serve as serve
import fairveil.ledger.postgres, fairveil.loop.storage.postgres, uvicorn.lifespan.on, uvloop
from fairveil.loop import ManualClock, Store
from fairveil.loop.clock import SystemClock
from fairveil.service.settings import Settings
with tempfile.TemporaryDirectory() as place:
    with Store.open("sqlite:///" + place + "/store.db", key=bytes(32), clock=(clock := ManualClock())) as store:
        policy = {"name": "private-nash", "arms": 3, "epsilon": 1.0}
        loop = store.create("first", policy=policy, reward={"wait": "1s", "missing": "public"})
        for number in range(20):
            loop.decide(str(number))
            loop.reward(str(number), 1.0)
            clock.advance(2)
            store.tick()
        assert loop.status().version
assert threading.active_count() == 1
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
