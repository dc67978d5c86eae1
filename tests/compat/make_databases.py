"""What version 0.1.0 keeps in databases: ledgers and loops, on SQLite and on PostgreSQL, with processes that die."""

from __future__ import annotations

import contextlib
import gzip
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import postgres_server
from compat_plays import FILES, KEY, PEOPLE, WAIT, live, plain, story
from fairveil.privacy.ledger import Limit, faults

from fairveil import Ledger, SeededNoise
from fairveil.loop import Budget, ManualClock, Person, Reward, Store, tokens
from fairveil.privacy.events import GaussianEvent, ParallelEvent, PureEvent, ZcdpEvent

Facts = dict[str, Any]
DIED = 9
SCHEMA = "fairveil_0_1_0"


def dying(place: str, work: Callable[[], Any], after: int = 1) -> None:
    """A process that does the work and dies at the place, when it passes there for the given time."""
    sys.stdout.flush()
    process = os.fork()
    if process == 0:
        seen = 0

        def die(point: str) -> None:
            nonlocal seen
            seen += point == place
            if seen == after:
                os._exit(DIED)

        faults.hook = die
        work()
        os._exit(0)
    _, status = os.waitpid(process, 0)
    assert os.waitstatus_to_exitcode(status) == DIED, (place, status)


def other_process(work: Callable[[], Any]) -> None:
    process = os.fork()
    if process == 0:
        work()
        os._exit(0)
    _, status = os.waitpid(process, 0)
    assert os.waitstatus_to_exitcode(status) == 0


# Ledgers -------------------------------------------------------------------------------------------------------------


