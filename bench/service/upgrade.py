"""A store of version 0.1.0 with a million events is upgraded: how long nobody is served.

python bench/service/upgrade.py [events] [postgresql://...]   (default 1,000,000 on SQLite; limit 10 s)

The store is the one that tests/compat keeps of 0.1.0, with events added by SQL: no round, as of a frozen loop; every
tenth still has its content. Downtime: from the start of the upgrade until a decision of that loop is answered.
"""

from __future__ import annotations

import gzip
import os
import sqlite3
import sys
import tarfile
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "support"))

from compat_plays import FILES, KEY  # noqa: E402

from fairveil.loop import Store  # noqa: E402

LIMIT = 10.0
PAGE = 20_000
COLUMNS = "loop, key, decided, until, action, propensity, version, mode, learn, reason, activated, own, context"
OPEN = "SELECT name FROM loops WHERE config LIKE '%private-nash%' AND closed IS NULL ORDER BY name LIMIT 1"
"""A loop that decides between arms."""


def rows(loop: int, first: int, count: int) -> list[tuple[object, ...]]:
    keys, now = os.urandom(16 * count), 1_700_000_000_000_000
    return [
        (loop, keys[16 * i : 16 * i + 16], now + first + i, now + first + i, 0, 0.5, 1, "frozen", "never", "mode", 1, 0,
         os.urandom(160) if i % 10 == 0 else None)
        for i in range(count)
    ]  # fmt: skip


def on_sqlite(folder: Path, events: int) -> tuple[str, Path | None]:
    with tarfile.open(FILES / "loops.tar.xz") as files:
        files.extractall(folder, filter="data")
    place = next(folder.rglob("store.db"))
    with sqlite3.connect(place) as base:
        [(loop,)] = base.execute(OPEN.replace("name FROM", "id FROM"))
        marks = ", ".join("?" for _ in COLUMNS.split(", "))
        for first in range(0, events, PAGE):
            values = rows(loop, first, min(PAGE, events - first))
            base.executemany(f"INSERT INTO events ({COLUMNS}) VALUES ({marks})", values)
    base.close()
    return f"sqlite:///{place}", next(iter(place.parent.glob("anchors")), None)


def on_postgres(server: str, events: int) -> tuple[str, None]:
    import psycopg

    with psycopg.connect(server, autocommit=True) as base:
        base.execute("DROP SCHEMA IF EXISTS fairveil_0_1_0 CASCADE")
    text = gzip.decompress((FILES / "postgres.sql.gz").read_bytes()).decode()
    url = f"{server}?options=-csearch_path%3Dfairveil_0_1_0"
    run_dump(server, text)
    with psycopg.connect(url) as base:
        loop = base.execute(OPEN.replace("name FROM", "id FROM")).fetchone()[0]  # type: ignore[index]
        for first in range(0, events, PAGE):
            with base.cursor().copy(f"COPY events ({COLUMNS}) FROM STDIN") as copy:
                for row in rows(loop, first, min(PAGE, events - first)):
                    copy.write_row(row)
    return url, None


def run_dump(server: str, text: str) -> None:
    import subprocess

    subprocess.run(["psql", "-q", "-v", "ON_ERROR_STOP=1", server], input=text, text=True, check=True)


def main() -> None:
    events = int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000
    with tempfile.TemporaryDirectory() as folder:
        url, anchors = on_postgres(sys.argv[2], events) if len(sys.argv) > 2 else on_sqlite(Path(folder), events)
        began, spent = time.perf_counter(), time.process_time()
        with Store.open(url, key=KEY, anchors=anchors, migrate=True, clock_gap="36500d") as store:
            opened = time.perf_counter() - began
            with store.reading() as tx:
                [(name,)] = tx.execute(OPEN)
            loop = store.loop(name)
            loop.decide("after the upgrade", **({"subject": "somebody"} if loop.facts.spec.person.max_events else {}))
            down, spent = time.perf_counter() - began, time.process_time() - spent
            with store.reading() as tx:
                [(there,)] = tx.execute("SELECT count(*) FROM events")
    words = f"upgraded after {opened:.2f} s, answered after {down:.2f} s (CPU {spent:.2f} s)"
    print(f"{events:,} events: {words}; {there:,} rows")
    if there < events or down > LIMIT:
        raise SystemExit(f"more than {LIMIT:g} s, or events are gone")


if __name__ == "__main__":
    main()
