"""Many clients while processes are killed and paused, the database is paused and restarted, a process is cut off from
it, and clocks are set (`faults`); then what they saw is checked (`checker`): one reply for each id, rounds without
gaps, nothing lost, no window closed by a clock, charged before published.

    python bench/service/history.py [--which sqlite postgresql] [--processes 1 2] [--kills 200] [--pauses 50]
        [--stores 4] [--seed N] [--summary FILE]

Bounded: ``kills`` of a process, ``pauses`` of a process or of the database for up to 8 s, ``steps`` of a process's
clock by up to a year, and where the database is a server ``partitions`` (each process reaches it through a proxy of its
own, which stops) and ``restarts`` of it; shared among so many ``stores`` one after the other, each a history of its
own; loopback only; at most 30 minutes a store. ``summary``: a file with a line for each history that was checked; what
it holds is not done again.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import random
import shutil
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

import httpx
from checker import Call, History, violations
from faults import Case
from parts import ROOT

CLIENTS, LONGEST, BETWEEN = 8, 1800.0, 8
FAULTS = {"kill": 200, "pause": 50, "partition": 20, "step": 20, "restart": 3}
LOOP = {
    "name": "history",
    "policy": {"name": "private-nash", "arms": 3, "epsilon": 1.0},
    "reward": {"wait": "1h", "missing": "public"},
    "person": {"max_events": 1, "sticky": True},
}
PATH = "/v1/loops/history"


class Recorder:
    """Clients that repeat until they are answered, and remember every attempt and every answer."""

    def __init__(self, urls: list[str]) -> None:
        self.urls, self.calls, self.rewarded, self.stopping = urls, list[Call](), 0, False

    async def once(self, http: httpx.AsyncClient, kind: str, method: str, path: str, body: Any, **facts: Any) -> Call:
        began, status, answer = time.monotonic(), None, {}
        with contextlib.suppress(httpx.TransportError):
            found = await http.request(method, random.choice(self.urls) + path, json=body)
            status, answer = found.status_code, found.json()
        call = Call(kind, began, time.monotonic(), status, answer, **facts)
        self.calls.append(call)
        return call

    async def until(self, http: httpx.AsyncClient, kind: str, method: str, path: str, body: Any, **facts: Any) -> Call:
        while not (call := await self.once(http, kind, method, path, body, **facts)).done:
            if call.status not in (None, 429, 503):
                raise RuntimeError(f"{kind}: {call.status} {call.answer}")
            await asyncio.sleep(random.uniform(0.02, 0.3))
        return call

    async def run(self, http: httpx.AsyncClient, client: int) -> None:
        number = 0
        while not self.stopping:
            event, subject, number = f"c{client}-{number}", f"p{client}-{number}", number + 1
            await self.decide(http, event, subject)
            reward = {"value": float(number % 2)}
            path = f"{PATH}/decisions/{event}/reward"
            await self.until(http, "reward", "POST", path, reward, event=event, value=reward["value"])
            self.rewarded += 1
            if number % 4 == 0:
                old = random.randrange(number)
                await self.decide(http, f"c{client}-{old}", f"p{client}-{old}")
                await self.decide(http, f"again-{client}-{number}", f"p{client}-{old}")
                await self.once(http, "loop", "GET", PATH, None)

    async def decide(self, http: httpx.AsyncClient, event: str, subject: str) -> None:
        body = {"event_id": event, "subject": subject}
        await self.until(http, "decide", "POST", f"{PATH}/decisions", body, event=event, subject=subject)

    async def look(self, http: httpx.AsyncClient, events: list[str]) -> None:
        for event in events:
            await self.until(http, "event", "GET", f"{PATH}/decisions/{event}", None, event=event)

    async def some_more(self, count: int) -> None:
        enough, deadline = self.rewarded + count, time.monotonic() + 120
        while self.rewarded < enough:
            if time.monotonic() > deadline:
                raise RuntimeError("the service did not come back")
            await asyncio.sleep(0.01)


async def drive(case: Case, faults: Counter[str], longest: float) -> History:
    recorder, what = Recorder(case.urls), list(faults.elements())
    random.shuffle(what)
    began = time.monotonic()
    async with httpx.AsyncClient(timeout=15, limits=httpx.Limits(max_connections=4 * CLIENTS)) as http:
        await recorder.until(http, "create", "POST", "/v1/loops", LOOP)
        clients = [asyncio.create_task(recorder.run(http, client)) for client in range(CLIENTS)]
        for number, one in enumerate(what):
            await recorder.some_more(BETWEEN)
            await asyncio.sleep(random.uniform(0, 0.05))
            await case.fault(one)
            print(f"\r{number + 1} of {len(what)} faults, {recorder.rewarded} pairs", end="", file=sys.stderr)
            if time.monotonic() - began > longest:
                break
        await recorder.some_more(BETWEEN)
        recorder.stopping = True
        await asyncio.gather(*clients)
        events = list(dict.fromkeys(call.event for call in recorder.calls if call.kind == "decide"))
        await asyncio.gather(*(recorder.look(http, events[client::CLIENTS]) for client in range(CLIENTS)))
        entries: list[Any] = []
        while True:
            after = entries[-1]["sequence"] if entries else -1
            page = (await http.get(f"{case.urls[0]}/v1/ledgers/history/entries?after={after}")).json()["entries"]
            if not page:
                break
            entries += page
        verdict = (await http.get(f"{case.urls[0]}/v1/ledgers/history/verify")).json()["verdict"]
        assert verdict == "intact", verdict
    print(file=sys.stderr)
    return History(recorder.calls, entries, wait=3600.0)


def run(which: str, processes: int, faults: Counter[str], longest: float) -> dict[str, Any]:
    """One history on a store of its own: what was done, and what the checker says."""
    import postgres_server

    folder = Path(tempfile.mkdtemp(prefix="fairveil-history-"))
    folder.chmod(0o755)
    server = folder / "server" if which == "postgresql" else None
    store = f"sqlite:///{folder}/store.db" if server is None else postgres_server.start(server)
    began = time.monotonic()
    try:
        case = Case(store, processes, server, folder)
        try:
            history = asyncio.run(drive(case, faults, longest))
        finally:
            case.stop()
    finally:
        if server is not None:
            postgres_server.stop(server)
        shutil.rmtree(folder, ignore_errors=True)
    return {
        "which": which,
        "processes": processes,
        **{name: case.done[name] for name in FAULTS},
        "calls": len(history.calls),
        "decisions": len(history.of("decide")),
        "without an answer": sum(call.status is None for call in history.calls),
        "releases": sum(entry["kind"] == "publish" for entry in history.entries),
        "seconds": round(time.monotonic() - began),
        "violations": violations(history),
    }


def totals(rows: list[dict[str, Any]], which: str, processes: int) -> Counter[str]:
    """What the histories of one case come to."""
    found = Counter[str]()
    for row in rows:
        if (row["which"], row["processes"]) == (which, processes):
            found.update({name: value for name, value in row.items() if isinstance(value, int)})
            found["histories"] += 1
            found["violations"] += len(row["violations"])
    return found


def words(found: Counter[str]) -> str:
    names = ["histories", *(f"{name}s" for name in FAULTS), "calls", "decisions", "without an answer", "releases"]
    counts = [f"{found[name] or found[name.removesuffix('s')]} {name}" for name in names]
    return ", ".join([*counts, f"{found['seconds']} s", f"{found['violations']} violations"])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n\n")[0])
    parser.add_argument("--which", nargs="+", default=["sqlite", "postgresql"], choices=["sqlite", "postgresql"])
    parser.add_argument("--processes", nargs="+", type=int, default=[1, 2], choices=[1, 2])
    for name, count in FAULTS.items():
        parser.add_argument(f"--{name}s", type=int, default=count)
    parser.add_argument("--stores", type=int, default=4, help="among which the faults of a case are shared")
    parser.add_argument("--minutes", type=float, default=LONGEST / 60, help="after which a store sees no more faults")
    parser.add_argument("--seed", type=int, help="of what is done and when; another one each time unless given")
    parser.add_argument("--summary", type=Path, help="where each history adds its line")
    given = parser.parse_args()
    sys.path.insert(0, str(ROOT / "tests" / "support"))
    held = given.summary is not None and given.summary.exists()
    rows = [json.loads(line) for line in given.summary.read_text().splitlines()] if held else []
    for which in given.which:
        for processes in given.processes:
            wanted = Counter({name: getattr(given, f"{name}s") for name in FAULTS})
            if which == "sqlite":
                del wanted["partition"], wanted["restart"]
            while left := wanted - totals(rows, which, processes):
                seed = random.SystemRandom().randrange(2**32) if given.seed is None else given.seed + len(rows)
                random.seed(seed)
                share = Counter({name: -(-count // given.stores) for name, count in wanted.items()}) & left
                rows.append({"seed": seed, **run(which, processes, share, 60 * given.minutes)})
                if given.summary is not None:
                    with given.summary.open("a") as file:
                        print(json.dumps(rows[-1]), file=file)
                for one in rows[-1]["violations"][:20]:
                    print(f"seed {seed}:", one)
            print(f"{which}, {processes} process(es): {words(totals(rows, which, processes))}", flush=True)
    sys.exit(1 if any(row["violations"] for row in rows) else 0)


if __name__ == "__main__":
    main()
