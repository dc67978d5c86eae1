"""How far a reader walks: functions, files and depth of a warm run, of a tick that releases, and of a restart.

    python bench/walk.py [--functions NAME]

Counts distinct functions of this package that a warm call enters (comprehensions, lambdas and generator expressions
are parts of the function they stand in), the files they live in, and the largest number of the package's frames that
are open at once. Compiled kernels are not entered. ``--functions NAME`` lists what is counted.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, NamedTuple

import fairveil
from fairveil.loop import ManualClock, Reward, Store

HOUSE = str(Path(fairveil.__file__).parent)
UNNAMED = ("<listcomp>", "<setcomp>", "<dictcomp>", "<genexpr>", "<lambda>", "<module>")


class Walk(NamedTuple):
    """What one call enters."""

    functions: frozenset[CodeType]
    depth: int

    @property
    def files(self) -> set[str]:
        return {code.co_filename for code in self.functions}

    def __str__(self) -> str:
        return f"{len(self.functions)}/{len(self.files)}/{self.depth}"


class Limit(NamedTuple):
    """Functions, files and depth: what this script found at version 0.1.0, and what is allowed."""

    before: str
    most: str


LIMITS = {
    "private-nash": Limit("168/38/19", "100/26/13"),
    "batched-private-fair-greedy": Limit("273/45/23", "165/32/15"),
    "batched-priv-fairx": Limit("237/40/21", "145/30/14"),
    "releasing tick": Limit("188/38/17", "125/28/13"),
    "restart": Limit("221/41/20", "140/30/14"),
}


def walked(work: Callable[[], Any]) -> Walk:
    """The functions of this package that the work enters, and how deep they stand in each other."""
    functions: set[CodeType] = set()
    deepest = depth = 0

    def watch(frame: FrameType, event: str, argument: Any) -> None:
        nonlocal deepest, depth
        code = frame.f_code
        if event not in ("call", "return") or not code.co_filename.startswith(HOUSE) or code.co_name in UNNAMED:
            return
        depth += 1 if event == "call" else -1
        deepest = max(deepest, depth)
        functions.add(code)

    sys.setprofile(watch)
    try:
        work()
    finally:
        sys.setprofile(None)
    return Walk(frozenset(functions), deepest)


SPECS: dict[str, dict[str, Any]] = {
    "private-nash": {
        "task": "bandit", "rounds": 1000, "runs": 2, "seed": 1,
        "policy": {"name": "private-nash", "epsilon": 1.0},
        "environment": {"name": "bernoulli", "means": [0.2, 0.5, 0.8]},
    },
    "batched-private-fair-greedy": {
        "task": "bandit", "rounds": 300, "runs": 2, "seed": 1,
        "policy": {"name": "batched-private-fair-greedy", "epsilon": 1.0, "delta": 1e-5},
        "environment": {"name": "synthetic-census", "people_per_group": 300},
    },
    "batched-priv-fairx": {
        "task": "bandit", "rounds": 200, "runs": 2, "seed": 1,
        "policy": {"name": "batched-priv-fairx", "epsilon": 2.0, "delta": 1e-5},
        "environment": {"name": "exposure", "agents": 3},
    },
}  # fmt: skip


def run_of(name: str) -> Walk:
    """A run of a spec, warm: everything is imported, compiled and cached."""
    fairveil.run(SPECS[name])
    return walked(lambda: fairveil.run(SPECS[name]))


def served(store: Store, clock: ManualClock, first: int) -> None:
    """Twelve events with their rewards, and time until their windows have closed."""
    loop = store.loop("trial")
    for index in range(first, first + 12):
        loop.decide(f"e-{index}")
        loop.reward(f"e-{index}", 1.0)
    clock.advance(61)


def releasing_tick() -> Walk:
    """The first tick that releases blocks of a loop, in a store that was just made; the process has done it before."""

    def tick(measured: Callable[[Callable[[], Any]], Any]) -> Any:
        clock = ManualClock()
        with tempfile.TemporaryDirectory() as folder, opened(folder, clock) as store:
            create(store)
            served(store, clock, 0)
            return measured(store.tick)

    tick(lambda work: work())
    return tick(walked)


def restart() -> Walk:
    """A store opened again in a warm process: its ledger is compared with the loop, the next event is decided."""
    clock = ManualClock()
    with tempfile.TemporaryDirectory() as folder:
        with opened(folder, clock) as store:
            create(store)
            served(store, clock, 0)
            store.tick()

        def start(event: str) -> None:
            with opened(folder, clock) as store:
                store.loop("trial").verify()
                store.loop("trial").decide(event)

        start("again-1")
        return walked(lambda: start("again-2"))


def opened(folder: str, clock: ManualClock) -> Store:
    return Store.open(f"sqlite:///{folder}/store.db", clock=clock)


def create(store: Store) -> None:
    policy = {"name": "private-nash", "arms": 3, "epsilon": 1.0}
    store.create("trial", policy=policy, reward=Reward(0, 1, wait="60s"))


WALKS: dict[str, Callable[[], Walk]] = {
    **{name: (lambda name=name: run_of(name)) for name in SPECS},
    "releasing tick": releasing_tick,
    "restart": restart,
}


def main() -> int:
    parser = argparse.ArgumentParser(description="functions, files and depth of warm runs")
    parser.add_argument("--functions", default="", help="list the functions of this walk")
    wanted = parser.parse_args().functions
    if wanted:
        for code in sorted(WALKS[wanted]().functions, key=lambda code: (code.co_filename, code.co_firstlineno)):
            print(f"{code.co_filename.removeprefix(HOUSE)[1:]}:{code.co_firstlineno} {code.co_qualname}")
        return 0
    far = 0
    print(f"{'functions/files/depth':30} {'now':>12} {'0.1.0':>12} {'at most':>12}")
    for name, walk in WALKS.items():
        found, limit = walk(), LIMITS[name]
        over = any(a > b for a, b in zip(_numbers(str(found)), _numbers(limit.most), strict=True))
        far += over
        print(f"{name:30} {found!s:>12} {limit.before:>12} {limit.most:>12}{'  too far' if over else ''}")
    return int(far > 0)


def _numbers(text: str) -> list[int]:
    return [int(part) for part in text.split("/")]


if __name__ == "__main__":
    raise SystemExit(main())
