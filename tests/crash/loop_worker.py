"""A process of its own that kills loops in the middle of writes, and under load, and reports as JSON.

Run as a script: everything is imported once, each experiment is a fork. Outside the store three logs are kept: what was
acknowledged (decisions with their reply, rewards), and every draw of a block.
"""

from __future__ import annotations

import json
import os
import random
import resource
import shutil
import signal
import sys
import tempfile
import threading
import time
import traceback
from collections import Counter
from pathlib import Path

import even_blocks
import opendp.measurements  # noqa: F401 - imported once, before any fork
from children import at_point, kill_self, run_child

from fairveil.errors import FairveilError, LedgerError
from fairveil.loop import ManualClock, Reward, Store
from fairveil.loop.blocks import MOST_AT_ONCE
from fairveil.loop.problems import LoopError, StorageFailed
from fairveil.loop.upkeep import check
from fairveil.storage import faults

POLICY = {"name": "even-blocks", "arms": 3, "epsilon": 1.0, "length": 2}
REWARD = Reward(0, 1, wait="60s", missing="public")
KEY = bytes(32)
EVENTS = 9
FAST = os.environ.get("FAIRVEIL_CRASH_FOLDER")


class Place:
    """A folder with a store and the logs of what callers saw."""

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="loop-", dir=FAST))
        server = os.environ.get("FAIRVEIL_CRASH_SERVER")
        if server:
            import postgres_server

            self.url = postgres_server.own_schema(server)
        else:
            self.url = f"sqlite:///{self.folder}/store.db"
        self.seen, self.draws = self.folder / "seen", self.folder / "draws"

    def open(self) -> tuple[Store, object]:
        store = Store.open(self.url, clock=ManualClock(), key=KEY)
        try:
            return store, store.loop("trial")
        except LoopError:
            return store, store.create("trial", policy=POLICY, reward=REWARD)

    def lines(self, file: Path) -> list[list[str]]:
        return [line.split() for line in file.read_text().splitlines()] if file.exists() else []


def log(file: Path, *words: object) -> None:
    with open(file, "a") as out:
        out.write(" ".join(str(word) for word in words) + "\n")


def watch_draws(place: Place) -> None:
    """Every draw of this process leaves a line: at most one for each block, over all processes."""
    real = even_blocks.EvenBlocks.draw

    def draw(self, state, noise):
        if noise.protects:  # not the rehearsal on made-up rows
            log(place.draws, self.block(state).name)
        return real(self, state, noise)

    even_blocks.EvenBlocks.draw = draw


def scenario(place: Place) -> None:
    """Decisions, rewards and ticks; a program that runs it again after a crash repeats what was not acknowledged."""
    store, loop = place.open()
    try:
        for number in range(EVENTS):
            reply = loop.decide(f"e-{number}")
            log(place.seen, "decided", f"e-{number}", reply.round, reply.action)
            loop.reward(f"e-{number}", 0.5)
            log(place.seen, "rewarded", f"e-{number}")
            if number % 4 == 3:
                store.tick()
    finally:
        store.close()


def verify(place: Place, where: str) -> None:
    """What must hold whenever nobody is writing."""
    store, loop = place.open()
    try:
        check(store)
        for kind, event, *rest in place.lines(place.seen):
            if kind == "decided":
                again = loop.decide(event)
                assert again.replayed, f"{where}: an acknowledged decision is lost"
                assert [str(again.round), str(again.action)] == rest, f"{where}: another reply"
            else:
                assert loop.event(event)["reward"] != "none", f"{where}: an acknowledged reward is lost"
        with store.reading() as tx:
            rounds = [row[0] for row in tx.execute("SELECT round FROM events WHERE round IS NOT NULL ORDER BY round")]
        assert rounds == list(range(len(rounds))), f"{where}: rounds have gaps"
        drawn = Counter(name for (name,) in place.lines(place.draws))
        assert max(drawn.values(), default=0) <= 1, f"{where}: a block was drawn twice"
        published = [entry["name"] for entry in loop.ledger.entries() if entry["kind"] == "publish"]
        assert len(published) <= len(drawn), f"{where}: published more than was drawn"
        assert loop.ledger.spent.units == 1_000_000, f"{where}: spent is not what was paid"
        assert loop.status().version == len(published) - _unadopted(loop, published), where
    finally:
        store.close()


def _unadopted(loop, published) -> int:
    """Published in the ledger, not yet in the store: at most what was released together when a crash came."""
    missing = len(published) - loop.status().version
    assert 0 <= missing <= MOST_AT_ONCE
    return missing


def finish(place: Place, where: str) -> None:
    verify(place, where)
    scenario(place)
    store, _ = place.open()
    store.tick()
    store.close()
    verify(place, f"{where}, finished")
    store, loop = place.open()
    status = loop.status()
    assert (status.round, status.erased) == (EVENTS, 8), f"{where}: {status}"
    store.close()


def points() -> list[str]:
    place, names = Place(), []
    faults.hook = names.append
    scenario(place)
    faults.hook = None
    return names


