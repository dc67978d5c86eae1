"""A process of its own that forks, kills and starves children in the middle of ledger writes, and reports as JSON.

Run as a script: everything is imported once, each experiment is a fork, so killing at every point stays cheap.
Each scenario keeps two logs outside the ledger: every draw (block, value), and every value that its caller saw.
"""

from __future__ import annotations

import contextlib
import json
import os
import resource
import signal
import sys
import tempfile
import threading
import traceback
from collections import Counter
from pathlib import Path

import opendp.measurements  # noqa: F401 - imported once, before any fork
from children import at_point, run_child

from fairveil.errors import BudgetError, LedgerError
from fairveil.ledger import Ledger, Limit, ReleaseLost, verify
from fairveil.ledger.chain import LedgerGone
from fairveil.ledger.places import place_of
from fairveil.privacy.events import ParallelEvent, PureEvent
from fairveil.storage import faults
from fairveil.storage.postgres import lock_number

LIMIT = Limit.pure(1.0)
TENTH = 100_000
BLOCKS = ("one", "two", "under/three")


class Place:
    """A folder with a ledger, its anchor in a second folder, and the two logs."""

    def __init__(self, anchored: bool, folder: str | None = None) -> None:
        self.folder = Path(folder or tempfile.mkdtemp(prefix="case-", dir=os.environ.get("FAIRVEIL_CRASH_FOLDER")))
        (self.folder / "second").mkdir(exist_ok=True)
        server = None if folder else os.environ.get("FAIRVEIL_CRASH_SERVER")
        self.path: Path | str = f"{server}#{self.folder.name}" if server else self.folder / "ledger.db"
        self.anchor = self.folder / "second" / "anchor.json" if anchored else None
        self.draws, self.seen = self.folder / "draws", self.folder / "seen"

    def open(self) -> Ledger:
        return Ledger.create(self.path, limit=LIMIT, anchor=self.anchor)

    def lines(self, file: Path) -> list[list[str]]:
        return [line.split() for line in file.read_text().splitlines()] if file.exists() else []


def log(file: Path, *words: object) -> None:
    with open(file, "a") as out:
        out.write(" ".join(str(word) for word in words) + "\n")


def scenario(place: Place, ledger: Ledger | None = None) -> None:
    """Two releases that pay, an account, and one release under it; as a program would run it again after a crash."""
    opened = place.open() if ledger is None else ledger

    def draw_for(block: str):
        def draw(noise) -> int:
            value = int(noise.laplace(2.0**30)[0])
            log(place.draws, block, value)
            return value

        return draw

    for block in BLOCKS:
        pays = {"event": PureEvent(0.1)}
        if block.startswith("under/"):
            opened.spend("under", ParallelEvent(PureEvent(0.2)))
            pays = {"account": "under"}
        try:
            log(place.seen, block, opened.release(block, draw_for(block), **pays))
        except ReleaseLost:
            log(place.seen, block, "lost")
    if ledger is None:
        opened.close()


def points_of(anchored: bool) -> list[str]:
    place, names = Place(anchored), []
    faults.hook = names.append
    scenario(place)
    faults.hook = None
    return names


def check(place: Place, where: str) -> None:
    """What must hold whenever nobody is writing."""
    report = verify(place.path, place.anchor)
    with place.open() as ledger:
        paid = Counter(block for block, _ in place.lines(place.draws))
        assert max(paid.values(), default=0) <= 1, f"{where}: drawn twice"
        needed = TENTH * sum(block in ("one", "two") for block in paid) + 2 * TENTH * ("under/three" in paid)
        assert ledger.filter.used.units >= needed, f"{where}: spent is below what was drawn"
        for block, value in place.lines(place.seen):
            if value == "lost":
                assert ledger.status(block) == "lost", where
            else:
                assert str(ledger.value(block)) == value, f"{where}: another value than the one that was seen"
        for block, value in place.lines(place.draws):
            if ledger.status(block) == "published":
                assert str(ledger.value(block)) == value, f"{where}: published something that was not drawn"
        assert ledger.filter.reserved.units == 0, f"{where}: a dead process still holds a reservation"
    assert report.under_way <= 1


