"""A million events by the batch routes: memory, restart, and decisions while a large block is released.

python bench/service/soak.py [--events 1000000] [--block 100000] [--which million restart block]
"""

from __future__ import annotations

import argparse
import asyncio
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import NamedTuple

import httpx
import numpy as np
from load import QUEUE, WIDTH
from parts import cpu_of, folder, free_port, memory_of, wait_until_ready

NASH = {
    "name": "soak",
    "policy": {"name": "private-nash", "arms": 4, "epsilon": 1.0},
    "reward": {"wait": "1s", "missing": "public"},
}
SIZE = 500
MOMENTS = (1_000, 10_000, 100_000, 1_000_000)


def start(store: str, port: int) -> tuple[subprocess.Popen[bytes], float]:
    command = [sys.executable, "-m", "fairveil.cli", "serve", "--store", store, "--port", str(port)]
    began = time.monotonic()
    process = subprocess.Popen(command, env={**os.environ, "FAIRVEIL_KEY": "7" * 64}, stdout=subprocess.DEVNULL)
    wait_until_ready(f"http://127.0.0.1:{port}", process, 300)
    while httpx.get(f"http://127.0.0.1:{port}/ready", timeout=60).status_code != 200:
        if time.monotonic() - began > 300:
            raise RuntimeError("the service is never ready")
        time.sleep(0.02)
    return process, time.monotonic() - began


def stop(process: subprocess.Popen[bytes]) -> None:
    process.send_signal(signal.SIGTERM)
    process.wait(60)


def million(place: Path, events: int) -> bool:
    """Batches of decisions and rewards; from 1,000 events on what the process holds and what a new one needs."""
    store, port = f"sqlite:///{place}/soak/store.db", free_port()
    process, _ = start(store, port)
    rows, began, spent = list[Row](), time.monotonic(), 0.0
    with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=120) as client:
        client.post("/v1/loops", json=NASH).raise_for_status()
        for first in range(0, events, SIZE):
            names = [f"{first + index}" for index in range(SIZE)]
            body = {"decisions": [{"event_id": name} for name in names]}
            client.post("/v1/loops/soak/decisions/batch", json=body).raise_for_status()
            rewards = {"rewards": [{"event_id": name, "value": int(name) % 2} for name in names]}
            client.post("/v1/loops/soak/rewards/batch", json=rewards).raise_for_status()
            if first + SIZE in MOMENTS or first + SIZE >= events:
                at = time.monotonic()
                rows.append(Row(first + SIZE, memory_of(process.pid), *_again(store)))
                spent += time.monotonic() - at
                print(rows[-1], flush=True)
        state = client.get("/v1/loops/soak").json()
    taken = time.monotonic() - began - spent
    stop(process)
    print(f"{events} events in {taken:.0f} s, {state['version']} releases, {events / taken:.0f} pairs/s")
    return all(rows[-1].is_near(row) for row in rows)


class Row(NamedTuple):
    """After so many events: MiB of the running process and a new one, CPU seconds of that one to start and to check."""

    events: int
    memory: float
    fresh: float
    ready: float
    verify: float

    def is_near(self, other: Row) -> bool:
        """Within a tenth; times by the clock of the kernel, whose steps are a hundredth of a second."""
        memory = self.memory <= 1.1 * other.memory and self.fresh <= 1.1 * other.fresh
        return memory and self.ready <= 1.1 * other.ready + 0.1 and self.verify <= 1.1 * other.verify + 0.03

    def __str__(self) -> str:
        return (
            f"{self.events:>9,} events: running {self.memory:.1f} MiB, started again {self.fresh:.1f} MiB, "
            f"ready after {self.ready:.2f} s CPU, ledger verified in {self.verify:.2f} s CPU"
        )


