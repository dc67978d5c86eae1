"""Durable spends per second, whether ten times the spends cost ten times the time, and memory.

    python bench/ledger.py [--count 200] [--folder /path/on/the/disk/to/measure]

Real fsyncs on the given folder (the current one by default); the rate is printed, not judged, because it is the disk's.
Beside it the floor: the same number of commits of bare SQLite with the same settings. Judged: the tenfold run takes
less than 15 times as long in CPU (the disk's mood left out), and memory does not grow by more than 2 MB.
"""

from __future__ import annotations

import argparse
import resource
import sqlite3
import sys
import tempfile
import time
import tracemalloc
from pathlib import Path

from rich.console import Console
from rich.table import Table

from fairveil.ledger import Ledger, Limit, verify
from fairveil.privacy.accounting import Accountant
from fairveil.privacy.events import PureEvent
from fairveil.privacy.filters import Filter

LIMIT = Limit.pure(1000.0)
EVENT = PureEvent(1e-6)


def spends(ledger: Ledger, name: str, count: int) -> tuple[float, float]:
    """Wall and CPU seconds."""
    began, worked = time.perf_counter(), time.process_time()
    for number in range(count):
        ledger.spend(f"{name}-{number}", EVENT)
    return time.perf_counter() - began, time.process_time() - worked


def releases(ledger: Ledger, count: int) -> float:
    began = time.perf_counter()
    for number in range(count):
        ledger.release(f"block-{number}", lambda noise: 1.0, event=EVENT)
    return time.perf_counter() - began


def bare(path: Path, count: int) -> float:
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = FULL")
    connection.execute("CREATE TABLE entries (sequence INTEGER PRIMARY KEY, text TEXT)")
    began = time.perf_counter()
    for number in range(count):
        connection.execute("INSERT INTO entries VALUES (?, ?)", (number, "x" * 300))
    return time.perf_counter() - began


def in_memory(count: int) -> tuple[float, float]:
    began = time.perf_counter()
    filter = Filter(LIMIT)
    for _ in range(count):
        filter = filter.spend(EVENT)
    filtered = time.perf_counter() - began
    accountant = Accountant()
    began = time.perf_counter()
    for _ in range(count):
        accountant.compose(EVENT)
    return count / filtered, count / (time.perf_counter() - began)


def main() -> int:
    reader = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    reader.add_argument("--count", type=int, default=200)
    reader.add_argument("--folder", default=".")
    given = reader.parse_args()
    count = given.count
    with tempfile.TemporaryDirectory(prefix="bench-ledger-", dir=given.folder) as name:
        folder = Path(name)
        floor = count / bare(folder / "bare.db", count)
        with Ledger.create(folder / "anchored.db", limit=LIMIT, anchor=folder / "anchor.json") as ledger:
            anchored = count / spends(ledger, "anchored", count)[0]
        with Ledger.create(folder / "ledger.db", limit=LIMIT) as ledger:
            spends(ledger, "warm", 20)
            few_wall, few = spends(ledger, "few", count)
            tracemalloc.start()
            spends(ledger, "traced", 50)
            before = tracemalloc.get_traced_memory()[1]
            tracemalloc.reset_peak()
            many_wall, _ = spends(ledger, "traced-more", 10 * count)
            growth = tracemalloc.get_traced_memory()[1] - before
            tracemalloc.stop()
            many_wall, many = spends(ledger, "many", 10 * count)
            released = count / releases(ledger, count)
        began = time.perf_counter()
        report = verify(folder / "ledger.db")
        checked = report.entries / (time.perf_counter() - began)
    filtered, composed = in_memory(20_000)
    table = Table("ledger", "measured", title=f"durable on {Path(given.folder).resolve()}")
    for what, number in (
        ("bare SQLite commits a second (floor)", f"{floor:,.0f}"),
        ("spends a second", f"{count / few_wall:,.0f}"),
        ("spends a second, after 10x", f"{10 * count / many_wall:,.0f}"),
        ("spends a second with an anchor on the same disk", f"{anchored:,.0f}"),
        ("releases a second (two commits each)", f"{released:,.0f}"),
        (f"{10 * count} spends / {count} spends, CPU time", f"{many / few:.2f}"),
        (f"{10 * count} spends / {count} spends, wall time", f"{many_wall / few_wall:.2f}"),
        ("growth of memory over the tenfold run", f"{growth / 1024:.0f} KiB"),
        ("peak memory of this process", f"{resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:.0f} MiB"),
        ("entries verified a second", f"{checked:,.0f}"),
        ("filter spends a second, in memory", f"{filtered:,.0f}"),
        ("accountant events a second, in memory", f"{composed:,.0f}"),
    ):
        table.add_row(what, number)
    Console(width=110).print(table)
    return 0 if many / few < 15 and growth < 2 * 2**20 else 1


if __name__ == "__main__":
    sys.exit(main())