def ledgers(place: Callable[[str], Any], anchor: Path) -> Facts:
    """One ledger for each kind of limit; keyed, anchored and simulated ones; blocks published, lost and reserved."""
    pure, zcdp, gauss = PureEvent(0.25), ZcdpEvent(0.001), GaussianEvent(0.05)
    kinds: dict[str, tuple[Limit, Any, dict[str, Any]]] = {
        "pure": (Limit.pure(4.0), pure, {"unit": "one person"}),
        "sums": (Limit.approximate(4.0, 1e-5, currency="epsilon"), pure, {}),
        "approximate": (Limit.approximate(4.0, 1e-5), zcdp, {}),
        "zcdp": (Limit.zcdp(0.5), zcdp, {}),
        "gaussian": (Limit.gaussian(1.0, 1e-6), gauss, {}),
        "keyed": (Limit.pure(4.0), pure, {"key": KEY}),
        "anchored": (Limit.pure(4.0), pure, {"anchor": anchor}),
        "simulated": (Limit.pure(4.0), pure, {"simulated": True}),
    }
    facts: Facts = {}
    for name, (limit, event, more) in kinds.items():
        noise = SeededNoise(1) if name == "simulated" else None
        with Ledger.create(place(name), limit=limit, **more) as ledger:
            ledger.release("count", lambda source: 7 + int(source.laplace(2.0)[0]), event=event, noise=noise)
            with contextlib.suppress(ZeroDivisionError):
                ledger.release("failed", lambda source: 1 // 0, event=event, noise=noise)
            ledger.spend("three", event, releases=3)
            ledger.spend("blocks", ParallelEvent(event))
            ledger.spend("held", event, releases=None, holder="holder-1")
            ledger.release("three/0", lambda source: source.laplace(2.0), account="three", noise=noise)
            ledger.release("held/0", lambda source: {"a": source.laplace(1.0)}, account="held", noise=noise)
            two = ["blocks/0", "blocks/1"]
            ledger.release_all(two, lambda source, _: source.laplace(1.0), account="blocks", noise=noise)
            facts[name] = {**story(ledger), "event": event.to_dict()}
        opening = {key: value for key, value in more.items() if key != "unit"}

        def reserved(name: str = name, opening: dict[str, Any] = opening, noise: Any = noise) -> None:
            ledger = Ledger.open(place(name), **opening)
            ledger.release("blocks/2", lambda source: source.laplace(1.0), account="blocks", noise=noise)

        dying("draw", reserved)
    return facts


# Loops ---------------------------------------------------------------------------------------------------------------


NASH: Facts = {"name": "private-nash", "arms": 3, "epsilon": 1.0}
UCB: Facts = {**NASH, "name": "adap-ucb"}
CENSUS: Facts = {"name": "batched-private-fair-greedy", "epsilon": 5.0, "delta": 1e-6, "first_batch": 16}
ITEMS: Facts = {"name": "batched-priv-fairx", "epsilon": 5.0, "delta": 1e-6, "horizon": 1000}
LOOPS: dict[str, Facts] = {
    "nash": {"policy": NASH},
    "public": {"policy": NASH, "reward": Reward(0, 1, wait=f"{WAIT}s", missing="public")},
    "ucb": {"policy": UCB},
    "local": {"policy": {**NASH, "name": "local-nash"}},
    "census": {"policy": CENSUS, **PEOPLE},
    "items": {"policy": ITEMS, **PEOPLE},
    "sticky": {
        "policy": NASH,
        "person": Person(max_events=2, sticky=True),
        "budget": Budget(ledger="common", epsilon=3.0),
    },
    "other": {"policy": UCB, "budget": Budget(ledger="common")},
    "closed": {"policy": NASH},
}


def loops(url: str, anchors: Path | None) -> Facts:
    """Loops of each family: released, lost, reserved by a dead process, drawn and not adopted, windows open."""
    clock = ManualClock()

    def opened() -> Store:
        return Store.open(url, clock=clock, key=KEY, anchors=anchors)

    def make() -> None:
        with opened() as store:
            for name, table in LOOPS.items():
                store.create(name, **{"reward": Reward(0, 1, wait=f"{WAIT}s"), **table})
            with store.writing() as tx:
                kept = {role: tokens.add(tx, f"the {role}", [role], clock.now()) for role in tokens.ROLES}
            Path(scratch, "tokens.json").write_text(json.dumps(kept))

    def played(first: int, count: int, names: list[str] | None = None) -> None:
        with opened() as store:
            for loop in store.loops():
                if (names is None or loop.name in names) and loop.status().closed is None:
                    live(loop, first, count)

    def ticking(names: list[str] | None = None) -> None:
        with opened() as store:
            clock.advance(WAIT + 1)  # no window closes in the first minute of a process
            store.tick(names)

    with tempfile.TemporaryDirectory() as scratch:
        other_process(make)
        other_process(lambda: played(0, 120))
        dying("block-folded", lambda: ticking(["nash"]))  # the first blocks of nash are lost
        clock.advance(WAIT + 1)
        other_process(ticking)
        clock.advance(WAIT + 1)
        other_process(lambda: played(120, 120))
        other_process(ticking)
        clock.advance(WAIT + 1)

        def close() -> None:
            with opened() as store:
                store.loop("closed").close()
                store.loop("other").set_mode("frozen")
                facts = {loop.name: seen(loop) for loop in store.loops()}
                Path(scratch, "facts.json").write_text(json.dumps(facts))

        other_process(lambda: played(240, 40, ["nash", "ucb", "census", "items", "sticky"]))
        other_process(close)
        dying("block-drawn", lambda: ticking(["nash"]))  # in the ledger, not in the store
        dying("block-folded", lambda: ticking(["ucb"]))  # reserved by a dead process
        dying("block-folded", lambda: ticking(["items"]))
        clock.advance(WAIT + 1)
        other_process(lambda: played(280, 8))  # windows that are open
        facts = json.loads(Path(scratch, "facts.json").read_text())
        kept = json.loads(Path(scratch, "tokens.json").read_text())
    return {"now": clock.now(), "tokens": kept, "loops": facts}


def seen(loop: Any) -> Facts:
    """What a reader of a loop sees: its row, its blocks, its ledger, its replies."""
    status = loop.status()
    with loop.store.reading() as tx:
        query = "SELECT epoch, name, first, stop, status FROM blocks WHERE loop = ? ORDER BY first"
        blocks = tx.execute(query, (loop.facts.id,))
    fields = ("round", "settled", "version", "epoch", "erased", "mode")
    told = {f"e-{index}": loop.event(f"e-{index}") for index in range(0, status.round, 7)}
    return {
        "policy": loop.facts.spec.policy, "status": {name: getattr(status, name) for name in fields},
        "blocks": [list(row) for row in blocks], "ledger": story(loop.ledger), "events": plain(told),
        "state": plain(dict(status.state)),
    }  # fmt: skip


def on_a_server() -> Facts:
    """The same ledgers and loops on PostgreSQL, as one dump of a schema."""
    folder = Path(tempfile.mkdtemp(prefix="fairveil-compat-"))
    folder.chmod(0o755)
    base = postgres_server.start(folder)
    try:
        import psycopg

        with psycopg.connect(base, autocommit=True) as connection:
            connection.execute(f"CREATE SCHEMA {SCHEMA}")
        url = f"{base}?options=-csearch_path%3D{SCHEMA}"
        with tempfile.TemporaryDirectory() as anchors:
            facts = {"ledgers": ledgers(lambda name: f"{url}#{name}", Path(anchors, "mark"))}
            facts["anchor"] = Path(anchors, "mark").read_text()
        facts["store"] = loops(url, None)
        dump = subprocess.run(
            ["pg_dump", base, "--schema", SCHEMA, "--inserts", "--no-owner", "--no-privileges"],
            check=True, capture_output=True, text=True,
        ).stdout  # fmt: skip
        text = "".join(line for line in dump.splitlines(keepends=True) if not line.startswith(("\\", "--")))
        (FILES / "postgres.sql.gz").write_bytes(gzip.compress(text.encode(), 9, mtime=0))
    finally:
        postgres_server.stop(folder)
        shutil.rmtree(folder)
    return facts