def _again(store: str) -> tuple[float, float, float]:
    """A second process on the same store: its memory, CPU until it is ready, CPU to verify the ledger; medians."""
    found = []
    for _ in range(3):
        port = free_port()
        process, _ = start(store, port)
        ready = cpu_of(process.pid)
        url = f"http://127.0.0.1:{port}/v1/ledgers/soak/verify"
        assert httpx.get(url, timeout=60).raise_for_status().json()["verdict"] == "intact"
        found.append((memory_of(process.pid), ready, cpu_of(process.pid) - ready))
        stop(process)
    memory, ready, verify = (float(np.median(part)) for part in zip(*found, strict=True))
    return memory, ready, verify


def restart(place: Path) -> bool:
    """Ready with the store of `million`, and with an empty one."""
    stores = {name: f"sqlite:///{place}/{name}/store.db" for name in ("empty", "soak")}
    taken = [{name: _ready_after(store) for name, store in stores.items()} for _ in range(3)]
    empty, full = (min(one[name] for one in taken) for name in stores)
    print(f"ready after {empty:.2f} s empty, {full:.2f} s with the events: {full - empty:+.2f} s")
    return full - empty <= 1.0


def _ready_after(store: str) -> float:
    process, taken = start(store, free_port())
    stop(process)
    return taken


def block(place: Path, rounds: int) -> bool:
    """A block of many rounds is folded, noised and erased while singles are asked: the longest pause."""
    port = free_port()
    process, _ = start(f"sqlite:///{place}/block/store.db", port)
    table = {
        **QUEUE,
        "name": "block",
        "policy": {**QUEUE["policy"], "first_batch": rounds},
        "reward": {"wait": "1s", "missing": "public"},
    }
    people = [{"group": "ab"[i % 2], "features": [((i + j) % 7) / 7 - 0.5 for j in range(WIDTH)]} for i in range(4)]
    with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=120) as client:
        client.post("/v1/loops", json=table).raise_for_status()
        for first in range(0, rounds, SIZE):
            names = [f"{first + index}" for index in range(SIZE)]
            asked = [{"event_id": name, "candidates": people} for name in names]
            client.post("/v1/loops/block/decisions/batch", json={"decisions": asked}).raise_for_status()
            rewards = [{"event_id": name, "value": 0.5} for name in names]
            client.post("/v1/loops/block/rewards/batch", json={"rewards": rewards}).raise_for_status()
        longest, asked_of = asyncio.run(_singles(f"http://127.0.0.1:{port}", people))
        state = client.get("/v1/loops/block").json()
    stop(process)
    print(
        f"block of {rounds} rounds released (version {state['version']}); {asked_of} singles, longest {longest:.2f} s"
    )
    return state["version"] == 1 and longest <= 1.0


async def _singles(url: str, people: list[dict[str, object]]) -> tuple[float, int]:
    """One after the other until the block is released and erased."""
    longest, count = 0.0, 0
    async with httpx.AsyncClient(base_url=url, timeout=120) as http:
        deadline = time.monotonic() + 300
        after = None
        while time.monotonic() < deadline:
            began = time.monotonic()
            answer = await http.post("/v1/loops/block/decisions", json={"event_id": f"s-{count}", "candidates": people})
            answer.raise_for_status()
            longest, count = max(longest, time.monotonic() - began), count + 1
            if answer.json()["policy_version"] == 1:
                after = after or time.monotonic()
                if time.monotonic() - after > 5:  # erasure runs behind it
                    break
    return longest, count


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--events", type=int, default=1_000_000)
    options.add_argument("--block", type=int, default=100_000)
    options.add_argument("--which", nargs="+", default=["million", "restart", "block"])
    given = options.parse_args()
    with folder() as place:
        done = {
            "million": lambda: million(place, given.events),
            "restart": lambda: restart(place),
            "block": lambda: block(place, given.block),
        }
        results = {name: done[name]() for name in given.which}
    print(", ".join(f"{name}: {'ok' if good else 'NOT MET'}" for name, good in results.items()))
    return 0 if all(results.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
