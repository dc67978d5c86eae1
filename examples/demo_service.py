"""The service in two minutes: a trial, a screening queue and a recommender, with late rewards and rewards that never come.

make demo-service                                     # or: python examples/demo_service.py --decisions 20000
python examples/demo_service.py --keep                # leaves the service running and prints its address

Starts `fairveil serve` on a SQLite store of its own on loopback, drives it through the client, makes one report of each
kind, compares with the same policy without late rewards or privacy, writes what a board gets, and stops the service.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import httpx
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

import fairveil
from fairveil.client import Client

TREATMENTS = {"standard": 0.45, "new": 0.6, "placebo": 0.3}
LATE = 2
"""Batches until a reward comes, at most."""
BATCH, LEAST = 200, 2000
NEVER = 0.1
PACE = 0.3
"""Seconds between batches of the trial: its window of three seconds is then about six batches long."""
console = Console()


def serve(folder: Path) -> tuple[subprocess.Popen, str]:
    """The service as an operator starts it, on a free port of this machine."""
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        port = held.getsockname()[1]
    store, anchors = folder / "data" / "store.db", folder / "anchors"
    store.parent.mkdir(parents=True)
    command = [sys.executable, "-m", "fairveil.cli", "serve", "--store", f"sqlite:///{store.resolve()}"]
    more = ["--port", str(port), "--anchor", str(anchors.resolve())]
    log = (folder / "serve.log").open("w")
    return subprocess.Popen([*command, *more], stdout=log, stderr=subprocess.STDOUT), f"http://127.0.0.1:{port}"


def wait_until_ready(process: subprocess.Popen, url: str, folder: Path) -> None:
    with httpx.Client(base_url=url) as http:  # one: each of its own would read all certificates again
        for _ in range(600):
            if process.poll() is not None:
                raise SystemExit(f"the service did not start:\n{(folder / 'serve.log').read_text()}")
            with contextlib.suppress(httpx.TransportError):  # it does not listen yet
                if http.get("/ready").status_code == 200:
                    return
            time.sleep(0.1)
    raise SystemExit("the service was not ready within a minute")


class Late:
    """Rewards that come some batches later, in any order, or never."""

    def __init__(self) -> None:
        self.coins = random.Random(7)
        self.waiting: list[list[tuple[str, float]]] = [[] for _ in range(LATE + 1)]

    def come(self, loop, rewards) -> None:
        for event, reward in rewards:
            if self.coins.random() >= NEVER:
                self.waiting[self.coins.randrange(LATE + 1)].append((event, reward))
        self.send(loop)

    def send(self, loop) -> None:
        due = self.waiting.pop(0)
        self.waiting.append([])
        self.coins.shuffle(due)
        if due:
            loop.reward_many(due)

    def end(self, loop) -> None:
        for _ in range(LATE + 1):
            self.send(loop)


def trial(client: Client, count: int, tell) -> None:
    client.create(
        "trial",
        policy={"name": "private-nash", "arms": 3, "epsilon": 1.0},
        actions=list(TREATMENTS),
        groups=["women", "men"],
        reward={"low": 0, "high": 1, "wait": "3s"},
        person={"max_events": 1},
        explore=0.1,
        targets=[{"name": "uniform"}, {"name": "arm", "arm": "new"}],
        reports={"spare": 2.0},
    )
    loop, late, coins = client.loop("trial"), Late(), random.Random(1)
    for first in range(0, count, BATCH):
        people = range(first, min(first + BATCH, count))
        group = ("women", "men")
        asked = [{"event_id": f"t-{n}", "subject": f"patient-{n}", "group": group[n % 2]} for n in people]
        replies = loop.decide_many(asked)
        late.come(loop, [(r["event_id"], float(coins.random() < TREATMENTS[r["action_id"]])) for r in replies])
        tell(len(replies))
        time.sleep(PACE)
    late.end(loop)


def queue(client: Client, count: int, tell) -> None:
    client.create(
        "queue",
        policy={"name": "batched-private-fair-greedy", "epsilon": 5.0, "delta": 1e-6, "first_batch": 200},
        groups=["north", "south"],
        features=[{"name": "income", "low": 0, "high": 10}, {"name": "years", "low": 0, "high": 40}],
        reward={"low": 0, "high": 1, "wait": "3s", "missing": "public"},
        person={"max_events": 1},
        explore=0.05,
        reports={"spare": 2.0},
    )
    loop, late, coins = client.loop("queue"), Late(), random.Random(2)
    for first in range(0, count, BATCH):
        rounds, worth = [], {}
        for n in range(first, min(first + BATCH, count)):
            people = []
            for slot, group in enumerate(("north", "south", "north", "south")):
                richer = 2.0 if group == "north" else 0.0
                features = [min(10.0, coins.uniform(0, 8) + richer), coins.uniform(0, 40)]
                worth[f"q-{n}", slot] = 0.03 * features[0] + 0.015 * features[1]
                who = {"id": f"{slot}", "subject": f"applicant-{n}-{slot}", "group": group, "features": features}
                people.append(who)
            rounds.append({"event_id": f"q-{n}", "candidates": people})
        replies = loop.decide_many(rounds)
        late.come(loop, [(r["event_id"], min(1.0, worth[r["event_id"], r["action"]])) for r in replies])
        tell(len(replies))
    late.end(loop)


def window(client: Client, count: int, tell) -> None:
    client.create(
        "window",
        policy={"name": "batched-priv-fairx", "epsilon": 5.0, "delta": 1e-5, "horizon": max(count, 1000)},
        groups=["large", "small"],
        features=[{"name": name, "low": -1, "high": 1} for name in ("price", "newness", "match")],
        reward={"low": 0, "high": 1, "wait": "3s", "missing": "public"},
        reports={"spare": 1.0},
    )
    loop, late, coins = client.loop("window"), Late(), random.Random(3)
    for first in range(0, count, BATCH):
        rounds = [
            {
                "event_id": f"w-{n}",
                "candidates": [
                    {"id": f"item-{k}", "group": ("large", "small")[k % 2], "features": features}
                    for k, features in enumerate([coins.uniform(-1, 1) for _ in range(3)] for _ in range(5))
                ],
            }
            for n in range(first, min(first + BATCH, count))
        ]
        replies = loop.decide_many(rounds)
        late.come(loop, [(r["event_id"], float(coins.random() < 0.3)) for r in replies])
        tell(len(replies))
    late.end(loop)


def settled(loop) -> dict:
    """The state when every window has closed."""
    for _ in range(600):
        state = loop.state()
        if state["settled"] >= state["rounds"]:
            return state
        time.sleep(0.1)
    return state


def simulated(policy: dict, rounds: int, **more) -> float:
    """Average regret of a rule on the trial's means, in the lab."""
    spec = {"task": "bandit", "policy": policy, "environment": {"name": "bernoulli", "means": list(TREATMENTS.values())},
            "rounds": rounds, "runs": 40, "checkpoints": [rounds], "seed": 1, **more}  # fmt: skip
    return float(fairveil.run(spec)["metrics"]["average_regret"][-1])


