"""Durable decisions with rewards a second, beside a FastAPI route that does nothing, as ratios.

    python bench/service/load.py [--seconds 4] [--repeats 3]

Everything is measured on one machine in turns (noop, SQLite, PostgreSQL, candidates, noop, ...), load by wrk with 64
connections; the median of the repeats counts. A pair is a decision and its reward, each acknowledged after a commit.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import statistics
import sys
import time

import httpx
from parts import CONNECTIONS, HERE, Running, folder, free_port, postgres, running, serving, wrk

NASH = {"name": "load", "policy": {"name": "private-nash", "arms": 4, "epsilon": 1.0}, "reward": {"wait": "1h"}}
WIDTH, SHOWN = 24, 4
QUEUE = {
    "name": "load",
    "policy": {"name": "batched-private-fair-greedy", "epsilon": 5.0, "delta": 1e-6},
    "groups": ["a", "b"],
    "features": [{"name": f"x{index}", "low": -1.0, "high": 1.0} for index in range(WIDTH)],
    "reward": {"wait": "1h"},
}
NEEDED = {
    "nash, SQLite, pairs": 0.25,
    "nash, PostgreSQL, pairs": 0.2,
    "4 candidates x 24, SQLite, pairs": 0.2,
    "nash, SQLite, by CPU": 1 / 3,
    "batch of 500 over singles": 2.5,
}


def candidates() -> str:
    one = ",".join(f"{(index % 7) / 7 - 0.5:.3f}" for index in range(WIDTH))
    people = ",".join(f'{{"group":"{"ab"[index % 2]}","features":[{one}]}}' for index in range(SHOWN))
    return f',"candidates":[{people}]'


def measure(server: Running, script: str, seconds: float, **variables: object) -> dict[str, float]:
    before, commits = server.cpu(), commits_of(server)
    found = wrk(server.url, script, seconds, **variables)
    found["cpu"] = server.cpu() - before
    found["rate"] = found["requests"] / found["seconds"]
    found["commits"] = (commits_of(server) - commits) / found["seconds"]
    return found


def commits_of(server: Running) -> float:
    with contextlib.suppress(httpx.TransportError):
        for line in httpx.get(f"{server.url}/metrics", timeout=5).text.splitlines():
            if line.startswith("fairveil_commits "):
                return float(line.split()[1])
    return 0.0


def batches(server: Running, seconds: float, size: int = 500) -> float:
    """Decisions a second by one connection that sends batches."""
    with server.client() as client:
        began, sent = time.monotonic(), 0
        while time.monotonic() - began < seconds:
            body = {"decisions": [{"event_id": f"batch-{os.getpid()}-{began}-{sent + index}"} for index in range(size)]}
            client.post("/v1/loops/load/decisions/batch", json=body).raise_for_status()
            sent += size
        return sent / (time.monotonic() - began)


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--seconds", type=float, default=4.0)
    options.add_argument("--repeats", type=int, default=3)
    given = options.parse_args()
    rows: dict[str, list[dict[str, float]]] = {}
    batch_rates = []
    with contextlib.ExitStack() as stack:
        enter = stack.enter_context
        port = free_port()
        noop = enter(running([sys.executable, str(HERE / "noop.py"), str(port)], port, dict(os.environ)))
        place = enter(folder())
        sqlite = enter(serving(f"sqlite:///{place}/nash/store.db"))
        queue = enter(serving(f"sqlite:///{place}/queue/store.db"))
        server = enter(serving(enter(postgres())))
        for one, table in ((sqlite, NASH), (server, NASH), (queue, QUEUE)):
            with one.client() as client:
                client.post("/v1/loops", json=table).raise_for_status()
        turns = {
            "no-op FastAPI": (noop, "noop.lua", {}),
            "nash, SQLite": (sqlite, "pairs.lua", {}),
            "nash, PostgreSQL": (server, "pairs.lua", {}),
            "4 candidates x 24, SQLite": (queue, "pairs.lua", {"more": candidates()}),
        }
        for repeat in range(-1, given.repeats):  # the first turn warms up and does not count
            for name, (one, script, variables) in turns.items():
                found = measure(one, script, given.seconds if repeat >= 0 else 1.0, run=f"r{repeat}", **variables)
                if repeat >= 0:
                    rows.setdefault(name, []).append(found)
            if repeat >= 0:
                batch_rates.append(batches(sqlite, given.seconds))
    return report(rows, batch_rates)


def report(rows: dict[str, list[dict[str, float]]], batch_rates: list[float]) -> int:
    def median(name: str, key: str) -> float:
        return statistics.median(row[key] for row in rows[name])

    print(f"{CONNECTIONS} connections, one worker, median of {len(batch_rates)}")
    print(f"{'':28} {'requests/s':>10} {'CPU us':>8} {'p50 ms':>8} {'p99 ms':>8} {'commits/s':>10}")
    for name, found in rows.items():
        each = statistics.median(row["cpu"] / row["requests"] for row in found) * 1e6
        numbers = [median(name, "rate"), each, median(name, "p50"), median(name, "p99"), median(name, "commits")]
        print(f"{name:28} {numbers[0]:10.0f} {numbers[1]:8.0f} {numbers[2]:8.1f} {numbers[3]:8.1f} {numbers[4]:10.0f}")
    base = median("no-op FastAPI", "rate")
    own = statistics.median(row["cpu"] / row["requests"] for row in rows["no-op FastAPI"])
    ratios = {f"{name}, pairs": median(name, "rate") / 2 / base for name in rows if name != "no-op FastAPI"}
    pair = 2 * statistics.median(row["cpu"] / row["requests"] for row in rows["nash, SQLite"])
    ratios["nash, SQLite, by CPU"] = own / pair
    ratios["batch of 500 over singles"] = statistics.median(batch_rates) / median("nash, SQLite", "rate")
    failed = False
    for name, needed in NEEDED.items():
        verdict = "ok" if ratios[name] >= needed else "TOO LOW"
        failed |= verdict != "ok"
        print(f"{name:36} {ratios[name]:6.3f}  (at least {needed:.3f})  {verdict}")
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