def finish(place: Place, where: str) -> None:
    """Run the program again: it completes, pays for everything exactly once, and draws nothing twice."""
    try:
        with contextlib.closing(place_of(place.path)) as found:
            found.check(10.0)
        check(place, where)
    except LedgerGone:
        assert not place.lines(place.draws), f"{where}: drawn without a ledger"
    scenario(place)
    check(place, where)
    with place.open() as ledger:
        assert ledger.filter.used.units == 4 * TENTH, f"{where}: {ledger.filter.used}"


def kill_everywhere(anchored: bool) -> dict:
    names = points_of(anchored)
    lost = 0
    for number, name in enumerate(names):
        place, where = Place(anchored), f"killed at {number} ({name})"

        def work(place=place, number=number) -> None:
            faults.hook = at_point(number)
            scenario(place)

        assert run_child(work) == -signal.SIGKILL, where
        finish(place, where)
        lost += sum(value == "lost" for _, value in place.lines(place.seen))
    return {"points": names, "lost": lost}


def kill_recovery() -> dict:
    """Kill at a place that leaves a reservation, then kill the recovery at every one of its points."""
    names = points_of(True)
    first = names.index("drawn")
    for number in range(200):
        place, where = Place(True), f"recovery killed at {number}"

        def die(place=place) -> None:
            faults.hook = at_point(first)
            scenario(place)

        def recover(place=place, number=number) -> None:
            faults.hook = at_point(number)
            place.open().close()

        assert run_child(die) == -signal.SIGKILL
        status = run_child(recover)
        finish(place, where)
        if status == 0:
            return {"tried": number}
        assert status == -signal.SIGKILL, where
    raise AssertionError("the recovery never ends")


def break_everywhere(anchored: bool, kind: str) -> dict:
    """At every point the next step fails as on a full disk or a folder that became read-only; then it works again."""
    names = points_of(anchored)
    counts: Counter[str] = Counter()
    for number, name in enumerate(names):
        place, where = Place(anchored), f"{kind} at {number} ({name})"

        def work(place=place, number=number, name=name, where=where) -> None:
            def fail(point: str) -> None:
                if kind == "starve":  # really: no file can be written from here on
                    resource.setrlimit(resource.RLIMIT_FSIZE, (0, resource.RLIM_INFINITY))
                elif point.startswith(("anchor", "create", "draw")) or kind == "readonly":
                    raise OSError(28 if kind == "full" else 30, os.strerror(28 if kind == "full" else 30))
                else:
                    raise place_of(place.path).failures[0]("database or disk is full")

            ledger = None
            problem = None
            faults.hook = at_point(number, fail)
            try:
                ledger = place.open()
                scenario(place, ledger)
            except (LedgerError, OSError) as error:
                problem = error
            faults.hook = None
            resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
            if kind != "starve":  # a starved step may come before the next write, or after the last
                assert problem is not None, f"{where}: nothing was noticed"
                if name not in ("draw", "drawn"):
                    assert isinstance(problem, LedgerError), f"{where}: {problem!r}"
                    assert problem.fix, where
            counts[type(problem).__name__] += 1
            drawn = len(place.lines(place.draws))
            if ledger is not None and drawn == 0 and "nothing was charged" in str(problem):
                assert ledger.filter.used.units == 0, f"{where}: charged although it said not"
            if ledger is not None:
                scenario(place, ledger)  # the same process goes on when the disk works again
                ledger.close()
            finish(place, where)
            log(place.folder / "result", type(problem).__name__)

        assert run_child(work) == 0, where
        counts[place.lines(place.folder / "result")[0][0]] += 1
    return {"points": len(names), "outcomes": dict(counts)}


def race(processes: int) -> dict:
    """Everybody wants the last unit, under a name of their own."""
    place = Place(True)
    with place.open() as ledger:
        ledger.spend("before", PureEvent(0.999999))

    def work(index: int):
        def run() -> None:
            with place.open() as ledger:
                try:
                    ledger.release(f"block-{index}", lambda noise: index, event=PureEvent(0.000001))
                    log(place.folder / "wins", index)
                except BudgetError as problem:
                    log(place.folder / ("refused" if "largest admissible" in str(problem) else "unclear"), index)

        return run

    together(work, processes)
    report = verify(place.path, place.anchor)
    return {
        "wins": len(place.lines(place.folder / "wins")),
        "refused": len(place.lines(place.folder / "refused")),
        "remaining": report.remaining,
    }


