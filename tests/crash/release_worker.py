"""A process of its own that kills `fairveil release` at random moments and at every named point, and reports as JSON.

Everything is imported and compiled once; each experiment is a fork. After every kill the same run is started again
until it ends, and every state of the output that a reader could have seen is kept.
"""

from __future__ import annotations

import json
import os
import random
import signal
import sys
import tempfile
import time
from pathlib import Path

from fairveil.ledger import Ledger, verify
from fairveil.streams.columns import Columns
from fairveil.streams.serving.feed import Feed, Lines, Reading
from fairveil.streams.serving.output import Layout
from fairveil.streams.serving.release_run import ReleaseRun

ROWS = 60
TABLE = {"name": "private-kalman", "epsilon": 1.0, "delta": 1e-6, "horizon": ROWS}


class Case:
    """An input, a ledger and an output in a folder of their own."""

    def __init__(self, **keys: object) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="case-", dir=os.environ.get("FAIRVEIL_CRASH_FOLDER")))
        self.source, self.out, self.ledger = self.folder / "in.csv", self.folder / "out.csv", self.folder / "l.db"
        self.source.write_text("n\n" + "\n".join("" if t % 13 == 5 else str(100 + t % 7) for t in range(ROWS)) + "\n")
        self.table = {**TABLE, **keys}
        self.limit = 0

    def run(self, hook=lambda _: None, chunk: int = 8) -> None:
        """The command, with lines that wait in groups of ``chunk``."""
        columns = Columns.build(self.table, ["n"])
        descriptor = os.open(self.source, os.O_RDONLY)
        lines = Slowly(descriptor, chunk)
        feed = Feed(lines, Reading(("n",), horizon=ROWS))
        service = ReleaseRun(columns, feed, Layout("step", ["n"]), self.out, self.ledger, None, {})
        service.hook = hook
        service.run()

    def printed(self) -> list[str]:
        """Whole lines that a reader can see now."""
        text = self.out.read_text() if self.out.exists() else ""
        return text[: text.rfind("\n") + 1].splitlines()


class Slowly(Lines):
    """A few lines at a time, as from a pipe."""

    def __init__(self, descriptor: int, chunk: int) -> None:
        super().__init__(descriptor)
        self.chunk, self._all = chunk, None

    def waiting(self) -> list[str]:
        if self._all is None:
            self._all = os.read(self.descriptor, 1 << 20).decode().split("\n")[:-1]
        made, self._all = self._all[: self.chunk], self._all[self.chunk :]
        return made

    def can_be_read_again(self) -> bool:
        return False


def attempt(case: Case, hook, after: float | None = None) -> bool:
    """One process; killed by its hook or after a time. True when it came to its end."""
    child = os.fork()
    if child == 0:
        try:
            case.run(hook)
            os._exit(0)
        except BaseException as problem:  # reported by the exit code
            print(repr(problem), file=sys.stderr)
            os._exit(3)
    if after is not None:
        time.sleep(after)
        os.kill(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    if os.WIFEXITED(status) and os.WEXITSTATUS(status) != 0:
        raise AssertionError(f"the run failed with {os.WEXITSTATUS(status)}")
    return os.WIFEXITED(status)


def check(case: Case, seen: list[list[str]], charge: list[int]) -> None:
    """What was printed stays, no step has two values, nothing is spent twice, the end is complete."""
    for lines in seen:
        final = case.printed()
        assert final[: len(lines)] == lines, "a printed line has changed"
    steps = [line.split(",")[0] for line in case.printed()[1:]]
    assert steps == [str(t) for t in range(ROWS)], "the output is not complete"
    verify(case.ledger)
    with Ledger.open(case.ledger) as ledger:
        assert ledger.spent.to_list() == charge, "something was charged twice or not at all"
        lost = {step for name in ledger.lost() if "/steps/" in name for step in span(name)}
    shown = {t for t, line in enumerate(case.printed()[1:]) if line.endswith(",lost")}
    assert shown <= lost, "a step is marked lost that is in the ledger"
    values = {t for t, line in enumerate(case.printed()[1:]) if line.endswith(",released")}
    assert not values & lost, "a lost step was drawn again"


def span(name: str) -> range:
    first, last = name.split("/")[-1].split(":")[0].split("-")
    return range(int(first), int(last) + 1)


def until_done(case: Case, hooks, times) -> int:
    """Start again and again until the run ends; returns how often it was killed."""
    seen, kills, charge = [], 0, None
    for hook, after in zip(hooks, times, strict=False):
        done = attempt(case, hook, after)
        seen.append(case.printed())
        if case.ledger.exists():
            with Ledger.open(case.ledger) as ledger:
                spent = ledger.spent.to_list()
                assert charge is None or spent == charge or charge == [0, 0], "spent went down"
                charge = spent
        kills += not done
        if done:
            break
    attempt(case, lambda _: None)
    with Ledger.open(case.ledger) as ledger:
        charge = ledger.spent.to_list()
    check(case, seen, charge)
    return kills


def at_point(name: str, count: int):
    """A hook that kills its process at the count-th pass of a point."""
    passed = [0]

    def hook(point: str) -> None:
        if point == name:
            passed[0] += 1
            if passed[0] == count:
                os.kill(os.getpid(), signal.SIGKILL)

    return hook


def main() -> None:
    warm = Case()
    warm.run()
    begun = time.perf_counter()
    Case().run()
    whole = time.perf_counter() - begun
    report = {"points": 0, "random": 0}
    for name in ("ledger", "output", "before", "stored", "printed"):
        for count in (1, 2, 4) if name in ("before", "stored", "printed") else (1,):
            for keys in ({}, {"lag": 3}, {"neighbours": "add-remove", "starts": 30}):
                case = Case(**keys)
                report["points"] += until_done(case, [at_point(name, count)] * 2, [None] * 2)
    rng = random.Random(5)
    while report["random"] < 100:
        times = [rng.uniform(0, whole * 1.1) for _ in range(12)]
        report["random"] += until_done(Case(), [lambda _: None] * 12, times)
    print(json.dumps(report))


if __name__ == "__main__":
    main()
