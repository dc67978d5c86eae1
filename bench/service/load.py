"""Durable decisions with rewards a second, beside a FastAPI route that does nothing, as ratios.

    python bench/service/load.py [--seconds 4] [--repeats 3] [--before CHECKOUT]

Everything is measured on one machine in turns (noop, SQLite, PostgreSQL, candidates, noop, ...), load by wrk with 64
connections; the median of the repeats counts. A pair is a decision and its reward, each acknowledged after a commit.
With another checkout, which has its own .venv, its service has its turns too. CPU is that of the server's process.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import statistics
import sys
import time
from pathlib import Path
from typing import Any

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
NOOP = "no-op FastAPI"
NEEDED = {
    "nash, SQLite, pairs": 0.25,
    "nash, PostgreSQL, pairs": 0.2,
    "4 candidates x 24, SQLite, pairs": 0.2,
    "nash, SQLite, by CPU": 0.5,
    "nash, PostgreSQL, by CPU": 0.38,
    "batch of 500 over singles, by CPU": 1.4,
}
"""What a batch saves is the way of a request to its loop and back; the decision itself costs the same in both."""
BESIDE = {
    "nash, SQLite, CPU of before": 0.95,
    "nash, PostgreSQL, CPU of before": 0.95,
    "nash, SQLite, by CPU": 0.6,
    "nash, PostgreSQL, by CPU": 0.45,
}


def candidates() -> str:
    one = ",".join(f"{(index % 7) / 7 - 0.5:.3f}" for index in range(WIDTH))
    people = ",".join(f'{{"group":"{"ab"[index % 2]}","features":[{one}]}}' for index in range(SHOWN))
    return f',"candidates":[{people}]'


def measure(server: Running, script: str, seconds: float, **variables: object) -> dict[str, float]:
    commits = commits_of(server)
    before = server.cpu()
    found = wrk(server.url, script, seconds, **variables)
    found["cpu"] = server.cpu() - before
    found["each"] = found["cpu"] / found["requests"]
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
    """CPU seconds of the server for a decision in a batch, sent by one connection."""
    with server.client() as client:
        before, began, sent = server.cpu(), time.monotonic(), 0
        while time.monotonic() - began < seconds:
            body = {"decisions": [{"event_id": f"batch-{os.getpid()}-{began}-{sent + index}"} for index in range(size)]}
            client.post("/v1/loops/load/decisions/batch", json=body).raise_for_status()
            sent += size
        return (server.cpu() - before) / sent


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--seconds", type=float, default=4.0)
    options.add_argument("--repeats", type=int, default=3)
    options.add_argument("--before", type=Path, help="another checkout with its own .venv, measured in turns with this")
    given = options.parse_args()
    rows: dict[str, list[dict[str, float]]] = {}
    batched = []
    with contextlib.ExitStack() as stack:
        turns = servers(stack, given.before)
        for repeat in range(-1, given.repeats):  # the first turn warms up and does not count
            for name, (one, script, variables) in turns.items():
                found = measure(one, script, given.seconds if repeat >= 0 else 1.0, run=f"r{repeat}", **variables)
                if repeat >= 0:
                    rows.setdefault(name, []).append(found)
            if repeat >= 0 and given.before is None:
                batched.append(batches(turns["nash, SQLite"][0], given.seconds))
    return compare(rows) if given.before else report(rows, batched)


def servers(stack: contextlib.ExitStack, before: Path | None) -> dict[str, tuple[Running, str, dict[str, str]]]:
    """All that is measured in turns: each with its script. Beside another checkout the loops of arms alone."""
    enter = stack.enter_context
    port, place = free_port(), enter(folder())
    noop = enter(running([sys.executable, str(HERE / "noop.py"), str(port)], port, dict(os.environ)))
    turns: dict[str, tuple[Running, str, dict[str, str]]] = {NOOP: (noop, "noop.lua", {})}

    def add(name: str, store: str, table: dict[str, Any], python: str = sys.executable, more: str = "") -> None:
        one = enter(serving(store, python=python))
        with one.client() as client:
            client.post("/v1/loops", json=table).raise_for_status()
        turns[name] = one, "pairs.lua", {"more": more}

    for name, store in (("nash, SQLite", f"sqlite:///{place}/{{}}/store.db"), ("nash, PostgreSQL", "")):
        for when in ("before", "now") if before else ("now",):
            where = store.format(when) if store else enter(postgres())
            if when == "before":
                add(f"{name}, before", where, NASH, str(before / ".venv" / "bin" / "python"))
            else:
                add(name, where, NASH)
    if not before:
        add("4 candidates x 24, SQLite", f"sqlite:///{place}/queue/store.db", QUEUE, more=candidates())
    return turns


def median(found: list[dict[str, float]], key: str) -> float:
    return statistics.median(row[key] for row in found)


def show(rows: dict[str, list[dict[str, float]]]) -> None:
    print(f"{CONNECTIONS} connections, one worker, median of {len(rows[NOOP])}")
    print(f"{'':28} {'requests/s':>10} {'CPU us':>8} {'p50 ms':>8} {'p99 ms':>8} {'commits/s':>10}")
    for name, found in rows.items():
        numbers = [median(found, "rate"), median(found, "each") * 1e6]
        numbers += [median(found, key) for key in ("p50", "p99", "commits")]
        print(f"{name:28} {numbers[0]:10.0f} {numbers[1]:8.0f} {numbers[2]:8.1f} {numbers[3]:8.1f} {numbers[4]:10.0f}")


def judge(ratios: dict[str, float], needed: dict[str, float]) -> int:
    for name, least in needed.items():
        verdict = "ok" if ratios[name] >= least else "TOO LOW"
        print(f"{name:36} {ratios[name]:6.3f}  (at least {least:.3f})  {verdict}")
    return int(any(ratios[name] < least for name, least in needed.items()))


def report(rows: dict[str, list[dict[str, float]]], batched: list[float]) -> int:
    show(rows)
    others = {name: found for name, found in rows.items() if name != NOOP}
    ratios = {
        f"{name}, pairs": median(found, "rate") / 2 / median(rows[NOOP], "rate") for name, found in others.items()
    }
    for name, found in others.items():
        ratios[f"{name}, by CPU"] = median(rows[NOOP], "each") / 2 / median(found, "each")
    ratios["batch of 500 over singles, by CPU"] = median(rows["nash, SQLite"], "each") / statistics.median(batched)
    return judge(ratios, NEEDED)


def compare(rows: dict[str, list[dict[str, float]]]) -> int:
    """Medians over turns of the ratio inside a turn: what changes from one minute to the next changes both sides."""
    show(rows)
    noop, ratios = rows[NOOP], {}
    for name in ("nash, SQLite", "nash, PostgreSQL"):
        pairs = list(zip(rows[name], rows[f"{name}, before"], noop, strict=True))
        ratios[f"{name}, CPU of before"] = statistics.median(old["each"] / new["each"] for new, old, _ in pairs)
        ratios[f"{name}, rate of before"] = statistics.median(new["rate"] / old["rate"] for new, old, _ in pairs)
        ratios[f"{name}, by CPU"] = statistics.median(none["each"] / 2 / new["each"] for new, _, none in pairs)
        ratios[f"{name}, before, by CPU"] = statistics.median(none["each"] / 2 / old["each"] for _, old, none in pairs)
    for name in ratios.keys() - BESIDE.keys():
        print(f"{name:36} {ratios[name]:6.3f}")
    return judge(ratios, BESIDE)


if __name__ == "__main__":
    sys.exit(main())