def race_one_block(processes: int) -> dict:
    """Everybody asks for the same block, in a ledger that everybody creates."""
    place = Place(True)

    def work(index: int):
        def run() -> None:
            def draw(noise) -> int:
                log(place.draws, "same", index)
                return index

            with place.open() as ledger:
                log(place.seen, "same", ledger.release("same", draw, event=PureEvent(1.0)))

        return run

    together(work, processes)
    values = {value for _, value in place.lines(place.seen)}
    return {"draws": len(place.lines(place.draws)), "values": len(values), "seen": len(place.lines(place.seen))}


def together(work, processes: int) -> None:
    """Fork them all, let them go at once, and wait."""
    read, write = os.pipe()
    children = []
    for index in range(processes):
        child = os.fork()
        if child == 0:
            code = 3
            try:
                os.close(write)
                os.read(read, 1)  # returns when the parent closes its end
                work(index)()
                code = 0
            except BaseException:
                traceback.print_exc()
            finally:
                os._exit(code)
        children.append(child)
    os.close(read)
    os.close(write)
    for child in children:
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def inherited(processes: int) -> dict:
    """Children use the ledger object that their parent opened, while the parent and its threads use it too."""
    place = Place(True)
    ledger = Ledger.create(place.path, limit=Limit.pure(100.0), anchor=place.anchor)
    ledger.release("parent", lambda noise: 1, event=PureEvent(0.1))

    def thread() -> None:
        for number in range(5):
            ledger.release(f"thread-{number}", lambda noise: 7, event=PureEvent(0.1))

    threads = [threading.Thread(target=thread) for _ in range(2)]
    for one in threads:
        one.start()

    def work(index: int):
        def run() -> None:
            for number in range(5):
                ledger.release(f"child-{index}-{number}", lambda noise: 7, event=PureEvent(0.1))
            assert ledger.value("parent") == 1
            noise = ledger.release(f"noise-{index}", lambda noise: int(noise.laplace(2.0**40)[0]), event=PureEvent(0.1))
            log(place.seen, "noise", noise)

        return run

    together(work, processes)
    for one in threads:
        one.join()
    used = ledger.filter.used.units
    ledger.close()
    noises = {value for _, value in place.lines(place.seen)}
    report = verify(place.path, place.anchor)
    return {"used": used, "published": report.published, "lost": report.lost, "different_noise": len(noises)}


def cut_life() -> dict:
    """The connection that says that this process lives, and no other, is cut while a block is drawn, then once more."""
    import psycopg

    place = Place(True)
    server = str(place.path).partition("#")[0]
    ledger = place.open()
    ledger.spend("before", PureEvent(0.1))
    session, tokens = ledger.draws.session, []

    def backends(query: str, *values: object) -> list[int]:
        with psycopg.connect(server, autocommit=True) as other:
            return [pid for (pid,) in other.execute(query, values)]

    def cut() -> None:
        key = lock_number("session", session.token) % 2**64
        tokens.append(session.token)
        held = "SELECT pid FROM pg_locks WHERE locktype = 'advisory' AND classid::bigint = %s AND objid::bigint = %s"
        [pid] = backends(held, key >> 32, key % 2**32)
        backends("SELECT pg_terminate_backend(%s)", pid)
        while backends("SELECT pid FROM pg_stat_activity WHERE pid = %s", pid):
            pass

    def draw(noise) -> int:
        log(place.draws, "one", 1)
        cut()
        assert run_child(ask) == 0
        return 1

    def ask() -> None:
        """Another process finds the draw dead, and does not draw it again."""
        with place.open() as other:
            assert other.status("one") == "lost"
            try:
                other.release("one", lambda noise: log(place.draws, "one", 2), event=PureEvent(0.1))
            except ReleaseLost:
                log(place.folder / "refused", "other")

    try:
        ledger.release("one", draw, event=PureEvent(0.1))
    except ReleaseLost:
        log(place.folder / "refused", "self")
    ledger.release("two", lambda noise: 2, event=PureEvent(0.1))
    cut()
    ledger.release("three", lambda noise: 3, event=PureEvent(0.1))
    every = [*tokens, session.token]
    assert run_child(lambda: look_at(place, every)) == 0
    lost = ledger.lost()
    ledger.close()
    report = verify(place.path, place.anchor)
    return {
        "draws": len(place.lines(place.draws)),
        "refused": sorted(word for (word,) in place.lines(place.folder / "refused")),
        "lost": lost,
        "published": report.published,
        "tokens": len(set(every)),
        "alive": [int(word) for (word,) in place.lines(place.folder / "alive")],
    }