def compared(state: dict, count: int) -> Table:
    best = max(TREATMENTS.values())
    lost: float = sum(arm["decided"] * (best - TREATMENTS[arm["action_id"]]) for arm in state["published"]["arms"])
    lost /= max(state["rounds"], 1)
    table = Table(title=f"What learning cost each of {count:,} patients (average regret)")
    table.add_column("rule")
    table.add_column("regret", justify="right")
    private = {"name": "private-nash", "epsilon": 1.0}
    typical = BATCH * LATE // 2
    late = {"feedback": {"delay": ["uniform", 0, BATCH * LATE], "missing": NEVER, "window": 6 * typical}}
    table.add_row("this trial, served: epsilon 1, a tenth explored, rewards late or never", f"{lost:.4f}")
    table.add_row("in the lab, private, rewards at once", f"{simulated(private, count):.4f}")
    table.add_row(
        "in the lab, private, late, released by arrival",
        f"{simulated({**private, 'release': 'arrivals'}, count, **late):.4f}",
    )
    table.add_row(
        "in the lab, private, late, released by block",
        f"{simulated({**private, 'release': 'blocks'}, count, **late):.4f}",
    )
    table.add_row(
        "in the lab, the same policy with hardly any noise (epsilon 100), rewards at once",
        f"{simulated({**private, 'epsilon': 100.0}, count):.4f}",
    )
    table.add_row("everybody at random", f"{best - sum(TREATMENTS.values()) / 3:.4f}")
    return table


