"""A process of its own that is killed at every write point of a report, and goes on; results as JSON.

Run as a script: everything is imported once, each experiment is a fork. The ledger says how often a block was charged.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import sys
import tempfile
from collections import Counter
from pathlib import Path

import even_blocks  # noqa: F401 - registers its policy
import opendp.measurements  # noqa: F401 - imported once, before any fork
import postgres_server
from children import at_point, run_child

from fairveil.loop import ManualClock, Reward, Store
from fairveil.loop.problems import UnknownLoop
from fairveil.loop.public import release_tables
from fairveil.storage import faults

POLICY = {"name": "even-blocks", "arms": 2, "epsilon": 1.0}
KEY, EVENTS = bytes(32), 7
NAMES = ("report-fairness-0-4", "report-fairness-4-7")
"""By tick, and by hand."""
SERVER = os.environ.get("FAIRVEIL_CRASH_SERVER")


def opened(folder: Path) -> tuple[Store, object]:
    clock = ManualClock()
    clock.advance(1000 * (1 + len(list(folder.glob("life-*")))))
    (folder / f"life-{len(list(folder.glob('life-*')))}").touch()
    url = (folder / "url").read_text() if SERVER else f"sqlite:///{folder}/store.db"
    store = Store.open(url, clock=clock, key=KEY)
    try:
        return store, store.loop("trial")
    except UnknownLoop:
        reports = {"every": 4, "epsilon": 0.25, "spare": 0.5}
        made = store.create("trial", policy=POLICY, groups=["a", "b"], reward=Reward(0, 1, wait="60s"), reports=reports)
        for number in range(EVENTS):
            made.decide(f"e-{number}", group="ab"[number % 2])
            made.reward(f"e-{number}", 1.0)
        return store, made


def life(folder: Path) -> None:
    """Settle, make what is due, and ask for the rest by hand."""
    store, loop = opened(folder)
    try:
        store.clock.clock.advance(120)
        store.tick()
        loop.release("fairness", first=4, stop=7, epsilon=0.25)
    finally:
        store.close()


def checked(folder: Path, where: str) -> dict:
    store, loop = opened(folder)
    try:
        tables = {one["id"]: one for one in release_tables(loop)}
        assert set(tables) == set(NAMES), f"{where}: {sorted(tables)}"
        entries = list(loop.ledger.entries())
        taken = Counter(entry["name"] for entry in entries if entry["kind"] == "reserve")
        assert max(taken.values()) == 1, f"{where}: a block was charged twice"
        lost = 0
        for name, one in tables.items():
            status = loop.ledger.status(f"trial/0/{name}")
            gone = one["value"].get("status") == "lost"
            assert status == ("lost" if gone else "published"), f"{where}: {name} is {status}"
            lost += gone
        assert loop.ledger.spent.units == 1_500_000, f"{where}: {loop.ledger.spent.units}"
        return {"lost": lost}
    finally:
        store.close()


def another(base: Path | None) -> Path:
    """A store before its first report: a copy of one, or a new one on the server."""
    folder = Path(tempfile.mkdtemp(prefix="report-", dir=os.environ.get("FAIRVEIL_CRASH_FOLDER")))
    if base is not None and not SERVER:
        return Path(shutil.copytree(base, folder, dirs_exist_ok=True))
    if SERVER:
        (folder / "url").write_text(postgres_server.own_schema(SERVER))
    assert run_child(lambda: opened(folder)[0].close()) == 0
    return folder


def main() -> dict:
    base = another(None)
    names: list[str] = []
    probe = another(base)
    faults.hook = names.append
    life(probe)
    faults.hook = None
    lost = 0
    for number in range(len(names)):
        folder = another(base)
        where = f"killed at {number} ({names[number]})"

        def work(folder=folder, number=number) -> None:
            faults.hook = at_point(number)
            life(folder)

        ended = run_child(work)
        if ended == 0 and number >= 60:  # the run of a child is a few points shorter than that of its parent
            break
        assert ended == -signal.SIGKILL, f"{where}: {ended}"
        assert run_child(lambda folder=folder: life(folder)) == 0, where
        lost += checked(folder, where)["lost"]
        shutil.rmtree(folder)
    return {"killed": number, "points": sorted(set(names)), "lost": lost}


if __name__ == "__main__":
    sys.stdout.write(json.dumps(main()))