def look_at(place: Place, tokens: list[str]) -> None:
    """From another process: which of the tokens live."""
    with place.open() as other:
        for token in tokens:
            log(place.folder / "alive", int(other.draws.session.alive(token)))


def full_tmpfs(folder: str) -> dict:
    """A small file system that really fills up, at every amount of free space from none to enough."""
    outcomes: Counter[str] = Counter()
    for free in (*range(0, 40_000, 4096), 60_000, 80_000, 120_000, 160_000, 200_000):
        for old in [*Path(folder).glob("*"), *Path(folder).glob("second/*")]:
            if old.is_file():
                old.unlink()
        place = Place(True, folder)
        stat = os.statvfs(folder)
        (place.folder / "filler").write_bytes(bytes(max(0, stat.f_bavail * stat.f_bsize - free)))
        try:
            ledger = None
            ledger = place.open()
            scenario(place, ledger)
            outcomes["enough"] += 1
        except LedgerError as problem:
            outcomes["full" if "free space" in str(problem) else str(problem)] += 1
        (place.folder / "filler").unlink()
        if ledger is not None:
            scenario(place, ledger)
            ledger.close()
        finish(place, f"{free} bytes free")
    return dict(outcomes)


def refusal(path: Path, limit: Limit | None, anchor: Path | None) -> str:
    try:
        Ledger.create(path, limit=limit, anchor=anchor).close()
    except LedgerError as problem:
        return str(problem)
    return "it opened"


def read_only(folder: str) -> dict:
    """As a user who may not write there: opening, making and checking a ledger in a read-only folder."""
    path, anchor = Path(folder) / "ledger.db", Path(folder) / "anchor.json"
    with Ledger.create(path, limit=LIMIT, anchor=anchor) as ledger:
        ledger.release("one", lambda noise: 1, event=PureEvent(0.1))
    os.chmod(folder, 0o555)
    for file in Path(folder).iterdir():
        os.chmod(file, 0o444)
    result = {}

    def work() -> None:
        if os.getuid() == 0:
            os.setgid(65534)
            os.setuid(65534)
        for target, limit in ((path, None), (Path(folder) / "other.db", LIMIT)):
            words = refusal(target, limit, anchor if limit is None else None)
            assert "writable" in words, words
            assert "nothing was charged" in words, words
        assert verify(path, anchor).published == 1

    result["status"] = run_child(work)
    os.chmod(folder, 0o755)
    return result


ACTIONS = {
    "kill": lambda: kill_everywhere(False),
    "kill-anchored": lambda: kill_everywhere(True),
    "kill-recovery": kill_recovery,
    "break-full": lambda: break_everywhere(True, "full"),
    "break-readonly": lambda: break_everywhere(True, "readonly"),
    "break-starve": lambda: break_everywhere(True, "starve"),
    "race": lambda: race(8),
    "race-one-block": lambda: race_one_block(8),
    "inherited": lambda: inherited(4),
    "cut-life": cut_life,
}

FOLDER_ACTIONS = {"full-tmpfs": full_tmpfs, "read-only": read_only}


def attempt(action: str) -> dict:
    name, _, folder = action.partition("=")
    try:
        return FOLDER_ACTIONS[name](folder) if folder else ACTIONS[name]()
    except Exception:
        return {"error": traceback.format_exc()}


if __name__ == "__main__":
    print(json.dumps({action.partition("=")[0]: attempt(action) for action in sys.argv[1:]}))