def reports(client: Client) -> None:
    """One of each kind; what they say in words."""
    summary = client.loop("trial").release("summary")
    console.print(f"\n[bold]summary[/] (free): version {summary['value']['version']} of what is published")
    for name, kind in (("trial", "fairness"), ("queue", "fairness"), ("window", "fairness"), ("trial", "evaluation")):
        found = client.loop(name).release(kind, epsilon=1.0)["value"]
        console.print(f"\n[bold]{kind} of the {name}[/] (epsilon 1)")
        for words in found["words"]:
            console.print(f"  {words}", highlight=False)


def board(url: str, folder: Path) -> Path:
    """The page that a board gets, made from what the service publishes."""
    page = folder / "trial.html"
    command = [sys.executable, "-m", "fairveil.cli", "report", "--url", url, "--loop", "trial", "--out", str(page)]
    subprocess.run(command, check=True, capture_output=True, text=True)
    return page


def enough(given: str) -> int:
    """So many decisions that every report says something."""
    if not given.isdecimal() or int(given) < LEAST:
        raise argparse.ArgumentTypeError(f"{given}; a whole number from {LEAST:,} on: with fewer a report says nothing")
    return int(given)


def main() -> None:
    asked = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    asked.add_argument("--decisions", type=enough, default=20_000)
    asked.add_argument("--out", type=Path, default=Path("out/demo-service"))
    asked.add_argument("--keep", action="store_true", help="leave the service running")
    options = asked.parse_args()
    shutil.rmtree(options.out, ignore_errors=True)
    options.out.mkdir(parents=True)
    console.print("starting fairveil serve on a store of its own")
    process, url = serve(options.out)
    kept = False
    try:
        with Client(url, patience=600) as client:  # the first report compiles, on a busy machine for minutes
            wait_until_ready(process, url, options.out)
            jobs = {trial: 0.4, queue: 0.3, window: 0.3}
            with Progress(console=console, transient=False) as bar:
                for job, share in jobs.items():
                    count = max(BATCH, int(options.decisions * share))
                    said = f"{job.__name__}: decisions with late rewards"
                    line = bar.add_task(f"{job.__name__}: making the loop, compiled the first time", total=count)
                    job(
                        client,
                        count,
                        lambda done, line=line, said=said: bar.update(line, advance=done, description=said),
                    )
            console.print("waiting until the last windows have closed")
            state = settled(client.loop("trial"))
            settled(client.loop("queue"))
            settled(client.loop("window"))
            reports(client)
            console.print("\n[bold]privacy of the trial:[/]", client.loop("trial").budget()["words"])
            console.print("the same trial by other rules, simulated")
            console.print(compared(state, state["rounds"]))
            page = board(url, options.out)
        kept = options.keep
        console.print(f"for a board: {page}")
        console.print(f"the service runs at {url} (process {process.pid})" if kept else "the service stops")
    finally:
        if not kept:
            process.send_signal(signal.SIGTERM)
            code = process.wait(timeout=60)
    if not kept and code not in (0, -signal.SIGTERM):
        raise SystemExit(f"the service ended with {code}: see {options.out / 'serve.log'}")


if __name__ == "__main__":
    os.environ.setdefault("PYTHONUNBUFFERED", "1")
    main()