def kill_everywhere(most: int) -> dict:
    """At every write point of the scenario, or evenly spread over them."""
    names = points()
    assert names == points(), "the scenario has a fixed number of points"
    step = max(1, len(names) // most)
    chosen = sorted({*range(0, len(names), step), *(names.index(name) for name in set(names))})
    for number in chosen:
        place, where = Place(), f"killed at {number} ({names[number]})"

        def work(place=place, number=number) -> None:
            watch_draws(place)
            faults.hook = at_point(number)
            scenario(place)

        assert run_child(work) == -signal.SIGKILL, where
        assert run_child(lambda place=place, where=where: (watch_draws(place), finish(place, where))) == 0, where
        shutil.rmtree(place.folder)
    return {"killed": len(chosen), "points": sorted(set(names))}


def kill_under_load(times: int) -> dict:
    """Several threads and a ticker; killed at a random moment."""
    random.seed(7)
    acknowledged = 0
    for number in range(times):
        place, where = Place(), f"killed under load, {number}"
        moment = random.uniform(0.005, 0.12)

        def work(place=place) -> None:
            watch_draws(place)
            store, loop = place.open()
            log(place.folder / "ready", "yes")

            def ask(thread: int) -> None:
                for index in range(10**6):
                    event = f"t{thread}-{index}"
                    reply = loop.decide(event)
                    log(place.folder / f"seen-{thread}", "decided", event, reply.round, reply.action)
                    loop.reward(event, 0.5)
                    log(place.folder / f"seen-{thread}", "rewarded", event)

            for thread in range(6):
                threading.Thread(target=ask, args=(thread,), daemon=True).start()
            while True:
                store.tick()

        child = os.fork()
        if child == 0:
            try:
                work()
            finally:
                os._exit(3)
        deadline = time.monotonic() + 30
        while not (place.folder / "ready").exists() and time.monotonic() < deadline:
            time.sleep(0.001)
        time.sleep(moment)
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        with open(place.seen, "w") as out:
            for file in sorted(place.folder.glob("seen-*")):
                whole = [line for line in file.read_text().splitlines(keepends=True) if line.endswith("\n")]
                out.writelines(whole)
        acknowledged += len(place.lines(place.seen))
        assert run_child(lambda place=place, where=where: verify(place, where)) == 0, where
        shutil.rmtree(place.folder)
    return {"killed": times, "acknowledged": acknowledged}


def starve() -> dict:
    """No file can grow from some point on: refused, nothing corrupted; then it works again."""
    names = points()
    refused = 0
    for number in range(0, len(names), 9):
        place, where = Place(), f"starved at {number} ({names[number]})"

        def work(place=place, number=number, where=where) -> None:
            def cut(name: str) -> None:
                resource.setrlimit(resource.RLIMIT_FSIZE, (0, resource.RLIM_INFINITY))

            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            watch_draws(place)
            faults.hook = at_point(number, cut)
            problem = None
            try:
                scenario(place)
            except (FairveilError, OSError) as found:
                problem = found
            faults.hook = None
            resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
            if problem is not None:
                log(place.folder / "refused", type(problem).__name__)
                assert isinstance(problem, StorageFailed | LedgerError | OSError), repr(problem)
            finish(place, where)

        assert run_child(work) == 0, where
        refused += (place.folder / "refused").exists()
        shutil.rmtree(place.folder)
    return {"tried": len(range(0, len(names), 9)), "refused": refused}


def read_only() -> dict:
    """As a user who may not write there: refused in words, nothing changed, and it works when it may."""
    place = Place()
    place.folder.chmod(0o755)
    scenario(place)
    files = [place.folder, *place.folder.rglob("*")]
    before = {path: path.read_bytes() for path in files if path.is_file()}
    for path in files:
        path.chmod(0o555 if path.is_dir() else 0o444)

    def work() -> None:
        if os.getuid() == 0:
            os.setgid(65534)
            os.setuid(65534)
        words = ""
        try:
            place.open()
        except StorageFailed as problem:
            words = problem.fix
        assert "writable" in words, words or "it opened"

    status = run_child(work)
    for path in files:
        path.chmod(0o755 if path.is_dir() else 0o644)
    assert all(path.read_bytes() == content for path, content in before.items() if path.suffix == ".db")
    _opens(place)
    return {"status": status}


def torn() -> dict:
    """The end of the write-ahead log is cut, as by a power cut: what was not whole is gone, the rest stands."""
    outcomes: Counter[str] = Counter()
    for keep in (1, 37, 4095, 5000, 9001):
        place = Place()

        def work(place=place) -> None:
            faults.hook = at_point(len(points_cache()) - 60, kill_self)
            scenario(place)

        assert run_child(work) == -signal.SIGKILL
        wal = place.folder / "store.db-wal"
        size = wal.stat().st_size
        with open(wal, "r+b") as file:
            file.truncate(max(0, size - keep))
        (place.folder / "seen").unlink(missing_ok=True)  # acknowledged commits were on disk; this log was torn by us
        assert run_child(lambda place=place: _opens(place)) == 0, keep
        outcomes["whole"] += 1
        shutil.rmtree(place.folder)
    return dict(outcomes)


def _opens(place: Place) -> None:
    store, loop = place.open()
    with store.reading() as tx:
        rounds = [row[0] for row in tx.execute("SELECT round FROM events WHERE round IS NOT NULL ORDER BY round")]
        [(found,)] = tx.execute("SELECT round FROM loops")
        assert tx.execute("PRAGMA integrity_check")[0][0] == "ok"
    assert rounds == list(range(found))
    loop.decide("after")
    store.close()


_points: list[str] = []


def points_cache() -> list[str]:
    if not _points:
        points()  # the first time also compiles, and checks the laws that a plug-in keeps
        _points.extend(points())
    return _points


ACTIONS = {
    "kill": lambda: kill_everywhere(int(os.environ.get("FAIRVEIL_CRASH_KILLS", "120"))),
    "load": lambda: kill_under_load(int(os.environ.get("FAIRVEIL_CRASH_LOADED", "60"))),
    "starve": starve,
    "torn": torn,
    "read-only": read_only,
}


def attempt(action: str) -> dict:
    try:
        return ACTIONS[action]()
    except Exception:
        return {"error": traceback.format_exc()}


if __name__ == "__main__":
    points_cache()  # once before any fork: compiled code, and the laws that a plug-in keeps
    print(json.dumps({action: attempt(action) for action in sys.argv[1:]}))
